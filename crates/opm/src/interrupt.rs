//! Removes temporary files when the user interrupts opm.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use scratch::{Guard, TempFolder};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{progress, tree};

static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Removes temporary files on signals, as soon as there are any.
pub(crate) fn start() {
    static WATCH: Once = Once::new();
    scratch::before_creating(|| WATCH.call_once(watch));
}

/// Lets the caller handle signals from now on: it must listen to them already or at once, and remove its files itself.
pub(crate) fn hand_over_signals() {
    HANDED_OVER.store(true, Ordering::Relaxed);
}

/// Removes temporary files before the process ends, because running tasks can keep them alive.
pub(crate) fn clean_up() {
    drop(Guard::remove_all());
}

/// A temporary directory that becomes permanent with [`Unfinished::finish`]. Otherwise it is removed on drop and on
/// interrupt.
pub(crate) struct Unfinished(TempFolder);

impl Unfinished {
    /// Creates a directory in `parent` whose name starts with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str) -> io::Result<Unfinished> {
        TempFolder::inside(parent, prefix).map(Unfinished)
    }

    /// Creates a directory for temporary files.
    pub(crate) fn private(prefix: &str) -> io::Result<Unfinished> {
        TempFolder::private(prefix).map(Unfinished)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs work without interruption: a signal takes effect afterwards.
    pub(crate) fn uninterrupted<T>(&self, work: impl FnOnce() -> T) -> T {
        scratch::uninterrupted(work)
    }

    /// Gives the directory the mode of new directories, before it is renamed.
    pub(crate) fn open_to_others(&self) -> io::Result<()> {
        fs::set_permissions(self.path(), Permissions::from_mode(scratch::umasked(0o777)))
    }

    /// Renames the directory to `target` and keeps it.
    pub(crate) fn finish(self, target: &Path) -> io::Result<()> {
        self.open_to_others()?;
        put(self.path(), target)
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

/// Waits for signals on its own thread. If that fails, a signal ends the process without cleanup.
fn watch() {
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if HANDED_OVER.load(Ordering::Relaxed) {
                continue;
            }
            // Blocks new files, and threads that remove theirs, to the end.
            let _no_files = Guard::remove_all();
            progress::erase();
            // End like the default handler, so that shells see the signal.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}
