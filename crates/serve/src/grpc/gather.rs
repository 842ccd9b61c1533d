//! Batches several messages of a list into one chunk.

use catalog::query::{QueryError, Rows};

use super::piece::prefix;
use crate::buffer_pool;

/// The size of a batch, in bytes.
pub(super) const BATCH: usize = 32 << 10;

/// Appends the next messages of a list; returns the outcome if the list ended.
pub(super) fn gather(rows: &mut Rows, out: &mut Vec<u8>) -> Option<Result<(), QueryError>> {
    while out.len() < BATCH {
        match rows.next() {
            None => return Some(Ok(())),
            Some(Err(error)) => return Some(Err(error)),
            Some(Ok(message)) => {
                out.extend_from_slice(&prefix(message.len()));
                out.extend_from_slice(&message);
                buffer_pool::recycle(message);
            }
        }
    }
    None
}
