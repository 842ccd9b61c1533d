//! The editable content of a catalog: names, channels, edges, deprecations.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use catalog::channel::ChannelView;
use fbc::blob::{BUNDLE, CHANNEL, ChannelEntry, DEPRECATIONS, Deprecation, PACKAGE};
use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;
use fbc::{BlobContent, Fbc};

use crate::new_blob::NewBlob;
use crate::refusal::EditRefusal;

/// The packages of a catalog, in the form that edits work on.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// The packages by name.
    pub packages: BTreeMap<String, OutlinePackage>,
    /// The blobs with custom schemas and without a package.
    pub globals: Vec<usize>,
    /// New blobs of that kind.
    pub new_blobs: Vec<NewBlob>,
}

/// A package of an [`Outline`].
#[derive(Debug, Clone, Default)]
pub struct OutlinePackage {
    /// The index of its blob in the catalog; `None` if it is new.
    pub blob: Option<usize>,
    /// The text of its blob, if it is new.
    pub new_blob: Option<NewBlob>,
    pub default_channel: String,
    /// The channels by name.
    pub channels: BTreeMap<String, OutlineChannel>,
    /// The bundles by name.
    pub bundles: BTreeMap<String, OutlineBundle>,
    /// The deprecations, if there is a blob for them.
    pub deprecations: Option<Deprecations>,
    /// The blobs with custom schemas.
    pub others: Vec<usize>,
    /// New blobs with custom schemas.
    pub new_blobs: Vec<NewBlob>,
}

/// A channel of a [`OutlinePackage`].
#[derive(Debug, Clone, Default)]
pub struct OutlineChannel {
    /// The index of its blob; `None` if it is new.
    pub blob: Option<usize>,
    /// The text of its blob, if it comes from another catalog.
    pub new_blob: Option<NewBlob>,
    /// The entries, in source order.
    pub entries: Vec<ChannelEntry>,
}

/// A bundle of a [`OutlinePackage`].
#[derive(Debug, Clone)]
pub struct OutlineBundle {
    /// The index of its blob; `None` if it is new.
    pub blob: Option<usize>,
    /// The text of its blob, if it is new.
    pub new_blob: Option<NewBlob>,
    /// The version and release, if valid.
    pub version: Option<(Version, Option<Release>)>,
}

/// The deprecations of a [`OutlinePackage`].
#[derive(Debug, Clone, Default)]
pub struct Deprecations {
    /// The index of their blob; `None` if it is new.
    pub blob: Option<usize>,
    /// The text of their blob, if it comes from another catalog.
    pub new_blob: Option<NewBlob>,
    /// The deprecations, in source order.
    pub entries: Vec<Deprecation>,
}

impl Outline {
    /// Reads the outline of a catalog. If several blobs have one name, the first counts.
    pub fn new(fbc: &Fbc) -> Outline {
        let mut outline = Outline::default();
        for (index, blob) in fbc.blobs().iter().enumerate().filter(|(_, blob)| &*blob.schema == PACKAGE) {
            let default_channel = match &blob.content {
                BlobContent::Package { default_channel } => default_channel.to_string(),
                _ => String::new(),
            };
            let package = OutlinePackage { blob: Some(index), default_channel, ..OutlinePackage::default() };
            outline.packages.entry(blob.name.to_string()).or_insert(package);
        }
        for (index, blob) in fbc.blobs().iter().enumerate() {
            let Some(package) = outline.packages.get_mut(&*blob.package) else {
                if !matches!(&*blob.schema, PACKAGE | CHANNEL | BUNDLE | DEPRECATIONS) {
                    outline.globals.push(index);
                }
                continue;
            };
            let name = blob.name.to_string();
            match (&*blob.schema, &blob.content) {
                (CHANNEL, BlobContent::Channel { entries }) => {
                    let channel = OutlineChannel { blob: Some(index), new_blob: None, entries: entries.clone() };
                    package.channels.entry(name).or_insert(channel);
                }
                (BUNDLE, BlobContent::Bundle(bundle)) => {
                    let version = match bundle.package_properties.as_slice() {
                        [property] => Version::parse_strict(&property.version)
                            .ok()
                            .map(|version| (version, Release::parse(&property.release).ok().flatten())),
                        _ => None,
                    };
                    package.bundles.entry(name).or_insert(OutlineBundle { blob: Some(index), new_blob: None, version });
                }
                (DEPRECATIONS, BlobContent::Deprecations { entries }) => {
                    let entries = entries.clone();
                    package.deprecations.get_or_insert(Deprecations { blob: Some(index), new_blob: None, entries });
                }
                (PACKAGE | CHANNEL | BUNDLE | DEPRECATIONS, _) => {}
                _ => package.others.push(index),
            }
        }
        outline
    }

