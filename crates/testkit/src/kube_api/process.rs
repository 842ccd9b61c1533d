//! Child processes that do not outlive their parent.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A process that is killed on drop, or when this process ends in any way.
#[derive(Debug)]
pub(crate) struct Process(Child);

/// Starts processes on a thread that lives as long as this process: the kernel kills them when that thread ends.
static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, queue) = channel::<Order>();
    std::thread::spawn(move || {
        for mut order in queue {
            let _ = order.reply.send(order.command.spawn());
        }
    });
    Mutex::new(orders)
});

struct Order {
    command: Command,
    reply: Sender<std::io::Result<Child>>,
}

impl Process {
    /// Starts a program with its arguments; its output is appended to the log.
    pub(crate) fn start(words: &[String], log: &Path) -> Process {
        let log = OpenOptions::new().create(true).append(true).open(log).expect("log");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("log")).stderr(log);
        let (reply, replies) = channel();
        STARTER.lock().unwrap_or_else(PoisonError::into_inner).send(Order { command, reply }).expect("a starter");
        Process(replies.recv().expect("a reply").expect("setpriv, of util-linux, runs"))
    }

    /// Returns the exit code, if the process has ended; a signal counts as 137, as on nodes.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = self.0.try_wait().expect("the state of a process")?;
        Some(status.code().unwrap_or(137))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the last lines of a log.
pub(crate) fn log_end(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
