//! Selects the part of a catalog to draw: a package, or the upgrades from a version on.

use std::collections::HashMap;

use fbc::blob::{BUNDLE, PackageProperty};
use fbc::quote::quote;
use fbc::range::{RangeError, VersionRange};
use fbc::version::{Version, VersionError};
use fbc::{BlobContent, Fbc};

/// Options of drawing upgrade graphs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphOptions {
    /// Only this package.
    pub package: Option<String>,
    /// Only the package of this bundle, and in it only upgrades from this bundle's version on.
    pub minimum_edge: Option<String>,
    /// Whether upgrades follow the first generation of cluster software, which never installs skipped bundles. The
    /// second generation does install them.
    pub v0_semantics: bool,
}

/// The reason why a graph cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Bundles have no valid version; a message for each.
    #[error("{}", .0.join("\n"))]
    Bundles(Vec<String>),
    /// No bundle has the name of the minimum edge.
    #[error("unknown minimum edge name: {}", quote(.0))]
    MinimumEdge(String),
}

/// The versions of bundles by name; of several with one name the first counts.
pub(crate) struct BundleVersions<'a> {
    by_name: HashMap<&'a str, Version>,
    zero: Version,
    /// The problems of the bundles without a version.
    pub(crate) problems: Vec<String>,
}

/// The selected part of a channel.
pub(crate) struct SelectedChannel<'a> {
    pub(crate) package: &'a str,
    pub(crate) name: &'a str,
    /// Its entries as listed.
    pub(crate) entries: Vec<SelectedEntry<'a>>,
}

/// The selected part of an entry.
pub(crate) struct SelectedEntry<'a> {
    pub(crate) name: &'a str,
    /// Empty if absent, as the other fields.
    pub(crate) replaces: &'a str,
    pub(crate) skips: Vec<&'a str>,
    pub(crate) skip_range: &'a str,
}

impl<'a> BundleVersions<'a> {
    /// Reads the versions of all bundles.
    pub(crate) fn of(fbc: &'a Fbc) -> BundleVersions<'a> {
        let mut by_name = HashMap::new();
        let mut bad = HashMap::new();
        let mut problems = Vec::new();
        for blob in fbc.blobs().iter().filter(|blob| &*blob.schema == BUNDLE) {
            let name = &*blob.name;
            if by_name.contains_key(name) || bad.insert(name, ()).is_some() {
                continue;
            }
            let properties = match &blob.content {
                BlobContent::Bundle(bundle) => bundle.package_properties.as_slice(),
                _ => &[],
            };
            match version(name, properties) {
                Ok(version) => {
                    bad.remove(name);
                    by_name.insert(name, version);
                }
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        let zero = Version::parse_tolerant("0").unwrap_or_else(|_| unreachable!("zero is a version"));
        BundleVersions { by_name, zero, problems }
    }

    /// Returns the version of the bundle called `name`, 0.0.0 for an unknown one.
    pub(crate) fn or_zero(&self, name: &str) -> &Version {
        self.by_name.get(name).unwrap_or(&self.zero)
    }

    fn is_from(&self, name: &str, minimum: &Version) -> bool {
        self.or_zero(name).cmp_precedence(minimum).is_ge()
    }
}

/// Why a bundle has no version.
#[derive(Debug, thiserror::Error)]
enum VersionProblem {
    #[error("bundle {} has {count} \"olm.package\" properties, expected exactly 1", quote(bundle))]
    Properties { bundle: String, count: usize },
    #[error("bundle {} has invalid version {}: {source}", quote(bundle), quote(version))]
    Invalid { bundle: String, version: String, source: VersionError },
}

/// Reads the version of a bundle from its `olm.package` properties.
fn version(name: &str, properties: &[PackageProperty]) -> Result<Version, VersionProblem> {
    let [property] = properties else {
        return Err(VersionProblem::Properties { bundle: name.to_owned(), count: properties.len() });
    };
    Version::parse_strict(&property.version).map_err(|source| VersionProblem::Invalid {
        bundle: name.to_owned(),
        version: property.version.to_string(),
        source,
    })
}

/// Selects the channels to draw: by name, of any package, without empty ones.
///
/// # Errors
/// Fails when the minimum edge is unknown.
pub(crate) fn select<'a>(
    fbc: &'a Fbc,
    versions: &BundleVersions<'a>,
    options: &GraphOptions,
) -> Result<Vec<SelectedChannel<'a>>, GraphError> {
    let mut channels = all(fbc);
    // Callers may pass an empty text for an unset option.
    let package = options.package.as_deref().filter(|name| !name.is_empty());
    let minimum = options.minimum_edge.as_deref().filter(|name| !name.is_empty());
    if let Some(minimum) = minimum {
        let Some(version) = versions.by_name.get(minimum) else {
            return Err(GraphError::MinimumEdge(minimum.to_owned()));
        };
        let lists = |channel: &&SelectedChannel<'_>| channel.entries.iter().any(|entry| entry.name == minimum);
        if let Some(owner) = channels.iter().find(lists).map(|channel| channel.package) {
            channels.retain(|channel| channel.package == owner);
        }
        for channel in &mut channels {
            channel.entries.retain_mut(|entry| entry.cut(minimum, version, versions));
        }
        channels.retain(|channel| !channel.entries.is_empty());
    }
    if let Some(package) = package {
        channels.retain(|channel| channel.package == package && !channel.entries.is_empty());
    }
    Ok(channels)
}

/// Returns the warning about an invalid `skipRange`.
pub(crate) fn bad_range(package: &str, entry: &str, error: &RangeError) -> String {
    format!("ignoring invalid SkipRange for package/edge {}/{}: {error}", quote(package), quote(entry))
}

fn all(fbc: &Fbc) -> Vec<SelectedChannel<'_>> {
    let mut channels = Vec::new();
    for blob in fbc.blobs() {
        let BlobContent::Channel { entries } = &blob.content else { continue };
        let entries = entries.iter().map(|entry| SelectedEntry {
            name: &entry.name,
            replaces: &entry.replaces,
            skips: entry.skips.iter().map(|skip| &**skip).collect(),
            skip_range: &entry.skip_range,
        });
        channels.push(SelectedChannel { package: &blob.package, name: &blob.name, entries: entries.collect() });
    }
    channels.sort_by_key(|channel| channel.name);
    channels
}

impl SelectedEntry<'_> {
    /// Drops the edges from below the minimum, and returns whether anything of the entry is left to draw.
    fn cut(&mut self, minimum: &str, version: &Version, versions: &BundleVersions<'_>) -> bool {
        if self.name == minimum {
            self.replaces = "";
            self.skips.clear();
            self.skip_range = "";
            return true;
        }
        if !self.has_edges() {
            return versions.is_from(self.name, version);
        }
        if !versions.is_from(self.replaces, version) {
            self.replaces = "";
        }
        self.skips.retain(|skip| versions.is_from(skip, version));
        if !VersionRange::parse(self.skip_range).is_ok_and(|range| range.contains(version)) {
            self.skip_range = "";
        }
        self.has_edges()
    }

    fn has_edges(&self) -> bool {
        !(self.replaces.is_empty() && self.skips.is_empty() && self.skip_range.is_empty())
    }
}
