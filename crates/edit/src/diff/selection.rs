//! Selections of channel entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use catalog::{Catalog, Channel};
use fbc::blob::{CHANNEL, ChannelEntry, PACKAGE, TextBuffer, channel_json};
use fbc::{Fbc, Limits};

type Entries = BTreeSet<usize>;
type Channels = BTreeMap<usize, Entries>;

/// A set of channel entries of a catalog.
pub struct EntrySelection<'a> {
    catalog: &'a Catalog,
    packages: BTreeMap<usize, Channels>,
    /// Notes about entries that were added as dependencies.
    pub notes: Vec<String>,
}

impl<'a> EntrySelection<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> EntrySelection<'a> {
        EntrySelection { catalog, packages: BTreeMap::new(), notes: Vec::new() }
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    pub(super) fn has_package(&self, package: usize) -> bool {
        self.packages.contains_key(&package)
    }

    pub(super) fn has_channel(&self, package: usize, channel: usize) -> bool {
        self.packages.get(&package).is_some_and(|channels| channels.contains_key(&channel))
    }

    pub(super) fn has(&self, package: usize, channel: usize, entry: usize) -> bool {
        let channel = self.packages.get(&package).and_then(|channels| channels.get(&channel));
        channel.is_some_and(|entries| entries.contains(&entry))
    }

    /// Marks a package as selected, even without entries.
    pub(super) fn touch(&mut self, package: usize) {
        self.packages.entry(package).or_default();
    }

    pub(super) fn add(&mut self, package: usize, channel: usize, entry: usize) {
        self.add_all(package, channel, [entry]);
    }

    /// Adds entries. The channel counts as selected even if there are none.
    pub(super) fn add_all(&mut self, package: usize, channel: usize, entries: impl IntoIterator<Item = usize>) {
        self.packages.entry(package).or_default().entry(channel).or_default().extend(entries);
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize, &Channel, &ChannelEntry) -> bool) {
        for (&p, channels) in &mut self.packages {
            for (&c, entries) in channels {
                let channel = &self.catalog.packages()[p].channels()[c];
                entries.retain(|&entry| keep(p, channel, &channel.entries()[entry]));
            }
        }
    }

    pub(super) fn drop_empty(&mut self) {
        self.packages.values_mut().for_each(|channels| channels.retain(|_, entries| !entries.is_empty()));
        self.packages.retain(|_, channels| !channels.is_empty());
    }

    /// Iterates over the selected entries, as indices of package, channel and entry.
    pub(super) fn members(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.packages.iter().flat_map(|(&package, channels)| {
            channels
                .iter()
                .flat_map(move |(&channel, entries)| entries.iter().map(move |&entry| (package, channel, entry)))
        })
    }

    /// Returns the names of the selected bundles with the indices of their packages, sorted.
    pub(super) fn bundles(&self) -> BTreeSet<(usize, &'a str)> {
        let catalog = self.catalog;
        self.members().map(|(p, c, e)| (p, &*catalog.packages()[p].channels()[c].entries()[e].name)).collect()
    }

    /// Returns the selected entries by name: package, channel, bundle.
    pub fn names(&self) -> Vec<(&'a str, &'a str, &'a str)> {
        let catalog = self.catalog;
        let name = |(p, c, e): (usize, usize, usize)| {
            let package = &catalog.packages()[p];
            let channel = &package.channels()[c];
            (package.name(), channel.name(), &*channel.entries()[e].name)
        };
        self.members().map(name).collect()
    }

    /// Turns the selection into a catalog and returns the indices of its blobs in `fbc`, in output order.
    ///
    /// `fbc` must be the source of the catalog. The reduced channels are added to it, with entries sorted by name; all
    /// other blobs exist already.
    ///
    /// # Errors
    /// Fails if a text cannot be read or stored.
    pub fn into_blobs(self, fbc: &mut Fbc, limits: &Limits) -> io::Result<Vec<usize>> {
        let mut numbers = HashMap::new();
        for (number, blob) in fbc.blobs().iter().enumerate() {
            if matches!(&*blob.schema, PACKAGE | CHANNEL) {
                let channel = if &*blob.schema == CHANNEL { Some(blob.name.clone()) } else { None };
                numbers.entry((blob.package.clone(), channel)).or_insert(number);
            }
        }
        let number = |package: &str, channel: Option<&str>| {
            numbers.get(&(package.into(), channel.map(Into::into))).copied().ok_or(io::ErrorKind::NotFound)
        };
        let bundles = self.bundles();
        let mut blobs = Vec::new();
        for (p, channels) in &self.packages {
            let package = &self.catalog.packages()[*p];
            blobs.push(number(package.name(), None)?);
            for (c, entries) in channels {
                let channel = &package.channels()[*c];
                let entries: Vec<_> = entries.iter().map(|&entry| channel.entries()[entry].clone()).collect();
                let mut buffer = TextBuffer::default();
                let written = fbc.text(&fbc.blobs()[number(package.name(), Some(channel.name()))?], &mut buffer)?;
                let properties = written.get("properties");
                let channel =
                    fbc.stored_blob(&channel_json(package.name(), channel.name(), &entries, properties), limits)?;
                blobs.push(fbc.blobs().len());
                fbc.push(channel);
            }
            let names = bundles.range((*p, "")..(*p + 1, "")).map(|(_, name)| *name);
            blobs.extend(names.filter_map(|name| package.bundle(name)).map(|bundle| bundle.blob));
        }
        Ok(blobs)
    }
}
