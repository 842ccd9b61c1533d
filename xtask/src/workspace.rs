//! The cargo workspace, and programs that tasks run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The workspace of the current directory.
pub(crate) struct Workspace {
    /// Its root directory.
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// Returns the workspace of the current directory.
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = output(cargo().args(["locate-project", "--workspace", "--message-format", "plain"]))?;
        let root = Path::new(manifest.trim()).parent().context("the workspace has no directory")?;
        Ok(Workspace { root: root.to_path_buf() })
    }

    /// Returns the output of `cargo metadata`, with all dependencies or only the crates of the workspace.
    pub(crate) fn metadata(&self, dependencies: bool) -> Result<Value> {
        let mut command = cargo();
        command.current_dir(&self.root).args(["metadata", "--format-version", "1"]);
        if !dependencies {
            command.arg("--no-deps");
        }
        serde_json::from_str(&output(&mut command)?).context("cargo metadata is not JSON")
    }

    /// Returns the target directory of cargo.
    pub(crate) fn target_directory(&self) -> Result<PathBuf> {
        let metadata = self.metadata(false)?;
        let directory = metadata["target_directory"].as_str().context("cargo metadata has no target_directory")?;
        Ok(directory.into())
    }

    /// Returns all files of the workspace, relative to its root, without build results and fuzzing corpora.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        const SKIPPED: [&str; 6] = [".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];
        let mut files = Vec::new();
        let mut directories = vec![PathBuf::new()];
        while let Some(directory) = directories.pop() {
            let full = self.root.join(&directory);
            for entry in fs::read_dir(&full).with_context(|| format!("reading {}", full.display()))? {
                let entry = entry?;
                let path = directory.join(entry.file_name());
                if SKIPPED.iter().any(|skipped| path == Path::new(skipped)) {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    directories.push(path);
                } else {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Returns a command for the cargo that runs this task.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program and returns its stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(command), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {} is not UTF-8", shown(command)))
}

/// Runs a program with our own stdout and stderr.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("running {}", shown(command)))?;
    ensure!(status.success(), "{} failed: {status}", shown(command));
    Ok(())
}

/// Returns whether a program starts and accepts `--version`.
pub(crate) fn is_installed(command: &mut Command) -> bool {
    command.arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns a command line as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
