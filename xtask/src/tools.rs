//! Installs programs for tests and tasks from Debian if they are missing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{Workspace, is_installed, output};

/// The programs that tests use.
pub(crate) const TESTS: &[&str] =
    &["docker-registry", "skopeo", "umoci", "openssl", "tar", "gpg", "gpg-agent", "gpgconf", "python3", "strace"];

/// The Python modules that tests use.
const MODULES: &[&str] = &["jsonschema"];

/// Installs the named programs, or all that tests use.
pub(crate) fn run(_: &Workspace, options: &[String]) -> Result<()> {
    match options {
        [] => ensure_tests(),
        some => ensure(&some.iter().map(String::as_str).collect::<Vec<&str>>()),
    }
}

/// Installs the programs and modules that tests use.
pub(crate) fn ensure_tests() -> Result<()> {
    ensure(TESTS)?;
    for module in MODULES {
        let has = || is_installed(Command::new("python3").args(["-c", &format!("import {module}")]));
        if !has() {
            let pip = output(Command::new("python3").args(["-m", "pip", "install", "--quiet", module]));
            // Debian protects its own Python from pip and has packages instead.
            if pip.is_err() || !has() {
                apt(&["install", "-y", &format!("python3-{module}")])
                    .with_context(|| format!("installing the Python module {module}"))?;
            }
        }
    }
    Ok(())
}

/// Installs missing programs, each from the package of its name, or of the name after a colon.
pub(crate) fn ensure(programs: &[&str]) -> Result<()> {
    let named = programs.iter().map(|one| one.split_once(':').unwrap_or((*one, *one)));
    let missing: Vec<&str> = named.filter(|(program, _)| find(program).is_none()).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let install = [&["install", "-y"], missing.as_slice()].concat();
    if apt(&install).is_ok() {
        return Ok(());
    }
    let installed = apt(&["update"]).and_then(|()| apt(&install));
    installed.with_context(|| format!("installing {}", missing.join(" ")))
}

/// Finds a program in `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Runs apt-get as root.
pub(crate) fn apt(arguments: &[&str]) -> Result<()> {
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
    if !root {
        command.args(["-n", "apt-get"]);
    }
    output(command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments)).map(drop)
}
