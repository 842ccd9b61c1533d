//! Files that come from the code: the program `generate` makes them.

use anyhow::Result;

use crate::workspace::{self, Workspace, cargo};

/// Makes what is called `what`.
pub(crate) fn run(workspace: &Workspace, what: &str, options: &[String]) -> Result<()> {
    let mut command = cargo();
    command.current_dir(&workspace.root).args(["run", "--quiet", "--package", "generate", "--", what]).args(options);
    workspace::run(&mut command)
}
