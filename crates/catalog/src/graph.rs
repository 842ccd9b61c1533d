//! Upgrade graphs as they are drawn: packages, channels, entries in order, and the edges between.
//!
//! Built from what is written, valid or not: an entry without a bundle, a target that nobody
//! lists and a circle of upgrades are all part of the picture. The size of a graph is linear in
//! that of its catalog, because a `skipRange` is kept as runs of entries and not as edges.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use fbc::blob::{Deprecation, PACKAGE, PackageProperty};
use fbc::range::RangeError;
use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;
use fbc::{Content, Fbc};

use crate::selection::{GraphError, GraphOptions, SelectedChannel, SelectedEntry, Versions, bad_range, select};

mod channel;
mod order;
#[cfg(test)]
mod tests;
mod upgrade;

/// The upgrade graphs of a catalog.
#[derive(Debug)]
pub struct Graph<'a> {
    /// The packages that have something to draw, by name.
    pub packages: Vec<Package<'a>>,
    /// Whether upgrades follow the rules of the first generation of cluster software.
    pub v0_semantics: bool,
    /// What could not be drawn as it was meant.
    pub warnings: Vec<String>,
}

/// A package of a [`Graph`].
#[derive(Debug)]
pub struct Package<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why it should not be used any more.
    pub deprecation: Option<&'a str>,
    /// Its channels: the default channel, then those with the newest heads, then by name.
    pub channels: Vec<Channel<'a>>,
}

/// A channel of a [`Package`].
#[derive(Debug)]
pub struct Channel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is followed unless another is asked for.
    pub default: bool,
    /// Why it should not be used any more.
    pub deprecation: Option<&'a str>,
    /// Its entries and whatever they mention, newest first.
    pub nodes: Vec<Node<'a>>,
    /// The upgrades by `replaces` and `skips`, by target, each once.
    pub edges: Vec<Edge>,
    /// The upgrades by `skipRange`, by target.
    pub ranges: Vec<SkipRange<'a>>,
}

/// A bundle's place in a [`Channel`].
#[derive(Debug)]
pub struct Node<'a> {
    /// The name of the bundle.
    pub name: &'a str,
    /// Its version, with its release if it has one.
    pub version: Option<Cow<'a, str>>,
    /// Whether it is an entry, and whether there is such a bundle.
    pub presence: Presence,
    /// Whether it is an entry that no entry replaces or skips.
    pub head: bool,
    /// Whether an entry skips it.
    pub skipped: bool,
    /// Whether the chain of `replaces` from the newest head leads through it, downwards.
    pub spine: bool,
    /// Why it should not be used any more.
    pub deprecation: Option<&'a str>,
    /// The entry that a cluster with this bundle installed upgrades to, by place in [`Channel::nodes`].
    pub next: Option<usize>,
    /// Whether there are newer entries, but nothing to upgrade to.
    pub stuck: bool,
}

/// Where a bundle is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is an entry of the channel and a bundle of the package.
    Entry,
    /// It is an entry of the channel, but there is no such bundle.
    NoBundle,
    /// It is only mentioned by an entry, but a bundle of the package.
    OtherChannel,
    /// It is only mentioned by an entry.
    Absent,
}

/// An upgrade, from the older to the newer bundle by places in [`Channel::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The newer bundle, whose entry says so.
    pub to: usize,
    /// How it says so.
    pub kind: EdgeKind,
    /// The older bundle.
    pub from: usize,
    /// Whether no cluster ever follows it, because the newer bundle is skipped.
    pub inert: bool,
}

/// How an entry says that another upgrades to it.
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
    /// The range as it is written.
    pub text: &'a str,
    /// Runs of nodes whose versions lie in it. Nodes without a version and the newer bundle
    /// itself do not count, though they may stand inside a run.
    pub runs: Vec<Range<usize>>,
    /// How many nodes count.
    pub covered: usize,
    /// Why the text is no range, if it is none.
    pub error: Option<RangeError>,
    /// Whether no cluster ever follows it, because the newer bundle is skipped.
    pub inert: bool,
}

/// What is known of a package beside its channels.
#[derive(Default)]
struct Background<'a> {
    default_channel: Option<&'a str>,
    bundles: HashMap<&'a str, KnownBundle<'a>>,
    deprecations: HashMap<(&'a str, &'a str), &'a str>,
}

/// A bundle, and its version if that is a good one.
struct KnownBundle<'a> {
    version: Option<(Version, Option<Release>)>,
    /// The version as people see it, good or not.
    text: Option<Cow<'a, str>>,
}

