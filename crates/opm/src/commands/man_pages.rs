//! `opm man-pages`: writes a manual page for every command. Packages of opm ship them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::exit::{CommandResult, Failure};

/// Write a manual page for every command
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm man-pages /usr/local/share/man/man1")]
pub(crate) struct ManPagesArgs {
    /// Directory to write the pages to; created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &ManPagesArgs) -> CommandResult {
    let in_directory = |error: std::io::Error| Failure::world(format!("{}: {error}", args.directory.display()));
    fs::create_dir_all(&args.directory).map_err(in_directory)?;
    let mut command = crate::cli::command().disable_help_subcommand(true);
    command.build();
    write(&command, "opm", &args.directory).map_err(in_directory)
}

/// Writes the pages of a command and its subcommands. `opm bundle validate` becomes `opm-bundle-validate.1`.
fn write(command: &Command, name: &str, directory: &Path) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone()).section("1").source("opm").date("");
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(directory.join(format!("{name}.1")), text)?;
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(())
}
