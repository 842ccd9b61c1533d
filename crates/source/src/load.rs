//! Loads and checks catalogs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bundle::ImageTemplate;
use catalog::{Catalog, CheckOutcome, Warnings};
use fbc::blob::TextBuffer;
use fbc::json::Raw;
use fbc::load::Inspect;
use fbc::{Blob, Fbc, Limits, LoadOptions, LoadReport, Problem};
use rayon::prelude::*;

use crate::database::load_database;
use crate::error::{Invalid, SourceError, at};
use crate::images::Images;
use crate::progress::SourceStage;
use crate::resolve::{NamedSource, resolve, resolve_one};

/// How sources are loaded.
pub struct SourceOptions<'a> {
    /// Limits for untrusted input.
    pub limits: Limits,
    /// Pulls images, and receives progress and warnings.
    pub images: &'a Images,
    /// Whether to refuse bundles.
    pub catalogs_only: bool,
    /// Whether to refuse catalogs that are single files.
    pub directories_only: bool,
    /// Whether to keep the text of blobs after loading.
    pub keep_text: bool,
    /// Whether to migrate bundles to the current format.
    pub migrate: bool,
    /// The template for images of bundle directories.
    pub image_template: Option<&'a ImageTemplate>,
    /// A callback for each blob.
    pub inspect: Option<&'a Inspect<'a>>,
}

impl<'a> SourceOptions<'a> {
    /// Returns the options for catalogs whose text is not needed.
    pub fn catalogs(limits: Limits, images: &'a Images) -> SourceOptions<'a> {
        SourceOptions {
            limits,
            images,
            catalogs_only: true,
            directories_only: false,
            keep_text: false,
            migrate: false,
            image_template: None,
            inspect: None,
        }
    }
}

/// Sources of which some cannot be used.
pub struct Rejected {
    /// The blobs of those that can.
    pub fbc: Fbc,
    /// The others, in their order.
    pub failed: Vec<(String, Failed)>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, failed)) in self.failed.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}render reference \"{name}\": {failed}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Rejected {}

