//! The semver template: lists of bundles become channels, with upgrades by version.
//!
//! There are three lists (archetypes), from the least to the most trusted: candidate, fast, stable.
//! A bundle goes to the channels of its archetype that are named after its major version, or its
//! major and minor version, or both. Within an archetype and a major version, the highest patch of
//! each minor version replaces that of the minor version before and skips all else that is older,
//! so that upgrades never stop at a lower patch.

mod channels;

use std::collections::{HashMap, HashSet};
use std::io;

use fbc::blob::{PACKAGE, channel_json};
use fbc::json::{Object, Raw, Text};
use fbc::quote::quote;
use fbc::shape::Shape;
use fbc::version::Version;
use fbc::{Content, Fbc, Limits, base64};

use super::{Bundles, Error, Template};
use channels::{Archetypes, Member, Stream};

const IMAGES: Shape = Shape::List(&Shape::Object(&[("image", Shape::Str)]));
const ARCHETYPE: Shape = Shape::Object(&[("bundles", IMAGES)]);
pub(super) const SHAPE: Shape = Shape::Object(&[
    ("schema", Shape::Str),
    ("generateMajorChannels", Shape::Bool),
    ("generateMinorChannels", Shape::Bool),
    ("defaultChannelTypePreference", Shape::Str),
    ("candidate", ARCHETYPE),
    ("fast", ARCHETYPE),
    ("stable", ARCHETYPE),
]);

/// The reason why a semver template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    /// A reason that other templates have too.
    #[error(transparent)]
    Template(#[from] Error),
    /// A key stands twice in one object.
    #[error("line {line}: key {} already set in map", quote(key))]
    RepeatedKey {
        /// The key.
        key: String,
        /// The line of the second one, from 1.
        line: usize,
    },
    /// A field is given twice, in upper and in lower case.
    #[error("field {} already set", quote(.0))]
    RepeatedField(String),
    /// A field means nothing.
    #[error("unknown field {}, expected one of: {}", quote(field), known.join(", "))]
    UnknownField {
        /// The way to it.
        field: String,
        /// The fields that are known there.
        known: Vec<&'static str>,
    },
    /// The kind of the default channel is none of those that are generated.
    #[error(
        "schema attribute mismatch: DefaultChannelTypePreference set to '{preference}' doesn't match \
        Generate{generate}Channels set to 'false'"
    )]
    PreferenceMismatch {
        /// What is preferred.
        preference: &'static str,
        /// The same, as it is part of the name of a field.
        generate: &'static str,
    },
    /// There is no such kind of channel.
    #[error("unknown DefaultChannelTypePreference: {}, valid values are 'major' or 'minor'", quote(.0))]
    UnknownPreference(String),
    /// A bundle has no image.
    #[error("{archetype}.bundles[{index}] has no \"image\"")]
    NoImage {
        /// The list it is in.
        archetype: &'static str,
        /// Its index there.
        index: usize,
    },
    /// No bundle is listed.
    #[error("no bundles specified or no bundles could be rendered")]
    NoBundles,
    /// A reference stands for several bundles or none.
    #[error("bundle image {} holds {count} bundles, expected exactly 1", quote(reference))]
    NotOneBundle {
        /// The reference.
        reference: String,
        /// How many.
        count: usize,
    },
    /// A bundle has not exactly one version.
    #[error("bundle {} has {count} \"olm.package\" properties, expected exactly 1", quote(bundle))]
    PackageProperties {
        /// The bundle.
        bundle: String,
        /// How many.
        count: usize,
    },
    /// A bundle's version is none.
    #[error("bundle {} has invalid version {}: {reason}", quote(bundle), quote(version))]
    Version {
        /// The bundle.
        bundle: String,
        /// Its version.
        version: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bundles are of several packages.
    #[error("bundle {} does not belong to this package: {}", quote(other), quote(package))]
    OtherPackage {
        /// The package of the bundle.
        other: String,
        /// The package of those before it.
        package: String,
    },
    /// An archetype has a bundle twice.
    #[error("duplicate bundle name {}", quote(.0))]
    DuplicateBundle(String),
    /// Versions of an archetype have no order; a message for each pair.
    #[error(
        "encountered bundle versions which differ only by build metadata, which cannot be ordered: {}", .0.join("\n")
    )]
    Unordered(Vec<String>),
    /// The icon of the package is no base64.
    #[error("bundle {}: spec.icon[0].base64data: illegal base64 data at input byte {at}", quote(bundle))]
    Icon {
        /// The bundle with the icon.
        bundle: String,
        /// Where.
        at: usize,
    },
    /// A text cannot be kept aside or read again.
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for SemverError {
    fn from(error: io::Error) -> SemverError {
        SemverError::Io(error.to_string())
    }
}

