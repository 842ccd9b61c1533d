//! Programs that run beside a test.

use std::io::Read;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a program may take to report something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that runs, and is killed if the test ends before it.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    reported: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a command whose output is kept.
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
            move || keep(stderr, &reported)
        });
        Running { child: Some(child), reported, reader: Some(reader) }
    }

    /// Waits until the program has written this text to standard error.
    ///
    /// # Panics
    /// Panics when it does not within a minute.
    pub fn wait_for(&self, text: &str) {
        let start = Instant::now();
        loop {
            let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let reported = String::from_utf8_lossy(&reported);
            if reported.contains(text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{text:?} is not in\n{reported}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal, as `kill` names it.
    ///
    /// # Panics
    /// Panics when it cannot be sent.
    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Panics when it cannot be waited for.
    pub fn end(mut self) -> Output {
        let mut output = self.child.take().expect("it runs").wait_with_output().expect("it ends");
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

/// Keeps what a program reports until it closes its standard error.
fn keep(mut stderr: ChildStderr, reported: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        reported.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
    }
}
