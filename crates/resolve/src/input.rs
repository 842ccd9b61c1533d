//! The input of a resolution: catalogs, installed CSVs, and Subscriptions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::Draft;
use catalog::needs::BundleNeeds;
use fbc::blob::{BUNDLE, CHANNEL, ChannelEntry, PACKAGE};
use fbc::json::Raw;
use fbc::release::Release;
use fbc::version::Version;
use fbc::{Blob, Fbc, property};

/// A catalog as clusters see it.
#[derive(Debug, Clone, Default)]
pub struct CatalogInput {
    /// Its name in the cluster.
    pub name: String,
    /// The namespace it is in.
    pub namespace: String,
    /// Catalogs of a higher priority are preferred for dependencies.
    pub priority: i64,
    /// Its packages by name, with their deprecation messages.
    pub packages: HashMap<String, Option<String>>,
    /// Its channels.
    pub channels: Vec<CandidateChannel>,
    /// Its bundles.
    pub bundles: Vec<CandidateBundle>,
}

/// A channel of a [`CatalogInput`].
#[derive(Debug, Clone, Default)]
pub struct CandidateChannel {
    pub package: String,
    /// Its name.
    pub name: String,
    /// Whether it is the default channel.
    pub default: bool,
    /// Its deprecation message.
    pub deprecation: Option<String>,
    /// Its entries.
    pub entries: Vec<ChannelEntry>,
}

/// A bundle of a [`CatalogInput`], or one that is installed.
#[derive(Debug, Clone, Default)]
pub struct CandidateBundle {
    /// The package; empty if it is unknown for an installed bundle.
    pub package: String,
    /// The name of its CSV.
    pub name: String,
    /// Its version.
    pub version: Option<Version>,
    /// Its release.
    pub release: Option<Release>,
    /// Its deprecation message.
    pub deprecation: Option<String>,
    /// What it provides and requires.
    pub facts: BundleNeeds,
    /// Its properties as a JSON list, for rules.
    pub properties: Box<str>,
    /// Its index among the blobs of its catalog.
    pub blob: usize,
}

/// A request to install a package and keep it up to date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceSubscription {
    /// Its name.
    pub name: String,
    pub package: String,
    /// The channel; all of them if unset.
    pub channel: Option<String>,
    /// The bundle to install first.
    pub starting_csv: Option<String>,
    /// The installed CSV.
    pub installed: Option<String>,
    /// The name of the catalog, and its namespace.
    pub source: (String, String),
}

/// A namespace of a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterNamespace {
    /// Its CSVs.
    pub installed: Vec<CandidateBundle>,
    /// Its Subscriptions.
    pub subscriptions: Vec<NamespaceSubscription>,
}

/// Package and name of a bundle.
type BundleName = (Box<str>, Box<str>);

/// Collects what resolution needs of bundles while a catalog is loaded.
#[derive(Default)]
pub struct InputReader {
    seen: Mutex<HashMap<BundleName, (BundleNeeds, Box<str>)>>,
}

impl InputReader {
    /// Reads a blob, with its text.
    pub fn add(&self, blob: &Blob, text: Raw<'_>) {
        if &*blob.schema == BUNDLE {
            let read = (BundleNeeds::read(text), property::served(text).into_string().into_boxed_str());
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry((blob.package.clone(), blob.name.clone())).or_insert(read);
        }
    }

    /// Builds a source from the loaded catalog.
    pub fn finish(self, fbc: &Fbc) -> CatalogInput {
        let mut seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let draft = Draft::new(fbc, false);
        let numbers: HashMap<*const Blob, usize> =
            fbc.blobs().iter().enumerate().map(|(number, blob)| (std::ptr::from_ref(blob), number)).collect();
        let mut source = CatalogInput::default();
        for (name, package) in &draft.packages {
            let message = |schema, name| package.deprecation(schema, name).map(|(message, _)| message.to_owned());
            source.packages.insert((*name).to_owned(), message(PACKAGE, ""));
            for channel in package.channels.values() {
                source.channels.push(CandidateChannel {
                    package: (*name).to_owned(),
                    name: channel.name.to_owned(),
                    default: channel.name == package.default_channel,
                    deprecation: message(CHANNEL, channel.name),
                    entries: channel.entries.to_vec(),
                });
            }
            for bundle in package.bundles.values() {
                let key = (bundle.blob.package.clone(), bundle.blob.name.clone());
                let (facts, properties) = seen.remove(&key).unwrap_or_default();
                source.bundles.push(CandidateBundle {
                    package: (*name).to_owned(),
                    name: bundle.name.to_owned(),
                    version: bundle.version(),
                    release: bundle.release(),
                    deprecation: message(BUNDLE, bundle.name),
                    facts,
                    properties,
                    blob: numbers.get(&std::ptr::from_ref(bundle.blob)).copied().unwrap_or_default(),
                });
            }
        }
        source
    }
}

impl CandidateBundle {
    /// Creates an installed CSV from the list of its properties, as in the annotation `operatorframework.io/properties`
    /// or in a bundle.
    pub fn installed(name: &str, version: Option<Version>, properties: &str) -> CandidateBundle {
        let facts = match Raw::parse(properties, fbc::limits::MAX_DEPTH) {
            Ok(list) => BundleNeeds::of(list.items().map(|property| (property.get_str("type"), property.get("value")))),
            Err(_) => BundleNeeds::default(),
        };
        let package = facts.packages.first().map(|(package, _)| package.clone()).unwrap_or_default();
        CandidateBundle {
            package,
            name: name.to_owned(),
            version,
            facts,
            properties: properties.into(),
            ..CandidateBundle::default()
        }
    }
}
