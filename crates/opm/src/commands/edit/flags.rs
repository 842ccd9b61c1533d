//! The flags of all edits, and how their report is printed.

use std::path::PathBuf;

use edit::{EditError, EditOptions, Edited, Write};
use source::{CatalogDirectory, Images};

use crate::exit::{CommandResult, Failure};
use crate::output::OutputFlag;
use crate::printer::{Printer, Style};
use crate::{edits, limits};

/// The catalog to change and the destination of the result
#[derive(Clone, clap::Args)]
pub(super) struct EditFlags {
    /// Catalog directory
    #[arg(value_name = "CATALOG")]
    catalog: PathBuf,
    /// Write the changed catalog to a new directory instead of changing it in place
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print the changes as a unified diff without applying them
    #[arg(long)]
    dry_run: bool,
    /// Do not print notes or the summary
    #[arg(short, long)]
    quiet: bool,
    /// Make the edit even if it leaves installed versions without a path to the channel head
    #[arg(long)]
    allow_stranded: bool,
    #[command(flatten)]
    output: OutputFlag,
}

impl EditFlags {
    /// Returns the options of an edit of a directory.
    pub(super) fn options(&self) -> Result<EditOptions, Failure> {
        Ok(EditOptions {
            catalog: self.catalog.clone(),
            write: self.to.clone().map_or(Write::InPlace, Write::To),
            dry_run: self.dry_run,
            allow_stranded: self.allow_stranded,
            limits: limits::from_env()?,
        })
    }

    /// Like [`options`](Self::options), for a catalog that can be an image or a database too. Such a catalog does not
    /// change, so it requires `--to` or `--dry-run`.
    ///
    /// Dropping the second value deletes a temporary directory.
    pub(super) fn options_of_any(&self, images: &Images) -> Result<(EditOptions, Option<CatalogDirectory>), Failure> {
        let options = self.options()?;
        if self.to.is_none() && !self.dry_run {
            let name = self.catalog.display();
            let elsewhere = image::Location::is_image(&name.to_string()) || self.catalog.exists();
            if elsewhere && !self.catalog.is_dir() {
                return Err(Failure::usage(format!("{name} is not a directory: use --to DIR for the result")));
            }
            return Ok((options, None));
        }
        let opened = source::directory(&self.catalog.to_string_lossy(), images, &options.limits)?;
        Ok((EditOptions { catalog: opened.path().to_path_buf(), ..options }, Some(opened)))
    }

    /// Prints the report of an edit.
    pub(super) fn print(&self, edited: Result<Edited, EditError>, printer: &mut Printer) -> CommandResult {
        let edited = edited.map_err(|error| edits::failure(error, printer))?;
        match self.output.is_json() {
            true => Ok(printer.json(&edited)?),
            false => self.print_text(&edited, printer),
        }
    }

    fn print_text(&self, edited: &Edited, printer: &mut Printer) -> CommandResult {
        for versions in &edited.stranded {
            printer.warning(&versions.to_string());
        }
        for note in edited.notes.iter().filter(|_| !self.quiet) {
            printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
        }
        if let Some(diff) = &edited.diff {
            for line in diff.split_inclusive('\n') {
                let code = match line.as_bytes().first() {
                    Some(b'+') => "32",
                    Some(b'-') => "31",
                    Some(b'@') => "36",
                    _ => "",
                };
                printer.coloured_line(code, line.trim_end_matches('\n'))?;
            }
            return Ok(());
        }
        if let Some(summary) = edited.summary.as_ref().filter(|_| !self.quiet) {
            printer.report(summary);
        }
        Ok(())
    }
}
