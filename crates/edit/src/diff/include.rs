//! Include files: bundles to select even if they are not new.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use catalog::{Channel, Package};
use fbc::Limits;
use fbc::json::{JsonObject, JsonPath, Raw};
use fbc::quote::quote;
use fbc::range::VersionRange;
use fbc::shape::Shape;
use fbc::stream::{self, StreamError};
use fbc::template::INCLUDE;
use fbc::version::Version;

use super::{EntrySelection, path};

/// The content of an include file.
#[derive(Debug, Default)]
pub struct Include {
    /// The packages, as listed.
    pub packages: Vec<IncludedPackage>,
    /// Warnings about content that is probably unintended.
    pub warnings: Vec<String>,
}

/// A package to include, completely or in part.
#[derive(Debug)]
pub struct IncludedPackage {
    pub name: String,
    /// The bundles to include from every channel.
    pub wanted: IncludedBundles,
    /// The bundles to include from individual channels.
    pub channels: Vec<IncludedChannel>,
}

/// A channel to include, completely or in part.
#[derive(Debug)]
pub struct IncludedChannel {
    pub name: String,
    /// The bundles to include from it.
    pub wanted: IncludedBundles,
}

/// The bundles to include.
#[derive(Debug)]
pub enum IncludedBundles {
    /// Unspecified.
    Unspecified,
    /// Those within a version range.
    Range(VersionRange),
    /// Those with one of these versions or names, and all on the upgrade path from them to the head.
    From {
        versions: Vec<Version>,
        /// The names.
        bundles: Vec<String>,
    },
}

/// The reason why an include file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum IncludeError {
    /// The file is neither JSON nor YAML.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// The content is invalid.
    #[error("{0}")]
    Content(String),
}

