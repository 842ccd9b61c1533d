//! `opm unpack`: unpacks a catalog image for editing.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use fbc::{Fbc, FileId};
use image::Location;
use source::{CONFIGS_LABEL, Images, Kind, Layout, UnpackedIndex};

use crate::choice::choice;
use crate::exit::{Failure, Outcome};
use crate::images::{self, PullFlags, TlsFlags, or_latest};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{limits, report, tree};

/// The rule of files that cannot be read at all, such as dangling links.
const UNREADABLE: &str = "file-readable";

/// Unpack a catalog image into a directory for editing
#[derive(clap::Args)]
#[command(
    long_about = "Unpack a catalog image into a directory for editing.\n\n\
        The directory is named after the repository of the image and appears only when it is complete. It holds the catalog \
        files of the image unchanged, but no files that do not belong to the catalog, no hidden files, and copies in place of \
        links, so that 'opm build' builds the same catalog from it. If a file holds several packages, \
        each package gets its own file, PACKAGE/PACKAGE.json, with the objects of its bundles in PACKAGE/objects. Blobs \
        without a package go to __global.json.\n\n\
        --layout selects the files: image keeps all files unchanged, single writes one file, package one per package, bundle \
        one per bundle.",
    after_help = "Examples:\n  \
        opm unpack quay.io/me/catalog:v1              # to the directory 'catalog'\n  \
        opm unpack quay.io/me/catalog:v1 --unpack-dir edited\n  \
        opm unpack quay.io/me/catalog:v1 --layout bundle\n  \
        opm unpack oci:layout:v1"
)]
pub(crate) struct UnpackArgs {
    /// Catalog image
    #[arg(value_name = "REF", value_parser = or_latest)]
    reference: Option<String>,
    /// Catalog image, as a flag
    #[arg(long, value_name = "REF", value_parser = or_latest)]
    image: Option<String>,
    /// Directory to write; must be empty or absent; defaults to the name of the repository
    #[arg(long, value_name = "DIR")]
    unpack_dir: Option<PathBuf>,
    /// File layout; defaults to image, or package if a file holds several packages
    #[arg(long, value_name = "LAYOUT", value_parser = layout())]
    layout: Option<Files>,
    /// Print the image digest, the catalog path and the output directory
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// The files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// The files of the image, unchanged.
    Image,
    /// New files in this layout.
    New(Layout),
}

fn layout() -> impl TypedValueParser<Value = Files> {
    choice([
        ("image", Files::Image),
        ("single", Files::New(Layout::Single)),
        ("package", Files::New(Layout::Package)),
        ("bundle", Files::New(Layout::Bundle)),
    ])
}

pub(crate) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let reference = match (&args.reference, &args.image) {
        (Some(reference), None) | (None, Some(reference)) => reference,
        _ => return Err(Failure::message("exactly one image is required")),
    };
    let target = match &args.unpack_dir {
        Some(directory) => directory.clone(),
        None => directory_of(reference)?,
    };
    tree::check_empty(&target)?;
    let images = images::open(tls, &args.pull);
    let fetched = images
        .fetch_one(reference)
        .map_err(|error| Failure::message(format!("error pulling image from remote registry. Error: {error}")))?;
    let path = match &fetched.kind {
        Kind::Catalog(path) | Kind::Database(path) => path,
        Kind::Bundle | Kind::Other(_) => {
            return Err(Failure::message(format!("index image \"{reference}\" missing label \"{CONFIGS_LABEL}\"")));
        }
    };
    let UnpackedIndex { root, path: configs } = images.index(&fetched.image, path)?;
    if args.debug {
        printer.report(&format!("{reference} has the digest {} and its catalog at {path}", fetched.image.digest));
    }
    let parent = tree::parent(&target);
    fs::create_dir_all(parent).map_err(|error| tree::in_path(parent, &error))?;
    let aside = Unfinished::create(parent, ".opm-unpack-").map_err(|error| tree::in_path(parent, &error))?;
    if matches!(fetched.kind, Kind::Database(_)) {
        let layout = match args.layout {
            None => Layout::Package,
            Some(Files::New(layout)) => layout,
            Some(Files::Image) => {
                return Err(Failure::message("--layout image: the image holds a database, not files"));
            }
        };
        unpack_database(&configs, aside.path(), layout, &images)?;
    } else {
        unpack_catalog(args.layout, &configs, &root, aside.path(), reference, &images, printer)?;
    }
    aside.finish(&target).map_err(|error| tree::in_path(&target, &error))?;
    if args.debug {
        printer.report(&format!("unpacked to {}", target.display()));
    }
    Ok(())
}

