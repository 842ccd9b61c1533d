//! The contents of a bundle in parts, as database indexes store them.

use std::collections::BTreeSet;
use std::path::Path;

use fbc::Limits;
use fbc::csv::{Csv, SKIP_RANGE};
use fbc::json::{JsonLayout, Text};

use crate::apis::{self, ApiKey};
use crate::error::{Error, PropertyError};
use crate::manifests::BundleManifests;
use crate::metadata::Metadata;
use crate::properties::{self, BundleProperty, OlmPackage};

/// The annotation of a CSV with further properties.
const PROPERTIES: &str = "olm.properties";
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// The contents of a bundle in parts.
#[derive(Debug, Clone, Default)]
pub struct BundleSummary {
    /// The name of the bundle.
    pub name: String,
    /// The version, unparsed; empty if there is none.
    pub version: String,
    /// The file of the CSV.
    pub csv_file: String,
    /// The package; empty for manifests without metadata.
    pub package: String,
    /// The channels, as annotated.
    pub channels: Vec<String>,
    /// The default channel; empty if none is set.
    pub default_channel: String,
    /// The bundle that this one replaces, or an empty string.
    pub replaces: String,
    /// The bundles that this one skips.
    pub skips: Vec<String>,
    /// The version range that upgrades directly.
    pub skip_range: String,
    /// The bundle that this one substitutes for, or an empty string.
    pub substitutes_for: String,
    /// The CSV as canonical JSON.
    pub csv: String,
    /// All objects including the CSV, as canonical JSON in file order.
    pub objects: Vec<Text>,
    /// The APIs that the bundle provides.
    pub provided: Vec<ApiKey>,
    /// The APIs that the bundle requires.
    pub required: Vec<ApiKey>,
    /// The properties: declared, derived and annotated, without duplicates.
    pub properties: Vec<BundleProperty>,
    /// The dependencies listed in `metadata/`.
    pub dependencies: Vec<BundleProperty>,
    /// The listed and deployed images, without duplicates.
    pub images: Vec<String>,
    /// Problems that do not prevent the bundle from being used.
    pub problems: Vec<String>,
    /// Warnings about ignored content that looks like a mistake.
    pub warnings: Vec<String>,
}

/// Reads the bundle in `dir`.
///
/// # Errors
/// Fails if the directory cannot be read or is not a bundle, see [`Error`].
pub fn read(dir: &Path, limits: &Limits) -> Result<BundleSummary, Error> {
    let mut warnings = Vec::new();
    let manifests = BundleManifests::read(&dir.join("manifests"), limits, &mut warnings)?;
    let metadata = Metadata::read(&dir.join("metadata"), limits, &mut warnings)?;
    if metadata.package.is_empty() {
        let bundle = Csv::read(manifests.csv()).map(|csv| csv.name).unwrap_or_default();
        return Err(Error::NoPackage { bundle, file: metadata.annotations_file });
    }
    Ok(BundleSummary { warnings, ..with_metadata(manifests, metadata, limits)? })
}

/// Returns the content of a bundle whose manifests and metadata were read.
pub(crate) fn with_metadata(
    manifests: BundleManifests,
    metadata: Metadata,
    limits: &Limits,
) -> Result<BundleSummary, Error> {
    let mut contents = parts(manifests, Some(&metadata), limits)?;
    contents.package = metadata.package;
    contents.channels = metadata.channels;
    contents.default_channel = metadata.default_channel;
    contents.dependencies = metadata.dependencies.properties;
    Ok(contents)
}

/// Reads the objects in `dir` as a bundle without metadata.
///
/// An owned API that is missing is reported as a problem.
///
/// # Errors
/// Fails if the directory cannot be read or contains no CSV, see [`Error`].
pub fn read_manifests(dir: &Path, limits: &Limits) -> Result<BundleSummary, Error> {
    let mut warnings = Vec::new();
    let manifests = BundleManifests::read(dir, limits, &mut warnings)?;
    let mut contents = parts(manifests, None, limits)?;
    contents.warnings = warnings;
    Ok(contents)
}

/// Builds a bundle without metadata from objects in JSON or YAML.
///
/// # Errors
/// Fails if there is no CSV among the objects, or if one of them cannot be parsed, see [`Error`].
pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Result<BundleSummary, Error> {
    let mut warnings = Vec::new();
    let manifests = BundleManifests::of_texts(objects, limits, &mut warnings)?;
    let mut contents = parts(manifests, None, limits)?;
    contents.warnings = warnings;
    Ok(contents)
}

