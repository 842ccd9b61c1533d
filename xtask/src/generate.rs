//! Runs the program `generate`, which writes generated files.

use anyhow::Result;

use crate::workspace::{self, Workspace, cargo};

/// Generates the files of one target: `docs` or `codegen`.
pub(crate) fn run(workspace: &Workspace, what: &str, options: &[String]) -> Result<()> {
    let mut command = cargo();
    command.current_dir(&workspace.root).args(["run", "--quiet", "--package", "xtask", "--features", "generate"]);
    command.args(["--bin", "generate", "--", what]).args(options);
    workspace::run(&mut command)
}
