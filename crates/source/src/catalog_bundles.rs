//! Reads the bundles of catalogs: from objects in the catalog, or else from images.

mod text;

use std::fs;
use std::path::{Path, PathBuf};

use bundle::rehearse::{InstallDecision, OlmGeneration, Rehearse};
use bundle::review::crd::{self, CrdDifference};
use bundle::{LoadedBundle, ParsedBundle};
use catalog::{Catalog, Package, Warnings};
use fbc::blob::TextBuffer;
use fbc::csv::rebuilt;
use fbc::version::Version;
use fbc::{Blob, Fbc, Limits, property};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::bundles;
use crate::error::{SourceError, at};
use crate::images::Images;
use crate::load::{self, SourceOptions};
use crate::resolve::{NamedSource, is_database, resolve_one};

pub use text::text;

/// Which bundles of a catalog are compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct BundleSelector<'a> {
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
    Bundle(Box<LoadedBundle>),
    Catalog(Box<CatalogBundles<'a>>),
}

/// A catalog whose bundles can be read.
pub struct CatalogBundles<'a> {
    reference: String,
    fbc: Fbc,
    pub catalog: Catalog,
    images: &'a Images,
    limits: Limits,
}

/// Whether each generation of OLM installs a bundle of a catalog.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RehearsedBundle {
    pub package: String,
    pub bundle: String,
    /// OLM v0.
    pub v0: InstallDecision,
    /// OLM v1.
    pub v1: InstallDecision,
}

/// A bundle and its predecessor.
pub struct Pair {
    /// The predecessor.
    pub old: Option<LoadedBundle>,
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
        Ok(BundleOrCatalog::Bundle(Box::new(LoadedBundle::from_directory(directory, shown, limits)?)))
    };
    let found = match resolve_one(reference, images).map_err(|error| error.named(reference))? {
        NamedSource::Bundle(directory, _) => return bundle(directory),
        NamedSource::Catalog(path) if path.join("manifests").is_dir() => return bundle(path),
        found => found,
    };
    let options = SourceOptions { keep_text: true, ..SourceOptions::catalogs(limits.clone(), images) };
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
        let needs = needs(text.text());
        Ok(Some(LoadedBundle::from_objects(package.name(), objects, &needs, &self.limits)?))
    }

    /// Returns what the metadata in the catalog describes of a bundle: its CSV, as far as catalogs keep it, and its
    /// dependencies. Returns `None` if the catalog has no such metadata.
    ///
    /// # Errors
    /// Fails when the blob cannot be read.
    pub fn described(&self, package: &Package, name: &str) -> Result<Option<ParsedBundle>, SourceError> {
        let (facts, blob) = self.bundle(package, name)?;
        let mut buffer = TextBuffer::default();
        let text = self.fbc.text(blob, &mut buffer)?;
        if !property::of(text).any(|(kind, _)| kind == property::CSV_METADATA) {
            return Ok(None);
        }
        let csv =
            rebuilt::from_metadata(&rebuilt::CsvInputs { name, version: &facts.version, bundle: text, package: None });
        let value = serde_json::from_str(csv.raw().text())
            .map_err(|source| SourceError::Metadata { name: name.to_owned(), source })?;
        let file = String::from("manifests/csv.json");
        let csv = bundle::BundleObject { file, document: 0, line: 1, item: None, value };
        let dependencies = needs(text.text());
        Ok(Some(ParsedBundle {
            package: package.name().to_owned(),
            objects: vec![csv],
            dependencies,
            ..ParsedBundle::default()
        }))
    }

    /// Rehearses every bundle of the catalog for both generations of OLM. If images may not be pulled, the metadata in
    /// the catalog decides what it can.
    ///
    /// # Errors
    /// Fails when a bundle cannot be read.
    pub fn rehearse_all(&self, request: &Rehearse, pull: bool) -> Result<Vec<RehearsedBundle>, SourceError> {
        let requests = [OlmGeneration::V0, OlmGeneration::V1].map(|generation| request.with(generation));
        let mut all = Vec::new();
        for package in self.catalog.packages() {
            for (name, _) in package.bundles() {
                let [v0, v1] = match self.read(package, name, pull)? {
                    Some(bundle) => requests.each_ref().map(|request| request.decide(&bundle)),
                    None => {
                        let described = self.described(package, name)?;
                        let refusal = |request: &Rehearse| request.refused_by_metadata(described.as_ref()?);
                        requests.each_ref().map(|request| match refusal(request) {
                            Some(refusal) => InstallDecision::Refused(refusal.message),
                            None => InstallDecision::NeedsImage,
                        })
                    }
                };
                all.push(RehearsedBundle { package: package.name().to_owned(), bundle: name.to_owned(), v0, v1 });
            }
        }
        Ok(all)
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

/// Opens one or two sources, and returns the bundles with their predecessors.
///
/// One bundle has none, two are a pair. One catalog gives two versions of a package. Two catalogs give every bundle that
/// only the new one has, with the bundle that it replaces.
///
/// # Errors
/// Fails when a source cannot be used, or a catalog does not have what is picked.
pub fn open_pairs(
    old: &str,
    new: Option<&str>,
    picks: &BundleSelector<'_>,
    images: &Images,
    limits: &Limits,
) -> Result<Vec<Pair>, SourceError> {
    let old = open(old, images, limits)?;
    let new = new.map(|new| open(new, images, limits)).transpose()?;
    match (old, new) {
        (BundleOrCatalog::Bundle(one), None) => Ok(vec![Pair { old: None, new: *one }]),
        (BundleOrCatalog::Bundle(old), Some(BundleOrCatalog::Bundle(new))) => {
            Ok(vec![Pair { old: Some(*old), new: *new }])
        }
        (old, new) => pairs(&old, new.as_ref(), picks),
    }
}

/// Compares the definitions of two bundles, catalogs or files.
///
/// # Errors
/// Fails when a source cannot be used, or a catalog does not have what is picked.
pub fn crd_changes(
    old: &str,
    new: Option<&str>,
    picks: &BundleSelector<'_>,
    images: &Images,
    limits: &Limits,
) -> Result<Vec<CrdDifference>, SourceError> {
    let side = |reference: &str| match definitions(reference, limits)? {
        Some(crds) => Ok::<_, SourceError>(Side::Definitions(crds)),
        None => Ok(Side::Opened(open(reference, images, limits)?)),
    };
    match (side(old)?, new.map(side).transpose()?) {
        (Side::Opened(BundleOrCatalog::Catalog(_)), None) if picks.from.is_none() => Err(SourceError::FromNeeded),
        (Side::Opened(old @ BundleOrCatalog::Catalog(_)), None) => Ok(changes_of(&pairs(&old, None, picks)?)),
        (Side::Opened(old @ BundleOrCatalog::Catalog(_)), Some(Side::Opened(new))) => {
            Ok(changes_of(&pairs(&old, Some(&new), picks)?))
        }
        (old, Some(new)) => Ok(crd::compare(old.objects()?, new.objects()?)),
        (_, None) => Err(SourceError::NewNeeded),
    }
}

fn changes_of(pairs: &[Pair]) -> Vec<CrdDifference> {
    let both = pairs.iter().filter_map(|pair| Some((pair.old.as_ref()?, &pair.new)));
    both.flat_map(|(old, new)| crd::compare(old.whole.values(), new.whole.values())).collect()
}

/// One side of a comparison of definitions.
enum Side<'a> {
    Definitions(Vec<Value>),
    Opened(BundleOrCatalog<'a>),
}

impl Side<'_> {
    fn objects(&self) -> Result<Vec<&Value>, SourceError> {
        match self {
            Side::Definitions(crds) => Ok(crds.iter().collect()),
            Side::Opened(BundleOrCatalog::Bundle(bundle)) => Ok(bundle.whole.values().collect()),
            Side::Opened(BundleOrCatalog::Catalog(_)) => Err(SourceError::CatalogAndFile),
        }
    }
}

