//! `opm migrate`: a catalog into a new directory, in today's form.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use fbc::{Arrangement, Blob, Fbc, Format};

use super::{MigrateLevel, blob_format, migrate_level};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{limits, source, tree};

/// Write a catalog to a new directory, in today's form
#[derive(clap::Args)]
#[command(
    long_about = "Write a catalog to a new directory, in today's form.\n\n\
        Each package gets a directory of its own with a file 'catalog.json' or 'catalog.yaml'; blobs without a \
        package go to a file at the top. Fields and schemas that are not known are kept. The directory appears only when \
        everything is written.",
    after_help = "Examples:\n  opm migrate old-catalog new-catalog\n  opm migrate old-catalog new-catalog -o yaml"
)]
pub(crate) struct MigrateArgs {
    /// The catalog
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Directory to write, which must be empty or absent
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    /// How far to bring bundles up to date
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level())]
    migrate_level: Option<MigrateLevel>,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &MigrateArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let target = &args.directory;
    check_empty(target)?;
    let images = Images::new(tls, &args.pull);
    let options = source::Options {
        keep_text: true,
        migrate: args.migrate_level == Some(MigrateLevel::CsvMetadata),
        ..source::Options::catalogs(limits::from_env()?, &images)
    };
    let fbc = source::load(std::slice::from_ref(&args.source), &options, printer)?;
    source::warn_of_homeless(&fbc, printer)?;
    let parent = tree::parent(target);
    fs::create_dir_all(parent).map_err(|error| in_path(parent, &error))?;
    // Written aside and moved into place: what fails leaves nothing behind.
    let aside = Unfinished::create(parent, ".opm-migrate-").map_err(|error| in_path(parent, &error))?;
    write(&fbc, aside.path(), args.output)?;
    aside.finish(target).map_err(|error| in_path(target, &error))?;
    Ok(())
}

/// Checks that a directory to be written is empty or absent.
pub(crate) fn check_empty(directory: &Path) -> Outcome {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(in_path(directory, &error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::message(format!("output dir \"{}\" must be empty", directory.display()))),
        },
    }
}

/// Writes a catalog, with a folder for each package.
pub(crate) fn write(fbc: &Fbc, directory: &Path, format: Format) -> Outcome {
    let name = match format {
        Format::Json => "catalog.json",
        Format::Yaml => "catalog.yaml",
    };
    let blobs = fbc.in_order();
    for group in blobs.chunk_by(|a, b| a.package == b.package) {
        let package = &*group[0].package;
        let place = match package {
            "" => directory.to_path_buf(),
            "." | ".." => return Err(bad_name(package)),
            name if name.contains(['/', '\0']) => return Err(bad_name(name)),
            name => directory.join(name),
        };
        if !package.is_empty() {
            fs::create_dir(&place).map_err(|error| in_path(&place, &error))?;
        }
        write_file(fbc, group, &place.join(name), format)?;
    }
    Ok(())
}

fn bad_name(package: &str) -> Failure {
    Failure::message(format!("invalid package name {package:?}: must be a single local path element"))
}

fn write_file(fbc: &Fbc, blobs: &[&Blob], path: &Path, format: Format) -> Outcome {
    let file = fs::File::create_new(path).map_err(|error| in_path(path, &error))?;
    let mut out = BufWriter::new(file);
    fbc.write_arranged(blobs, format, Arrangement::Complete, &mut out).map_err(|error| in_path(path, &error))
}
