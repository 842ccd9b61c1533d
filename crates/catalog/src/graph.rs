//! Upgrade graphs for drawing: packages, channels, sorted entries, and edges.
//!
//! Built from blobs, valid or not: an entry without a bundle, a target that is not listed and a cycle of upgrades are
//! all part of the graph. The size of a graph is linear in that of its catalog, because a `skipRange` is stored as
//! ranges of entries and not as edges.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use fbc::blob::{Deprecation, PACKAGE, PackageProperty};
use fbc::range::RangeError;
use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;
use fbc::{BlobContent, Fbc};

use crate::selection::{BundleVersions, GraphError, GraphOptions, SelectedChannel, SelectedEntry, bad_range, select};

mod channel;
mod order;
#[cfg(test)]
mod tests;
mod upgrade;

/// The upgrade graphs of a catalog.
#[derive(Debug)]
pub struct Graph<'a> {
    /// The packages with something to draw, by name.
    pub packages: Vec<GraphPackage<'a>>,
    /// Whether upgrades follow the rules of the first generation of cluster software.
    pub v0_semantics: bool,
    /// Warnings about parts that could not be drawn as intended.
    pub warnings: Vec<String>,
}

/// A package of a [`Graph`].
#[derive(Debug)]
pub struct GraphPackage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
    /// Its channels: the default channel, then those with the newest heads, then by name.
    pub channels: Vec<GraphChannel<'a>>,
}

/// A channel of a [`GraphPackage`].
#[derive(Debug)]
pub struct GraphChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is the default channel.
    pub default: bool,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
    /// Its entries and the bundles they mention, newest first.
    pub nodes: Vec<GraphNode<'a>>,
    /// The upgrade edges by `replaces` and `skips`, by target, without duplicates.
    pub edges: Vec<GraphEdge>,
    /// The upgrade edges by `skipRange`, by target.
    pub ranges: Vec<SkipRange<'a>>,
}

/// A bundle in a [`GraphChannel`].
#[derive(Debug)]
pub struct GraphNode<'a> {
    /// The name of the bundle.
    pub name: &'a str,
    /// Its version, with its release if it has one.
    pub version: Option<Cow<'a, str>>,
    /// Whether it is an entry, and whether the bundle exists.
    pub presence: Presence,
    /// Whether it is an entry that no entry replaces or skips.
    pub head: bool,
    /// Whether an entry skips it.
    pub skipped: bool,
    /// Whether it is on the `replaces` chain from the newest head.
    pub spine: bool,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
    /// The entry that a cluster with this bundle upgrades to, as an index into [`GraphChannel::nodes`].
    pub next: Option<usize>,
    /// Whether there are newer entries, but no upgrade edge.
    pub stuck: bool,
}

/// The presence of a bundle in channel and package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// An entry of the channel and a bundle of the package.
    Entry,
    /// An entry of the channel without a bundle.
    NoBundle,
    /// A bundle of the package that an entry mentions, but no entry of the channel.
    OtherChannel,
    /// Only mentioned by an entry.
    Absent,
}

/// An upgrade edge, from the older to the newer bundle as indexes into [`GraphChannel::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphEdge {
    /// The newer bundle, whose entry declares the edge.
    pub to: usize,
    /// The field that declares it.
    pub kind: EdgeKind,
    /// The older bundle.
    pub from: usize,
    /// Whether no cluster ever follows it, because the newer bundle is skipped.
    pub inert: bool,
}

/// The field that declares an upgrade edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// By `replaces`.
    Replaces,
    /// By `skips`.
    Skips,
}

/// All upgrades to one entry by its `skipRange`.
#[derive(Debug, PartialEq, Eq)]
pub struct SkipRange<'a> {
    /// The newer bundle.
    pub to: usize,
    /// The range as written.
    pub text: &'a str,
    /// Index ranges of nodes whose versions it contains. Nodes without a version and the newer bundle itself do not
    /// count, though they may lie inside a range.
    pub runs: Vec<Range<usize>>,
    /// The number of covered nodes.
    pub covered: usize,
    /// The parse error, if the text is not a valid range.
    pub error: Option<RangeError>,
    /// Whether no cluster ever follows it, because the newer bundle is skipped.
    pub inert: bool,
}

/// The bundles and deprecations of a package.
#[derive(Default)]
struct PackageInfo<'a> {
    default_channel: Option<&'a str>,
    bundles: HashMap<&'a str, KnownBundle<'a>>,
    deprecations: HashMap<(&'a str, &'a str), &'a str>,
}

/// A bundle, and its version if it is valid.
struct KnownBundle<'a> {
    version: Option<(Version, Option<Release>)>,
    /// The version as shown to users, valid or not.
    text: Option<Cow<'a, str>>,
}