fn parts(manifests: BundleManifests, metadata: Option<&Metadata>, limits: &Limits) -> Result<BundleSummary, Error> {
    let file = || manifests.csv_file.clone();
    let csv = Csv::read(manifests.csv()).map_err(|mismatch| Error::Csv { file: file(), mismatch })?;
    let name = || csv.name.clone();
    let invalid = |error: PropertyError| Error::Properties { bundle: name(), file: file(), source: Box::new(error) };
    let mut problems = Vec::new();
    let provided = match (apis::provided(&manifests.defined, &csv), metadata) {
        (Ok(provided), _) => provided,
        (Err(source), Some(_)) => return Err(Error::ProvidedApis { bundle: name(), file: file(), source }),
        (Err(error), None) => {
            problems.push(format!("error checking provided apis in bundle {}: {error}", csv.name));
            apis::defined_and_served(&manifests.defined, &csv).map_err(|error| invalid(error.into()))?
        }
    };
    let required = apis::required(&csv).map_err(|error| invalid(error.into()))?;
    let derive = |source| Error::Derive { file: file(), source };
    let version = csv.version().map_err(|error| derive(error.into()))?;
    let decode = |mismatch| Error::Csv { file: file(), mismatch };
    let annotated = match csv.annotation(PROPERTIES) {
        None => Vec::new(),
        Some(text) => properties::annotated(&text, limits.depth).map_err(|error| invalid(error.into()))?,
    };
    for (index, listed) in annotated.iter().enumerate() {
        if let Some(invalid) = properties::validate(&file(), index, listed) {
            return Err(Error::Properties { bundle: name(), file: invalid.file, source: Box::new(invalid.source) });
        }
    }
    let mut all: Vec<BundleProperty> = Vec::new();
    if let Some(metadata) = metadata {
        all.extend(metadata.properties.properties.iter().cloned());
        let release = csv.release().map_err(|error| derive(error.into()))?;
        let package = OlmPackage { name: metadata.package.clone(), version: version.clone(), release };
        all.push(package.property());
    }
    all.extend(annotated);
    all.extend(provided.iter().map(properties::of_api));
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for listed in all {
        let listed = compact(listed);
        if seen.insert(listed.clone()) {
            kept.push(listed);
        }
    }
    let related = |mismatch| Error::RelatedImages { bundle: name(), file: file(), mismatch };
    let listed = csv.related_images().map_err(related)?.into_iter().map(|(_, image)| image);
    let deployed = csv.deployed_images().map_err(related)?;
    let mut images: Vec<String> = Vec::new();
    for image in deployed.into_iter().chain(listed) {
        if !images.contains(&image) {
            images.push(image);
        }
    }
    Ok(BundleSummary {
        name: csv.name.clone(),
        version,
        csv_file: file(),
        replaces: csv.replaces().map_err(decode)?,
        skips: csv.skips().map_err(decode)?,
        skip_range: csv.annotation(SKIP_RANGE).unwrap_or_default().into_owned(),
        substitutes_for: csv.annotation(SUBSTITUTES_FOR).unwrap_or_default().into_owned(),
        csv: manifests.csv().text().to_owned(),
        provided: provided.into_iter().collect(),
        required,
        properties: kept,
        images,
        problems,
        objects: manifests.into_objects(),
        ..BundleSummary::default()
    })
}

/// Compacts the value of a property and escapes it for HTML.
fn compact(listed: BundleProperty) -> BundleProperty {
    let value = listed.value.map_or_else(Text::null, |value| Text::as_written(value.raw(), JsonLayout::Compact));
    BundleProperty { kind: listed.kind, value: Some(value.for_html()) }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::testing::{lines, rendered};

    fn csv(text: &str) -> BundleDir {
        BundleDir::new().manifest("csv.yaml", format!("kind: ClusterServiceVersion\n{text}"))
    }

    #[test]
    fn a_csv_needs_a_spec_and_strings_as_annotations() {
        assert_snapshot!(rendered(&csv("spec: text")), @r#"error decoding CSV: json: cannot unmarshal string into field "spec" of type object (manifests/csv.yaml)"#);
        assert_snapshot!(rendered(&csv("metadata: {name: a}")), @r#"error decoding CSV: json: cannot unmarshal null into field "spec" of type object (manifests/csv.yaml)"#);
        assert_snapshot!(rendered(&csv("metadata: {annotations: {certified: y}}\nspec: {}")), @r#"error decoding CSV: json: cannot unmarshal bool into field "metadata.annotations.certified" of type string (manifests/csv.yaml)"#);
        assert_snapshot!(lines(&csv("spec: {}"), &["foo", "olm.package"]), @r#"
        foo
        olm.package {"packageName":"foo","version":""}
        "#);
    }

    #[test]
    fn a_version_is_any_string() {
        assert_snapshot!(lines(&csv("spec: {version: not semver}"), &["olm.package"]), @r#"olm.package {"packageName":"foo","version":"not semver"}"#);
        assert_snapshot!(rendered(&csv("spec: {version: 1.2}")), @r#"failed to derive properties: json: cannot unmarshal number into field "spec.version" of type string (manifests/csv.yaml)"#);
    }

    #[test]
    fn a_release_is_a_string_or_a_number() {
        for release in ["'2'", "3", "1.50"] {
            let expected = release.trim_matches('\'').trim_end_matches('0');
            let shown = lines(&csv(&format!("spec: {{version: 1.0.0, release: {release}}}")), &["olm.package"]);
            assert_eq!(
                shown,
                format!(r#"olm.package {{"packageName":"foo","version":"1.0.0","release":"{expected}"}}"#)
            );
        }
        assert_snapshot!(rendered(&csv("spec: {release: true}")), @"failed to derive properties: release field must be a string or number (manifests/csv.yaml)");
    }
}
