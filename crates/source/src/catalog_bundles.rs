//! Reads the bundles of catalogs: from objects in the catalog, or else from images.

use std::fs;
use std::path::{Path, PathBuf};

use bundle::Whole;
use catalog::{Catalog, Package, Warnings};
use fbc::blob::TextBuffer;
use fbc::csv::rebuilt;
use fbc::scratch::TempFolder;
use fbc::version::Version;
use fbc::{Blob, Fbc, Limits, property};
use serde_json::{Value, json};

use crate::bundles::{self, LoadedBundle};
use crate::error::{SourceError, at};
use crate::images::Images;
use crate::load::{self, Options};
use crate::resolve::{Source, resolve_one};

/// Which bundles of a catalog are compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Picks<'a> {
    /// The package.
    pub package: Option<&'a str>,
    /// The channel whose head is the new bundle; defaults to the default channel.
    pub channel: Option<&'a str>,
    /// The installed version or bundle.
    pub from: Option<&'a str>,
    /// The new version or bundle; defaults to the channel head.
    pub to: Option<&'a str>,
    /// Whether to pull the images of bundles whose objects are not in the catalog.
    pub pull: bool,
}

/// A bundle or a catalog.
pub enum BundleOrCatalog<'a> {
    /// A bundle.
    Bundle(Box<LoadedBundle>),
    /// A catalog.
    Catalog(Box<CatalogBundles<'a>>),
}

/// A catalog whose bundles can be read.
pub struct CatalogBundles<'a> {
    reference: String,
    fbc: Fbc,
    /// The catalog.
    pub catalog: Catalog,
    images: &'a Images,
    limits: Limits,
}

/// A bundle and its predecessor.
pub struct Pair {
    /// The predecessor.
    pub old: Option<LoadedBundle>,
    /// The bundle.
    pub new: LoadedBundle,
}

/// Opens a bundle or a catalog.
///
/// # Errors
/// Fails when the source is neither, or cannot be read, or a catalog breaks rules.
pub fn open<'a>(reference: &str, images: &'a Images, limits: &Limits) -> Result<BundleOrCatalog<'a>, SourceError> {
    let path = Path::new(reference);
    let bundle = |directory: PathBuf| {
        let shown = path.is_dir().then(|| reference.to_owned());
        LoadedBundle::from_directory(directory, shown, limits).map(Box::new).map(BundleOrCatalog::Bundle)
    };
    let found = match resolve_one(reference, images).map_err(|error| error.named(reference))? {
        Source::Bundle(directory, _) => return bundle(directory),
        Source::Catalog(path) if path.join("manifests").is_dir() => return bundle(path),
        found => found,
    };
    let options = Options { keep_text: true, ..Options::catalogs(limits.clone(), images) };
    let (fbc, catalog) = load::read(reference, &found, &options, Warnings::Off)?.valid()?;
    if catalog.packages().is_empty() {
        return Err(SourceError::NotABundle(reference.to_owned()));
    }
    let (reference, limits) = (reference.to_owned(), limits.clone());
    let catalog = CatalogBundles { reference, fbc, catalog, images, limits };
    Ok(BundleOrCatalog::Catalog(Box::new(catalog)))
}

