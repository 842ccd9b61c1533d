//! Changing text by position: what is not touched stays as it is, byte for byte.
//!
//! [`documents`] finds the documents of a file, [`tree`] the places of the values in one,
//! [`editor`] puts changes of values into [`Splice`]s, and `scalar` spells strings.

pub(crate) mod documents;
pub(crate) mod editor;
mod lines;
pub(crate) mod scalar;
pub(crate) mod tree;

use std::ops::Range;

/// A stretch of text and what comes into its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The stretch, in bytes; an empty one for an insertion.
    pub range: Range<usize>,
    /// The new text.
    pub text: Vec<u8>,
}

/// The way a value is written keeps it from being edited in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unwritable;

/// Sorts splices by place; insertions at one place keep their order and come before what is removed there.
pub(crate) fn sort(splices: &mut [Splice]) {
    splices.sort_by_key(|splice| (splice.range.start, !splice.range.is_empty()));
}

/// Returns `text` with all of `splices`, which are sorted, in it; nothing when they overlap.
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
