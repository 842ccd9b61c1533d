//! Resolves references from the command line: directories, images and databases.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bundle::ImageTemplate;
use edit::template::RenderedBundle;
use fbc::{Blob, Fbc, Limits, LoadOptions, Loaded, Problem};
use image::Location;
use rayon::prelude::*;

use crate::exit::{Failure, Outcome};
use crate::images::{self, Fetched, Images, Kind};
use crate::printer::Printer;
use crate::progress::{Progress, Unit};
use crate::{database, report};

/// A resolved reference.
pub(crate) enum Source {
    /// A directory with a file-based catalog.
    Catalog(PathBuf),
    /// A directory with a bundle, and its image, or an empty string.
    Bundle(PathBuf, String),
    /// A file with a database index.
    Database(PathBuf),
}

/// The magic bytes of SQLite files.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Resolves `references`, and pulls images.
pub(crate) fn resolve(references: &[&str], images: &Images) -> Vec<Result<Source, String>> {
    let mut found: Vec<Option<Result<Source, String>>> = references.iter().map(|one| local(one)).collect();
    let pulled: Vec<&str> = references.iter().zip(&found).filter(|(_, it)| it.is_none()).map(|(one, _)| *one).collect();
    let mut fetched = if pulled.is_empty() { Vec::new() } else { images.fetch(&pulled) }.into_iter();
    for one in found.iter_mut().filter(|one| one.is_none()) {
        *one = fetched.next().map(|fetched| fetched.and_then(|fetched| unpack(&fetched, images)));
    }
    found.into_iter().flatten().collect()
}

/// Resolves `reference`.
pub(crate) fn resolve_one(reference: &str, images: &Images) -> Result<Source, String> {
    resolve(&[reference], images).pop().unwrap_or_else(|| Err("no reference was given".into()))
}

/// Returns the directory of the file-based catalog `reference`; unpacks an image first.
pub(crate) fn catalog_directory(reference: &str, images: &Images) -> Result<PathBuf, Failure> {
    let named = |error: String| Failure::message(format!("\"{reference}\": {error}"));
    let what = match resolve_one(reference, images).map_err(named)? {
        Source::Catalog(path) => return Ok(path),
        Source::Bundle(..) => "a bundle, not a catalog",
        Source::Database(_) => "a database index, not a file-based catalog",
    };
    Err(Failure::message(format!("\"{reference}\" is {what}")))
}

/// Resolves a path; `None` if the reference is not a path.
fn local(reference: &str) -> Option<Result<Source, String>> {
    let path = Path::new(reference);
    let metadata = path.metadata();
    if metadata.is_err() && Location::is_image(reference) {
        return None;
    }
    Some(match metadata {
        Ok(metadata) if metadata.is_dir() && fbc::load::is_bundle_dir(path) => {
            Ok(Source::Bundle(path.into(), String::new()))
        }
        Ok(metadata) if metadata.is_dir() => Ok(Source::Catalog(path.into())),
        Ok(_) if is_database(path) => Ok(Source::Database(path.into())),
        Ok(_) => Err(format!("ref \"{reference}\" has unsupported file type: a catalog must be a directory")),
        Err(error) => Err(no_source(reference).unwrap_or_else(|| error.to_string())),
    })
}

/// Explains why a reference is neither a directory nor an image; `None` if it can be an image.
pub(crate) fn no_source(reference: &str) -> Option<String> {
    let no_image = Location::parse(reference).err()?;
    if reference.is_empty() {
        return Some("the name is empty".into());
    }
    let is_path = ["/", "./", "../"].iter().any(|start| reference.starts_with(start));
    Some(match Path::new(reference).metadata() {
        Ok(_) => "the path is not a directory".into(),
        Err(error) if error.kind() != io::ErrorKind::NotFound => error.to_string(),
        Err(_) if is_path => "the path does not exist".into(),
        Err(_) => format!("the path does not exist, and it is not an image reference: {no_image}"),
    })
}

