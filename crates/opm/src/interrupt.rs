//! Leaving nothing behind when the user interrupts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::tree;

/// Directories to remove before the process ends by a signal.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Leaves signals to the caller, who ends the process in its own way; [`clean_up`] does the rest.
pub(crate) fn leave_signals_alone() {
    WATCH.call_once(|| {});
}

/// Leaves signals to the caller from now on, who has done what may not be left half done.
pub(crate) fn hand_over_signals() {
    HANDED_OVER.store(true, Ordering::Relaxed);
}

/// Removes what is unfinished before the process ends: tasks that still run may hold on to it.
pub(crate) fn clean_up() {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in unfinished.drain(..) {
        let _ = fs::remove_dir_all(path);
    }
    drop(image::ScratchGuard::remove_all());
}

/// A directory that is being written, and is removed unless it is finished: when this is
/// dropped, and when the process is interrupted.
pub(crate) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// Makes a new directory in `parent` whose name starts with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str) -> io::Result<Unfinished> {
        Unfinished::with_mode(parent, prefix, 0o777)
    }

    /// Makes a directory for temporary files that nobody else can read.
    pub(crate) fn private(prefix: &str) -> io::Result<Unfinished> {
        Unfinished::with_mode(&std::env::temp_dir(), prefix, 0o700)
    }

    fn with_mode(parent: &Path, prefix: &str, mode: u32) -> io::Result<Unfinished> {
        WATCH.call_once(watch);
        // No signal may come between making the directory and knowing of it.
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

    /// Does work that no signal may cut short: one that comes meanwhile takes effect afterwards.
    pub(crate) fn uninterrupted<T>(&self, work: impl FnOnce() -> T) -> T {
        let _held = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Moves the directory to its place, where it stays.
    pub(crate) fn finish(self, target: &Path) -> io::Result<()> {
        put(&self.path, target)
    }
}

/// Moves a directory to its place, which is empty or absent.
///
/// A mount point cannot be replaced, so it is filled: with copies that are made aside in it and then renamed one by one.
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
        // Gone already when it was finished.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Waits for a signal on a thread of its own. Without one, the signal simply ends the process.
fn watch() {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if HANDED_OVER.load(Ordering::Relaxed) {
                continue;
            }
            let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            // Blobs and archives of images on their way; nothing new begins from here on.
            let _no_scratch = image::ScratchGuard::remove_all();
            for path in unfinished.iter() {
                // Whoever still writes by the old name finds nothing there, and then waits for
                // the lock, which is never given back.
                let doomed = path.with_extension("interrupted");
                let _ = fs::rename(path, &doomed);
                let _ = fs::remove_dir_all(&doomed);
            }
            // The way the signal would have ended it, so that shells see it.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}
