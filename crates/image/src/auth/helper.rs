//! Programs that keep credentials: `docker-credential-<name>`.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::Credentials;
use crate::{Environment, Error, ErrorKind};

const TIME_LIMIT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: u64 = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Username", default)]
    user: String,
    #[serde(rename = "Secret", default)]
    secret: String,
}

/// Asks a helper for the credentials of `host`; none means that it has none.
pub(crate) fn ask(environment: &Environment, helper: &str, host: &str) -> Result<Option<Credentials>, Error> {
    let program = format!("docker-credential-{helper}");
    let wrong = |text: String| Error::new(ErrorKind::Unauthorized, format!("{program}: {text}"));
    if helper.contains('/') {
        return Err(wrong("expected a name, not a path".into()));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(path) = environment.get("PATH") {
        command.env("PATH", path);
    }
    let mut child = command.spawn().map_err(|error| wrong(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that does not read what it is asked can still answer.
        let _ = stdin.write_all(host.as_bytes());
    }
    let mut stdout = child.stdout.take().ok_or_else(|| wrong("no output".into()))?;
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        stdout.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut output).map(|_| output)
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| wrong(error.to_string()))? {
            Some(status) => break status,
            None if start.elapsed() > TIME_LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(wrong(format!("no answer within {} seconds", TIME_LIMIT.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let output = reader.join().map_err(|_| wrong("no output".into()))?.map_err(|error| wrong(error.to_string()))?;
    if !status.success() {
        // This sentence is how helpers say that they have nothing.
        if String::from_utf8_lossy(&output).contains("credentials not found") {
            return Ok(None);
        }
        return Err(wrong(format!("{status}")));
    }
    // The output holds a secret, so that nothing of it is shown.
    let answer: Answer = serde_json::from_slice(&output).map_err(|_| wrong("its answer is not understood".into()))?;
    Ok(match (answer.user.as_str(), answer.secret) {
        ("", secret) if secret.is_empty() => None,
        ("<token>", secret) => Some(Credentials::IdentityToken(secret)),
        (user, secret) => Some(Credentials::Password { user: user.to_owned(), password: secret }),
    })
}
