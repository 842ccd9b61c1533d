//! Catalogs that passed all checks.

use std::collections::BTreeMap;

use fbc::blob::ChannelEntry;
use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;

use crate::draft::{Draft, DraftPackage, Head};

/// A catalog whose packages, channels and upgrade graphs satisfy every rule.
///
/// Only [`crate::check`] creates one.
#[derive(Debug)]
pub struct Catalog {
    packages: Vec<Package>,
}

/// A package of a catalog.
#[derive(Debug)]
pub struct Package {
    name: String,
    default_channel: usize,
    channels: Vec<Channel>,
    bundles: BTreeMap<String, Bundle>,
    deprecation: Option<String>,
}

/// A channel of a package.
#[derive(Debug)]
pub struct Channel {
    name: String,
    head: usize,
    entries: Vec<ChannelEntry>,
    deprecation: Option<String>,
}

/// A bundle of a package.
#[derive(Debug)]
pub struct Bundle {
    /// Its version.
    pub version: Version,
    /// Its release, if it has one.
    pub release: Option<Release>,
    /// The pull spec of its image; empty when it carries its objects.
    pub image: String,
    /// Its index among the blobs of the catalog.
    pub blob: usize,
    /// Its deprecation message.
    pub deprecation: Option<String>,
}

impl Catalog {
    /// Converts a draft that breaks no rule; `None` if it does.
    pub(crate) fn from_draft(draft: &Draft<'_>) -> Option<Catalog> {
        let numbers: BTreeMap<*const fbc::Blob, usize> =
            draft.fbc.blobs().iter().enumerate().map(|(i, blob)| (std::ptr::from_ref(blob), i)).collect();
        let packages = draft.packages.values().map(|package| Package::from_draft(package, &numbers));
        Some(Catalog { packages: packages.collect::<Option<_>>()? })
    }

    /// Returns the packages by name.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Returns the package called `name`.
    pub fn package(&self, name: &str) -> Option<&Package> {
        let place = self.packages.binary_search_by(|package| package.name.as_str().cmp(name)).ok()?;
        self.packages.get(place)
    }
}

impl Package {
    fn from_draft(draft: &DraftPackage<'_>, numbers: &BTreeMap<*const fbc::Blob, usize>) -> Option<Package> {
        let message = |schema, name| draft.deprecation(schema, name).map(|(message, _)| message.to_owned());
        let mut channels = Vec::new();
        for channel in draft.channels.values() {
            let mut entries = channel.entries.to_vec();
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            let Head::One(head) = channel.head() else { return None };
            channels.push(Channel {
                name: channel.name.to_owned(),
                head: entries.iter().position(|entry| &*entry.name == head)?,
                entries,
                deprecation: message(fbc::blob::CHANNEL, channel.name),
            });
        }
        let mut bundles = BTreeMap::new();
        for bundle in draft.bundles.values() {
            bundles.insert(
                bundle.name.to_owned(),
                Bundle {
                    version: bundle.version()?,
                    release: bundle.release(),
                    image: bundle.bundle?.image.to_string(),
                    blob: *numbers.get(&std::ptr::from_ref(bundle.blob))?,
                    deprecation: message(fbc::blob::BUNDLE, bundle.name),
                },
            );
        }
        Some(Package {
            name: draft.name.to_owned(),
            default_channel: channels.iter().position(|channel| channel.name == draft.default_channel)?,
            channels,
            bundles,
            deprecation: message(fbc::blob::PACKAGE, ""),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the default channel.
    pub fn default_channel(&self) -> &Channel {
        &self.channels[self.default_channel]
    }

    /// Returns its channels by name.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Returns the bundle called `name`.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundles.get(name)
    }

    /// Returns its bundles by name.
    pub fn bundles(&self) -> impl Iterator<Item = (&str, &Bundle)> {
        self.bundles.iter().map(|(name, bundle)| (name.as_str(), bundle))
    }

    /// Returns the previous version of a bundle: the one that it replaces, preferably in the default channel, or else the
    /// highest lower version.
    ///
    /// `earlier` is the same package of an earlier catalog, which can have bundles that this one no longer contains.
    pub fn predecessor<'a>(&'a self, name: &str, earlier: Option<&'a Package>) -> Option<&'a str> {
        let own = self.bundle(name)?;
        let channels = std::iter::once(self.default_channel()).chain(self.channels());
        let replaced = channels.filter_map(|channel| channel.entry(name)).map(|entry| &*entry.replaces);
        self.replaced_or_lower(replaced, (&own.version, own.release.as_ref()), earlier)
    }

    /// Returns the first of `replaced` that exists, or else the highest version below `version`, as
    /// [`predecessor`](Self::predecessor) does; for a bundle that no catalog has yet.
    pub fn replaced_or_lower<'a, 'r>(
        &'a self,
        mut replaced: impl Iterator<Item = &'r str>,
        version: (&Version, Option<&Release>),
        earlier: Option<&'a Package>,
    ) -> Option<&'a str> {
        let sides = || std::iter::once(self).chain(earlier);
        let bundle = |name: &str| sides().find_map(|package| package.bundles.get_key_value(name));
        if let Some((name, _)) = replaced.find_map(bundle) {
            return Some(name);
        }
        let lower = sides()
            .flat_map(Package::bundles)
            .filter(|(_, bundle)| cmp_version_release((&bundle.version, bundle.release.as_ref()), version).is_lt());
        let highest = lower.max_by(|(_, a), (_, b)| {
            cmp_version_release((&a.version, a.release.as_ref()), (&b.version, b.release.as_ref()))
        });
        highest.map(|(name, _)| name)
    }

    /// Returns its deprecation message.
    pub fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }
}

impl Channel {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the entry that no entry replaces or skips.
    pub fn head(&self) -> &ChannelEntry {
        &self.entries[self.head]
    }

    /// Returns its entries by name.
    pub fn entries(&self) -> &[ChannelEntry] {
        &self.entries
    }

    /// Returns the entry of a bundle.
    pub fn entry(&self, name: &str) -> Option<&ChannelEntry> {
        let number = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.entries.get(number)
    }

    /// Returns its deprecation message.
    pub fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }
}