    /// Returns whether two outlines are equal, regardless of positions in the source.
    pub fn agrees_with(&self, other: &Outline) -> bool {
        self.packages.len() == other.packages.len()
            && self.globals.len() + self.new_blobs.len() == other.globals.len() + other.new_blobs.len()
            && self.packages.iter().zip(&other.packages).all(|((a_name, a), (b_name, b))| {
                a_name == b_name
                    && a.default_channel == b.default_channel
                    && a.bundles.keys().eq(b.bundles.keys())
                    && a.others.len() + a.new_blobs.len() == b.others.len() + b.new_blobs.len()
                    && a.deprecated() == b.deprecated()
                    && a.channels.len() == b.channels.len()
                    && a.channels
                        .iter()
                        .zip(&b.channels)
                        .all(|((a_name, a), (b_name, b))| a_name == b_name && a.entries == b.entries)
            })
    }

    /// Returns the package called `name`.
    ///
    /// # Errors
    /// Refuses if it does not exist.
    pub fn package(&self, name: &str) -> Result<&OutlinePackage, EditRefusal> {
        self.packages.get(name).ok_or_else(|| no_package(name, self))
    }

    /// Returns the package called `name`, mutably.
    ///
    /// # Errors
    /// Refuses if it does not exist.
    pub(crate) fn package_mut(&mut self, name: &str) -> Result<&mut OutlinePackage, EditRefusal> {
        if !self.packages.contains_key(name) {
            return Err(no_package(name, self));
        }
        self.packages.get_mut(name).ok_or_else(|| EditRefusal::new("no such package"))
    }

    /// Returns the package of the bundle called `bundle`, searching only `package` if it is given.
    ///
    /// # Errors
    /// Refuses if the bundle does not exist, or if several packages have one.
    pub(crate) fn package_of(&self, package: Option<&str>, bundle: &str) -> Result<String, EditRefusal> {
        if let Some(name) = package {
            let package = self.package(name)?;
            if package.bundles.contains_key(bundle) {
                return Ok(name.to_owned());
            }
            let names = suggestions(bundle, package.bundles.keys());
            return Err(EditRefusal::new(format!("package {name:?} has no bundle {bundle:?}")).help(names));
        }
        let mut owners = self.packages.iter().filter(|(_, package)| package.bundles.contains_key(bundle));
        match (owners.next(), owners.next()) {
            (Some((name, _)), None) => Ok(name.clone()),
            (Some((one, _)), Some((other, _))) => {
                Err(EditRefusal::new(format!("packages {one:?} and {other:?} both have a bundle {bundle:?}"))
                    .help("choose one with --package"))
            }
            _ => {
                let names = self.packages.values().flat_map(|package| package.bundles.keys());
                Err(EditRefusal::new(format!("the catalog has no bundle {bundle:?}")).help(suggestions(bundle, names)))
            }
        }
    }
}

impl OutlinePackage {
    /// Returns the channel called `name`, mutably.
    ///
    /// # Errors
    /// Refuses if it does not exist.
    pub(crate) fn channel_mut(&mut self, package: &str, name: &str) -> Result<&mut OutlineChannel, EditRefusal> {
        if !self.channels.contains_key(name) {
            return Err(self.no_channel(package, name));
        }
        self.channels.get_mut(name).ok_or_else(|| EditRefusal::new("no such channel"))
    }

    /// Returns the refusal for a missing channel `name`.
    pub fn no_channel(&self, package: &str, name: &str) -> EditRefusal {
        let names: Vec<&str> = self.channels.keys().map(String::as_str).collect();
        EditRefusal::new(format!("package {package:?} has no channel {name:?}"))
            .help(format!("its channels are: {}", names.join(", ")))
    }

    /// Returns the deprecations; an empty list is equal to none.
    fn deprecated(&self) -> &[Deprecation] {
        self.deprecations.as_ref().map_or(&[], |it| &it.entries)
    }

    /// Compares the versions of two bundles.
    pub(crate) fn cmp_versions(&self, a: &str, b: &str) -> Option<Ordering> {
        cmp_versions(&self.bundles, a, b)
    }

    /// Removes bundles that are in no channel, and stale deprecations.
    ///
    /// Returns the names of the removed bundles.
    pub(crate) fn drop_unlisted(&mut self) -> Vec<String> {
        let listed: HashSet<&str> =
            self.channels.values().flat_map(|channel| channel.entries.iter().map(|entry| &*entry.name)).collect();
        let unlisted: Vec<String> =
            self.bundles.keys().filter(|name| !listed.contains(name.as_str())).cloned().collect();
        for name in &unlisted {
            self.bundles.remove(name);
        }
        self.drop_stale_deprecations();
        unlisted
    }

