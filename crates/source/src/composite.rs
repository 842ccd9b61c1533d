//! Catalogs of composite templates: their components become files of catalog directories, all or none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Component as Step, Path, PathBuf};
use std::process::{Command, Stdio};

use catalog::{Problems, Warnings};
use edit::template::composite::{self, Component, ComponentError, Inputs};
use edit::template::{Bundles, Template, line_of};
use fbc::fault::{Class, Fault};
use fbc::scratch::{TempFile, TempFolder, umasked};
use fbc::stream::StreamError;
use fbc::{Fbc, Format, Limits};

use crate::error::SourceError;
use crate::images::Images;
use crate::load::{LoadedCatalog, SourceOptions, load_catalog, read};
use crate::resolve::NamedSource;

/// A composite template to render.
pub struct CompositeRequest<'a> {
    /// The file that lists the components.
    pub composite: &'a str,
    /// The file that lists the catalogs, or its URL.
    pub catalogs: &'a str,
    /// The format of the files.
    pub format: Format,
    /// Whether to validate the catalogs.
    pub validate: bool,
    /// Size limits.
    pub limits: &'a Limits,
    /// Reads a file that the user names.
    pub read: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
    /// Receives each component before it is written.
    pub rendered: &'a dyn Fn(&Fbc),
}

/// Why a composite template was not rendered; no file has changed.
#[derive(Debug, thiserror::Error)]
pub enum CompositeError {
    /// A file cannot be read.
    #[error("unable to open {file:?}: {source}")]
    Open {
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file of the catalogs cannot be downloaded.
    #[error("unable to open {url:?}: {source}")]
    Download {
        /// Its URL.
        url: String,
        /// The cause.
        source: image::Error,
    },
    /// A file cannot be parsed.
    #[error("rendering template: {file}:{line}: {source}")]
    Syntax {
        file: String,
        line: usize,
        /// The cause.
        source: StreamError,
    },
    /// The files do not fit together.
    #[error("rendering template: {0}")]
    Plan(#[from] composite::CompositeFaults),
    /// The user decides where files are written, not a web server.
    #[error("{url}: working directory {directory:?} of catalog {catalog:?} must be below the current directory")]
    Outside {
        /// The URL of the file that names the directory.
        url: String,
        directory: PathBuf,
        catalog: String,
    },
    /// A component cannot be rendered.
    #[error("rendering template: components[{number}] of catalog {catalog:?}: {source}")]
    Component {
        /// Its place in the file.
        number: usize,
        /// Its catalog.
        catalog: String,
        /// The cause.
        source: ComponentError,
    },
    /// The blobs of a component cannot be written.
    #[error("rendering template: components[{number}] of catalog {catalog:?}: {source}")]
    Blobs {
        /// Its place in the file.
        number: usize,
        /// Its catalog.
        catalog: String,
        /// The cause.
        source: io::Error,
    },
    /// Catalogs would not be valid.
    #[error("validation failed")]
    Invalid(InvalidDirectories),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A catalog or the registry client cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Fault for CompositeError {
    fn class(&self) -> Class {
        match self {
            CompositeError::Source(error) => error.class(),
            _ => Class::Refused,
        }
    }
}

/// Catalogs that would not be valid. Their files exist as long as this value, for the positions of problems.
#[derive(Debug)]
pub struct InvalidDirectories {
    pub catalogs: Vec<InvalidDirectory>,
    _staging: TempFolder,
}

/// A catalog directory that would not be valid.
pub struct InvalidDirectory {
    pub directory: PathBuf,
    /// The copy that the problems are about.
    pub copy: PathBuf,
    /// Its blobs.
    pub fbc: Fbc,
    /// The broken rules.
    pub problems: Problems,
}

impl std::fmt::Debug for InvalidDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InvalidDirectory").field("directory", &self.directory).finish_non_exhaustive()
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> CompositeError + '_ {
    move |source| CompositeError::File { path: path.to_owned(), source }
}

/// Renders all files to a temporary directory, validates the resulting catalogs, and moves the files into place.
///
/// # Errors
/// Fails as [`CompositeError`] says.
pub fn render_composite(
    request: &CompositeRequest<'_>,
    images: &Images,
    bundles: &mut Bundles<'_>,
) -> Result<(), CompositeError> {
    let components = components(request, images)?;
    let staging = TempFolder::private("opm-composite-").map_err(at(&std::env::temp_dir()))?;
    let beside = Path::new(request.composite).parent().unwrap_or(Path::new(""));
    let mut rendered = Vec::new();
    for (number, component) in components.iter().enumerate() {
        let catalog = || component.catalog.clone();
        let fbc = component
            .render(beside, &Local(request), request.limits, bundles)
            .map_err(|source| CompositeError::Component { number, catalog: catalog(), source })?;
        (request.rendered)(&fbc);
        let file = staging.path().join(format!("part-{number}"));
        let mut out = BufWriter::new(fs::File::create_new(&file).map_err(at(&file))?);
        fbc.write(&fbc.in_order(), request.format, &mut out).map_err(|source| CompositeError::Blobs {
            number,
            catalog: catalog(),
            source,
        })?;
        out.flush().map_err(at(&file))?;
        rendered.push(file);
    }
    if request.validate {
        let catalogs = invalid(&components, &rendered, staging.path(), request.limits, images)?;
        if !catalogs.is_empty() {
            return Err(CompositeError::Invalid(InvalidDirectories { catalogs, _staging: staging }));
        }
    }
    put_in_place(&components, &rendered)
}

/// Reads both files and returns the components.
fn components(request: &CompositeRequest<'_>, images: &Images) -> Result<Vec<Component>, CompositeError> {
    let limits = request.limits;
    let from_web = request.catalogs.starts_with("http://") || request.catalogs.starts_with("https://");
    let open =
        |file: &str| (request.read)(file).map_err(|source| CompositeError::Open { file: file.to_owned(), source });
    let catalogs = match from_web {
        true => images
            .client()?
            .download(request.catalogs, limits.file_size)
            .map_err(|source| CompositeError::Download { url: request.catalogs.to_owned(), source })?,
        false => open(request.catalogs)?,
    };
    let composite = open(request.composite)?;
    let catalogs_file = parse(request.catalogs, &catalogs, limits)?;
    let components = composite::plan(&catalogs_file, &parse(request.composite, &composite, limits)?)?;
    let is_below = |directory: &Path| directory.components().all(|step| matches!(step, Step::Normal(_) | Step::CurDir));
    match components.iter().find(|component| from_web && !is_below(&component.working_dir)) {
        None => Ok(components),
        Some(component) => Err(CompositeError::Outside {
            url: request.catalogs.to_owned(),
            directory: component.working_dir.clone(),
            catalog: component.catalog.clone(),
        }),
    }
}

fn parse<'a>(file: &str, text: &'a [u8], limits: &Limits) -> Result<Template<'a>, CompositeError> {
    Template::parse(text, limits).map_err(|source| CompositeError::Syntax {
        file: file.to_owned(),
        line: line_of(text, source.offset),
        source,
    })
}

