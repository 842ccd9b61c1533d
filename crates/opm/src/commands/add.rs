//! `opm alpha add`: bundles into a catalog directory, in place.

pub(crate) mod blobs;
mod file;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bundle::Contents;
use fbc::indexignore::IndexIgnore;
use fbc::{Fbc, Limits, Severity, blob};

use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::source::{self, Source};
use crate::{limits, report, tree};
use file::CatalogFile;

const IGNORE_FILE: &str = ".indexignore";
pub(crate) const OBJECTS_IGNORED: &str = "# Manifests that bundles refer to.\n**/objects/*\n";

/// Add bundles to a catalog directory
#[derive(clap::Args)]
#[command(
    long_about = "Add bundles to a catalog directory, in place.\n\n\
        Bundles are given as images or as directories. Each becomes an entry of the channels that its annotations \
        name; their objects become files next to the catalog file of the package, which .indexignore names. A new package gets a directory of \
        its own. Everything is added or nothing, and only the files of the packages concerned are written.\n\n\
        Afterwards the catalog is checked; what is wrong is told, but the bundles stay.",
    after_help = "Examples:\n  \
        opm alpha add my-catalog quay.io/me/foo-bundle:v1.0.0\n  \
        opm alpha add my-catalog ./foo-bundle --channels stable,candidate --replaces foo.v0.9.0"
)]
pub(crate) struct AddArgs {
    /// Directory of the catalog
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Images or directories of bundles
    #[arg(value_name = "BUNDLE", required = true)]
    bundles: Vec<String>,
    /// Channels to add the bundles to, in place of those that they name
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    channels: Vec<String>,
    /// Default channel of a package that is new
    #[arg(long, value_name = "NAME")]
    default_channel: Option<String>,
    /// Bundle that the new one replaces, in place of the one that it names; empty for none
    #[arg(long, value_name = "NAME")]
    replaces: Option<String>,
    /// Bundles that are skipped, in place of those that the new one names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    skips: Option<Vec<String>>,
    /// Versions that can upgrade directly, in place of those that the new one names
    #[arg(long, value_name = "RANGE")]
    skip_range: Option<String>,
    /// Tell what is added, and where
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// The catalog as it will be.
struct Catalog {
    root: PathBuf,
    /// The files that hold the `olm.package` blobs.
    packages: BTreeMap<String, PathBuf>,
    /// The files that hold channels, by package and name; none for those that were given by properties.
    channels: BTreeMap<(String, String), Option<PathBuf>>,
    bundles: BTreeSet<(String, String)>,
    /// The files that change.
    files: BTreeMap<PathBuf, CatalogFile>,
    /// The objects that are new, by directory: names and contents.
    objects: BTreeMap<PathBuf, Vec<(String, Vec<u8>)>>,
    /// The file that says what is no catalog content, if it changes.
    ignore: Option<(PathBuf, Vec<u8>)>,
    limits: Limits,
}

pub(crate) fn run(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    if args.bundles.len() > 1 && (args.replaces.is_some() || args.skips.is_some() || args.skip_range.is_some()) {
        return Err(Failure::message("--replaces, --skips and --skip-range are for one bundle at a time"));
    }
    let limits = limits::from_env()?;
    let (fbc, mut catalog) = load(&args.directory, &limits, printer)?;
    let images = Images::new(tls, &args.pull);
    let names: Vec<&str> = args.bundles.iter().map(String::as_str).collect();
    for (name, source) in names.iter().zip(source::resolve(&names, &images)) {
        let (path, image) = match source {
            Ok(Source::Bundle(path, image)) => (path, image),
            Ok(_) => return Err(interpreting(name, "it is a catalog, not a bundle")),
            Err(error) => {
                return Err(Failure::message(format!("error pulling image \"{name}\" into registry: {error}")));
            }
        };
        let options = bundle::Options { image: &image, image_template: None, migrate: false, limits: limits.clone() };
        let rendered = bundle::render(&path, &options).map_err(|error| interpreting(name, &error.to_string()))?;
        let contents = bundle::read(&path, &limits).map_err(|error| interpreting(name, &error.to_string()))?;
        rendered.warnings.iter().for_each(|warning| printer.warning(&format!("{name}: {warning}")));
        let added = catalog.add(args, contents, &rendered.json)?;
        if args.debug {
            printer.tell(&format!("{name}: {added}"));
        }
    }
    if !fbc.is_current() {
        return Err(Failure::message(format!("{}: the catalog changed meanwhile", args.directory.display())));
    }
    write::write(&catalog)?;
    tell_findings(&args.directory, &limits, printer)
}

fn interpreting(name: &str, error: &str) -> Failure {
    Failure::message(format!("error interpreting bundle image \"{name}\": {error}"))
}

/// Loads the catalog without looking at its meaning, which may well be unfinished.
fn load(directory: &Path, limits: &Limits, printer: &Printer) -> Result<(Fbc, Catalog), Failure> {
    let wrong =
        |error: String| Failure::message(format!("error loading directory \"{}\": {error}", directory.display()));
    if !directory.is_dir() {
        return Err(wrong("not a directory".into()));
    }
    let mut fbc = Fbc::default();
    let options = fbc::LoadOptions { limits: limits.clone(), ..fbc::LoadOptions::default() };
    let loaded = fbc.load_dir(directory, &options).map_err(|error| wrong(error.to_string()))?;
    if loaded.problems.iter().any(|problem| problem.severity == Severity::Error) {
        printer.error(&format!("error loading directory \"{}\":", directory.display()));
        report::tell(printer, &report::find(&fbc, &loaded.problems));
        return Err(Failure::Told);
    }
    let mut catalog = Catalog {
        root: directory.into(),
        packages: BTreeMap::new(),
        channels: BTreeMap::new(),
        bundles: BTreeSet::new(),
        files: BTreeMap::new(),
        objects: BTreeMap::new(),
        ignore: None,
        limits: limits.clone(),
    };
    for blob in fbc.blobs() {
        let file = blob.origin.and_then(|(file, _)| fbc.full_path_of(file));
        let (package, name) = (blob.package.to_string(), blob.name.to_string());
        match (&*blob.schema, file) {
            (blob::PACKAGE, Some(file)) => drop(catalog.packages.insert(name, file)),
            (blob::CHANNEL, file) => drop(catalog.channels.insert((package, name), file)),
            (blob::BUNDLE, _) => drop(catalog.bundles.insert((package, name))),
            _ => {}
        }
    }
    Ok((fbc, catalog))
}

impl Catalog {
    /// Adds a bundle; says what came of it.
    fn add(&mut self, args: &AddArgs, mut contents: Contents, json: &str) -> Result<String, Failure> {
        let (package, name) = (contents.package.clone(), contents.name.clone());
        if self.bundles.contains(&(package.clone(), name.clone())) {
            return Err(Failure::message(format!("bundle \"{name}\" already exists in package \"{package}\"")));
        }
        for (what, text) in [("package", &package), ("bundle", &name)] {
            if matches!(text.as_str(), "" | "." | "..") || text.contains(['/', '\0']) || text.len() > 200 {
                return Err(Failure::message(format!("invalid name of a {what} {text:?}: it names a file")));
            }
        }
        if !args.channels.is_empty() {
            contents.channels.clone_from(&args.channels);
        }
        contents.channels.retain(|channel| !channel.is_empty());
        if contents.channels.is_empty() {
            return Err(Failure::message(format!("bundle \"{name}\" names no channel: say --channels")));
        }
        if let Some(replaces) = &args.replaces {
            contents.replaces.clone_from(replaces);
        }
        if let Some(skips) = &args.skips {
            contents.skips = skips.iter().filter(|skip| !skip.is_empty()).cloned().collect();
        }
        if let Some(range) = &args.skip_range {
            contents.skip_range.clone_from(range);
        }
        let file = match self.packages.get(&package) {
            Some(file) => file.clone(),
            None => {
                let file = self.root.join(&package).join(format!("{package}.json"));
                let default = args.default_channel.clone().unwrap_or_else(|| match contents.default_channel.as_str() {
                    "" => contents.channels[0].clone(),
                    default => default.to_owned(),
                });
                let text = blobs::package(&package, &default, &contents.csv).map_err(Failure::message)?;
                self.file(&file)?.add(&text)?;
                self.packages.insert(package.clone(), file.clone());
                file
            }
        };
        for channel in contents.channels.clone() {
            self.add_to_channel(&package, &channel, &contents, &file)?;
        }
        let (text, objects) = blobs::bundle(json, &name).map_err(Failure::message)?;
        self.file(&file)?.add(&text)?;
        let directory = file.with_file_name("objects").join(&name);
        if directory.symlink_metadata().is_ok() {
            return Err(Failure::message(format!("{} is there already", directory.display())));
        }
        if !objects.is_empty() {
            self.ignore(&directory)?;
            self.objects.insert(directory, objects);
        }
        self.bundles.insert((package.clone(), name.clone()));
        Ok(format!("bundle \"{name}\" of package \"{package}\" goes to {}", file.display()))
    }