/// Makes a package with channels of all bundles that the template lists.
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
    fbc.add_made(&package_json(&package, &default_channel, name, csv.as_deref(), limits)?, limits)?;
    for (channel, entries) in &channels {
        fbc.add_made(&channel_json(&package, channel, entries, None), limits)?;
    }
    Ok(fbc)
}

/// What a template asks for.
struct Spec {
    streams: Vec<Stream>,
    preference: Stream,
    /// The images of each archetype.
    archetypes: Archetypes<String>,
}

impl Spec {
    fn read(template: &Template<'_>) -> Result<Spec, SemverError> {
        let document = template.raw();
        if let Some((key, line)) = template.repeated_key() {
            return Err(SemverError::RepeatedKey { key, line });
        }
        check_fields(document, SHAPE, "")?;
        super::check(SHAPE, document)?;
        let generated = |name| document.get(name).and_then(Raw::as_bool).unwrap_or_default();
        let streams = match (generated("generateMajorChannels"), generated("generateMinorChannels")) {
            (true, true) => vec![Stream::Major, Stream::Minor],
            (true, false) => vec![Stream::Major],
            (false, _) => vec![Stream::Minor],
        };
        let preference = document.get("defaultChannelTypePreference").and_then(Raw::as_str).unwrap_or_default();
        let preference = match &*preference {
            "" if streams.contains(&Stream::Minor) => Stream::Minor,
            "" | "major" => Stream::Major,
            "minor" => Stream::Minor,
            other => return Err(SemverError::UnknownPreference(other.to_owned())),
        };
        if !streams.contains(&preference) {
            let (preference, generate) = match preference {
                Stream::Major => ("major", "Major"),
                Stream::Minor => ("minor", "Minor"),
            };
            return Err(SemverError::PreferenceMismatch { preference, generate });
        }
        let [candidate, fast, stable] = channels::ARCHETYPES.map(|archetype| images(document, archetype));
        Ok(Spec { streams, preference, archetypes: [candidate?, fast?, stable?] })
    }
}

/// Refuses fields that `shape` does not know, and those that are given twice.
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

/// Returns the images of an archetype as listed.
fn images(document: Raw<'_>, archetype: &'static str) -> Result<Vec<String>, SemverError> {
    let bundles = document.get(archetype).and_then(|archetype| archetype.get("bundles"));
    let images = bundles.into_iter().flat_map(Raw::items).enumerate().map(|(index, bundle)| {
        let image = bundle.get("image").and_then(Raw::as_str).unwrap_or_default();
        if image.is_empty() { Err(SemverError::NoImage { archetype, index }) } else { Ok(image.into_owned()) }
    });
    images.collect()
}

/// A bundle that was supplied.
struct Fetched {
    name: Box<str>,
    package: Box<str>,
    version: Result<Version, SemverError>,
    /// Where its blob is.
    index: usize,
    /// Its CSV, if the blob does not hold it.
    csv: Option<String>,
}

/// Asks for each image once and adds the bundles to `fbc`.
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
        let blob = super::made(fbc, image, &bundle.json, limits)?;
        let properties = match &blob.content {
            Content::Bundle(bundle) => bundle.package_properties.as_slice(),
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

/// Returns the bundles of an archetype in order of version.
///
/// `package` is what all of them must belong to, once one is known.
fn members<'a>(
    images: &[String],
    fetched: &'a HashMap<&str, Fetched>,
    package: &mut Option<Box<str>>,
) -> Result<Vec<Member<'a>>, SemverError> {
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
        members.push(Member { name: &bundle.name, version });
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