impl<'a> Graph<'a> {
    /// Builds the graphs of the part of a catalog that `options` ask for.
    ///
    /// Bundles without a good version are drawn without one, and named in the warnings.
    ///
    /// # Errors
    /// Fails when the minimum edge is unknown.
    pub fn new(fbc: &'a Fbc, options: &GraphOptions) -> Result<Graph<'a>, GraphError> {
        let mut versions = Versions::of(fbc);
        let selected = select(fbc, &versions, options)?;
        let mut warnings = std::mem::take(&mut versions.problems);
        let mut known: BTreeMap<&str, Background<'a>> =
            selected.iter().map(|channel| (channel.package, Background::default())).collect();
        gather(fbc, &mut known);
        let mut packages: BTreeMap<&str, Vec<Channel<'a>>> = BTreeMap::new();
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

/// A package as far as its graph needs it, from elsewhere than a catalog's blobs.
#[derive(Debug, Default)]
pub struct Outline<'a> {
    /// Its name.
    pub name: &'a str,
    /// The channel that is followed unless another is asked for.
    pub default_channel: &'a str,
    /// Its channels.
    pub channels: Vec<OutlineChannel<'a>>,
    /// Its bundles: name, version, release.
    pub bundles: Vec<(&'a str, &'a str, &'a str)>,
    /// What should not be used any more: schema, name, message.
    pub deprecations: Vec<(&'a str, &'a str, &'a str)>,
}

/// A channel of an [`Outline`].
#[derive(Debug, Default)]
pub struct OutlineChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its entries: name, replaces, skips, skipRange.
    pub entries: Vec<(&'a str, &'a str, Vec<&'a str>, &'a str)>,
}

impl<'a> Graph<'a> {
    /// Builds the graph of one package from its outline.
    pub fn of_outline(outline: Outline<'a>, v0_semantics: bool) -> Graph<'a> {
        let mut known = Background { default_channel: Some(outline.default_channel), ..Background::default() };
        for (name, version, release) in outline.bundles {
            known.bundles.insert(name, KnownBundle::from_texts(Cow::Borrowed(version), release));
        }
        for (schema, name, message) in outline.deprecations {
            known.deprecations.insert((schema, name), message);
        }
        let mut channels = Vec::new();
        for OutlineChannel { name, entries } in outline.channels {
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

impl Channel<'_> {
    /// Returns the newest head.
    pub fn head(&self) -> Option<&Node<'_>> {
        self.nodes.iter().find(|node| node.head)
    }
}

impl Node<'_> {
    /// Returns whether the channel lists it.
    pub fn is_entry(&self) -> bool {
        matches!(self.presence, Presence::Entry | Presence::NoBundle)
    }
}

impl<'a> Background<'a> {
    fn deprecation(&self, schema: &str, name: &str) -> Option<&'a str> {
        self.deprecations.get(&(schema, name)).copied()
    }

    fn version(&self, name: &str) -> Option<&(Version, Option<Release>)> {
        self.bundles.get(name)?.version.as_ref()
    }
}

/// Collects what is known of packages; of several blobs with one name the first counts.
fn gather<'a>(fbc: &'a Fbc, known: &mut BTreeMap<&str, Background<'a>>) {
    for blob in fbc.blobs() {
        let Some(package) = known.get_mut(&*blob.package) else { continue };
        match &blob.content {
            Content::Package { default_channel } => {
                package.default_channel.get_or_insert(default_channel);
            }
            Content::Bundle(bundle) => {
                package.bundles.entry(&blob.name).or_insert_with(|| KnownBundle::of(&bundle.package_properties));
            }
            Content::Deprecations { entries } => {
                for Deprecation { schema, name, message } in entries {
                    package.deprecations.entry((schema, name)).or_insert(message);
                }
            }
            Content::Channel { .. } | Content::Other | Content::Broken => {}
        }
    }
}

fn package<'a>(name: &'a str, mut channels: Vec<Channel<'a>>, known: &Background<'a>) -> Package<'a> {
    let head = |channel: &Channel<'_>| channel.head().and_then(|head| known.version(head.name));
    channels.sort_by(|a, b| {
        let newer = match (head(a), head(b)) {
            (Some(a), Some(b)) => cmp_version_release((&b.0, b.1.as_ref()), (&a.0, a.1.as_ref())),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        b.default.cmp(&a.default).then(newer).then_with(|| a.name.cmp(b.name))
    });
    Package { name, deprecation: known.deprecation(PACKAGE, ""), channels }
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