    fn add_to_channel(&mut self, package: &str, channel: &str, contents: &Contents, file: &Path) -> Outcome {
        let key = (package.to_owned(), channel.to_owned());
        let entry = blobs::entry(contents);
        match self.channels.get(&key).cloned() {
            Some(Some(at)) => self.file(&at)?.extend_channel(package, channel, &entry).map_err(Failure::message),
            Some(None) => Err(Failure::message(format!(
                "package \"{package}\" gives its channels as properties of its bundles: \
                 bring the catalog up to date with 'opm migrate' first"
            ))),
            None => {
                self.file(file)?.add(&blobs::channel(package, channel, &entry))?;
                self.channels.insert(key, Some(file.into()));
                Ok(())
            }
        }
    }

    /// Makes sure that objects are not taken for catalog content.
    fn ignore(&mut self, objects: &Path) -> Outcome {
        let path = self.root.join(IGNORE_FILE);
        let text = match (&self.ignore, fs::read(&path)) {
            (Some((_, text)), _) => text.clone(),
            (None, Ok(text)) => text,
            (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            (None, Err(error)) => return Err(tree::in_path(&path, &error).into()),
        };
        let mut ignore = IndexIgnore::default();
        ignore.add::<&[u8]>(&[], &text);
        let below = objects.strip_prefix(&self.root).unwrap_or(objects).join("any.yaml");
        let names: Vec<&[u8]> = below.components().map(|name| name.as_os_str().as_bytes()).collect();
        if !ignore.is_ignored(&names) {
            let newline: &[u8] = if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" };
            self.ignore = Some((path, [&text, newline, OBJECTS_IGNORED.as_bytes()].concat()));
        }
        Ok(())
    }

    /// Returns a file that is to be changed.
    fn file(&mut self, path: &Path) -> Result<&mut CatalogFile, Failure> {
        if !self.files.contains_key(path) {
            let file = CatalogFile::open(path, &self.limits)
                .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
            self.files.insert(path.into(), file);
        }
        Ok(self.files.entry(path.into()).or_default())
    }
}

/// Checks the catalog, and tells what is wrong with it as warnings.
fn tell_findings(directory: &Path, limits: &Limits, printer: &Printer) -> Outcome {
    let inspect = catalog::inspect(catalog::Warnings::Off);
    let options = fbc::LoadOptions { limits: limits.clone(), inspect: Some(&inspect), ..fbc::LoadOptions::default() };
    let mut fbc = Fbc::default();
    let loaded = fbc.load_dir(directory, &options)?;
    for problem in &catalog::check(&fbc, loaded, catalog::Warnings::Off).problems {
        printer.warning(&problem.message);
    }
    Ok(())
}
