//! `opm migrate`: writes a catalog to a new directory in the current format.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use fbc::{Arrangement, Blob, Fbc, Format};

use super::{MigrateLevel, blob_format, migrate_level};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{limits, source, tree};

/// Write a catalog to a new directory in the current format
#[derive(clap::Args)]
#[command(
    long_about = "Write a catalog to a new directory in the current format.\n\n\
        Each package gets its own directory with one file, 'catalog.json' or 'catalog.yaml'. Blobs without a package go \
        to a file at the top level. Unknown fields and schemas are preserved. The directory appears only after everything \
        is written.",
    after_help = "Examples:\n  opm migrate old-catalog new-catalog\n  opm migrate old-catalog new-catalog -o yaml"
)]
pub(crate) struct MigrateArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Directory to write; must be empty or absent
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    /// Migrations to apply to bundles
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level())]
    migrate_level: Option<MigrateLevel>,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &MigrateArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let target = &args.directory;
    tree::check_empty(target)?;
    let images = Images::new(tls, &args.pull);
    let options = source::Options {
        keep_text: true,
        migrate: args.migrate_level == Some(MigrateLevel::CsvMetadata),
        ..source::Options::catalogs(limits::from_env()?, &images)
    };
    let fbc = source::load(std::slice::from_ref(&args.source), &options, printer)?;
    source::warn_of_dropped(&fbc, printer)?;
    let parent = tree::parent(target);
    fs::create_dir_all(parent).map_err(|error| in_path(parent, &error))?;
    // Write to a temporary directory and rename it: a failure leaves nothing behind.
    let aside = Unfinished::create(parent, ".opm-migrate-").map_err(|error| in_path(parent, &error))?;
    write(&fbc, aside.path(), args.output)?;
    aside.finish(target).map_err(|error| in_path(target, &error))?;
    Ok(())
}

/// Writes a catalog with one directory per package.
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
            name if !fbc::is_file_name(name) => return Err(bad_name(name)),
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
