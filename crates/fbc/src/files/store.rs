//! Storage for texts generated while loading.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// The number of bytes kept in memory before texts are moved to a temporary file.
const MEMORY_LIMIT: usize = 16 << 20;

/// Stores texts that are not part of a user's file: JSON converted from YAML, and bundles rendered from directories.
///
/// Small amounts stay in memory, the rest goes to an unnamed temporary file, which disappears with the process however
/// it ends.
#[derive(Default)]
pub(crate) struct TextStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The tail of the texts that is not in the file yet.
    memory: Vec<u8>,
    /// The temporary file, once it is needed.
    file: Option<File>,
    /// The length of the file.
    written: u64,
}

impl TextStore {
    /// Stores `text` and returns its offset.
    pub(crate) fn put(&self, text: &[u8]) -> io::Result<u64> {
        let mut inner = self.lock();
        let at = inner.written + inner.memory.len() as u64;
        inner.memory.extend_from_slice(text);
        if inner.memory.len() > MEMORY_LIMIT {
            let Inner { memory, file, written } = &mut *inner;
            let file = match file {
                Some(file) => file,
                None => file.insert(tempfile::tempfile()?),
            };
            file.write_all(memory)?;
            *written += memory.len() as u64;
            memory.clear();
        }
        Ok(at)
    }

    /// Reads the text at offset `at` into `out`.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.lock();
        match at.checked_sub(inner.written) {
            Some(start) => {
                let start = start as usize;
                let text = inner.memory.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                out.copy_from_slice(text);
                Ok(())
            }
            None => inner.file.as_ref().ok_or(io::ErrorKind::NotFound)?.read_exact_at(out, at),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_from_memory_and_from_the_scratch_file() {
        let store = TextStore::default();
        let text = |i: u8| vec![i; 5 << 20];
        let places: Vec<u64> = (0..9).map(|i| store.put(&text(i)).unwrap()).collect();
        for (i, place) in places.into_iter().enumerate() {
            let mut out = vec![0xff; 5 << 20];
            store.read(place, &mut out).unwrap();
            assert_eq!(out, text(i as u8));
        }
    }
}
