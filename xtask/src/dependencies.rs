//! Licences, bans and unused dependencies, checked by cargo-deny and cargo-shear.
//!
//! Both are compiled once per machine, without optimisation, which takes two minutes on two cores; `PATH` comes first.
//! cargo-deny's advisories need a database from the network, so CI leaves them out.

use std::path::PathBuf;
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
    for checker in &CHECKERS {
        let program = checker.installed()?;
        let mut command = Command::new(program);
        workspace::run(command.args(checker.arguments).current_dir(&workspace.root))
            .with_context(|| format!("{} found problems in Cargo.toml, Cargo.lock or deny.toml", checker.name))?;
    }
    Ok(())
}

impl Checker {
    /// Returns the path of the program, and compiles it if it is missing.
    fn installed(&self) -> Result<PathBuf> {
        if let Some(program) = tools::find(self.name) {
            return Ok(program);
        }
        let cache = kube::cache()?;
        let program = cache.join("bin").join(self.name);
        if !program.is_file() {
            let built = cache.join(format!("{}-{}", self.name, std::process::id()));
            let mut install = cargo();
            install.args(["install", "--quiet", "--debug", "--locked", "--no-default-features"]);
            install.args(["--version", self.version, self.name]);
            install.arg("--root").arg(&cache).arg("--target-dir").arg(&built);
            // Other settings are for the workspace.
            install.current_dir(&cache).env("CARGO_PROFILE_DEV_DEBUG", "none").env_remove("CARGO_TARGET_DIR");
            let installed = workspace::run(&mut install);
            let _ = std::fs::remove_dir_all(built);
            installed?;
        }
        Ok(program)
    }
}
