//! What a cluster looks at: catalogs, what is installed, and what is subscribed to.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::Draft;
use catalog::needs::Facts;
use fbc::blob::{BUNDLE, CHANNEL, Entry, PACKAGE};
use fbc::json::Raw;
use fbc::release::Release;
use fbc::version::Version;
use fbc::{Blob, Fbc, property};

/// A catalog as clusters know it.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Its name in the cluster.
    pub name: String,
    /// The namespace it is in.
    pub namespace: String,
    /// Catalogs of a higher priority are preferred for dependencies.
    pub priority: i64,
    /// Its packages by name: the message of their deprecation, if there is one.
    pub packages: HashMap<String, Option<String>>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// Its bundles.
    pub bundles: Vec<Bundle>,
}

/// A channel of a [`Source`].
#[derive(Debug, Clone, Default)]
pub struct Channel {
    /// The package.
    pub package: String,
    /// Its name.
    pub name: String,
    /// Whether it is followed unless another is asked for.
    pub default: bool,
    /// Why it should not be followed any more.
    pub deprecation: Option<String>,
    /// Its entries.
    pub entries: Vec<Entry>,
}

/// A bundle of a [`Source`], or one that is installed.
#[derive(Debug, Clone, Default)]
pub struct Bundle {
    /// The package; empty when that is not known of an installed one.
    pub package: String,
    /// The name of its CSV.
    pub name: String,
    /// Its version.
    pub version: Option<Version>,
    /// Its release.
    pub release: Option<Release>,
    /// Why it should not be used any more.
    pub deprecation: Option<String>,
    /// What it offers and needs.
    pub facts: Facts,
    /// Its properties as a JSON list, for rules.
    pub properties: Box<str>,
    /// Where it stands among the blobs of its catalog.
    pub blob: usize,
}

/// A wish that a package be installed, and kept up to date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// The package.
    pub package: String,
    /// The channel; all of them when there is none.
    pub channel: Option<String>,
    /// What to begin with while nothing is installed.
    pub starting_csv: Option<String>,
    /// The CSV that it has installed.
    pub installed: Option<String>,
    /// The name of the catalog, and its namespace.
    pub source: (String, String),
}

/// A namespace of a cluster.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Its CSVs.
    pub installed: Vec<Bundle>,
    /// Its Subscriptions.
    pub subscriptions: Vec<Subscription>,
}

/// Package and name of a bundle.
type BundleName = (Box<str>, Box<str>);

/// Reads what is needed of bundles while a catalog is loaded.
#[derive(Default)]
pub struct Reader {
    seen: Mutex<HashMap<BundleName, (Facts, Box<str>)>>,
}

impl Reader {
    /// Looks at a blob, with its text.
    pub fn look(&self, blob: &Blob, text: Raw<'_>) {
        if &*blob.schema == BUNDLE {
            let read = (Facts::read(text), property::served(text).into_string().into_boxed_str());
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry((blob.package.clone(), blob.name.clone())).or_insert(read);
        }
    }

    /// Makes a source of what was loaded.
    pub fn finish(self, fbc: &Fbc) -> Source {
        let mut seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let draft = Draft::new(fbc, false);
        let numbers: HashMap<*const Blob, usize> =
            fbc.blobs().iter().enumerate().map(|(number, blob)| (std::ptr::from_ref(blob), number)).collect();
        let mut source = Source::default();
        for (name, package) in &draft.packages {
            let message = |schema, name| package.deprecation(schema, name).map(|(message, _)| message.to_owned());
            source.packages.insert((*name).to_owned(), message(PACKAGE, ""));
            for channel in package.channels.values() {
                source.channels.push(Channel {
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
                source.bundles.push(Bundle {
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

impl Bundle {
    /// Makes an installed CSV from the list of its properties, as the annotation `operatorframework.io/properties` or
    /// a bundle has it.
    pub fn installed(name: &str, version: Option<Version>, properties: &str) -> Bundle {
        let facts = match Raw::parse(properties, fbc::limits::MAX_DEPTH) {
            Ok(list) => Facts::of(list.items().map(|property| {
                (property.get("type").and_then(Raw::as_str).unwrap_or_default(), property.get("value"))
            })),
            Err(_) => Facts::default(),
        };
        let package = facts.packages.first().map(|(package, _)| package.clone()).unwrap_or_default();
        Bundle { package, name: name.to_owned(), version, facts, properties: properties.into(), ..Bundle::default() }
    }
}
