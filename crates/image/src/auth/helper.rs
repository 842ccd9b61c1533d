//! Runs credential helpers: `docker-credential-<name>`.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::Credentials;
use crate::{Environment, Error, ErrorKind};

const OUTPUT_LIMIT: u64 = 1 << 20;

#[derive(Deserialize)]
struct HelperOutput {
    #[serde(rename = "Username", default)]
    user: String,
    #[serde(rename = "Secret", default)]
    secret: String,
}

/// Asks a helper for the credentials of `server`; `None` means that it has none. The helper and its child processes
/// end within `limit`.
pub(crate) fn ask(
    environment: &Environment,
    helper: &str,
    server: &str,
    limit: Duration,
) -> Result<Option<Credentials>, Error> {
    let program = format!("docker-credential-{helper}");
    let to_error = |text: String| Error::new(ErrorKind::Unauthorized, format!("{program}: {text}"));
    if helper.contains('/') {
        return Err(to_error("expected a name, not a path".into()));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    if let Some(path) = environment.get("PATH") {
        command.env("PATH", path);
    }
    let deadline = Instant::now() + limit;
    let child = command.spawn().map_err(|error| to_error(error.to_string()))?;
    let mut running = Running { child, ended: false };
    if let Some(mut stdin) = running.child.stdin.take() {
        // A helper that does not read its input can still answer.
        let _ = stdin.write_all(server.as_bytes());
    }
    let mut stdout = running.child.stdout.take().ok_or_else(|| to_error("the program has no stdout".into()))?;
    let (send, output) = mpsc::channel();
    // Reading ends when the last process closes the output; processes that left the group do not count.
    std::thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut output).map(|_| output);
        // The receiver is gone after the deadline.
        let _ = send.send(read);
    });
    let late = || to_error(format!("no response within {} seconds", limit.as_secs_f64()));
    let output = output.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|_| late())?;
    let output = output.map_err(|error| to_error(error.to_string()))?;
    let status = loop {
        match running.child.try_wait().map_err(|error| to_error(error.to_string()))? {
            Some(status) => break status,
            None if Instant::now() > deadline => return Err(late()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    running.ended = true;
    if !status.success() {
        // Helpers report missing credentials with this sentence.
        if String::from_utf8_lossy(&output).contains("credentials not found") {
            return Ok(None);
        }
        return Err(to_error(format!("{status}")));
    }
    // The output holds a secret, so errors do not quote it.
    let parsed: HelperOutput =
        serde_json::from_slice(&output).map_err(|_| to_error("its output is not valid JSON".into()))?;
    Ok(match (parsed.user.as_str(), parsed.secret) {
        ("", secret) if secret.is_empty() => None,
        ("<token>", secret) => Some(Credentials::IdentityToken(secret)),
        (user, secret) => Some(Credentials::Password { user: user.to_owned(), password: secret }),
    })
}

/// A running helper. Dropping it kills the process group, unless the helper has exited.
struct Running {
    child: Child,
    ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // The process is not reaped yet, so its PID cannot belong to another process, even if it has exited.
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            // It may exit at this moment.
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = self.child.wait();
        }
    }
}