/// Reads the definitions of a file; `None` for a catalog file or a name that is not a file.
fn definitions(reference: &str, limits: &Limits) -> Result<Option<Vec<Value>>, SourceError> {
    let path = Path::new(reference);
    if !path.is_file() || is_database(path) {
        return Ok(None);
    }
    let text = fs::read(path).map_err(at(path))?;
    let objects = match bundle::objects_of(&text, reference, limits) {
        Ok(objects) => objects,
        // Loading the catalog reports its problems.
        Err(_) if has_blobs(&text, limits) => return Ok(None),
        Err(error) => return Err(SourceError::Objects { name: reference.to_owned(), source: Box::new(error) }),
    };
    let is_definition = |object: &bundle::BundleObject| object.kind() == "CustomResourceDefinition";
    let crds: Vec<Value> = objects.into_iter().filter(is_definition).map(|object| object.value).collect();
    if crds.is_empty() {
        return Err(SourceError::NoDefinitions(reference.to_owned()));
    }
    Ok(Some(crds))
}

/// Returns whether a text is one of a catalog: its blobs have a schema where objects have a kind.
fn has_blobs(text: &[u8], limits: &Limits) -> bool {
    let documents = fbc::stream::documents(text, limits).unwrap_or_default();
    documents.iter().any(|document| document.raw().get("schema").is_some())
}

/// Returns the pairs to compare.
fn pairs(
    old: &BundleOrCatalog<'_>,
    new: Option<&BundleOrCatalog<'_>>,
    picks: &BundleSelector<'_>,
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
fn steps(
    old: &CatalogBundles<'_>,
    new: &CatalogBundles<'_>,
    picks: &BundleSelector<'_>,
) -> Result<Vec<Pair>, SourceError> {
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
