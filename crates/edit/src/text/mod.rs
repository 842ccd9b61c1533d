//! Edits text by position and leaves everything else byte for byte.
//!
//! [`documents`] finds the documents of a file, [`tree`] the spans of the values in one, [`editor`] turns changes of
//! values into [`Splice`]s, and `scalar` quotes strings.

pub(crate) mod documents;
pub(crate) mod editor;
pub(crate) mod lines;
pub(crate) mod scalar;
pub(crate) mod tree;

use std::ops::Range;

/// A replacement of a range of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The replaced range, in bytes; empty for an insertion.
    pub range: Range<usize>,
    /// The new text.
    pub text: Vec<u8>,
}

/// The error for a value whose form does not allow an edit in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unwritable;

/// Sorts splices by offset. Insertions at one offset keep their order and precede a removal there.
pub(crate) fn sort(splices: &mut [Splice]) {
    splices.sort_by_key(|splice| (splice.range.start, !splice.range.is_empty()));
}

/// Applies sorted `splices` to `text`; `None` if they overlap.
pub fn apply(text: &[u8], splices: &[Splice]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + splices.iter().map(|splice| splice.text.len()).sum::<usize>());
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(text.get(at..splice.range.start)?);
        out.extend_from_slice(&splice.text);
        at = splice.range.end;
    }
    out.extend_from_slice(text.get(at..)?);
    Some(out)
}
