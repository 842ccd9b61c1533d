//! Files of this project that come from its code: `cargo xtask docs` and `cargo xtask codegen` run it.
//!
//! It is a program of its own because the tasks around the code start within seconds, and this needs half of the code.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to the person who runs it")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

mod codegen;
mod docs;
mod known_fields;

/// Where this project is.
struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns the directory that a crate of others is in.
    fn source_of(&self, name: &str) -> Result<PathBuf> {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&self.root).args(["metadata", "--format-version", "1"]);
        let output = command.output().context("running cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let package = packages.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let manifest = manifest.with_context(|| format!("{name} is not used"))?;
        Ok(Path::new(manifest).with_file_name(""))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    let (what, check) = match arguments {
        [what] => (*what, false),
        [what, "--check"] => (*what, true),
        _ => bail!("Usage: generate docs|codegen [--check]"),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the project has no directory")?;
    let project = Project { root: root.to_path_buf() };
    match what {
        "docs" => docs::run(&project, check),
        "codegen" => codegen::run(&project, check),
        other => bail!("there is nothing called \"{other}\" to make"),
    }
}
