//! Bundles of catalogs, read whole: from the objects that a catalog carries, else from their images.

use std::fs;
use std::path::Path;

use catalog::{Catalog, Package};
use fbc::blob::TextBuffer;
use fbc::version::Version;
use fbc::{Fbc, Limits};
use serde_json::{Value, json};

use crate::bundles::{self, Read};
use crate::exit::{Failure, in_path};
use crate::images::Images;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::source::{self, Source};
use crate::{limits, table};
use resolve::request::{self, Request};

/// Which bundles of a catalog are meant
#[derive(clap::Args)]
pub(crate) struct Picks {
    /// Package of a catalog, or a version of it
    #[arg(short, long, value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    pub(crate) package: Option<Request>,
    /// Version or bundle of the package that is installed
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<String>,
    /// Version or bundle of the package that comes next; the head of the channel unless given
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,
    /// Leave out bundles whose objects are in their images only, instead of pulling these
    #[arg(long)]
    pub(crate) no_pull: bool,
}

/// What a reference names.
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
    /// What keeps a catalog that was given as a file.
    _made: Option<Unfinished>,
}

/// A bundle, and the one that is installed before it.
pub(crate) struct Pair {
    pub(crate) old: Option<Read>,
    pub(crate) new: Read,
}

/// Finds out whether `reference` names a bundle or a catalog, and reads it.
pub(crate) fn open<'a>(reference: &str, images: &'a Images, printer: &Printer) -> Result<Given<'a>, Failure> {
    let path = Path::new(reference);
    let named = |error: String| Failure::message(format!("\"{reference}\": {error}"));
    let (root, made) = if path.is_file() && !source::is_database(path) {
        // One file of a catalog is a catalog: the directory that it stands in may hold others.
        let made = Unfinished::private("opm-catalog-")?;
        let name = path.file_name().ok_or_else(|| named("has no name".into()))?;
        fs::copy(path, made.path().join(name)).map_err(|error| in_path(path, &error))?;
        (made.path().to_path_buf(), Some(made))
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
    Ok(Given::Catalog(Box::new(Opened { reference, fbc, catalog, images, limits, _made: made })))
}

impl Opened<'_> {
    /// Returns the package of a wish.
    pub(crate) fn package(&self, name: &str) -> Result<&Package, Failure> {
        self.catalog.package(name).ok_or_else(|| {
            let names: Vec<&str> = self.catalog.packages().iter().map(Package::name).collect();
            let known = table::some(&names, 5);
            Failure::message(format!("there is no package \"{name}\" in {}; there are {known}", self.reference))
        })
    }

    /// Returns the bundle that is wished for: a version, or the head of a channel.
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
                Failure::message(format!("package \"{name}\" has no channel \"{wanted}\"; there are {known}"))
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
            Failure::message(format!("package \"{name}\" has no version \"{version}\"; there are {known}"))
        })
    }

    /// Reads a bundle; nothing where its objects are in its image, and that is not to be pulled.
    pub(crate) fn read(&self, package: &Package, name: &str, pull: bool) -> Result<Option<Read>, Failure> {
        let facts = package.bundle(name).ok_or_else(|| Failure::message(format!("there is no bundle \"{name}\"")))?;
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
        let made = Unfinished::private("opm-bundle-")?;
        let write = |path: &str, text: &[u8]| {
            let path = made.path().join(path);
            fs::write(&path, text).map_err(|error| in_path(&path, &error))
        };
        for folder in ["manifests", "metadata"] {
            fs::create_dir(made.path().join(folder))?;
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
        let mut read = Read::from_directory(made.path().to_path_buf(), None)?;
        read.made = Some(made);
        Ok(Some(read))
    }

    /// Reads a bundle, and warns where it is left out.
    fn read_or_warn(
        &self,
        package: &Package,
        name: &str,
        pull: bool,
        printer: &Printer,
    ) -> Result<Option<Read>, Failure> {
        let read = self.read(package, name, pull)?;
        if read.is_none() {
            printer
                .warning(&format!("{name} is left out: its objects are in its image, which --no-pull does not pull"));
        }
        Ok(read)
    }
}

/// Returns what a bundle depends on, as its directory would list it.
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
        // The file has another name for the range than the property.
        if let Some(range) = value.as_object_mut().and_then(|value| value.remove("versionRange")) {
            value["version"] = range;
        }
        Some(json!({"type": listed, "value": value}))
    };
    properties.iter().filter_map(need).collect()
}

/// Returns what is compared with what.
///
/// Of two bundles these, of one catalog two versions of a package, of two catalogs every bundle that only the new one
/// has with the one that it replaces.
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
                Failure::Usage(format!(
                    "{} is a catalog: name a bundle with --package, or another catalog",
                    opened.reference
                ))
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
            Err(Failure::Usage(
                "a catalog and a bundle are not compared: name the bundle of the catalog by its image".into(),
            ))
        }
        (Given::Bundle(_), _) => Ok(Vec::new()),
    }
}

/// Pairs every bundle that only the new catalog has with the one that it replaces.
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
            // What replaces nothing follows the version below it.
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