/// Returns whether a file is a SQLite database, by its magic bytes.
pub(crate) fn is_database(path: &Path) -> bool {
    let mut magic = [0; SQLITE_MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *SQLITE_MAGIC
}

/// Unpacks the catalog, database or bundle of an image.
fn unpack(fetched: &Fetched, images: &Images) -> Result<Source, String> {
    let image = &fetched.image;
    let named = |error: String| format!("image \"{}\": {error}", image.reference);
    let at = |path: &str| {
        let root = images.unpack_aside(image, Some(Path::new(path)))?;
        images::inside(&root, path).map_err(named)
    };
    match &fetched.kind {
        Kind::Catalog(path) => at(path).map(Source::Catalog),
        Kind::Database(path) => at(path).map(Source::Database),
        Kind::Bundle => Ok(Source::Bundle(images.unpack_aside(image, None)?, image.reference.clone())),
        Kind::Other(labels) if labels.is_empty() => Err(format!("render \"{}\": image has no labels", image.reference)),
        Kind::Other(labels) => {
            let labels: String = labels.iter().map(|(name, value)| format!("\n  {name}={value}")).collect();
            let text =
                format!("render \"{}\": image type could not be determined, found labels{labels}", image.reference);
            Err(text)
        }
    }
}

/// Options for loading references.
pub(crate) struct Options<'a> {
    pub(crate) limits: Limits,
    /// Pulls images.
    pub(crate) images: &'a Images,
    /// Whether to refuse bundles.
    pub(crate) catalogs_only: bool,
    /// Whether to keep the text of blobs after loading.
    pub(crate) keep_text: bool,
    /// Whether to migrate bundles to the current format.
    pub(crate) migrate: bool,
    /// The template for images of bundle directories.
    pub(crate) image_template: Option<&'a ImageTemplate>,
    /// A callback for each blob.
    pub(crate) inspect: Option<&'a fbc::load::Inspect<'a>>,
}

