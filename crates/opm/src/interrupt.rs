//! Removes temporary files when the user interrupts opm.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{progress, tree};

/// Directories to remove when a signal ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Lets the caller handle all signals. The caller must call [`clean_up`] before the process ends.
pub(crate) fn leave_signals_alone() {
    WATCH.call_once(|| {});
}

/// Lets the caller handle signals from now on, after all unfinished work is done.
pub(crate) fn hand_over_signals() {
    HANDED_OVER.store(true, Ordering::Relaxed);
}

/// Removes unfinished directories before the process ends, because running tasks can keep them alive.
pub(crate) fn clean_up() {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in unfinished.drain(..) {
        let _ = fs::remove_dir_all(path);
    }
    drop(image::ScratchGuard::remove_all());
}

/// A temporary directory that becomes permanent with [`Unfinished::finish`]. Otherwise it is removed on drop and on
/// interrupt.
pub(crate) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// Creates a directory in `parent` whose name starts with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str) -> io::Result<Unfinished> {
        Unfinished::with_mode(parent, prefix, 0o777)
    }

    /// Creates a directory for temporary files, readable only by the user.
    pub(crate) fn private(prefix: &str) -> io::Result<Unfinished> {
        Unfinished::with_mode(&std::env::temp_dir(), prefix, 0o700)
    }

    fn with_mode(parent: &Path, prefix: &str, mode: u32) -> io::Result<Unfinished> {
        WATCH.call_once(watch);
        // Hold the lock while creating the directory, so that a signal handler never misses it.
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let path = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
            .tempdir_in(parent)?
            .keep();
        unfinished.push(path.clone());
        Ok(Unfinished { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs work without interruption: a signal takes effect afterwards.
    pub(crate) fn uninterrupted<T>(&self, work: impl FnOnce() -> T) -> T {
        let _held = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Renames the directory to `target` and keeps it.
    pub(crate) fn finish(self, target: &Path) -> io::Result<()> {
        put(&self.path, target)
    }
}

/// Moves a directory to `target`, which must be empty or absent.
///
/// A mount point cannot be replaced, so its content is: copied to a temporary directory inside it, then renamed entry
/// by entry.
pub(crate) fn put(made: &Path, target: &Path) -> io::Result<()> {
    match fs::rename(made, target) {
        Err(error) if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices) => {
            fill(made, target)
        }
        moved => moved,
    }
}

fn fill(made: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let part = Unfinished::create(target, ".opm-part-")?;
    tree::copy(made, part.path())?;
    part.uninterrupted(|| {
        let mut moved = Vec::new();
        for entry in fs::read_dir(part.path())? {
            let entry = entry?;
            let place = target.join(entry.file_name());
            if let Err(error) = fs::rename(entry.path(), &place) {
                for (from, to) in moved {
                    let _ = fs::rename(to, from);
                }
                return Err(error);
            }
            moved.push((entry.path(), place));
        }
        Ok(())
    })
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|path| *path != self.path);
        // `finish` has already moved it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Waits for signals on its own thread. If that fails, a signal ends the process without cleanup.
fn watch() {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if HANDED_OVER.load(Ordering::Relaxed) {
                continue;
            }
            let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            // Removes partial blobs and archives, and blocks new ones.
            let _no_scratch = image::ScratchGuard::remove_all();
            for path in unfinished.iter() {
                // A thread that still writes to the old path fails, and then waits for the lock, which is never
                // released.
                let doomed = path.with_extension("interrupted");
                let _ = fs::rename(path, &doomed);
                let _ = fs::remove_dir_all(&doomed);
            }
            progress::erase();
            // End like the default handler, so that shells see the signal.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}
