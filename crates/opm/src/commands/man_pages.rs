//! `opm man-pages`: a manual page for every command, for packages of the program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::exit::{Failure, Outcome};

/// Write a manual page for every command
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm man-pages /usr/local/share/man/man1")]
pub(crate) struct ManPagesArgs {
    /// Directory for the pages; it is made if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &ManPagesArgs) -> Outcome {
    let in_directory = |error: std::io::Error| Failure::message(format!("{}: {error}", args.directory.display()));
    fs::create_dir_all(&args.directory).map_err(in_directory)?;
    let mut command = crate::cli::command().disable_help_subcommand(true);
    command.build();
    write(&command, "opm", &args.directory).map_err(in_directory)
}

/// Writes the pages of a command and of those below it, each under the words one types, joined by hyphens.
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
