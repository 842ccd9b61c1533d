//! The semver template: turns lists of bundles into channels with upgrade edges by version.
//!
//! There are three lists (archetypes), from least to most stable: candidate, fast, stable. A bundle goes to the
//! channels of its archetype that are named after its major version, its major and minor version, or both. Within an
//! archetype and a major version, the highest patch of each minor version replaces the highest patch of the previous
//! minor version and skips all other older bundles, so that upgrades never stop at a lower patch.

mod channels;

use std::collections::{HashMap, HashSet};
use std::io;

use fbc::blob::{PACKAGE, channel_json};
use fbc::json::{JsonObject, Raw, Text};
use fbc::quote::quote;
use fbc::shape::Shape;
use fbc::template::SEMVER;
use fbc::version::Version;
use fbc::{BlobContent, Fbc, Limits, base64};

use super::{Bundles, Template, TemplateError};
use channels::{ArchetypeBundle, Archetypes, ChannelNaming};

/// The reason why a semver template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    /// An error that all templates share.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// An object has a duplicate key.
    #[error("line {line}: key {} already set in map", quote(key))]
    RepeatedKey {
        key: String,
        /// The line of the second occurrence, from 1.
        line: usize,
    },
    /// A field is set twice, with names that differ in case.
    #[error("field {} already set", quote(.0))]
    RepeatedField(String),
    /// A field is unknown.
    #[error("unknown field {}, expected one of: {}", quote(field), known.join(", "))]
    UnknownField {
        /// The path of the field.
        field: String,
        /// The known fields at that path.
        known: Vec<&'static str>,
    },
    /// The preferred kind of default channel is not generated.
    #[error(
        "schema attribute mismatch: DefaultChannelTypePreference set to '{preference}' doesn't match \
        Generate{generate}Channels set to 'false'"
    )]
    PreferenceMismatch {
        preference: &'static str,
        /// The same, as part of a field name.
        generate: &'static str,
    },
    /// The channel kind is unknown.
    #[error("unknown DefaultChannelTypePreference: {}, valid values are 'major' or 'minor'", quote(.0))]
    UnknownPreference(String),
    /// A bundle has no image.
    #[error("{archetype}.bundles[{index}] has no \"image\"")]
    NoImage {
        /// The list that it is in.
        archetype: &'static str,
        /// The index there.
        index: usize,
    },
    /// No bundles are listed.
    #[error("no bundles specified or no bundles could be rendered")]
    NoBundles,
    /// A reference yields several bundles or none.
    #[error("bundle image {} holds {count} bundles, expected exactly 1", quote(reference))]
    NotOneBundle {
        reference: String,
        /// The number of bundles.
        count: usize,
    },
    /// A bundle does not have exactly one version.
    #[error("bundle {} has {count} \"olm.package\" properties, expected exactly 1", quote(bundle))]
    PackageProperties {
        bundle: String,
        /// The number of properties.
        count: usize,
    },
    /// The version of a bundle is invalid.
    #[error("bundle {} has invalid version {}: {reason}", quote(bundle), quote(version))]
    Version {
        bundle: String,
        version: String,
        /// The parse error.
        reason: String,
    },
    /// The bundles belong to several packages.
    #[error("bundle {} does not belong to this package: {}", quote(other), quote(package))]
    OtherPackage {
        /// The package of the bundle.
        other: String,
        /// The package of the preceding bundles.
        package: String,
    },
    /// An archetype lists a bundle twice.
    #[error("duplicate bundle name {}", quote(.0))]
    DuplicateBundle(String),
    /// Versions of an archetype cannot be ordered; one message per pair.
    #[error(
        "encountered bundle versions which differ only by build metadata, which cannot be ordered: {}", .0.join("\n")
    )]
    Unordered(Vec<String>),
    /// The icon of the package is not valid base64.
    #[error("bundle {}: spec.icon[0].base64data: illegal base64 data at input byte {at}", quote(bundle))]
    Icon {
        /// The bundle with the icon.
        bundle: String,
        /// The offset of the invalid byte.
        at: usize,
    },
    /// A text cannot be stored or read again.
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for SemverError {
    fn from(error: io::Error) -> SemverError {
        SemverError::Io(error.to_string())
    }
}