impl<'a> Options<'a> {
    /// Returns the options for catalogs whose text is not needed.
    pub(crate) fn catalogs(limits: Limits, images: &'a Images) -> Options<'a> {
        Options {
            limits,
            images,
            catalogs_only: true,
            keep_text: false,
            migrate: false,
            image_template: None,
            inspect: None,
        }
    }
}

/// Loads references in order into one [`Fbc`].
///
/// # Errors
/// Fails if a reference has problems, after reporting the problems of all.
pub(crate) fn load(references: &[String], options: &Options<'_>, printer: &Printer) -> Result<Fbc, Failure> {
    let names: Vec<&str> = references.iter().map(String::as_str).collect();
    let mut sources = names.iter().copied().zip(resolve(&names, options.images)).peekable();
    let mut fbc = Fbc::default();
    let mut failed = false;
    while let Some((reference, source)) = sources.next() {
        let wrong = |message: String| format!("render reference \"{reference}\": {message}");
        match source {
            Ok(Source::Catalog(path)) => {
                let loaded = load_catalog(&mut fbc, &path, options)
                    .map_err(|error| Failure::message(wrong(error.to_string())))?;
                failed |= report(&fbc, &loaded.problems, reference, printer);
            }
            Ok(Source::Bundle(..)) if options.catalogs_only => {
                printer
                    .error(&wrong("cannot render reference: type not allowed: it is a bundle, not a catalog".into()));
                failed = true;
            }
            Ok(Source::Bundle(path, image)) => {
                // There can be hundreds of bundles: render consecutive ones in parallel.
                let mut together = vec![(reference, path, image)];
                while let Some((reference, source)) =
                    sources.next_if(|(_, next)| matches!(next, Ok(Source::Bundle(..))))
                {
                    if let Ok(Source::Bundle(path, image)) = source {
                        together.push((reference, path, image));
                    }
                }
                for (reference, outcome) in load_bundles(&fbc, &together, options) {
                    match outcome {
                        Ok((blob, warnings)) => {
                            fbc.push(blob);
                            warnings.iter().for_each(|warning| printer.warning(&format!("{reference}: {warning}")));
                        }
                        Err(message) => {
                            printer.error(&format!("render reference \"{reference}\": {message}"));
                            failed = true;
                        }
                    }
                }
            }
            Ok(Source::Database(path)) => {
                if let Err(message) = database::load(&mut fbc, &path, options, printer) {
                    printer.error(&wrong(message));
                    failed = true;
                }
            }
            Err(message) => {
                printer.error(&wrong(message));
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(fbc) }
}

/// Appends a catalog directory to `fbc`.
pub(crate) fn load_catalog(fbc: &mut Fbc, path: &Path, options: &Options<'_>) -> io::Result<Loaded> {
    let progress = Progress::start("reading", Unit::Bytes);
    let load_options = LoadOptions {
        limits: options.limits.clone(),
        keep_text: options.keep_text,
        migrate: options.migrate,
        inspect: options.inspect,
        progress: Some(&|bytes| progress.add(bytes)),
    };
    fbc.load_dir(path, &load_options)
}

type BundleOutcome<'a> = (&'a str, Result<(Blob, Vec<String>), String>);

fn load_bundles<'a>(
    fbc: &Fbc,
    bundles: &[(&'a str, PathBuf, String)],
    options: &Options<'_>,
) -> Vec<BundleOutcome<'a>> {
    let progress = Progress::start("rendering", Unit::Bundles);
    let (image_template, migrate, limits) = (options.image_template, options.migrate, &options.limits);
    bundles
        .par_iter()
        .with_max_len(1)
        .map(|(reference, path, image)| {
            let render = bundle::Options { image, image_template, migrate, limits: limits.clone() };
            let outcome = bundle::render(path, &render).map_err(|error| error.to_string()).and_then(|rendered| {
                let blob = fbc.generated_blob(&rendered.json, limits).map_err(|error| error.to_string())?;
                Ok((blob, rendered.warnings))
            });
            progress.add(1);
            (*reference, outcome)
        })
        .collect()
}

/// Renders the bundles of a template in parallel.
///
/// Upstream opm accepts only images, so a directory must start with `./`, `../` or `/`.
pub(crate) fn template_bundles(
    references: &[&str],
    migrate: bool,
    limits: &Limits,
    images: &Images,
    printer: &Printer,
) -> Vec<Result<RenderedBundle, String>> {
    let directories: Vec<Result<Option<PathBuf>, String>> =
        references.iter().map(|reference| template_directory(reference)).collect();
    let pulled = references.iter().zip(&directories).filter(|(_, found)| matches!(found, Ok(None)));
    let pulled: Vec<&str> = pulled.map(|(reference, _)| *reference).collect();
    let mut fetched = if pulled.is_empty() { Vec::new() } else { images.fetch(&pulled) }.into_iter();
    let found: Vec<(&str, Result<Found, String>)> = references
        .iter()
        .zip(directories)
        .map(|(reference, directory)| {
            let found = match directory {
                Ok(Some(path)) => Ok(Found::Directory(path)),
                Ok(None) => match fetched.next() {
                    Some(fetched) => fetched.map(|fetched| Found::Image(Box::new(fetched))),
                    None => Err("no image was pulled".to_owned()),
                },
                Err(message) => Err(message),
            };
            (*reference, found)
        })
        .collect();
    let progress = Progress::start("rendering", Unit::Bundles);
    let rendered: Vec<_> = found
        .into_par_iter()
        .with_max_len(1)
        .map(|(reference, found)| {
            let (path, image) = match found? {
                Found::Directory(path) => (path, ""),
                Found::Image(fetched) => match unpack(&fetched, images)? {
                    Source::Bundle(path, _) => (path, reference),
                    Source::Catalog(_) | Source::Database(_) => {
                        return Err("a catalog is not allowed in a template, only a bundle".to_owned());
                    }
                },
            };
            let options = bundle::Options { image, image_template: None, migrate, limits: limits.clone() };
            let rendered = bundle::render(&path, &options).map_err(|error| error.to_string());
            progress.add(1);
            rendered
        })
        .collect();
    drop(progress);
    let bundles = references.iter().zip(rendered).map(|(reference, rendered)| {
        let rendered = rendered?;
        rendered.warnings.iter().for_each(|warning| printer.warning(&format!("{reference}: {warning}")));
        Ok(RenderedBundle { json: rendered.json.into_string(), csv: rendered.csv.map(fbc::json::Text::into_string) })
    });
    bundles.collect()
}

/// The location of a template's bundle.
enum Found {
    Directory(PathBuf),
    Image(Box<Fetched>),
}

/// Returns the bundle directory that a template names; `None` if the reference is an image.
fn template_directory(reference: &str) -> Result<Option<PathBuf>, String> {
    let path = Path::new(reference);
    if ["./", "../", "/"].iter().any(|start| reference.starts_with(start)) {
        check_template_directory(path)?;
        return Ok(Some(path.to_path_buf()));
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(format!("a directory is not allowed in a template; for a bundle directory, write \"./{reference}\""))
        }
        Ok(_) => Err("a file is not allowed in a template, only an image or a bundle directory".into()),
        Err(_) => Ok(None),
    }
}

fn check_template_directory(path: &Path) -> Result<(), String> {
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("a file is not allowed in a template, only an image or a bundle directory".into());
    }
    if !fbc::load::is_bundle_dir(path) {
        return Err("a catalog directory is not allowed in a template, only an image or a bundle directory \
            (with 'manifests' and 'metadata')"
            .into());
    }
    Ok(())
}

