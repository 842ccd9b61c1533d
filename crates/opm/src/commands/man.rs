//! `opm man`: the manual pages of commands. Packages of opm ship them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use fbc::scratch::{self, TempFolder};

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;

/// Print the manual page of a command, or write all of them
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
        opm man edit add-bundle | man -l -\n  \
        opm man --to /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Command; that of opm if left out
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    command: Vec<String>,
    /// Write the pages of all commands to this directory, which is created if missing
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &ManArgs, printer: &mut Printer) -> CommandResult {
    let mut command = crate::cli::command().disable_help_subcommand(true);
    command.build();
    if let Some(directory) = &args.to {
        return write_all(&command, directory)
            .map_err(|error| Failure::world(format!("{}: {error}", directory.display())));
    }
    let mut found = &command;
    for word in &args.command {
        let name = found.get_bin_name().unwrap_or("opm");
        found = found.find_subcommand(word).ok_or_else(|| {
            Failure::usage(format!("'{name}' has no command {word:?}\nhelp: '{name} --help' lists them"))
        })?;
    }
    Ok(printer.data().write_all(&page(found)?)?)
}

/// Writes all pages, or none.
fn write_all(command: &Command, directory: &Path) -> io::Result<()> {
    let place = if directory.is_dir() { directory } else { scratch::parent(directory) };
    fs::create_dir_all(place)?;
    let aside = TempFolder::inside(place, ".opm-man-")?;
    write(command, "opm", aside.path())?;
    fs::create_dir_all(directory)?;
    for page in fs::read_dir(aside.path())? {
        let page = page?;
        fs::rename(page.path(), directory.join(page.file_name()))?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).section("1").source("opm").date("").render(&mut text)?;
    Ok(text)
}

/// Writes the pages of a command and its subcommands. `opm bundle validate` becomes `opm-bundle-validate.1`.
fn write(command: &Command, name: &str, directory: &Path) -> io::Result<()> {
    fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    for below in command.get_subcommands().filter(|command| !command.get_name().starts_with("__")) {
        write(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(())
}