/// Builds a package with channels from all bundles that the template lists.
pub(super) fn render(template: &Template<'_>, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, SemverError> {
    let spec = Spec::read(template)?;
    let mut fbc = Fbc::default();
    let fetched = fetch(&spec, &mut fbc, limits, bundles)?;
    let mut package = None;
    let archetypes = spec.archetypes.each_ref().map(|images| members(images, &fetched, &mut package));
    let [candidate, fast, stable] = archetypes;
    let (channels, default_channel) = channels::generate(&[candidate?, fast?, stable?], &spec.streams, spec.preference);
    let package = package.unwrap_or_default();

    let head = channels.get(&default_channel).and_then(|entries| entries.last()).map(|entry| &entry.name);
    let head = fetched.values().find(|bundle| Some(&bundle.name) == head);
    let csv = match head {
        Some(Fetched { csv: Some(csv), .. }) => Some(csv.clone()),
        Some(head) => fbc.csv(&fbc.blobs()[head.index], limits)?,
        None => None,
    };
    let name = head.map(|head| &*head.name).unwrap_or_default();
    fbc.add_generated(&package_json(&package, &default_channel, name, csv.as_deref(), limits)?, limits)?;
    for (channel, entries) in &channels {
        fbc.add_generated(&channel_json(&package, channel, entries, None), limits)?;
    }
    Ok(fbc)
}

/// The settings of a template.
struct Spec {
    streams: Vec<ChannelNaming>,
    preference: ChannelNaming,
    /// The images of each archetype.
    archetypes: Archetypes<String>,
}

impl Spec {
    fn read(template: &Template<'_>) -> Result<Spec, SemverError> {
        let document = template.raw();
        if let Some((key, line)) = template.repeated_key() {
            return Err(SemverError::RepeatedKey { key, line });
        }
        check_fields(document, SEMVER, "")?;
        super::check(SEMVER, document)?;
        let generated = |name| document.get(name).and_then(Raw::as_bool).unwrap_or_default();
        let streams = match (generated("generateMajorChannels"), generated("generateMinorChannels")) {
            (true, true) => vec![ChannelNaming::Major, ChannelNaming::Minor],
            (true, false) => vec![ChannelNaming::Major],
            (false, _) => vec![ChannelNaming::Minor],
        };
        let preference = document.get_str("defaultChannelTypePreference");
        let preference = match &*preference {
            "" if streams.contains(&ChannelNaming::Minor) => ChannelNaming::Minor,
            "" | "major" => ChannelNaming::Major,
            "minor" => ChannelNaming::Minor,
            other => return Err(SemverError::UnknownPreference(other.to_owned())),
        };
        if !streams.contains(&preference) {
            let (preference, generate) = match preference {
                ChannelNaming::Major => ("major", "Major"),
                ChannelNaming::Minor => ("minor", "Minor"),
            };
            return Err(SemverError::PreferenceMismatch { preference, generate });
        }
        let [candidate, fast, stable] = channels::ARCHETYPES.map(|archetype| images(document, archetype));
        Ok(Spec { streams, preference, archetypes: [candidate?, fast?, stable?] })
    }
}

/// Rejects unknown and duplicate fields.
fn check_fields(value: Raw<'_>, shape: Shape, path: &str) -> Result<(), SemverError> {
    match shape {
        Shape::Object(fields) => {
            let mut seen = HashSet::new();
            for (key, value) in value.members() {
                let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                let Some((name, shape)) = fields.iter().find(|(name, _)| key.eq_ignore_ascii_case(name)) else {
                    let known = fields.iter().map(|(name, _)| *name).collect();
                    return Err(SemverError::UnknownField { field: path, known });
                };
                if !seen.insert(name) {
                    return Err(SemverError::RepeatedField(path));
                }
                check_fields(value, *shape, &path)?;
            }
            Ok(())
        }
        Shape::List(shape) => {
            let mut items = value.items().enumerate();
            items.try_for_each(|(index, value)| check_fields(value, *shape, &format!("{path}[{index}]")))
        }
        _ => Ok(()),
    }
}

/// Returns the images of an archetype, in source order.
fn images(document: Raw<'_>, archetype: &'static str) -> Result<Vec<String>, SemverError> {
    let bundles = document.get(archetype).and_then(|archetype| archetype.get("bundles"));
    let images = bundles.into_iter().flat_map(Raw::items).enumerate().map(|(index, bundle)| {
        let image = bundle.get_str("image");
        if image.is_empty() { Err(SemverError::NoImage { archetype, index }) } else { Ok(image.into_owned()) }
    });
    images.collect()
}

/// A fetched bundle.
struct Fetched {
    name: Box<str>,
    package: Box<str>,
    version: Result<Version, SemverError>,
    /// The index of its blob.
    index: usize,
    /// The CSV, if the blob does not contain it.
    csv: Option<String>,
}