    /// Removes deprecations whose target no longer exists.
    pub(crate) fn drop_stale_deprecations(&mut self) {
        let Some(deprecations) = &mut self.deprecations else { return };
        let before = deprecations.entries.len();
        deprecations.entries.retain(|entry| match &*entry.schema {
            BUNDLE => self.bundles.contains_key(&*entry.name),
            CHANNEL => self.channels.contains_key(&*entry.name),
            _ => true,
        });
        if deprecations.entries.is_empty() && before > 0 {
            self.deprecations = None;
        }
    }
}

impl OutlineChannel {
    /// Returns the entry called `name`.
    pub fn entry(&self, name: &str) -> Option<&ChannelEntry> {
        self.entries.iter().find(|entry| &*entry.name == name)
    }

    /// Returns the entry called `name`, mutably.
    pub(crate) fn entry_mut(&mut self, name: &str) -> Option<&mut ChannelEntry> {
        self.entries.iter_mut().find(|entry| &*entry.name == name)
    }

    /// Returns a graph view of the entries.
    pub fn view(&self) -> ChannelView<'_> {
        ChannelView::new(&self.entries)
    }

    /// Returns the heads: the entries that no entry replaces or skips, in source order.
    pub fn heads(&self) -> Vec<&str> {
        self.view().heads().into_iter().map(|number| &*self.entries[number].name).collect()
    }

    /// Returns the `replaces` chain from the entry called `from`, which comes first.
    pub fn chain(&self, from: &str) -> Vec<&str> {
        let view = self.view();
        let chain = view.number(from).map(|number| view.chain(number).numbers).unwrap_or_default();
        chain.into_iter().map(|number| &*self.entries[number].name).collect()
    }

    /// Returns the newest head according to `compare`.
    pub(crate) fn newest_head(&self, compare: impl Fn(&str, &str) -> Ordering) -> Option<String> {
        self.heads().into_iter().max_by(|a, b| compare(a, b)).map(str::to_owned)
    }

    /// Lets the head `top` skip every other head and every entry that no path from `top` reaches.
    ///
    /// Returns the names that it skips now.
    pub(crate) fn connect_to(&mut self, top: &str) -> Vec<String> {
        let view = self.view();
        let names = |numbers: Vec<usize>| numbers.into_iter().map(|number| view.entries()[number].name.to_string());
        let stranded = view.number(top).map(|top| view.stranded(top)).unwrap_or_default();
        // Skipping an entry outside the trunk does not change the trunk, so one pass finds all stranded entries.
        let mut unreachable: Vec<String> = names(view.heads()).filter(|other| other != top).collect();
        let heads: HashSet<String> = unreachable.iter().cloned().collect();
        unreachable.extend(names(stranded).filter(|other| !heads.contains(other)));
        if let Some(entry) = self.entry_mut(top) {
            crate::set_edge::add(&mut entry.skips, &unreachable);
        }
        unreachable
    }
}

/// Compares the versions of two bundles.
pub(crate) fn cmp_versions(bundles: &BTreeMap<String, OutlineBundle>, a: &str, b: &str) -> Option<Ordering> {
    let version = |name: &str| bundles.get(name)?.version.as_ref();
    let ((a, a_release), (b, b_release)) = (version(a)?, version(b)?);
    Some(cmp_version_release((a, a_release.as_ref()), (b, b_release.as_ref())))
}

fn no_package(name: &str, outline: &Outline) -> EditRefusal {
    EditRefusal::new(format!("the catalog has no package {name:?}")).help(suggestions(name, outline.packages.keys()))
}

/// Names what was probably meant, or lists existing names similar to `name`.
pub(crate) fn suggestions<'a>(name: &str, names: impl Iterator<Item = &'a String> + Clone) -> String {
    if let Some(near) = fbc::similar::nearest(name, names.clone().map(String::as_str)) {
        return format!("did you mean {near:?}?");
    }
    let stem = name.split(['.', '-']).next().unwrap_or_default();
    let mut alike: Vec<&str> = Vec::new();
    let mut first: Vec<&str> = Vec::new();
    for known in names {
        if first.len() < 10 {
            first.push(known);
        }
        if alike.len() < 10 && !stem.is_empty() && known.contains(stem) {
            alike.push(known);
        }
    }
    let shown = if alike.is_empty() { first } else { alike };
    if shown.is_empty() { "there are none".to_owned() } else { format!("available: {}", shown.join(", ")) }
}
