//! The substitutes template: a catalog in which bundles give way to repackaged ones.
//!
//! A substitute takes its base's place in every channel: it upgrades from what the base upgraded
//! from, and what upgraded from the base upgrades from it. The base stays, skipped by the
//! substitute, so that clusters which have it installed upgrade.

use std::collections::{HashMap, HashSet};
use std::io;

use catalog::Warnings;
use fbc::blob::{Entry, TextBuffer, channel_json};
use fbc::json::Raw;
use fbc::quote::quote;
use fbc::release::{Release, cmp_version_release};
use fbc::shape::Shape;
use fbc::version::Version;
use fbc::{Blob, Content, Fbc, Limits, Loaded, Problem, property};

use super::{Bundles, Error, RenderedBundle};

pub(super) const SHAPE: Shape = Shape::Object(&[
    ("entries", Shape::List(&Shape::Any)),
    ("substitutions", Shape::List(&Shape::Object(&[("name", Shape::Str), ("base", Shape::Str)]))),
]);

/// The annotation of a CSV whose bundle takes the place of another.
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// The reason why a substitutes template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstitutesError {
    /// A reason that other templates have too.
    #[error(transparent)]
    Template(#[from] Error),
    /// The entries are no valid catalog.
    #[error("entries are not valid FBC: {0}")]
    Entries(String),
    /// Two substitutes are for one bundle.
    #[error("cannot reuse the same substitution base {}", quote(.0))]
    ReusedBase(String),
    /// A substitute is for two bundles.
    #[error(
        "cannot reuse the same substitution {} for different bases ({} and {})",
        quote(name), quote(&bases[0]), quote(&bases[1])
    )]
    ReusedName {
        /// The substitute.
        name: String,
        /// The bundles.
        bases: [String; 2],
    },
    /// A substitution cannot be done.
    #[error("error processing substitution {} -> {}: {reason}", quote(base), quote(name))]
    Substitution {
        /// The bundle that gives way.
        base: String,
        /// The image of its substitute.
        name: String,
        /// Why it does not.
        reason: Reason,
    },
}

/// The reason why a substitution cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It has no image.
    #[error("substitution name cannot be empty")]
    NoName,
    /// It is for nothing.
    #[error("substitution base cannot be empty")]
    NoBase,
    /// It is for itself.
    #[error("substitution name and base cannot be the same")]
    Same,
    /// The image cannot be had.
    #[error(transparent)]
    Template(Box<Error>),
    /// The image holds no bundle.
    #[error("the image holds no bundle")]
    NoBundle,
    /// There is nothing to give way.
    #[error("base bundle {} is not in the catalog", quote(.0))]
    UnknownBase(String),
    /// A bundle has no order among others.
    #[error("bundle {}: {reason}", quote(bundle))]
    Version {
        /// The bundle.
        bundle: String,
        /// What is wrong with its version.
        reason: String,
    },
    /// The substitute is older, or the same.
    #[error("base bundle {} is not less than substitute bundle {}", quote(base), quote(name))]
    NotLess {
        /// The bundle that should give way.
        base: String,
        /// Its substitute.
        name: String,
    },
    /// The catalog is not valid any more.
    #[error("resulting config is not valid FBC: {0}")]
    Invalid(String),
    /// A text cannot be kept aside or read again.
    #[error("{0}")]
    Io(String),
}

