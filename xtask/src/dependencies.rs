//! Licences, bans and unused dependencies, checked by cargo-deny and cargo-shear.
//!
//! Programs in `PATH` come first; otherwise both are compiled once per machine, without optimisation, which takes two
//! minutes on two cores. cargo-deny's advisories need a database from the network, so CI leaves them out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kube;
use crate::tools;
use crate::workspace::{self, Workspace, cargo};

/// A program that checks dependencies: its crate, a version that the toolchain of the workspace compiles, its arguments.
struct Checker {
    name: &'static str,
    version: &'static str,
    arguments: &'static [&'static str],
}

const CHECKERS: [Checker; 2] = [
    Checker {
        name: "cargo-deny",
        version: "0.18.3",
        arguments: &["--offline", "--all-features", "--log-level", "error", "check", "bans", "licenses", "sources"],
    },
    Checker { name: "cargo-shear", version: "1.5.1", arguments: &[] },
];

/// Checks the dependencies of the workspace.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "dependencies takes no options");
    for mut command in install_commands(workspace)? {
        workspace::run(&mut command)?;
    }
    for checker in &CHECKERS {
        let mut command = Command::new(checker.program()?);
        workspace::run(command.args(checker.arguments).current_dir(&workspace.root))
            .with_context(|| format!("{} found problems in Cargo.toml, Cargo.lock or deny.toml", checker.name))?;
    }
    Ok(())
}

/// Returns the commands that compile the missing checkers.
pub(crate) fn install_commands(workspace: &Workspace) -> Result<Vec<Command>> {
    let target = workspace.target_directory()?.join("checkers");
    let mut commands = Vec::new();
    for checker in &CHECKERS {
        if !checker.program()?.is_file() {
            commands.push(checker.install_command(&kube::cache()?, &target)?);
        }
    }
    Ok(commands)
}

impl Checker {
    /// Returns the program in `PATH`, or its path in the cache.
    fn program(&self) -> Result<PathBuf> {
        match tools::find(self.name) {
            Some(program) => Ok(program),
            None => Ok(kube::cache()?.join("bin").join(self.name)),
        }
    }

    /// Returns the command that compiles the program into the cache.
    fn install_command(&self, cache: &Path, target: &Path) -> Result<Command> {
        fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
        let mut install = cargo();
        install.args(["install", "--quiet", "--debug", "--locked", "--no-default-features"]);
        install.args(["--version", self.version, self.name]);
        install.arg("--root").arg(cache).arg("--target-dir").arg(target);
        // The settings of the workspace do not apply here.
        install.current_dir(cache).env("CARGO_PROFILE_DEV_DEBUG", "none").env_remove("CARGO_TARGET_DIR");
        Ok(install)
    }
}
