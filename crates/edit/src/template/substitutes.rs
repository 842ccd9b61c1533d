//! The substitutes template: a catalog in which rebuilt bundles substitute for others.
//!
//! A substitute takes over the edges of its base in every channel: it upgrades from the same bundles, and the
//! successors of the base replace it. The base stays, skipped by the substitute, so that clusters that run it can
//! upgrade.

use std::collections::{HashMap, HashSet};
use std::io;

use catalog::Warnings;
use fbc::blob::{ChannelEntry, TextBuffer, channel_json};
use fbc::json::Raw;
use fbc::quote::quote;
use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;
use fbc::{Blob, BlobContent, Fbc, Limits, LoadReport, Problem, property};

use super::{Bundles, RenderedBundle, TemplateError};

/// The CSV annotation of a bundle that substitutes for another.
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// The reason why a substitutes template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstitutesError {
    /// An error that all templates share.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The entries are not a valid catalog.
    #[error("entries are not valid FBC: {0}")]
    Entries(String),
    /// Two substitutes have the same base.
    #[error("cannot reuse the same substitution base {}", quote(.0))]
    ReusedBase(String),
    /// A substitute has two bases.
    #[error(
        "cannot reuse the same substitution {} for different bases ({} and {})",
        quote(name), quote(&bases[0]), quote(&bases[1])
    )]
    ReusedName {
        /// The substitute.
        name: String,
        bases: [String; 2],
    },
    /// A substitution fails.
    #[error("error processing substitution {} -> {}: {reason}", quote(base), quote(name))]
    Substitution {
        base: String,
        /// The image of the substitute.
        name: String,
        reason: SubstitutionError,
    },
}

/// The reason why a substitution fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstitutionError {
    /// The image is empty.
    #[error("substitution name cannot be empty")]
    NoName,
    /// The base is empty.
    #[error("substitution base cannot be empty")]
    NoBase,
    /// The image and the base are equal.
    #[error("substitution name and base cannot be the same")]
    Same,
    /// The image cannot be rendered.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// The image contains no bundle.
    #[error("the image holds no bundle")]
    NoBundle,
    /// The base does not exist.
    #[error("base bundle {} is not in the catalog", quote(.0))]
    UnknownBase(String),
    /// The version of a bundle cannot be compared.
    #[error("bundle {}: {reason}", quote(bundle))]
    Version {
        bundle: String,
        /// The error.
        reason: String,
    },
    /// The substitute is not newer than the base.
    #[error("base bundle {} is not less than substitute bundle {}", quote(base), quote(name))]
    NotLess {
        base: String,
        /// The substitute.
        name: String,
    },
    /// The resulting catalog is invalid.
    #[error("resulting config is not valid FBC: {0}")]
    Invalid(String),
    /// A text cannot be stored or read again.
    #[error("{0}")]
    Io(String),
}

impl From<TemplateError> for SubstitutionError {
    fn from(error: TemplateError) -> SubstitutionError {
        SubstitutionError::Template(Box::new(error))
    }
}

impl From<io::Error> for SubstitutionError {
    fn from(error: io::Error) -> SubstitutionError {
        SubstitutionError::Io(error.to_string())
    }
}

/// A bundle that substitutes for another.
struct Substitution {
    /// The image of the substitute.
    name: String,
    /// The name of the base.
    base: String,
}

/// Builds a catalog from the entries and applies the substitutions in order.
pub(super) fn render(document: Raw<'_>, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, SubstitutesError> {
    super::check(fbc::template::SUBSTITUTES, document)?;
    let mut fbc = Fbc::default();
    let mut problems = Vec::new();
    for (entry, blob) in super::entries(document, &fbc, limits)? {
        catalog::inspect(Warnings::Off)(&blob, entry, &mut problems);
        fbc.push(blob);
    }
    if let Some(message) = invalid(&fbc, problems) {
        return Err(SubstitutesError::Entries(message));
    }
    let substitutions = substitutions(document)?;
    let mut supply = super::fetch(bundles, substitutions.iter().map(|substitution| substitution.name.as_str()));
    for Substitution { name, base } in substitutions {
        let bundle = supply.remove(&name).unwrap_or(Ok(Vec::new()));
        substitute(&mut fbc, &name, &base, limits, bundle).map_err(|reason| SubstitutesError::Substitution {
            base,
            name,
            reason,
        })?;
    }
    Ok(fbc)
}

/// Reads the substitutions and reports all faults that do not depend on a bundle.
fn substitutions(document: Raw<'_>) -> Result<Vec<Substitution>, SubstitutesError> {
    let mut substitutions = Vec::new();
    let mut bases = HashSet::new();
    let mut names = HashMap::new();
    for item in document.get_items("substitutions") {
        let text = |field| item.get_str(field).into_owned();
        let (name, base) = (text("name"), text("base"));
        let reason = match (&*name, &*base) {
            ("", _) => Some(SubstitutionError::NoName),
            (_, "") => Some(SubstitutionError::NoBase),
            (name, base) if name == base => Some(SubstitutionError::Same),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(SubstitutesError::Substitution { base, name, reason });
        }
        if !bases.insert(base.clone()) {
            return Err(SubstitutesError::ReusedBase(base));
        }
        if let Some(earlier) = names.insert(name.clone(), base.clone()) {
            return Err(SubstitutesError::ReusedName { name, bases: [earlier, base] });
        }
        substitutions.push(Substitution { name, base });
    }
    Ok(substitutions)
}

