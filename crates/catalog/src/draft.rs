//! A catalog assembled from its blobs but not checked: the input of the rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use fbc::blob::{BUNDLE, CHANNEL, ChannelEntry, DEPRECATIONS, Deprecation, PACKAGE, PackageProperty};
use fbc::json::JsonPath;
use fbc::release::Release;
use fbc::version::Version;
use fbc::{Blob, BlobContent, Fbc, Place, path};

use crate::channel::ChannelView;

/// A catalog assembled from its blobs; of several blobs with one name the first counts.
pub struct Draft<'a> {
    /// Its blobs.
    pub fbc: &'a Fbc,
    /// Whether documents could not be read, so that apparently missing blobs may be in them.
    pub incomplete: bool,
    /// The packages by name.
    pub packages: BTreeMap<&'a str, DraftPackage<'a>>,
}

/// A package of a [`Draft`].
pub struct DraftPackage<'a> {
    /// Its name.
    pub name: &'a str,
    /// The blob that declares it.
    pub blob: &'a Blob,
    /// The name of its default channel, maybe empty.
    pub default_channel: &'a str,
    /// Its channels by name. A default channel that no blob declares is here too, without entries.
    pub channels: BTreeMap<&'a str, DraftChannel<'a>>,
    /// Its bundles by name.
    pub bundles: BTreeMap<&'a str, DraftBundle<'a>>,
    /// Its deprecations, with the blob they are in.
    pub deprecations: Option<(&'a Blob, &'a [Deprecation])>,
    /// Indexes of these by schema and name; the first of duplicates.
    deprecated: HashMap<(&'a str, &'a str), usize>,
}

/// A channel of a [`DraftPackage`].
pub struct DraftChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// The blob that declares it, if one does.
    pub blob: Option<&'a Blob>,
    /// Its entries as listed.
    pub entries: &'a [ChannelEntry],
    /// Indexes of these by name, computed on first use; the first of duplicates.
    places: OnceLock<HashMap<&'a str, usize>>,
    /// The indexed channel, computed on first use.
    view: OnceLock<ChannelView<'a>>,
}

/// A bundle of a [`DraftPackage`].
pub struct DraftBundle<'a> {
    /// Its name.
    pub name: &'a str,
    /// The blob that declares it.
    pub blob: &'a Blob,
    /// Its decoded content; `None` if it could not be decoded.
    pub bundle: Option<&'a fbc::blob::Bundle>,
}