impl<'a> Graph<'a> {
    /// Builds the graphs of the part of a catalog that `options` select.
    ///
    /// Bundles without a valid version are drawn without one, and named in the warnings.
    ///
    /// # Errors
    /// Fails when the minimum edge is unknown.
    pub fn new(fbc: &'a Fbc, options: &GraphOptions) -> Result<Graph<'a>, GraphError> {
        let mut versions = BundleVersions::of(fbc);
        let selected = select(fbc, &versions, options)?;
        let mut warnings = std::mem::take(&mut versions.problems);
        let mut known: BTreeMap<&str, PackageInfo<'a>> =
            selected.iter().map(|channel| (channel.package, PackageInfo::default())).collect();
        collect_info(fbc, &mut known);
        let mut packages: BTreeMap<&str, Vec<GraphChannel<'a>>> = BTreeMap::new();
        for channel in &selected {
            let Some(known) = known.get(channel.package) else { continue };
            let drawn = channel::draw(channel, known, options.v0_semantics);
            for range in &drawn.ranges {
                let warning = |error| bad_range(channel.package, drawn.nodes[range.to].name, error);
                warnings.extend(range.error.as_ref().map(warning));
            }
            packages.entry(channel.package).or_default().push(drawn);
        }
        let packages =
            packages.into_iter().filter_map(|(name, channels)| Some(package(name, channels, known.get(name)?)));
        Ok(Graph { packages: packages.collect(), v0_semantics: options.v0_semantics, warnings })
    }
}

/// The input of the graph of one package, from another source than blobs.
#[derive(Debug, Default)]
pub struct GraphInput<'a> {
    /// Its name.
    pub name: &'a str,
    pub default_channel: &'a str,
    /// Its channels.
    pub channels: Vec<GraphInputChannel<'a>>,
    /// Its bundles: name, version, release.
    pub bundles: Vec<(&'a str, &'a str, &'a str)>,
    /// Its deprecations: schema, name, message.
    pub deprecations: Vec<(&'a str, &'a str, &'a str)>,
}

/// A channel of an [`GraphInput`].
#[derive(Debug, Default)]
pub struct GraphInputChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its entries: name, replaces, skips, skipRange.
    pub entries: Vec<(&'a str, &'a str, Vec<&'a str>, &'a str)>,
}

impl<'a> Graph<'a> {
    /// Builds the graph of one package from its outline.
    pub fn of_outline(outline: GraphInput<'a>, v0_semantics: bool) -> Graph<'a> {
        let mut known = PackageInfo { default_channel: Some(outline.default_channel), ..PackageInfo::default() };
        for (name, version, release) in outline.bundles {
            known.bundles.insert(name, KnownBundle::from_texts(Cow::Borrowed(version), release));
        }
        for (schema, name, message) in outline.deprecations {
            known.deprecations.insert((schema, name), message);
        }
        let mut channels = Vec::new();
        for GraphInputChannel { name, entries } in outline.channels {
            let entries = entries.into_iter();
            let entries =
                entries.map(|(name, replaces, skips, skip_range)| SelectedEntry { name, replaces, skips, skip_range });
            let selected = SelectedChannel { package: outline.name, name, entries: entries.collect() };
            channels.push(channel::draw(&selected, &known, v0_semantics));
        }
        let packages = vec![package(outline.name, channels, &known)];
        Graph { packages, v0_semantics, warnings: Vec::new() }
    }
}

impl GraphChannel<'_> {
    /// Returns the newest head.
    pub fn head(&self) -> Option<&GraphNode<'_>> {
        self.nodes.iter().find(|node| node.head)
    }
}

impl GraphNode<'_> {
    /// Returns whether it is an entry of the channel.
    pub fn is_entry(&self) -> bool {
        matches!(self.presence, Presence::Entry | Presence::NoBundle)
    }
}

impl<'a> PackageInfo<'a> {
    fn deprecation(&self, schema: &str, name: &str) -> Option<&'a str> {
        self.deprecations.get(&(schema, name)).copied()
    }

    fn version(&self, name: &str) -> Option<&(Version, Option<Release>)> {
        self.bundles.get(name)?.version.as_ref()
    }
}

/// Collects bundles and deprecations by package; of several blobs with one name the first counts.
fn collect_info<'a>(fbc: &'a Fbc, known: &mut BTreeMap<&str, PackageInfo<'a>>) {
    for blob in fbc.blobs() {
        let Some(package) = known.get_mut(&*blob.package) else { continue };
        match &blob.content {
            BlobContent::Package { default_channel } => {
                package.default_channel.get_or_insert(default_channel);
            }
            BlobContent::Bundle(bundle) => {
                package.bundles.entry(&blob.name).or_insert_with(|| KnownBundle::of(&bundle.package_properties));
            }
            BlobContent::Deprecations { entries } => {
                for Deprecation { schema, name, message } in entries {
                    package.deprecations.entry((schema, name)).or_insert(message);
                }
            }
            BlobContent::Channel { .. } | BlobContent::Other | BlobContent::Broken => {}
        }
    }
}

fn package<'a>(name: &'a str, mut channels: Vec<GraphChannel<'a>>, known: &PackageInfo<'a>) -> GraphPackage<'a> {
    let head = |channel: &GraphChannel<'_>| channel.head().and_then(|head| known.version(head.name));
    channels.sort_by(|a, b| {
        let newer = match (head(a), head(b)) {
            (Some(a), Some(b)) => cmp_version_release((&b.0, b.1.as_ref()), (&a.0, a.1.as_ref())),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        b.default.cmp(&a.default).then(newer).then_with(|| a.name.cmp(b.name))
    });
    GraphPackage { name, deprecation: known.deprecation(PACKAGE, ""), channels }
}

impl<'a> KnownBundle<'a> {
    fn of(properties: &'a [PackageProperty]) -> KnownBundle<'a> {
        let [property] = properties else { return KnownBundle { version: None, text: None } };
        KnownBundle::from_texts(Cow::Borrowed(&property.version), &property.release)
    }

    fn from_texts(written: Cow<'a, str>, release: &str) -> KnownBundle<'a> {
        let Ok(version) = Version::parse_strict(&written) else {
            return KnownBundle { version: None, text: Some(written) };
        };
        let release = Release::parse(release).ok().flatten();
        let text = match &release {
            Some(release) => Cow::Owned(format!("{version}-{release}")),
            None => written,
        };
        KnownBundle { version: Some((version, release)), text: Some(text) }
    }
}