/// Substitutes the bundle of the image `name` for the bundle `base`.
fn substitute(
    fbc: &mut Fbc,
    name: &str,
    base: &str,
    limits: &Limits,
    bundles: Result<Vec<RenderedBundle>, TemplateError>,
) -> Result<(), SubstitutionError> {
    let is_base = |blob: &&Blob| &*blob.schema == fbc::blob::BUNDLE && &*blob.name == base;
    let base_blob = fbc.blobs().iter().find(is_base).ok_or_else(|| SubstitutionError::UnknownBase(base.to_owned()))?;
    let bundle = bundles?.into_iter().next().ok_or(SubstitutionError::NoBundle)?;
    let blob = super::bundle_blob(fbc, name, &bundle.json, limits)?;
    let (base_version, base_release) = version_and_release(fbc, base_blob, limits)?;
    let (version, release) = version_and_release(fbc, &blob, limits)?;
    if cmp_version_release((&base_version, base_release.as_ref()), (&version, release.as_ref())).is_ge() {
        return Err(SubstitutionError::NotLess { base: base.to_owned(), name: name.to_owned() });
    }

    let mut problems = Vec::new();
    let mut buffer = TextBuffer::default();
    for index in 0..fbc.blobs().len() {
        let channel = &fbc.blobs()[index];
        let BlobContent::Channel { entries } = &channel.content else { continue };
        let Some(entries) = relinked(entries, base, &blob.name) else { continue };
        let properties = fbc.text(channel, &mut buffer)?.get("properties");
        let json = channel_json(&channel.package, &channel.name, &entries, properties);
        let channel = fbc.stored_blob(&json, limits)?;
        catalog::inspect(Warnings::Off)(&channel, json.raw(), &mut problems);
        fbc.replace(index, channel);
    }
    catalog::inspect(Warnings::Off)(&blob, fbc.text(&blob, &mut buffer)?, &mut problems);
    fbc.push(blob);
    invalid(fbc, problems).map_or(Ok(()), |message| Err(SubstitutionError::Invalid(message)))
}

/// Returns the entries of a channel with `substitute` in place of `base`, if the channel contains it.
fn relinked(entries: &[ChannelEntry], base: &str, substitute: &str) -> Option<Vec<ChannelEntry>> {
    let at = entries.iter().position(|entry| &*entry.name == base)?;
    let mut entries = entries.to_vec();
    let base_entry = &mut entries[at];
    let mut new = std::mem::replace(base_entry, ChannelEntry { name: base.into(), ..ChannelEntry::default() });
    new.name = substitute.into();
    new.skips.push(base.into());
    for entry in &mut entries {
        if &*entry.replaces == base {
            entry.replaces = substitute.into();
            entry.skips.push(base.into());
        } else if entry.skips.iter().any(|skip| &**skip == base) {
            entry.skips.push(substitute.into());
            entry.skips.retain(|skip| &**skip != base);
        }
    }
    entries.push(new);
    Some(entries)
}

/// Describes the problems of a catalog, if any.
fn invalid(fbc: &Fbc, problems: Vec<Problem>) -> Option<String> {
    let checked = catalog::check(fbc, LoadReport { problems, ..LoadReport::default() }, Warnings::Off);
    checked.catalog.err().map(|problems| catalog::tree::message(problems.errors()))
}

/// Returns the sort key of a bundle.
///
/// Before releases existed, build metadata distinguished rebuilt bundles, marked with an annotation.
fn version_and_release(
    fbc: &Fbc,
    blob: &Blob,
    limits: &Limits,
) -> Result<(Version, Option<Release>), SubstitutionError> {
    let failed = |reason: String| SubstitutionError::Version { bundle: blob.name.to_string(), reason };
    let properties = match &blob.content {
        BlobContent::Bundle(bundle) => bundle.package_properties.as_slice(),
        _ => &[],
    };
    let [property] = properties else {
        return Err(failed(format!("there are {} \"olm.package\" properties, expected exactly 1", properties.len())));
    };
    let version = Version::parse_strict(&property.version)
        .map_err(|error| failed(format!("invalid version {}: {error}", quote(&property.version))))?;
    let mut release = &*property.release;
    if release.is_empty() && !version.build().is_empty() && is_substitute(fbc, blob, limits)? {
        release = version.build();
    }
    let release = Release::parse(release).map_err(|error| failed(error.to_string()))?;
    Ok((version, release))
}

/// Returns whether the CSV of a bundle declares it a substitute.
fn is_substitute(fbc: &Fbc, blob: &Blob, limits: &Limits) -> io::Result<bool> {
    let is_marked = |annotations: Option<Raw<'_>>| {
        annotations.is_some_and(|annotations| annotations.members().any(|(key, _)| key == SUBSTITUTES_FOR))
    };
    let mut buffer = TextBuffer::default();
    let metadata = property::of(fbc.text(blob, &mut buffer)?).filter(|(kind, _)| kind == property::CSV_METADATA);
    if metadata.filter_map(|(_, value)| value).any(|value| is_marked(value.get("annotations"))) {
        return Ok(true);
    }
    let csv = fbc.csv(blob, limits)?.unwrap_or_default();
    let csv = Raw::parse(&csv, limits.depth).ok();
    Ok(is_marked(csv.and_then(|csv| csv.get("metadata")?.get("annotations"))))
}

#[cfg(test)]
mod tests;
