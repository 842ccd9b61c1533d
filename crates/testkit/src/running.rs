//! Programs that run beside a test.

use std::process::{Child, Command, Output, Stdio};

/// A command that runs, and is killed if the test ends before it.
#[derive(Debug)]
pub struct Running(Option<Child>);

impl Running {
    /// Starts a command whose output is kept.
    ///
    /// # Panics
    /// Panics when it cannot be started.
    pub fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("opm runs")))
    }

    /// Sends a signal, as `kill` names it.
    ///
    /// # Panics
    /// Panics when it cannot be sent.
    pub fn signal(&self, signal: &str) {
        let id = self.0.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// Panics when it cannot be waited for.
    pub fn end(mut self) -> Output {
        self.0.take().expect("it runs").wait_with_output().expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
