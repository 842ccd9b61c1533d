//! Reads the bundles of catalogs: from objects in the catalog, or else from images.

use std::fs;
use std::path::Path;

use bundle::Whole;
use catalog::{Catalog, Package};
use fbc::blob::TextBuffer;
use fbc::csv::rebuilt;
use fbc::version::Version;
use fbc::{Fbc, Limits, property};
use serde_json::{Value, json};

use crate::bundles::{self, Read};
use crate::exit::{Failure, in_path};
use crate::images::Images;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::source::{self, Source};
use crate::{limits, table};
use resolve::request::{self, Request};

/// Bundle selection
#[derive(clap::Args)]
pub(crate) struct Picks {
    /// Package of the catalog, optionally with channel or version
    #[arg(short, long, value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    pub(crate) package: Option<Request>,
    /// Installed version or bundle of the package
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<String>,
    /// New version or bundle of the package; defaults to the channel head
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,
    /// Skip bundles whose objects are only in their images, instead of pulling the images
    #[arg(long)]
    pub(crate) no_pull: bool,
}

/// The bundle or catalog that a reference names.
pub(crate) enum Given<'a> {
    Bundle(Box<Read>),
    Catalog(Box<Opened<'a>>),
}

/// A catalog whose bundles can be read.
pub(crate) struct Opened<'a> {
    reference: String,
    fbc: Fbc,
    pub(crate) catalog: Catalog,
    images: &'a Images,
    limits: Limits,
    /// The temporary directory of a single-file catalog.
    _scratch: Option<Unfinished>,
}

/// A bundle and its predecessor.
pub(crate) struct Pair {
    pub(crate) old: Option<Read>,
    pub(crate) new: Read,
}

/// Opens the bundle or catalog that `reference` names.
pub(crate) fn open<'a>(reference: &str, images: &'a Images, printer: &Printer) -> Result<Given<'a>, Failure> {
    let path = Path::new(reference);
    let named = |error: String| Failure::message(format!("\"{reference}\": {error}"));
    let (root, scratch) = if path.is_file() && !source::is_database(path) {
        // Copy a single file to its own directory, because its directory can hold other catalogs.
        let scratch = Unfinished::private("opm-catalog-")?;
        let name = path.file_name().ok_or_else(|| named("has no name".into()))?;
        fs::copy(path, scratch.path().join(name)).map_err(|error| in_path(path, &error))?;
        (scratch.path().to_path_buf(), Some(scratch))
    } else {
        let shown = path.is_dir().then(|| reference.to_owned());
        match source::resolve_one(reference, images).map_err(named)? {
            Source::Bundle(directory, _) => {
                return Read::from_directory(directory, shown).map(Box::new).map(Given::Bundle);
            }
            Source::Catalog(path) if path.join("manifests").is_dir() => {
                return Read::from_directory(path, shown).map(Box::new).map(Given::Bundle);
            }
            Source::Catalog(path) | Source::Database(path) => (path, None),
        }
    };
    let (fbc, catalog) = source::checked(&root.to_string_lossy(), true, images, printer)?;
    if catalog.packages().is_empty() {
        return Err(bundles::no_bundle(reference));
    }
    let limits = limits::from_env()?;
    let reference = reference.to_owned();
    Ok(Given::Catalog(Box::new(Opened { reference, fbc, catalog, images, limits, _scratch: scratch })))
}