/// Writes the catalog in `configs`, a directory of the image in `root`, to `target`: its files, or new ones.
fn unpack_catalog(
    wanted: Option<Files>,
    configs: &Path,
    root: &Path,
    target: &Path,
    reference: &str,
    images: &Images,
    printer: &Printer,
) -> Outcome {
    let options = source::Options { keep_text: true, ..source::Options::catalogs(limits::from_env()?, images) };
    let mut fbc = Fbc::default();
    let mut loaded = source::load_catalog(&mut fbc, configs, &options)?;
    // A catalog that cannot be read completely can only be copied.
    let whole = loaded.problems.is_empty() && fbc.orphans().next().is_none();
    let layout = match wanted {
        Some(Files::Image) => None,
        Some(Files::New(layout)) if whole => Some(layout),
        Some(Files::New(_)) => {
            report::show(printer, &report::find(&fbc, &loaded.problems));
            let text =
                format!("index image \"{reference}\": cannot rewrite its files; use --layout image to copy them");
            return Err(Failure::message(text));
        }
        None => (whole && holds_several_packages(&fbc)).then_some(Layout::Package),
    };
    if let Some(layout) = layout {
        return Ok(source::write(&fbc, target, layout)?);
    }
    for problem in loaded.problems.iter().filter(|problem| problem.rule == UNREADABLE) {
        printer.warning(&format!("left out: {}", problem.message));
    }
    tree::warn_of_unportable(&loaded.members.remove_unportable(root)?, printer);
    Ok(loaded.members.copy_to(target)?)
}

/// Returns whether a file of a catalog holds blobs of several packages.
fn holds_several_packages(fbc: &Fbc) -> bool {
    let mut packages: HashMap<FileId, &str> = HashMap::new();
    let placed = fbc.blobs().iter().filter_map(|blob| Some((blob.origin?.0, &*blob.package)));
    placed.into_iter().any(|(file, package)| *packages.entry(file).or_insert(package) != package)
}

/// Converts a database to files.
fn unpack_database(file: &Path, target: &Path, layout: Layout, images: &Images) -> Outcome {
    let options = source::Options { keep_text: true, ..source::Options::catalogs(limits::from_env()?, images) };
    let mut fbc = Fbc::default();
    source::load_database(&mut fbc, file, &options)?;
    Ok(source::write(&fbc, target, layout)?)
}

/// Derives the directory name from the image.
fn directory_of(reference: &str) -> Result<PathBuf, Failure> {
    let wrong = |error: String| Failure::message(format!("error pulling image from remote registry. Error: {error}"));
    let name = match Location::parse(reference).map_err(|error| wrong(error.to_string()))? {
        Location::Registry(reference) => reference.repository().rsplit('/').next().map(PathBuf::from),
        Location::Layout { path, .. } | Location::LayoutArchive { path, .. } | Location::DockerArchive { path, .. } => {
            path.file_stem().map(|name| PathBuf::from(format!("{}.unpacked", name.to_string_lossy())))
        }
    };
    name.filter(|name| !name.as_os_str().is_empty())
        .ok_or_else(|| Failure::message(format!("{reference}: cannot derive a directory name; give --unpack-dir")))
}