/// Writes the package blob; what people read comes from the CSV of `head`.
fn package_json(
    package: &str,
    default_channel: &str,
    head: &str,
    csv: Option<&str>,
    limits: &Limits,
) -> Result<Text, SemverError> {
    let mut blob =
        Object::new().string("schema", PACKAGE).string("name", package).string("defaultChannel", default_channel);
    let csv = csv.and_then(|csv| Raw::parse(csv, limits.depth).ok());
    let spec = csv.and_then(|csv| csv.get("spec"));
    if let Some(icon) = spec.and_then(|spec| spec.get("icon")?.items().next()) {
        let text = |name| icon.get(name).and_then(Raw::as_str).unwrap_or_default();
        let data = text("base64data");
        base64::check(&data).map_err(|at| SemverError::Icon { bundle: head.to_owned(), at })?;
        if !data.is_empty() {
            let icon = Object::new().string("base64data", &data).string("mediatype", &text("mediatype"));
            blob = blob.object("icon", icon);
        }
    }
    let description = spec.and_then(|spec| spec.get("description")?.as_str()).unwrap_or_default();
    Ok(blob.string_if_any("description", &description).end())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use insta::assert_snapshot;

    use super::*;
    use crate::template::sample::{bundles, rendered};
    use crate::template::{Kind, RenderedBundle};

    fn with(fields: &str) -> String {
        rendered(&format!("schema: olm.semver\n{fields}"))
    }

    #[test]
    fn both_kinds_of_channels_have_the_same_upgrades() {
        let template = "\
generateMajorChannels: true
generateMinorChannels: true
candidate: {bundles: [{image: foo:0.2.0}, {image: foo:0.1.0}, {image: foo:0.1.1}]}
fast: {bundles: [{image: foo:0.2.0}]}
";
        assert_snapshot!(with(template), @r#"
        {"schema": "olm.package","name": "foo","defaultChannel": "fast-v0.2","icon": {"base64data": "aWNvbg==","mediatype": "image/png"},"description": "About 0.2.0"}
        channel candidate-v0
          foo.v0.1.0
          foo.v0.1.1 skips foo.v0.1.0
          foo.v0.2.0 replaces foo.v0.1.1 skips foo.v0.1.0
        channel candidate-v0.1
          foo.v0.1.0
          foo.v0.1.1 skips foo.v0.1.0
        channel candidate-v0.2
          foo.v0.2.0 replaces foo.v0.1.1 skips foo.v0.1.0
        channel fast-v0
          foo.v0.2.0
        channel fast-v0.2
          foo.v0.2.0
        bundle foo.v0.1.0
        bundle foo.v0.1.1
        bundle foo.v0.2.0
        "#);
    }

    #[test]
    fn without_a_word_on_it_channels_are_minor_ones() {
        let channels = |fields: &str| {
            let shown = with(&format!("{fields}\nstable: {{bundles: [{{image: foo:1.0.0}}]}}\n"));
            shown.lines().filter(|line| line.starts_with("channel")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(channels(""), "channel stable-v1.0");
        assert_eq!(channels("generateMinorChannels: false"), "channel stable-v1.0");
        assert_eq!(channels("generateMajorChannels: true"), "channel stable-v1");
        assert_eq!(channels("GENERATEMAJORCHANNELS: true"), "channel stable-v1");
    }

    #[test]
    fn the_package_is_described_by_the_highest_bundle_of_the_default_channel() {
        let template =
            "stable: {bundles: [{image: foo:1.0.1}, {image: foo:1.0.0}]}\nfast: {bundles: [{image: foo:2.0.0}]}\n";
        let shown = with(template);
        assert_snapshot!(shown.lines().next().unwrap(), @r#"{"schema": "olm.package","name": "foo","defaultChannel": "stable-v1.0","icon": {"base64data": "aWNvbg==","mediatype": "image/png"},"description": "About 1.0.1"}"#);
    }

    #[test]
    fn a_csv_beside_the_bundle_describes_the_package_as_well() {
        let render_with = |csv: &str| {
            let template =
                Template::parse(b"{schema: olm.semver, fast: {bundles: [{image: foo:1.0.0}]}}", &Limits::default());
            let mut supply = |references: &[&str]| {
                let json = bundles(references[0]).unwrap().remove(0).json;
                vec![Ok(vec![RenderedBundle { json, csv: Some(csv.to_owned()) }])]
            };
            let fbc = super::super::render(&template.unwrap(), Kind::Semver, &Limits::default(), &mut supply);
            fbc.map(|fbc| super::super::sample::shown(&fbc)).unwrap_or_else(|error| error.to_string())
        };
        let shown = render_with(r#"{"spec":{"description":"kept"}}"#);
        assert_snapshot!(shown.lines().next().unwrap(), @r#"{"schema": "olm.package","name": "foo","defaultChannel": "fast-v1.0","description": "kept"}"#);
        assert_snapshot!(render_with(r#"{"spec":{"icon":[{"base64data":"a-b"}]}}"#), @r#"render: bundle "foo.v1.0.0": spec.icon[0].base64data: illegal base64 data at input byte 1"#);
    }

    #[test]
    fn all_images_are_fetched_at_once_and_none_twice() {
        let text = b"{schema: olm.semver, fast: {bundles: [{image: foo:1.0.0}, {image: foo:1.1.0}]}, stable: {bundles: [{image: foo:1.0.0}]}}";
        let fetched = RefCell::new(Vec::new());
        let mut supply = |references: &[&str]| {
            fetched.borrow_mut().push(references.join(" "));
            references.iter().map(|one| bundles(one)).collect()
        };
        let template = Template::parse(text, &Limits::default()).unwrap();
        super::super::render(&template, Kind::Semver, &Limits::default(), &mut supply).unwrap();
        assert_eq!(fetched.into_inner(), ["foo:1.0.0 foo:1.1.0"]);
    }

    #[test]
    fn fields_are_known_and_given_once() {
        assert_snapshot!(with("generateMajorChannel: true\n"), @r#"render: unknown field "generateMajorChannel", expected one of: schema, generateMajorChannels, generateMinorChannels, defaultChannelTypePreference, candidate, fast, stable"#);
        assert_snapshot!(with("stable: {bundles: [{image: foo:1.0.0}, {name: x}]}\n"), @r#"render: unknown field "stable.bundles[1].name", expected one of: image"#);
        assert_snapshot!(with("fast: {}\nstable: {}\nfast: {}\n"), @r#"render: line 4: key "fast" already set in map"#);
        assert_snapshot!(rendered(r#"{"schema":"olm.semver","schema":"olm.semver"}"#), @r#"render: line 1: key "schema" already set in map"#);
        assert_snapshot!(with("Fast: {}\nfast: {}\n"), @r#"render: field "fast" already set"#);
        assert_snapshot!(with("stable: {bundles: {}}\n"), @r#"unmarshalling template: json: cannot unmarshal object into field "stable.bundles" of type list"#);
        assert_snapshot!(with("stable: {bundles: [{}]}\n"), @r#"render: stable.bundles[0] has no "image""#);
    }

    #[test]
    fn the_preferred_kind_must_be_generated() {
        assert_snapshot!(with("defaultChannelTypePreference: major\n"), @"render: schema attribute mismatch: DefaultChannelTypePreference set to 'major' doesn't match GenerateMajorChannels set to 'false'");
        assert_snapshot!(with("defaultChannelTypePreference: minor\ngenerateMajorChannels: true\n"), @"render: schema attribute mismatch: DefaultChannelTypePreference set to 'minor' doesn't match GenerateMinorChannels set to 'false'");
        assert_snapshot!(with("defaultChannelTypePreference: patch\n"), @r#"render: unknown DefaultChannelTypePreference: "patch", valid values are 'major' or 'minor'"#);
    }

    #[test]
    fn bundles_must_fit_together() {
        let stable = |images: &[&str]| {
            let images: Vec<String> = images.iter().map(|image| format!("{{image: {image}}}")).collect();
            with(&format!("stable: {{bundles: [{}]}}\n", images.join(", ")))
        };
        assert_snapshot!(stable(&[]), @"render: no bundles specified or no bundles could be rendered");
        assert_snapshot!(stable(&["two"]), @r#"render: bundle image "two" holds 2 bundles, expected exactly 1"#);
        assert_snapshot!(stable(&["none"]), @r#"render: bundle image "none" holds 0 bundles, expected exactly 1"#);
        assert_snapshot!(stable(&["missing"]), @r#"render reference "missing": it is gone"#);
        assert_snapshot!(stable(&["foo:1.0"]), @r#"render: bundle "foo.v1.0" has invalid version "1.0": No Major.Minor.Patch elements found"#);
        assert_snapshot!(stable(&["foo:1.0.0", "bar:1.1.0"]), @r#"render: bundle "bar" does not belong to this package: "foo""#);
        assert_snapshot!(stable(&["foo:1.0.0", "foo:1.0.0"]), @r#"render: duplicate bundle name "foo.v1.0.0""#);
        assert_snapshot!(stable(&["foo:1.0.0+a", "foo:2.0.0", "foo:1.0.0+b"]), @r#"render: encountered bundle versions which differ only by build metadata, which cannot be ordered: version "1.0.0+a" of bundle "foo.v1.0.0+a" cannot be compared to "1.0.0+b" of bundle "foo.v1.0.0+b""#);
        assert_snapshot!(stable(&["foo:1.0.0", "foo:1.0.0/r1"]), @r#"render: encountered bundle versions which differ only by build metadata, which cannot be ordered: version "1.0.0" of bundle "foo.v1.0.0" cannot be compared to "1.0.0" of bundle "foo-v1.0.0-r1""#);
    }
}
