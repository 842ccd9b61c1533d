//! Large answers in temporary files, so that a client that reads slowly costs no memory.
//!
//! All of them share one budget of disk space. When it is used up, the oldest answers give way to new ones, after a time
//! in which any fair client has read its answer.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The maximum size of all answers, in bytes: four of the largest.
const BUDGET: u64 = 128 << 20;
/// How long an answer is kept for its reader, whoever else needs the space.
const KEPT: Duration = Duration::from_secs(10);

/// The spooled answers of a server.
pub(super) struct Spools {
    budget: u64,
    kept: Duration,
    /// The oldest first.
    held: Mutex<Vec<Weak<Spool>>>,
}

/// An answer in an unnamed file.
pub(super) struct Spool {
    length: u64,
    since: Instant,
    /// `None` once another answer needed the space.
    file: Mutex<Option<File>>,
}

impl Default for Spools {
    fn default() -> Spools {
        Spools { budget: BUDGET, kept: KEPT, held: Mutex::default() }
    }
}

impl Spools {
    /// Writes an answer to a file; `None` if the budget has no room for it.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(super) fn add(&self, text: &[u8]) -> io::Result<Option<Arc<Spool>>> {
        let Some(spool) = self.reserve(text.len() as u64) else { return Ok(None) };
        let mut file = tempfile::tempfile()?;
        file.write_all(text)?;
        *spool.file() = Some(file);
        Ok(Some(spool))
    }

    /// Makes room for an answer.
    fn reserve(&self, length: u64) -> Option<Arc<Spool>> {
        let now = Instant::now();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Arc<Spool>> = held.iter().filter_map(Weak::upgrade).collect();
        let used = |all: &[Arc<Spool>]| all.iter().map(|spool| spool.length).sum::<u64>();
        let old = all.iter().take_while(|spool| now.duration_since(spool.since) >= self.kept).count();
        let given_up = (0..=old).find(|count| used(&all[*count..]) + length <= self.budget)?;
        for spool in &all[..given_up] {
            *spool.file() = None;
        }
        let spool = Arc::new(Spool { length, since: now, file: Mutex::new(None) });
        *held = all[given_up..].iter().chain([&spool]).map(Arc::downgrade).collect();
        Some(spool)
    }
}

impl Spool {
    fn file(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads at most `size` bytes at an offset; fewer at the end.
    ///
    /// # Errors
    /// Fails when another answer needed the space.
    pub(super) fn read(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size.min(left)];
        match &*self.file() {
            Some(file) => file.read_exact_at(&mut bytes, offset)?,
            None => return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer was read too slowly")),
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_answers_give_way_and_young_ones_do_not() {
        let mut spools = Spools { budget: 100, kept: Duration::MAX, held: Mutex::default() };
        let add = |spools: &Spools, length: usize| spools.add(&vec![b'x'; length]).unwrap();
        let [first, second] = [add(&spools, 60).unwrap(), add(&spools, 40).unwrap()];
        assert!(add(&spools, 1).is_none(), "the budget is used up by answers that are being read");
        drop(second);
        let second = add(&spools, 30).unwrap();
        assert_eq!(second.read(20, 100).unwrap().len(), 10);
        spools.kept = Duration::ZERO;
        let third = add(&spools, 50).unwrap();
        assert_eq!(first.read(0, 1).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!((second.read(0, 100).unwrap().len(), third.read(0, 100).unwrap().len()), (30, 50));
        assert!(
            add(&spools, 101).is_none() && second.read(0, 1).is_ok(),
            "an answer that never fits costs nobody anything"
        );
    }
}
