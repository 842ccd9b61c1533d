//! Generates files of this repository from its code. `cargo xtask docs` and `cargo xtask codegen` run it.
//!
//! This is a separate binary because it needs half of the workspace, while `xtask` must start within seconds.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line tool")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

mod codegen;
mod docs;
mod known_fields;

/// The root of the repository.
struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns the source directory of a third-party crate.
    fn source_of(&self, name: &str) -> Result<PathBuf> {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&self.root).args(["metadata", "--format-version", "1"]);
        let output = command.output().context("running cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let package = packages.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let manifest = manifest.with_context(|| format!("{name} is not a dependency"))?;
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the manifest directory has no parent")?;
    let project = Project { root: root.to_path_buf() };
    match what {
        "docs" => docs::run(&project, check),
        "codegen" => codegen::run(&project, check),
        other => bail!("unknown target \"{other}\": expected docs or codegen"),
    }
}