/// The head of a channel, if it is unique.
#[derive(Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// Every entry is replaced or skipped by another.
    None,
    /// The one entry that is not.
    One(&'a str),
    /// Several, sorted by name.
    Several(Vec<&'a str>),
}

impl<'a> Draft<'a> {
    /// Assembles the blobs of `fbc`.
    pub fn new(fbc: &'a Fbc, incomplete: bool) -> Draft<'a> {
        let mut packages = BTreeMap::new();
        for blob in blobs(fbc, PACKAGE).filter(|blob| !blob.name.is_empty()) {
            let default_channel = match &blob.content {
                BlobContent::Package { default_channel } => default_channel,
                _ => "",
            };
            packages.entry(&*blob.name).or_insert(DraftPackage {
                name: &blob.name,
                blob,
                default_channel,
                channels: BTreeMap::new(),
                bundles: BTreeMap::new(),
                deprecations: None,
                deprecated: HashMap::new(),
            });
        }
        for blob in blobs(fbc, CHANNEL) {
            let Some(package) = packages.get_mut(&*blob.package) else { continue };
            let entries: &[ChannelEntry] = match &blob.content {
                BlobContent::Channel { entries } => entries,
                _ => &[],
            };
            package.channels.entry(&blob.name).or_insert(DraftChannel::new(&blob.name, Some(blob), entries));
        }
        for blob in blobs(fbc, BUNDLE) {
            let Some(package) = packages.get_mut(&*blob.package) else { continue };
            let bundle = match &blob.content {
                BlobContent::Bundle(bundle) => Some(&**bundle),
                _ => None,
            };
            package.bundles.entry(&blob.name).or_insert(DraftBundle { name: &blob.name, blob, bundle });
        }
        for blob in blobs(fbc, DEPRECATIONS) {
            let Some(package) = packages.get_mut(&*blob.package) else { continue };
            if let BlobContent::Deprecations { entries } = &blob.content {
                let (_, entries) = package.deprecations.get_or_insert((blob, entries));
                for (index, entry) in entries.iter().enumerate() {
                    package.deprecated.entry((&entry.schema, &entry.name)).or_insert(index);
                }
            }
        }
        for package in packages.values_mut() {
            let name = package.default_channel;
            if !name.is_empty() && (!incomplete || package.channels.contains_key(name)) {
                package.channels.entry(name).or_insert(DraftChannel::new(name, None, &[]));
            }
        }
        Draft { fbc, incomplete, packages }
    }

    /// Iterates over the blobs of one schema.
    pub fn blobs(&self, schema: &'static str) -> impl Iterator<Item = &'a Blob> {
        blobs(self.fbc, schema)
    }
}

fn blobs<'a>(fbc: &'a Fbc, schema: &'static str) -> impl Iterator<Item = &'a Blob> {
    fbc.blobs().iter().filter(move |blob| &*blob.schema == schema)
}

impl<'a> DraftPackage<'a> {
    /// Returns the place of a value in the blob of this package.
    pub fn place(&self, path: JsonPath) -> Option<Place> {
        self.blob.place(path)
    }

    /// Returns the message of a deprecation, and its position.
    pub fn deprecation(&self, schema: &str, name: &str) -> Option<(&'a str, Option<Place>)> {
        let (blob, entries) = self.deprecations?;
        let index = *self.deprecated.get(&(schema, name))?;
        Some((&entries[index].message, blob.place(path!["entries", index])))
    }
}

impl<'a> DraftChannel<'a> {
    fn new(name: &'a str, blob: Option<&'a Blob>, entries: &'a [ChannelEntry]) -> DraftChannel<'a> {
        DraftChannel { name, blob, entries, places: OnceLock::new(), view: OnceLock::new() }
    }

    /// Returns the place of a value of the entry at `index`, or of the channel.
    pub(crate) fn entry_place(&self, index: usize, field: &'static str) -> Option<Place> {
        self.blob?.place(path!["entries", index, field])
    }

    /// Returns the place of the entry called `name`.
    pub fn place_of(&self, name: &str) -> Option<Place> {
        let places = self.places.get_or_init(|| {
            let last_first = self.entries.iter().enumerate().rev();
            last_first.map(|(index, entry)| (&*entry.name, index)).collect()
        });
        self.entry_place(*places.get(name)?, "name")
    }

    /// Returns the place of the channel's own name.
    pub fn place(&self) -> Option<Place> {
        self.blob?.place(path!["name"])
    }

    /// Returns the indexed channel.
    pub fn view(&self) -> &ChannelView<'a> {
        self.view.get_or_init(|| ChannelView::new(self.entries))
    }

    /// Finds the entries that no entry replaces or skips.
    pub fn head(&self) -> Head<'a> {
        let view = self.view();
        let heads: BTreeSet<&str> = view.heads().into_iter().map(|number| &*view.entries()[number].name).collect();
        match heads.len() {
            0 => Head::None,
            1 => Head::One(heads.first().copied().unwrap_or_default()),
            _ => Head::Several(heads.into_iter().collect()),
        }
    }
}

impl<'a> DraftBundle<'a> {
    /// Returns the value of the one `olm.package` property.
    pub fn package_property(&self) -> Option<&'a PackageProperty> {
        match self.bundle?.package_properties.as_slice() {
            [property] => Some(property),
            _ => None,
        }
    }

    /// Returns the version, if there is a valid one.
    pub fn version(&self) -> Option<Version> {
        Version::parse_strict(&self.package_property()?.version).ok()
    }

    /// Returns the release, if there is a valid one.
    pub fn release(&self) -> Option<Release> {
        Release::parse(&self.package_property()?.release).ok()?
    }
}
