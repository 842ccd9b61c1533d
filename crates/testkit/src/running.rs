//! Background processes of tests.

use std::io::Read;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a process may take to print an expected text.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running command, killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    reported: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a command and captures its output.
    ///
    /// # Panics
    /// Panics when it cannot be started.
    pub fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("opm runs");
        let stderr = child.stderr.take().expect("its standard error");
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let reported = reported.clone();
            move || capture(stderr, &reported)
        });
        Running { child: Some(child), reported, reader: Some(reader) }
    }

    /// Waits until the process has written a text to stderr.
    ///
    /// # Panics
    /// Panics after a minute.
    pub fn wait_for(&self, text: &str) {
        let start = Instant::now();
        loop {
            let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let reported = String::from_utf8_lossy(&reported);
            if reported.contains(text) {
                return;
            }
            assert!(start.elapsed() < TIMEOUT, "{text:?} is not in\n{reported}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal, named as for `kill`.
    ///
    /// # Panics
    /// Panics when that fails.
    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    /// Waits for the process to exit.
    ///
    /// # Panics
    /// Panics when waiting fails.
    pub fn end(mut self) -> Output {
        let mut output = self.child.take().expect("it runs").wait_with_output().expect("the process exits");
        self.reader.take().expect("a reader").join().expect("no panic");
        output.stderr = std::mem::take(&mut *self.reported.lock().unwrap_or_else(PoisonError::into_inner));
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Captures stderr until it is closed.
fn capture(mut stderr: ChildStderr, reported: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        reported.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
    }
}
