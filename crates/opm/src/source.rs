//! Whatever the user names, as catalogs: the single answer to "what is this reference?".

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bundle::ImageTemplate;
use edit::template::RenderedBundle;
use fbc::{Blob, Fbc, Limits, LoadOptions, Loaded, Problem};
use rayon::prelude::*;

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;
use crate::progress::{Progress, Unit};
use crate::report;

/// What a reference turned out to be.
pub(crate) enum Source {
    /// A directory with a file-based catalog.
    Catalog(PathBuf),
    /// A directory with a bundle.
    Bundle(PathBuf),
}

/// The beginning of every SQLite file.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Finds out what `reference` is.
pub(crate) fn resolve(reference: &str) -> Result<Source, String> {
    let path = Path::new(reference);
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() && fbc::load::is_bundle_dir(path) => Ok(Source::Bundle(path.into())),
        Ok(metadata) if metadata.is_dir() => Ok(Source::Catalog(path.into())),
        Ok(_) => {
            let mut magic = [0; SQLITE_MAGIC.len()];
            match File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
                Ok(()) if magic == *SQLITE_MAGIC => {
                    Err(format!("\"{reference}\" is a database index, which this version cannot read"))
                }
                _ => Err(format!("ref \"{reference}\" has unsupported file type: catalogs are given as directories")),
            }
        }
        Err(error) => Err(format!(
            "\"{reference}\" is not a directory ({error}), and this version cannot pull images: unpack it first"
        )),
    }
}

/// How references become catalogs.
pub(crate) struct Options<'a> {
    pub(crate) limits: Limits,
    /// Whether the text of blobs is needed after loading.
    pub(crate) keep_text: bool,
    /// Whether bundles are brought to the newest form.
    pub(crate) migrate: bool,
    /// Makes the image of a bundle directory.
    pub(crate) image_template: Option<&'a ImageTemplate>,
    /// What looks at each blob.
    pub(crate) inspect: Option<&'a fbc::load::Inspect<'a>>,
}

/// Loads references, one after the other, into one [`Fbc`].
///
/// # Errors
/// Fails when something is wrong with any of them, after telling all of it.
pub(crate) fn load(references: &[String], options: &Options<'_>, printer: &Printer) -> Result<Fbc, Failure> {
    let mut fbc = Fbc::default();
    let mut rest = references;
    let mut failed = false;
    while let Some((reference, after)) = rest.split_first() {
        let wrong = |message: String| format!("render reference \"{reference}\": {message}");
        match resolve(reference) {
            Ok(Source::Catalog(path)) => {
                let loaded = load_catalog(&mut fbc, &path, options)
                    .map_err(|error| Failure::message(wrong(error.to_string())))?;
                failed |= tell(&fbc, &loaded.problems, reference, printer);
                rest = after;
            }
            Ok(Source::Bundle(_)) => {
                // Bundles come in hundreds: those that stand together are rendered together.
                let together = rest.iter().map_while(|reference| match resolve(reference) {
                    Ok(Source::Bundle(path)) => Some((reference.as_str(), path)),
                    _ => None,
                });
                let together: Vec<(&str, PathBuf)> = together.collect();
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
                rest = &rest[together.len()..];
            }
            Err(message) => {
                printer.error(&wrong(message));
                failed = true;
                rest = after;
            }
        }
    }
    if failed { Err(Failure::Told) } else { Ok(fbc) }
}

/// Loads one catalog directory behind what is loaded already.
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

fn load_bundles<'a>(fbc: &Fbc, bundles: &[(&'a str, PathBuf)], options: &Options<'_>) -> Vec<BundleOutcome<'a>> {
    let progress = Progress::start("rendering", Unit::Bundles);
    let render = bundle::Options {
        image: "",
        image_template: options.image_template,
        migrate: options.migrate,
        limits: options.limits.clone(),
    };
    bundles
        .par_iter()
        .with_max_len(1)
        .map(|(reference, path)| {
            let outcome = bundle::render(path, &render).map_err(|error| error.to_string()).and_then(|rendered| {
                let blob = fbc.make(&rendered.json, &options.limits).map_err(|error| error.to_string())?;
                Ok((blob, rendered.warnings))
            });
            progress.add(1);
            (*reference, outcome)
        })
        .collect()
}

/// Renders the bundle that a template names.
///
/// Older tools take nothing but images, so a directory must look like one.
pub(crate) fn template_bundle(
    reference: &str,
    migrate: bool,
    limits: &Limits,
    printer: &Printer,
) -> Result<RenderedBundle, String> {
    let path = Path::new(reference);
    if !["./", "../", "/"].iter().any(|start| reference.starts_with(start)) {
        return Err(match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                format!("a directory is not allowed in a template; to name a bundle directory, write \"./{reference}\"")
            }
            Ok(_) => "a file is not allowed in a template, only an image or a bundle directory".into(),
            Err(_) => "this version cannot pull images; unpack it, and name its directory as \"./DIRECTORY\"".into(),
        });
    }
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("a file is not allowed in a template, only an image or a bundle directory".into());
    }
    if !fbc::load::is_bundle_dir(path) {
        return Err("a catalog directory is not allowed in a template, only an image or a bundle directory \
            (it holds the directories 'manifests' and 'metadata')"
            .into());
    }
    let options = bundle::Options { image: "", image_template: None, migrate, limits: limits.clone() };
    let rendered = bundle::render(path, &options).map_err(|error| error.to_string())?;
    rendered.warnings.iter().for_each(|warning| printer.warning(&format!("{reference}: {warning}")));
    Ok(RenderedBundle { json: rendered.json, csv: rendered.csv })
}

fn tell(fbc: &Fbc, problems: &[Problem], reference: &str, printer: &Printer) -> bool {
    if problems.is_empty() {
        return false;
    }
    printer.error(&format!("render reference \"{reference}\":"));
    report::tell(printer, &report::find(fbc, problems));
    true
}

/// Loads and checks the one catalog that `reference` names, or tells what is wrong with it.
pub(crate) fn checked(reference: &str, keep_text: bool, printer: &Printer) -> Result<(Fbc, catalog::Catalog), Failure> {
    let path = match resolve(reference) {
        Ok(Source::Catalog(path)) => path,
        Ok(Source::Bundle(_)) => {
            return Err(Failure::message(format!("cannot list non-index \"{reference}\": it is a bundle")));
        }
        Err(message) => return Err(Failure::message(message)),
    };
    let inspect = catalog::inspect(catalog::Warnings::Off);
    let options = Options {
        limits: crate::limits::from_env()?,
        keep_text,
        migrate: false,
        image_template: None,
        inspect: Some(&inspect),
    };
    let mut fbc = Fbc::default();
    let loaded = load_catalog(&mut fbc, &path, &options)
        .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
    let checked = catalog::check(&fbc, loaded, catalog::Warnings::Off);
    match checked.catalog {
        Some(catalog) => Ok((fbc, catalog)),
        None => {
            report::tell(printer, &report::find(&fbc, checked.errors()));
            Err(Failure::Told)
        }
    }
}

/// Warns of blobs that no output can hold, because they name no package.
pub(crate) fn warn_of_homeless(fbc: &Fbc, printer: &Printer) -> Outcome {
    for blob in fbc.homeless() {
        let file = blob.origin.and_then(|(file, _)| fbc.full_path_of(file));
        let file = file.map(|path| format!("{}: ", path.display())).unwrap_or_default();
        let what = if &*blob.schema == fbc::blob::PACKAGE { "has no name" } else { "names no package" };
        printer.warning(&format!("{file}{} \"{}\" {what} and is left out", blob.schema, blob.name));
    }
    Ok(())
}