impl CatalogBundles<'_> {
    /// Returns the package called `name`.
    ///
    /// # Errors
    /// Fails when the catalog does not have it.
    pub fn package(&self, name: &str) -> Result<&Package, SourceError> {
        self.catalog.package(name).ok_or_else(|| SourceError::UnknownPackage {
            catalog: self.reference.clone(),
            name: name.to_owned(),
            known: self.catalog.packages().iter().map(|package| package.name().to_owned()).collect(),
        })
    }

    /// Returns the requested bundle: a version, or the head of a channel.
    ///
    /// # Errors
    /// Fails when the package does not have it.
    pub fn choose<'c>(
        &self,
        package: &'c Package,
        channel: Option<&str>,
        version: Option<&str>,
    ) -> Result<&'c str, SourceError> {
        let found = match channel {
            None => package.default_channel(),
            Some(wanted) => package.channels().iter().find(|channel| channel.name() == wanted).ok_or_else(|| {
                SourceError::UnknownChannel {
                    package: package.name().to_owned(),
                    name: wanted.to_owned(),
                    known: package.channels().iter().map(|channel| channel.name().to_owned()).collect(),
                }
            })?,
        };
        let Some(version) = version else { return Ok(&found.head().name) };
        let parsed = Version::parse_tolerant(version).ok();
        let fits = |(bundle, facts): &(&str, &catalog::Bundle)| {
            let same = parsed.as_ref().is_some_and(|parsed| parsed.cmp_precedence(&facts.version).is_eq());
            let listed = channel.is_none() || found.entries().iter().any(|entry| *entry.name == **bundle);
            listed && (*bundle == version || same)
        };
        let named = package.bundles().find(fits).map(|(bundle, _)| bundle);
        named.ok_or_else(|| SourceError::UnknownVersion {
            package: package.name().to_owned(),
            version: version.to_owned(),
            known: package.bundles().map(|(_, facts)| facts.version.to_string()).collect(),
        })
    }

    /// Reads a bundle; `None` if its objects are only in its image and `pull` is false.
    ///
    /// # Errors
    /// Fails when the bundle cannot be read.
    pub fn read(&self, package: &Package, name: &str, pull: bool) -> Result<Option<LoadedBundle>, SourceError> {
        let (facts, blob) = self.bundle(package, name)?;
        let mut buffer = TextBuffer::default();
        let text = self.fbc.text(blob, &mut buffer)?;
        let objects = self.fbc.objects(blob, text, &self.limits);
        if objects.is_empty() {
            return match (&*facts.image, pull) {
                ("", _) => Err(SourceError::EmptyBundle(name.to_owned())),
                (_, false) => Ok(None),
                (image, true) => bundles::read(image, self.images, &self.limits).map(Some),
            };
        }
        let scratch = TempFolder::private("opm-bundle-")?;
        let write = |path: &str, text: &[u8]| {
            let path = scratch.path().join(path);
            fs::write(&path, text).map_err(at(&path))
        };
        for folder in ["manifests", "metadata"] {
            fs::create_dir(scratch.path().join(folder))?;
        }
        for (number, object) in objects.iter().enumerate() {
            write(&format!("manifests/{number:04}.json"), object.as_bytes())?;
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
        let mut read = LoadedBundle::from_directory(scratch.path().to_path_buf(), None, &self.limits)?;
        read.scratch = Some(scratch);
        Ok(Some(read))
    }

    /// Returns what the metadata in the catalog describes of a bundle: its CSV, as far as catalogs keep it, and its
    /// dependencies. Returns `None` if the catalog has no such metadata.
    ///
    /// # Errors
    /// Fails when the blob cannot be read.
    pub fn described(&self, package: &Package, name: &str) -> Result<Option<Whole>, SourceError> {
        let (facts, blob) = self.bundle(package, name)?;
        let mut buffer = TextBuffer::default();
        let text = self.fbc.text(blob, &mut buffer)?;
        if !property::of(text).any(|(kind, _)| kind == property::CSV_METADATA) {
            return Ok(None);
        }
        let csv =
            rebuilt::from_metadata(&rebuilt::Facts { name, version: &facts.version, bundle: text, package: None });
        let value = serde_json::from_str(csv.raw().text())
            .map_err(|source| SourceError::Metadata { name: name.to_owned(), source })?;
        let file = String::from("manifests/csv.json");
        let csv = bundle::Object { file, document: 0, line: 1, item: None, value };
        let dependencies = needs(text.text());
        Ok(Some(Whole { package: package.name().to_owned(), objects: vec![csv], dependencies, ..Whole::default() }))
    }

    /// Reads a bundle, and warns if it is skipped.
    fn read_or_warn(&self, package: &Package, name: &str, pull: bool) -> Result<Option<LoadedBundle>, SourceError> {
        let read = self.read(package, name, pull)?;
        if read.is_none() {
            let text = format!("skipping {name}: its objects are only in its image, and --no-pull is given");
            self.images.progress().warn(&text);
        }
        Ok(read)
    }

    /// Returns a bundle and its blob.
    fn bundle<'c>(&'c self, package: &'c Package, name: &str) -> Result<(&'c catalog::Bundle, &'c Blob), SourceError> {
        let facts = package.bundle(name);
        let found = facts.and_then(|facts| Some((facts, self.fbc.blobs().get(facts.blob)?)));
        found.ok_or_else(|| SourceError::UnknownBundle(name.to_owned()))
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
///
/// # Errors
/// Fails when a catalog does not have what is picked, or a bundle cannot be read.
pub fn pairs(
    old: &BundleOrCatalog<'_>,
    new: Option<&BundleOrCatalog<'_>>,
    picks: &Picks<'_>,
) -> Result<Vec<Pair>, SourceError> {
    match (old, new) {
        (BundleOrCatalog::Catalog(old), Some(BundleOrCatalog::Catalog(new))) => steps(old, new, picks),
        (BundleOrCatalog::Catalog(opened), None) => {
            let package = picks.package.ok_or_else(|| SourceError::PackageNeeded(opened.reference.clone()))?;
            let package = opened.package(package)?;
            let name = opened.choose(package, picks.channel, picks.to)?;
            let Some(new) = opened.read_or_warn(package, name, picks.pull)? else { return Ok(Vec::new()) };
            let old = match picks.from {
                None => None,
                Some(from) => {
                    let name = opened.choose(package, None, Some(from))?;
                    match opened.read_or_warn(package, name, picks.pull)? {
                        None => return Ok(Vec::new()),
                        old => old,
                    }
                }
            };
            Ok(vec![Pair { old, new }])
        }
        (BundleOrCatalog::Catalog(_), Some(BundleOrCatalog::Bundle(_)))
        | (BundleOrCatalog::Bundle(_), Some(BundleOrCatalog::Catalog(_))) => Err(SourceError::CatalogAndBundle),
        (BundleOrCatalog::Bundle(_), _) => Ok(Vec::new()),
    }
}

/// Pairs every bundle that only the new catalog has with its previous version.
fn steps(old: &CatalogBundles<'_>, new: &CatalogBundles<'_>, picks: &Picks<'_>) -> Result<Vec<Pair>, SourceError> {
    let (wanted, pull) = (picks.package, picks.pull);
    let mut pairs = Vec::new();
    if let Some(name) = wanted {
        new.package(name)?;
    }
    for package in new.catalog.packages().iter().filter(|package| wanted.is_none_or(|name| name == package.name())) {
        let before = old.catalog.package(package.name());
        for (name, _) in package.bundles() {
            if before.is_some_and(|before| before.bundle(name).is_some()) {
                continue;
            }
            let Some(read) = new.read_or_warn(package, name, pull)? else { continue };
            let previous = match package.predecessor(name, before) {
                None => None,
                Some(name) if package.bundle(name).is_some() => new.read_or_warn(package, name, pull)?,
                Some(name) => match before.filter(|before| before.bundle(name).is_some()) {
                    Some(before) => old.read_or_warn(before, name, pull)?,
                    None => None,
                },
            };
            pairs.push(Pair { old: previous, new: read });
        }
    }
    Ok(pairs)
}