impl Include {
    /// Reads an include file, in JSON or YAML.
    ///
    /// # Errors
    /// Fails if the text cannot be parsed, lists no package, or specifies versions in two conflicting ways.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Include, IncludeError> {
        let json = stream::first(text, limits)?.map_or_else(|| JsonObject::new().end(), |(_, json)| json);
        let document = json.raw();
        let content = IncludeError::Content;
        INCLUDE.check(document, &JsonPath::default()).map_err(|mismatch| content(mismatch.to_string()))?;
        let mut include = Include::default();
        unknown(document, INCLUDE, "", &mut include.warnings);
        for (index, item) in document.get_items("packages").enumerate() {
            let name = item.get_str("name").into_owned();
            if name.is_empty() {
                return Err(content(format!("package at index {index} requires a name")));
            }
            let about = format!("package {}", quote(&name));
            let wanted = IncludedBundles::read(item, &about)?;
            let mut channels = Vec::new();
            for (index, item) in item.get_items("channels").enumerate() {
                let name = item.get_str("name").into_owned();
                if name.is_empty() {
                    return Err(content(format!("{about}: channel at index {index} requires a name")));
                }
                let about = format!("{about}, channel {}", quote(&name));
                let own = IncludedBundles::read(item, &about)?;
                if let (IncludedBundles::Range(_), IncludedBundles::Range(_)) = (&wanted, &own) {
                    return Err(content(format!("{about}: set a range for the package or for the channel, not both")));
                }
                if own.is_by_name() {
                    include
                        .warnings
                        .push(format!("{about}: \"bundles\" without \"versions\" select the whole channel"));
                }
                channels.push(IncludedChannel { name, wanted: own });
            }
            include.packages.push(IncludedPackage { name, wanted, channels });
        }
        if include.packages.is_empty() {
            return Err(content("must specify at least one package in include config".into()));
        }
        Ok(include)
    }

    /// Adds the included bundles to `selection` and reports all that are missing.
    pub(super) fn apply(&self, heads_only: bool, selection: &mut EntrySelection<'_>) -> Result<(), Vec<String>> {
        let mut missing = Vec::new();
        for wanted in &self.packages {
            let found = selection.catalog().packages().binary_search_by(|package| package.name().cmp(&wanted.name));
            match found {
                Ok(p) => wanted.apply(p, heads_only, selection, &mut missing),
                Err(_) => {
                    missing.push(format!("[package={}] package does not exist in new model", quote(&wanted.name)))
                }
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }
}

impl IncludedPackage {
    fn apply(&self, p: usize, heads_only: bool, selection: &mut EntrySelection<'_>, missing: &mut Vec<String>) {
        let package = &selection.catalog().packages()[p];
        // A package counts as included even if none of its bundles is found.
        selection.touch(p);
        let all = |channel: &Channel| {
            if heads_only { vec![path::head(channel)] } else { (0..channel.entries().len()).collect() }
        };
        for wanted in &self.channels {
            let about = format!("[package={} channel={}]", quote(&self.name), quote(&wanted.name));
            let Some(c) = package.channels().iter().position(|channel| channel.name() == wanted.name) else {
                missing.push(format!("{about} channel does not exist in new model"));
                continue;
            };
            let channel = &package.channels()[c];
            let entries = match (&wanted.wanted, &self.wanted) {
                (IncludedBundles::Unspecified, IncludedBundles::Range(range)) | (IncludedBundles::Range(range), _) => {
                    in_range(package, channel, range)
                }
                (IncludedBundles::Unspecified, _) => all(channel),
                (IncludedBundles::From { versions, bundles }, _) => {
                    let (entries, absent) = from(package, channel, versions, bundles);
                    missing.extend(absent.map(|absent| format!("{about} bundles do not exist in channel: {absent}")));
                    // Older tools honor names only together with versions, and scripts rely on it.
                    if wanted.wanted.is_by_name() { [entries, all(channel)].concat() } else { entries }
                }
            };
            selection.add_all(p, c, entries);
        }
        for (c, channel) in package.channels().iter().enumerate() {
            let entries = match &self.wanted {
                IncludedBundles::Unspecified if self.channels.is_empty() => all(channel),
                IncludedBundles::Range(range) if self.channels.is_empty() => in_range(package, channel, range),
                IncludedBundles::From { versions, bundles } => from(package, channel, versions, bundles).0,
                _ => continue,
            };
            if !entries.is_empty() {
                selection.add_all(p, c, entries);
            }
        }
    }
}

impl IncludedBundles {
    /// Returns whether bundles are selected by name only.
    fn is_by_name(&self) -> bool {
        matches!(self, IncludedBundles::From { versions, .. } if versions.is_empty())
    }

    fn read(item: Raw<'_>, about: &str) -> Result<IncludedBundles, IncludeError> {
        let content = IncludeError::Content;
        let range = item.get_str("range").into_owned();
        let strings = |name| item.get_items(name).map(|item| item.as_str().unwrap_or_default().into_owned());
        let (versions, bundles): (Vec<String>, Vec<String>) =
            (strings("versions").collect(), strings("bundles").collect());
        let listed = !versions.is_empty() || !bundles.is_empty();
        match (range.is_empty(), listed) {
            (true, false) => Ok(IncludedBundles::Unspecified),
            (false, true) => Err(content(format!("{about}: set a range, or versions and bundles, not both"))),
            (false, false) => match VersionRange::parse(&range) {
                Ok(range) => Ok(IncludedBundles::Range(range)),
                Err(error) => Err(content(format!("{about}: invalid range {}: {error}", quote(&range)))),
            },
            (true, true) => {
                let parsed = versions.iter().map(|version| {
                    Version::parse_strict(version)
                        .map_err(|error| content(format!("{about}: invalid version {}: {error}", quote(version))))
                });
                Ok(IncludedBundles::From { versions: parsed.collect::<Result<_, _>>()?, bundles })
            }
        }
    }
}

fn in_range(package: &Package, channel: &Channel, range: &VersionRange) -> Vec<usize> {
    let inside = |name: &str| package.bundle(name).is_some_and(|bundle| range.contains(&bundle.version));
    (0..channel.entries().len()).filter(|&entry| inside(&channel.entries()[entry].name)).collect()
}

/// Returns the selected entries of a channel with their upgrade paths to the head, and the missing items.
fn from(
    package: &Package,
    channel: &Channel,
    versions: &[Version],
    bundles: &[String],
) -> (Vec<usize>, Option<String>) {
    let version_of = |entry: &fbc::blob::ChannelEntry| package.bundle(&entry.name).map(|bundle| &bundle.version);
    let with = |version: &Version| {
        let entries = channel.entries().iter().enumerate();
        let found = entries.filter(|(_, entry)| version_of(entry) == Some(version)).map(|(number, _)| number);
        found.collect::<Vec<_>>()
    };
    let called = |name: &String| path::position(channel, name).into_iter().collect::<Vec<_>>();
    let mut starts = BTreeSet::new();
    let (mut absent_versions, mut absent_bundles) = (Vec::new(), Vec::new());
    for version in versions {
        let found = with(version);
        if found.is_empty() {
            absent_versions.push(quote(&version.to_string()).to_string());
        }
        starts.extend(found);
    }
    for name in bundles {
        let found = called(name);
        if found.is_empty() {
            absent_bundles.push(quote(name).to_string());
        }
        starts.extend(found);
    }
    let mut entries = BTreeSet::new();
    for start in starts {
        // An entry without an upgrade path to the head is included alone.
        entries.extend(path::to_head(channel, start).unwrap_or_else(|| BTreeSet::from([start])));
    }
    let mut absent = String::new();
    for (what, names) in [("versions", absent_versions), ("names", absent_bundles)] {
        if !names.is_empty() {
            let space = if absent.is_empty() { "" } else { " " };
            let _ = write!(absent, "{space}{what}=[{}]", names.join(" "));
        }
    }
    (entries.into_iter().collect(), (!absent.is_empty()).then_some(absent))
}

/// Warns about fields that are not in `shape`.
fn unknown(value: Raw<'_>, shape: Shape, path: &str, found: &mut Vec<String>) {
    match shape {
        Shape::Object(fields) => {
            for (key, value) in value.members() {
                let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                match fields.iter().find(|(name, _)| key.eq_ignore_ascii_case(name)) {
                    Some((_, shape)) => unknown(value, *shape, &path, found),
                    None => found.push(format!("unknown field {path}")),
                }
            }
        }
        Shape::List(shape) => {
            value
                .items()
                .enumerate()
                .for_each(|(index, item)| unknown(item, *shape, &format!("{path}[{index}]"), found));
        }
        _ => {}
    }
}