/// Why a source cannot be used.
pub enum Failed {
    /// It cannot be read.
    Error(SourceError),
    /// Its files have problems.
    Problems(Vec<Problem>),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Error(error) => error.fmt(f),
            Failed::Problems(problems) => {
                f.write_str(&problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Loads sources in order into one [`Fbc`].
///
/// # Errors
/// Fails when some cannot be used, and returns what is wrong with each of them.
pub fn load(references: &[String], options: &SourceOptions<'_>) -> Result<Fbc, Box<Rejected>> {
    let names: Vec<&str> = references.iter().map(String::as_str).collect();
    let mut sources = names.iter().copied().zip(resolve(&names, options.images)).peekable();
    let mut fbc = Fbc::default();
    let mut failed = Vec::new();
    while let Some((reference, source)) = sources.next() {
        let mut fail = |reference: &str, error| failed.push((reference.to_owned(), Failed::Error(error)));
        match source {
            Ok(NamedSource::Catalog(path)) if options.directories_only && path.is_file() => {
                fail(reference, SourceError::FileType(reference.to_owned()));
            }
            Ok(NamedSource::Catalog(path)) => match load_catalog(&mut fbc, &path, options) {
                Ok(loaded) if loaded.problems.is_empty() => {}
                Ok(loaded) => failed.push((reference.to_owned(), Failed::Problems(loaded.problems))),
                Err(error) => fail(reference, error.into()),
            },
            Ok(NamedSource::Bundle(..)) if options.catalogs_only => {
                fail(reference, SourceError::BundleNotAllowed(reference.to_owned()));
            }
            Ok(NamedSource::Bundle(path, image)) => {
                // There can be hundreds of bundles: render consecutive ones in parallel.
                let mut together = vec![(reference, path, image)];
                while let Some((reference, source)) =
                    sources.next_if(|(_, next)| matches!(next, Ok(NamedSource::Bundle(..))))
                {
                    if let Ok(NamedSource::Bundle(path, image)) = source {
                        together.push((reference, path, image));
                    }
                }
                for (reference, outcome) in load_bundles(&fbc, &together, options) {
                    match outcome {
                        Ok((blob, warnings)) => {
                            fbc.push(blob);
                            for warning in warnings {
                                options.images.progress().warn(&format!("{reference}: {warning}"));
                            }
                        }
                        Err(error) => fail(reference, error),
                    }
                }
            }
            Ok(NamedSource::Database(path)) => {
                if let Err(error) = load_database(&mut fbc, &path, options) {
                    fail(reference, error);
                }
            }
            Err(error) => fail(reference, error),
        }
    }
    if failed.is_empty() { Ok(fbc) } else { Err(Box::new(Rejected { fbc, failed })) }
}

/// Appends a catalog, a directory or a single file, to `fbc`.
///
/// # Errors
/// Fails when the directory or the file cannot be read.
pub fn load_catalog(fbc: &mut Fbc, path: &Path, options: &SourceOptions<'_>) -> io::Result<LoadReport> {
    let running = options.images.progress().start(SourceStage::Reading);
    let load_options = LoadOptions {
        limits: options.limits.clone(),
        keep_text: options.keep_text,
        migrate: options.migrate,
        inspect: options.inspect,
        progress: Some(&|bytes| running.advance(bytes)),
    };
    match path.is_file() {
        true => fbc.load_file(path, &load_options),
        false => fbc.load_dir(path, &load_options),
    }
}

type BundleOutcome<'a> = (&'a str, Result<(Blob, Vec<String>), SourceError>);

fn load_bundles<'a>(
    fbc: &Fbc,
    bundles: &[(&'a str, PathBuf, String)],
    options: &SourceOptions<'_>,
) -> Vec<BundleOutcome<'a>> {
    let running = options.images.progress().start(SourceStage::Rendering);
    let (image_template, migrate, limits) = (options.image_template, options.migrate, &options.limits);
    bundles
        .par_iter()
        .with_max_len(1)
        .map(|(reference, path, image)| {
            let render = bundle::RenderOptions { image, image_template, migrate, limits: limits.clone() };
            let outcome = bundle::render(path, &render)
                .map_err(SourceError::from)
                .and_then(|rendered| Ok((fbc.generated_blob(&rendered.json, limits)?, rendered.warnings)));
            running.advance(1);
            (*reference, outcome)
        })
        .collect()
}

/// A catalog, and whether it is valid.
pub struct LoadedCatalog {
    /// Its blobs.
    pub fbc: Fbc,
    /// The catalog or its problems, and its warnings.
    pub checked: CheckOutcome,
}

impl LoadedCatalog {
    /// Returns the catalog.
    ///
    /// # Errors
    /// Fails when the catalog breaks a rule.
    pub fn valid(self) -> Result<(Fbc, Catalog), SourceError> {
        match self.checked.catalog {
            Ok(catalog) => Ok((self.fbc, catalog)),
            Err(problems) => Err(SourceError::Invalid(Box::new(Invalid { fbc: self.fbc, problems }))),
        }
    }
}

/// Opens, loads and checks a catalog.
///
/// # Errors
/// Fails when the name means something else, or the catalog cannot be read. A catalog that breaks rules is returned.
pub fn open(reference: &str, options: &SourceOptions<'_>, warnings: Warnings) -> Result<LoadedCatalog, SourceError> {
    match resolve_one(reference, options.images)? {
        NamedSource::Bundle(..) => Err(SourceError::NotAnIndex(reference.to_owned())),
        found => read(reference, &found, options, warnings),
    }
}

/// Loads and checks a catalog.
///
/// # Errors
/// Fails when the source is a bundle, or cannot be read. A catalog that breaks rules is returned.
pub fn read(
    reference: &str,
    found: &NamedSource,
    options: &SourceOptions<'_>,
    warnings: Warnings,
) -> Result<LoadedCatalog, SourceError> {
    let rules = catalog::inspect(warnings);
    let inspect = |blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>| {
        rules(blob, text, problems);
        if let Some(look) = options.inspect {
            look(blob, text, problems);
        }
    };
    let options = SourceOptions { limits: options.limits.clone(), inspect: Some(&inspect), ..*options };
    let (fbc, loaded) = read_unchecked(reference, found, &options)?;
    let checked = catalog::check(&fbc, loaded, warnings);
    Ok(LoadedCatalog { fbc, checked })
}

/// Loads a catalog without the rules.
///
/// # Errors
/// Fails when the source is a bundle, or cannot be read. Problems with its files are returned.
pub fn read_unchecked(
    reference: &str,
    found: &NamedSource,
    options: &SourceOptions<'_>,
) -> Result<(Fbc, LoadReport), SourceError> {
    let mut fbc = Fbc::default();
    let loaded = match found {
        NamedSource::Catalog(path) => load_catalog(&mut fbc, path, options).map_err(at(path))?,
        NamedSource::Database(path) => {
            load_database(&mut fbc, path, options)?;
            let mut loaded = LoadReport::default();
            if let Some(inspect) = options.inspect {
                let mut buffer = TextBuffer::default();
                for blob in fbc.blobs() {
                    inspect(blob, fbc.text(blob, &mut buffer)?, &mut loaded.problems);
                }
            }
            loaded
        }
        NamedSource::Bundle(..) => return Err(SourceError::Bundle(reference.to_owned())),
    };
    Ok((fbc, loaded))
}
