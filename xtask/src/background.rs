//! Commands that use idle time of the machine.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::workspace::shown;

/// How often a running command is checked.
const POLL: Duration = Duration::from_millis(200);

/// A thread that runs commands one after the other at the lowest priority. Dropping it kills the running one.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Background {
    /// Runs the commands. The first failure ends the sequence.
    pub(crate) fn start(commands: Vec<Command>) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || commands.iter().try_for_each(|command| run(command, &stopped)));
        Background { stop, thread: Some(thread) }
    }

    /// Waits for all commands, and fails if one failed.
    pub(crate) fn end(&mut self) -> Result<()> {
        let done = self.thread.take().map(JoinHandle::join).transpose();
        done.map_err(|_| anyhow!("a background thread panicked"))?.unwrap_or(Ok(()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.end();
    }
}

/// Runs a command to its end, or until `stopped`.
fn run(command: &Command, stopped: &AtomicBool) -> Result<()> {
    if stopped.load(Relaxed) {
        return Ok(());
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    let mut child = nice.spawn().with_context(|| format!("running {}", shown(command)))?;
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("waiting for {}", shown(command)))? {
            ensure!(status.success(), "{} failed: {status}", shown(command));
            return Ok(());
        }
        if stopped.load(Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_failure_ends_the_sequence() {
        let directory = std::env::temp_dir().join(format!("background-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut second = shell("touch $NAME");
        second.current_dir(&directory).env("NAME", "second");
        let mut third = shell("touch third");
        third.current_dir(&directory);
        let mut background = Background::start(vec![shell("true"), second, shell("exit 3"), third]);
        let error = background.end().unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3 failed: exit status: 3"), "{error}");
        assert!(directory.join("second").exists() && !directory.join("third").exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn dropping_kills_the_running_command() {
        let start = std::time::Instant::now();
        drop(Background::start(vec![shell("exec sleep 60"), shell("exec sleep 60")]));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