/// The files and programs of this machine.
struct Local<'a>(&'a CompositeRequest<'a>);

impl Inputs for Local<'_> {
    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        (self.0.read)(&file.to_string_lossy())
    }

    fn output_of(&self, command: &str, args: &[String], directory: &Path) -> io::Result<Vec<u8>> {
        let limit = self.0.limits.file_size;
        let mut child = Command::new(command)
            .args(args)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut text = Vec::new();
        let read = match child.stdout.take() {
            Some(out) => out.take(limit.saturating_add(1)).read_to_end(&mut text).map(drop),
            None => Ok(()),
        };
        if read.is_err() || text.len() as u64 > limit {
            // The program can block forever on a full pipe.
            let _ = child.kill();
        }
        let status = child.wait()?;
        read?;
        if text.len() as u64 > limit {
            return Err(io::Error::other(format!("output exceeds the limit of {limit} bytes")));
        }
        if status.success() { Ok(text) } else { Err(io::Error::other(status.to_string())) }
    }
}

/// Checks every directory in its future state, the existing files plus the new ones; returns those that are not valid.
fn invalid(
    components: &[Component],
    rendered: &[PathBuf],
    staging: &Path,
    limits: &Limits,
    images: &Images,
) -> Result<Vec<InvalidDirectory>, CompositeError> {
    let mut directories: BTreeMap<PathBuf, Vec<(&Path, &Path)>> = BTreeMap::new();
    for (component, file) in components.iter().zip(rendered) {
        directories.entry(component.directory()).or_default().push((&component.output, file));
    }
    let mut invalid = Vec::new();
    for (number, (directory, files)) in directories.into_iter().enumerate() {
        let copy = staging.join(format!("catalog-{number}"));
        fs::create_dir(&copy).map_err(at(&copy))?;
        let options = SourceOptions::catalogs(limits.clone(), images);
        if directory.exists() {
            let existing = load_catalog(&mut Fbc::default(), &directory, &options);
            existing.and_then(|existing| existing.members.copy_to(&copy)).map_err(at(&directory))?;
        }
        for (output, file) in files {
            let target = copy.join(output);
            let placed = target.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(file, &target));
            placed.map_err(at(&target))?;
        }
        let shown = directory.to_string_lossy();
        let LoadedCatalog { fbc, checked } =
            read(&shown, &NamedSource::Catalog(copy.clone()), &options, Warnings::Off)?;
        if let Err(problems) = checked.catalog {
            invalid.push(InvalidDirectory { directory, copy, fbc, problems });
        }
    }
    Ok(invalid)
}

/// Writes all files next to their targets, then renames them.
fn put_in_place(components: &[Component], rendered: &[PathBuf]) -> Result<(), CompositeError> {
    let mut ready = Vec::new();
    for (component, file) in components.iter().zip(rendered) {
        let target = component.directory().join(&component.output);
        let parent = target.parent().unwrap_or(Path::new("."));
        let place = || -> io::Result<TempFile> {
            fs::create_dir_all(parent)?;
            let mut new = TempFile::create(parent, ".opm-composite-")?;
            io::copy(&mut fs::File::open(file)?, new.file())?;
            new.file().sync_all()?;
            Ok(new)
        };
        let new = place().map_err(at(&target))?;
        ready.push((new, target));
    }
    for (new, target) in ready {
        new.finish(&target, umasked(0o666)).map_err(at(&target))?;
    }
    Ok(())
}