fn report(fbc: &Fbc, problems: &[Problem], reference: &str, printer: &Printer) -> bool {
    if problems.is_empty() {
        return false;
    }
    printer.error(&format!("render reference \"{reference}\":"));
    report::show(printer, &report::find(fbc, problems));
    true
}

/// Loads and checks the catalog `reference`, or reports its problems.
pub(crate) fn checked(
    reference: &str,
    keep_text: bool,
    images: &Images,
    printer: &Printer,
) -> Result<(Fbc, catalog::Catalog), Failure> {
    let (path, is_database) = match resolve_one(reference, images) {
        Ok(Source::Catalog(path)) => (path, false),
        Ok(Source::Database(path)) => (path, true),
        Ok(Source::Bundle(..)) => {
            return Err(Failure::message(format!("cannot list non-index \"{reference}\": it is a bundle")));
        }
        Err(message) => return Err(Failure::message(message)),
    };
    let inspect = catalog::inspect(catalog::Warnings::Off);
    let options =
        Options { keep_text, inspect: Some(&inspect), ..Options::catalogs(crate::limits::from_env()?, images) };
    let mut fbc = Fbc::default();
    let loaded = if is_database {
        database::load(&mut fbc, &path, &options, printer).map(|()| Loaded::default()).map_err(Failure::message)?
    } else {
        load_catalog(&mut fbc, &path, &options)
            .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?
    };
    let checked = catalog::check(&fbc, loaded, catalog::Warnings::Off);
    match checked.catalog {
        Ok(catalog) => Ok((fbc, catalog)),
        Err(problems) => {
            report::show(printer, &report::find(&fbc, problems.errors()));
            Err(Failure::Reported)
        }
    }
}

/// Warns about blobs that are dropped because they name no package.
pub(crate) fn warn_of_dropped(fbc: &Fbc, printer: &Printer) -> Outcome {
    for blob in fbc.orphans() {
        let file = blob.origin.and_then(|(file, _)| fbc.full_path_of(file));
        let file = file.map(|path| format!("{}: ", path.display())).unwrap_or_default();
        let what = if &*blob.schema == fbc::blob::PACKAGE { "has no name" } else { "names no package" };
        printer.warning(&format!("{file}{} \"{}\" {what} and is dropped", blob.schema, blob.name));
    }
    Ok(())
}
