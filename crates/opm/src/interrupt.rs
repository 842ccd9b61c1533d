//! Removes temporary files when the user interrupts opm.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use fbc::scratch::Guard;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::progress;

static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Removes temporary files on signals, as soon as there are any.
pub(crate) fn start() {
    static WATCH: Once = Once::new();
    fbc::scratch::before_creating(|| WATCH.call_once(watch));
}

/// Lets the caller handle signals from now on: it must listen to them already or at once, and remove its files itself.
pub(crate) fn hand_over_signals() {
    HANDED_OVER.store(true, Ordering::Relaxed);
}

/// Removes temporary files before the process ends, because running tasks can keep them alive.
pub(crate) fn clean_up() {
    drop(Guard::remove_all());
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