impl From<Error> for Reason {
    fn from(error: Error) -> Reason {
        Reason::Template(Box::new(error))
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Reason {
        Reason::Io(error.to_string())
    }
}

/// One bundle that takes the place of another.
struct Substitution {
    /// The image of the substitute.
    name: String,
    /// The name of the bundle that gives way.
    base: String,
}

/// Makes a catalog of the entries and puts substitutes in, one after the other.
pub(super) fn render(document: Raw<'_>, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, SubstitutesError> {
    super::check(SHAPE, document)?;
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

/// Reads the substitutions. Whatever is wrong without looking at a bundle is reported here.
fn substitutions(document: Raw<'_>) -> Result<Vec<Substitution>, SubstitutesError> {
    let mut substitutions = Vec::new();
    let mut bases = HashSet::new();
    let mut names = HashMap::new();
    for item in document.get("substitutions").into_iter().flat_map(Raw::items) {
        let text = |field| item.get(field).and_then(Raw::as_str).unwrap_or_default().into_owned();
        let (name, base) = (text("name"), text("base"));
        let reason = match (&*name, &*base) {
            ("", _) => Some(Reason::NoName),
            (_, "") => Some(Reason::NoBase),
            (name, base) if name == base => Some(Reason::Same),
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

/// Puts the bundle of the image `name` in the place of the bundle `base`.
fn substitute(
    fbc: &mut Fbc,
    name: &str,
    base: &str,
    limits: &Limits,
    bundles: Result<Vec<RenderedBundle>, Error>,
) -> Result<(), Reason> {
    let is_base = |blob: &&Blob| &*blob.schema == fbc::blob::BUNDLE && &*blob.name == base;
    let base_blob = fbc.blobs().iter().find(is_base).ok_or_else(|| Reason::UnknownBase(base.to_owned()))?;
    let bundle = bundles?.into_iter().next().ok_or(Reason::NoBundle)?;
    let blob = super::made(fbc, name, &bundle.json, limits)?;
    let (base_version, base_release) = version_and_release(fbc, base_blob, limits)?;
    let (version, release) = version_and_release(fbc, &blob, limits)?;
    if cmp_version_release((&base_version, base_release.as_ref()), (&version, release.as_ref())).is_ge() {
        return Err(Reason::NotLess { base: base.to_owned(), name: name.to_owned() });
    }

    let mut problems = Vec::new();
    let mut buffer = TextBuffer::default();
    for index in 0..fbc.blobs().len() {
        let channel = &fbc.blobs()[index];
        let Content::Channel { entries } = &channel.content else { continue };
        let Some(entries) = relinked(entries, base, &blob.name) else { continue };
        let properties = fbc.text(channel, &mut buffer)?.get("properties");
        let json = channel_json(&channel.package, &channel.name, &entries, properties);
        let channel = fbc.stored_blob(&json, limits)?;
        catalog::inspect(Warnings::Off)(&channel, json.raw(), &mut problems);
        fbc.replace(index, channel);
    }
    catalog::inspect(Warnings::Off)(&blob, fbc.text(&blob, &mut buffer)?, &mut problems);
    fbc.push(blob);
    invalid(fbc, problems).map_or(Ok(()), |message| Err(Reason::Invalid(message)))
}

/// Returns the entries of a channel with `substitute` in the place of `base`, if it is there.
fn relinked(entries: &[Entry], base: &str, substitute: &str) -> Option<Vec<Entry>> {
    let at = entries.iter().position(|entry| &*entry.name == base)?;
    let mut entries = entries.to_vec();
    let base_entry = &mut entries[at];
    let mut new = std::mem::replace(base_entry, Entry { name: base.into(), ..Entry::default() });
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

/// Reports what is wrong with a catalog, if anything is.
fn invalid(fbc: &Fbc, problems: Vec<Problem>) -> Option<String> {
    let checked = catalog::check(fbc, Loaded { problems, incomplete: false }, Warnings::Off);
    checked.catalog.err().map(|problems| catalog::tree::message(problems.errors()))
}

/// Returns what a bundle is ordered by.
///
/// Before there were releases, build metadata distinguished repackaged bundles, and an annotation
/// said that it does.
fn version_and_release(fbc: &Fbc, blob: &Blob, limits: &Limits) -> Result<(Version, Option<Release>), Reason> {
    let failed = |reason: String| Reason::Version { bundle: blob.name.to_string(), reason };
    let properties = match &blob.content {
        Content::Bundle(bundle) => bundle.package_properties.as_slice(),
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

/// Returns whether the CSV of a bundle says that it takes the place of another.
fn is_substitute(fbc: &Fbc, blob: &Blob, limits: &Limits) -> io::Result<bool> {
    let says = |annotations: Option<Raw<'_>>| {
        annotations.is_some_and(|annotations| annotations.members().any(|(key, _)| key == SUBSTITUTES_FOR))
    };
    let mut buffer = TextBuffer::default();
    let metadata = property::of(fbc.text(blob, &mut buffer)?).filter(|(kind, _)| kind == property::CSV_METADATA);
    if metadata.filter_map(|(_, value)| value).any(|value| says(value.get("annotations"))) {
        return Ok(true);
    }
    let csv = fbc.csv(blob, limits)?.unwrap_or_default();
    let csv = Raw::parse(&csv, limits.depth).ok();
    Ok(says(csv.and_then(|csv| csv.get("metadata")?.get("annotations"))))
}

#[cfg(test)]
mod tests;