/// Requests each image once and adds the bundles to `fbc`.
fn fetch<'a>(
    spec: &'a Spec,
    fbc: &mut Fbc,
    limits: &Limits,
    bundles: &mut Bundles<'_>,
) -> Result<HashMap<&'a str, Fetched>, SemverError> {
    let mut supply = super::fetch_all(bundles, spec.archetypes.iter().flatten().map(String::as_str))?;
    let mut fetched = HashMap::new();
    for image in spec.archetypes.iter().flatten() {
        let Some(mut rendered) = supply.remove(image) else { continue };
        let (Some(bundle), true) = (rendered.pop(), rendered.is_empty()) else {
            let count = if rendered.is_empty() { 0 } else { rendered.len() + 1 };
            return Err(SemverError::NotOneBundle { reference: image.clone(), count });
        };
        let blob = super::bundle_blob(fbc, image, &bundle.json, limits)?;
        let properties = match &blob.content {
            BlobContent::Bundle(bundle) => bundle.package_properties.as_slice(),
            _ => &[],
        };
        let version = match properties {
            [property] => Version::parse_strict(&property.version).map_err(|error| SemverError::Version {
                bundle: blob.name.to_string(),
                version: property.version.to_string(),
                reason: error.to_string(),
            }),
            _ => Err(SemverError::PackageProperties { bundle: blob.name.to_string(), count: properties.len() }),
        };
        let package = properties.first().map(|property| property.package_name.clone()).unwrap_or_default();
        let index = fbc.blobs().len();
        let (name, csv) = (blob.name.clone(), bundle.csv);
        fetched.insert(&**image, Fetched { name, package, version, index, csv });
        fbc.push(blob);
    }
    if fetched.is_empty() { Err(SemverError::NoBundles) } else { Ok(fetched) }
}

/// Returns the bundles of an archetype, sorted by version.
///
/// All of them must belong to `package`, which the first bundle sets.
fn members<'a>(
    images: &[String],
    fetched: &'a HashMap<&str, Fetched>,
    package: &mut Option<Box<str>>,
) -> Result<Vec<ArchetypeBundle<'a>>, SemverError> {
    let mut names = HashSet::new();
    let mut members = Vec::new();
    for bundle in images.iter().filter_map(|image| fetched.get(&**image)) {
        let version = bundle.version.as_ref().map_err(Clone::clone)?;
        let package = package.get_or_insert_with(|| bundle.package.clone());
        if *package != bundle.package {
            let (other, package) = (bundle.package.to_string(), package.to_string());
            return Err(SemverError::OtherPackage { other, package });
        }
        if !names.insert(&*bundle.name) {
            return Err(SemverError::DuplicateBundle(bundle.name.to_string()));
        }
        members.push(ArchetypeBundle { name: &bundle.name, version });
    }
    members.sort_by(|a, b| a.version.cmp_precedence(b.version));
    let clashes = members.windows(2).filter(|pair| pair[0].version.cmp_precedence(pair[1].version).is_eq());
    let clashes = clashes.map(|pair| {
        let [a, b] = [&pair[0], &pair[1]].map(|member| {
            let version = member.version.to_string();
            format!("{} of bundle {}", quote(&version), quote(member.name))
        });
        format!("version {a} cannot be compared to {b}")
    });
    let clashes: Vec<String> = clashes.collect();
    if clashes.is_empty() { Ok(members) } else { Err(SemverError::Unordered(clashes)) }
}

/// Builds the package blob, with the description and icon from the CSV of `head`.
fn package_json(
    package: &str,
    default_channel: &str,
    head: &str,
    csv: Option<&str>,
    limits: &Limits,
) -> Result<Text, SemverError> {
    let mut blob =
        JsonObject::new().string("schema", PACKAGE).string("name", package).string("defaultChannel", default_channel);
    let csv = csv.and_then(|csv| Raw::parse(csv, limits.depth).ok());
    let spec = csv.and_then(|csv| csv.get("spec"));
    if let Some(icon) = spec.and_then(|spec| spec.get("icon")?.items().next()) {
        let text = |name| icon.get_str(name);
        let data = text("base64data");
        base64::check(&data).map_err(|at| SemverError::Icon { bundle: head.to_owned(), at })?;
        if !data.is_empty() {
            let icon = JsonObject::new().string("base64data", &data).string("mediatype", &text("mediatype"));
            blob = blob.object("icon", icon);
        }
    }
    let description = spec.and_then(|spec| spec.get("description")?.as_str()).unwrap_or_default();
    Ok(blob.string_if_any("description", &description).end())
}

#[cfg(test)]
mod tests;