impl Opened<'_> {
    /// Returns the package called `name`.
    pub(crate) fn package(&self, name: &str) -> Result<&Package, Failure> {
        self.catalog.package(name).ok_or_else(|| {
            let names: Vec<&str> = self.catalog.packages().iter().map(Package::name).collect();
            let known = table::some(&names, 5);
            Failure::message(format!("{} has no package \"{name}\"; its packages are {known}", self.reference))
        })
    }

    /// Returns the requested bundle: a version, or the head of a channel.
    pub(crate) fn choose<'c>(
        &self,
        package: &'c Package,
        channel: Option<&str>,
        version: Option<&str>,
    ) -> Result<&'c str, Failure> {
        let name = package.name();
        let channels: Vec<&str> = package.channels().iter().map(catalog::Channel::name).collect();
        let found = match channel {
            None => package.default_channel(),
            Some(wanted) => package.channels().iter().find(|channel| channel.name() == wanted).ok_or_else(|| {
                let known = table::some(&channels, 5);
                Failure::message(format!("package \"{name}\" has no channel \"{wanted}\"; its channels are {known}"))
            })?,
        };
        let Some(version) = version else { return Ok(&found.head().name) };
        let parsed = Version::parse_tolerant(version).ok();
        let fits = |(bundle, facts): &(&str, &catalog::Bundle)| {
            let same = parsed.as_ref().is_some_and(|parsed| parsed.cmp_precedence(&facts.version).is_eq());
            let listed = channel.is_none() || found.entries().iter().any(|entry| *entry.name == **bundle);
            listed && (*bundle == version || same)
        };
        package.bundles().find(fits).map(|(bundle, _)| bundle).ok_or_else(|| {
            let versions: Vec<String> = package.bundles().map(|(_, facts)| facts.version.to_string()).collect();
            let known = table::some(&versions.iter().map(String::as_str).collect::<Vec<_>>(), 5);
            Failure::message(format!("package \"{name}\" has no version \"{version}\"; its versions are {known}"))
        })
    }

    /// Reads a bundle; `None` if its objects are only in its image and `pull` is false.
    pub(crate) fn read(&self, package: &Package, name: &str, pull: bool) -> Result<Option<Read>, Failure> {
        let facts = package.bundle(name).ok_or_else(|| Failure::message(format!("unknown bundle \"{name}\"")))?;
        let blob = self.fbc.blobs().get(facts.blob).ok_or_else(|| Failure::message("the catalog has changed"))?;
        let mut buffer = TextBuffer::default();
        let text = self.fbc.text(blob, &mut buffer)?;
        let objects = self.fbc.objects(blob, text, &self.limits);
        if objects.is_empty() {
            return match (&*facts.image, pull) {
                ("", _) => Err(Failure::message(format!("bundle \"{name}\" has neither objects nor an image"))),
                (_, false) => Ok(None),
                (image, true) => bundles::read(image, self.images).map(Some),
            };
        }
        let scratch = Unfinished::private("opm-bundle-")?;
        let write = |path: &str, text: &[u8]| {
            let path = scratch.path().join(path);
            fs::write(&path, text).map_err(|error| in_path(&path, &error))
        };
        for folder in ["manifests", "metadata"] {
            fs::create_dir(scratch.path().join(folder))?;
        }
        for (at, object) in objects.iter().enumerate() {
            write(&format!("manifests/{at:04}.json"), object.as_bytes())?;
        }
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.package.v1": package.name(),
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        }});
        write("metadata/annotations.yaml", annotations.to_string().as_bytes())?;
        let needs = needs(text.text());
        if !needs.is_empty() {
            write("metadata/dependencies.yaml", json!({"dependencies": needs}).to_string().as_bytes())?;
        }
        let mut read = Read::from_directory(scratch.path().to_path_buf(), None)?;
        read.scratch = Some(scratch);
        Ok(Some(read))
    }

    /// Returns what the metadata in the catalog describes of a bundle: its CSV, as far as catalogs keep it, and its
    /// dependencies. Returns `None` if the catalog has no such metadata.
    pub(crate) fn described(&self, package: &Package, name: &str) -> Result<Option<Whole>, Failure> {
        let facts = package.bundle(name).ok_or_else(|| Failure::message(format!("unknown bundle \"{name}\"")))?;
        let blob = self.fbc.blobs().get(facts.blob).ok_or_else(|| Failure::message("the catalog has changed"))?;
        let mut buffer = TextBuffer::default();
        let text = self.fbc.text(blob, &mut buffer)?;
        if !property::of(text).any(|(kind, _)| kind == property::CSV_METADATA) {
            return Ok(None);
        }
        let csv =
            rebuilt::from_metadata(&rebuilt::Facts { name, version: &facts.version, bundle: text, package: None });
        let value = serde_json::from_str(csv.raw().text())
            .map_err(|error| Failure::message(format!("the metadata of bundle \"{name}\": {error}")))?;
        let file = String::from("manifests/csv.json");
        let csv = bundle::Object { file, document: 0, line: 1, item: None, value };
        let dependencies = needs(text.text());
        Ok(Some(Whole { package: package.name().to_owned(), objects: vec![csv], dependencies, ..Whole::default() }))
    }

    /// Reads a bundle, and warns if it is skipped.
    fn read_or_warn(
        &self,
        package: &Package,
        name: &str,
        pull: bool,
        printer: &Printer,
    ) -> Result<Option<Read>, Failure> {
        let read = self.read(package, name, pull)?;
        if read.is_none() {
            printer.warning(&format!("skipping {name}: its objects are only in its image, and --no-pull is given"));
        }
        Ok(read)
    }
}

