//! Tables of fixed-size records.

use super::{RecordField, Span};

/// A table of records.
pub(in crate::cache) struct Table<'a, R> {
    bytes: &'a [u8],
    record: std::marker::PhantomData<R>,
}

impl<'a, R: RecordField> Table<'a, R> {
    pub(in crate::cache) fn new(bytes: &'a [u8]) -> Table<'a, R> {
        Table { bytes, record: std::marker::PhantomData }
    }

    pub(in crate::cache) fn len(&self) -> usize {
        self.bytes.len() / R::SIZE
    }

    /// Returns the record at `index`.
    pub(in crate::cache) fn get(&self, index: usize) -> Option<R> {
        let start = index.checked_mul(R::SIZE)?;
        R::get(&mut self.bytes.get(start..start.checked_add(R::SIZE)?)?)
    }

    /// Iterates over the records of `span` with their indexes, as far as they exist.
    pub(in crate::cache) fn span(&self, span: Span) -> impl Iterator<Item = (usize, R)> + use<'a, R> {
        let table = Table::<'a, R>::new(self.bytes);
        let first = span.first as usize;
        (first..first.saturating_add(span.count as usize)).map_while(move |i| Some((i, table.get(i)?)))
    }

    /// Iterates over all records.
    pub(in crate::cache) fn iter(&self) -> impl Iterator<Item = R> + use<'a, R> {
        self.span(Span { first: 0, count: u32::MAX }).map(|(_, record)| record)
    }

    /// Finds a record in a sorted range of the table.
    pub(in crate::cache) fn search(
        &self,
        span: Span,
        mut order: impl FnMut(&R) -> std::cmp::Ordering,
    ) -> Option<(usize, R)> {
        let mut low = span.first as usize;
        let mut high = low.saturating_add(span.count as usize).min(self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.get(middle)?;
            match order(&record) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some((middle, record)),
            }
        }
        None
    }

    /// Returns the span of the whole table.
    pub(in crate::cache) fn all(&self) -> Span {
        Span { first: 0, count: u32::try_from(self.len()).unwrap_or(u32::MAX) }
    }
}
