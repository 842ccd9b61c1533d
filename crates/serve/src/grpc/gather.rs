//! Several messages of a list in one piece.

use registry_api::{QueryError, Rows};

use super::piece::prefix;
use crate::spare;

/// How many bytes of a list are gathered before they are sent.
pub(super) const GATHERED: usize = 32 << 10;

/// Gathers the next messages of a list; returns how it ended, if it did.
pub(super) fn gather(rows: &mut Rows, out: &mut Vec<u8>) -> Option<Result<(), QueryError>> {
    while out.len() < GATHERED {
        match rows.next() {
            None => return Some(Ok(())),
            Some(Err(error)) => return Some(Err(error)),
            Some(Ok(message)) => {
                out.extend_from_slice(&prefix(message.len()));
                out.extend_from_slice(&message);
                spare::give_back(message);
            }
        }
    }
    None
}