/// Returns the dependencies of a bundle in the format of dependencies.yaml.
fn needs(blob: &str) -> Vec<Value> {
    const NEEDS: [(&str, &str); 3] = [
        ("olm.package.required", "olm.package"),
        ("olm.gvk.required", "olm.gvk"),
        ("olm.constraint", "olm.constraint"),
    ];
    let blob: Value = serde_json::from_str(blob).unwrap_or_default();
    let properties = blob.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
    let need = |property: &Value| {
        let kind = property.get("type")?.as_str()?;
        let (_, listed) = NEEDS.iter().find(|(name, _)| *name == kind)?;
        let mut value = property.get("value")?.clone();
        // The file calls the range `version`, the property `versionRange`.
        if let Some(range) = value.as_object_mut().and_then(|value| value.remove("versionRange")) {
            value["version"] = range;
        }
        Some(json!({"type": listed, "value": value}))
    };
    properties.iter().filter_map(need).collect()
}

/// Returns the pairs to compare.
///
/// One catalog gives two versions of a package. Two catalogs give every bundle that only the new one has, with the
/// bundle that it replaces.
pub(crate) fn pairs(
    old: &Given<'_>,
    new: Option<&Given<'_>>,
    picks: &Picks,
    printer: &Printer,
) -> Result<Vec<Pair>, Failure> {
    let pull = !picks.no_pull;
    let wish = picks.package.as_ref();
    match (old, new) {
        (Given::Catalog(old), Some(Given::Catalog(new))) => steps(old, new, picks, printer),
        (Given::Catalog(opened), None) => {
            let wish = wish.ok_or_else(|| {
                Failure::Usage(format!("{} is a catalog: give --package, or a second catalog", opened.reference))
            })?;
            let package = opened.package(&wish.package)?;
            let version = picks.to.as_deref().or(wish.version.as_deref());
            let name = opened.choose(package, wish.channel.as_deref(), version)?;
            let Some(new) = opened.read_or_warn(package, name, pull, printer)? else { return Ok(Vec::new()) };
            let old = match &picks.from {
                None => None,
                Some(from) => {
                    let name = opened.choose(package, None, Some(from))?;
                    match opened.read_or_warn(package, name, pull, printer)? {
                        None => return Ok(Vec::new()),
                        old => old,
                    }
                }
            };
            Ok(vec![Pair { old, new }])
        }
        (Given::Catalog(_), Some(Given::Bundle(_))) | (Given::Bundle(_), Some(Given::Catalog(_))) => {
            Err(Failure::Usage("cannot compare a catalog with a bundle: name the catalog's bundle by its image".into()))
        }
        (Given::Bundle(_), _) => Ok(Vec::new()),
    }
}

/// Pairs every bundle that only the new catalog has with the bundle it replaces.
fn steps(old: &Opened<'_>, new: &Opened<'_>, picks: &Picks, printer: &Printer) -> Result<Vec<Pair>, Failure> {
    let pull = !picks.no_pull;
    let mut pairs = Vec::new();
    let wanted = picks.package.as_ref().map(|wish| wish.package.as_str());
    if let Some(name) = wanted {
        new.package(name)?;
    }
    for package in new.catalog.packages().iter().filter(|package| wanted.is_none_or(|name| name == package.name())) {
        let before = old.catalog.package(package.name());
        for (name, facts) in package.bundles() {
            if before.is_some_and(|before| before.bundle(name).is_some()) {
                continue;
            }
            let Some(read) = new.read_or_warn(package, name, pull, printer)? else { continue };
            let channels = std::iter::once(package.default_channel()).chain(package.channels());
            let replaced = channels
                .flat_map(catalog::Channel::entries)
                .find(|entry| *entry.name == *name && !entry.replaces.is_empty())
                .map(|entry| &*entry.replaces);
            // A bundle that replaces nothing follows the next lower version.
            let below = || {
                let lower = package.bundles().filter(|(_, other)| other.version.cmp_precedence(&facts.version).is_lt());
                lower.max_by(|a, b| a.1.version.cmp_precedence(&b.1.version)).map(|(name, _)| name)
            };
            let previous = match replaced.or_else(below) {
                None => None,
                Some(name) if package.bundle(name).is_some() => new.read_or_warn(package, name, pull, printer)?,
                Some(name) => match before.filter(|before| before.bundle(name).is_some()) {
                    Some(before) => old.read_or_warn(before, name, pull, printer)?,
                    None => None,
                },
            };
            pairs.push(Pair { old: previous, new: read });
        }
    }
    Ok(pairs)
}
