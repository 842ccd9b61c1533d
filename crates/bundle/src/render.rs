//! Renders a bundle directory to an `olm.bundle` blob.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::path::Path;

use fbc::csv::{Csv, metadata};
use fbc::json::{MemberWriter, Text};
use fbc::{Limits, base64, blob, property};

use crate::apis;
use crate::contents::{self, BundleSummary};
use crate::error::Error;
use crate::images::{self, CsvImage};
use crate::manifests::BundleManifests;
use crate::metadata::Metadata;
use crate::properties::{self, BundleProperty, InvalidProperty, ListedProperties, OlmPackage, Sources};
use crate::template::ImageTemplate;

/// The annotation of a CSV with further properties.
pub(crate) const PROPERTIES: &str = "olm.properties";

/// The options for rendering a bundle.
#[derive(Debug)]
pub struct RenderOptions<'a> {
    /// The image reference that the bundle was unpacked from; empty for a plain directory.
    pub image: &'a str,
    /// Builds the image reference of a bundle without one.
    pub image_template: Option<&'a ImageTemplate>,
    /// Whether bundles with an image contain metadata for consoles instead of all objects.
    pub migrate: bool,
    /// The input limits.
    pub limits: Limits,
}

/// A bundle as a catalog blob.
#[derive(Debug)]
pub struct BundleBlob {
    /// The name of the bundle.
    pub name: String,
    pub package: String,
    /// The `olm.bundle` blob as compact JSON, with properties and images in output order.
    pub json: Text,
    /// The CSV as JSON, if the blob contains only the metadata for consoles.
    pub csv: Option<Text>,
    /// Warnings about ignored content that looks like a mistake.
    pub warnings: Vec<String>,
}

/// Renders the bundle in `dir`.
///
/// # Errors
/// Fails if the directory cannot be read or is not a bundle, see [`Error`].
pub fn render(dir: &Path, options: &RenderOptions<'_>) -> Result<BundleBlob, Error> {
    let mut warnings = Vec::new();
    let manifests = BundleManifests::read(&dir.join("manifests"), &options.limits, &mut warnings)?;
    Ok(render_manifests(dir, manifests, warnings, options)?.0)
}

/// Renders the bundle in `dir`, and returns its content in parts, too.
///
/// # Errors
/// Fails if the directory cannot be read or is not a bundle, see [`Error`].
pub fn render_and_read(dir: &Path, options: &RenderOptions<'_>) -> Result<(BundleBlob, BundleSummary), Error> {
    let mut warnings = Vec::new();
    let manifests = BundleManifests::read(&dir.join("manifests"), &options.limits, &mut warnings)?;
    let (rendered, metadata) = render_manifests(dir, manifests.clone(), warnings, options)?;
    let contents = contents::with_metadata(manifests, metadata, &options.limits)?;
    Ok((rendered, contents))
}

/// Renders a bundle whose manifests were read; returns its metadata, too.
fn render_manifests(
    dir: &Path,
    manifests: BundleManifests,
    mut warnings: Vec<String>,
    options: &RenderOptions<'_>,
) -> Result<(BundleBlob, Metadata), Error> {
    let limits = &options.limits;
    let file = || manifests.csv_file.clone();
    let csv = Csv::read(manifests.csv()).map_err(|mismatch| Error::Csv { file: file(), mismatch })?;
    let name = || csv.name.clone();
    let provided = apis::provided(&manifests.defined, &csv).map_err(|source| Error::ProvidedApis {
        bundle: name(),
        file: file(),
        source,
    })?;

    let metadata = Metadata::read(&dir.join("metadata"), limits, &mut warnings)?;
    if metadata.package.is_empty() {
        return Err(Error::NoPackage { bundle: name(), file: metadata.annotations_file });
    }
    let derive = |source| Error::Derive { file: file(), source };
    let package = OlmPackage {
        name: metadata.package.clone(),
        version: csv.version().map_err(|error| derive(error.into()))?,
        release: csv.release().map_err(|error| derive(error.into()))?,
    };
    let annotated = match csv.annotation(PROPERTIES).map(|text| properties::annotated(&text, limits.depth)) {
        None => Vec::new(),
        Some(Ok(properties)) => properties,
        Some(Err(reason)) => {
            warnings.push(format!("{}: annotation {PROPERTIES} is ignored: {reason}", file()));
            Vec::new()
        }
    };
    let required = apis::required(&csv).map_err(|error| Error::Properties {
        bundle: name(),
        file: file(),
        source: Box::new(error.into()),
    })?;
    let (mut properties, package) = properties::collect(Sources {
        declared: metadata.properties.clone(),
        package,
        annotated: ListedProperties { file: file(), properties: annotated },
        provided: &provided,
        required: &required,
        dependencies: &metadata.dependencies,
    })
    .map_err(|InvalidProperty { file, source }| Error::Properties {
        bundle: name(),
        file,
        source: Box::new(source),
    })?;

    let image = match options.image_template {
        Some(template) if options.image.is_empty() => template.fill(&package.name, &csv.name, &package.version),
        _ => options.image.to_owned(),
    };
    let related = images::related(&csv, &image).map_err(|mismatch| Error::RelatedImages {
        bundle: name(),
        file: file(),
        mismatch,
    })?;
    let migrated = properties.iter().any(|listed| listed.kind == property::CSV_METADATA);
    let console =
        (options.migrate && !image.is_empty() && !migrated).then(|| console_metadata(&manifests)).transpose()?;

    let Csv { name, .. } = csv;
    let csv = console.is_some().then(|| manifests.csv().into());
    let trailing = match console {
        Some(console) => {
            properties.retain(|listed| listed.kind != property::BUNDLE_OBJECT);
            vec![(property::CSV_METADATA, PropertyValue::Text(Some(console)))]
        }
        None => trailing(&mut properties, manifests.into_objects()),
    };
    let json = write(&name, &metadata.package, &image, properties, trailing, &related);
    Ok((BundleBlob { name, package: metadata.package.clone(), json, csv, warnings }, metadata))
}

/// Returns the value of the property with metadata for consoles.
fn console_metadata(manifests: &BundleManifests) -> Result<Text, Error> {
    metadata::from_csv(manifests.csv()).map_err(|source| Error::Migrate { file: manifests.csv_file.clone(), source })
}

/// The value of a property.
#[derive(Debug)]
enum PropertyValue {
    /// JSON in its source form, if there is any.
    Text(Option<Text>),
    /// The JSON of an object, written as `{"data":"..."}` with the object in base64.
    Object(Text),
}

impl PropertyValue {
    /// Writes the value to a property.
    fn write(&self, property: &mut MemberWriter<'_>) {
        match self {
            PropertyValue::Text(text) => property.compact("value", text.as_ref().map(Text::raw)),
            PropertyValue::Object(object) => property.object("value", |value| {
                value.base64("data", object.as_bytes());
            }),
        };
    }

    /// Compares values by the bytes of their text.
    fn order(&self, other: &PropertyValue) -> Ordering {
        match (self, other) {
            (PropertyValue::Object(a), PropertyValue::Object(b)) => order_in_base64(a.as_bytes(), b.as_bytes()),
            (PropertyValue::Text(a), PropertyValue::Text(b)) => a.cmp(b),
            (PropertyValue::Text(text), PropertyValue::Object(object)) => {
                text.as_ref().cmp(&Some(&in_base64(object.as_bytes())))
            }
            (PropertyValue::Object(object), PropertyValue::Text(text)) => {
                Some(&in_base64(object.as_bytes())).cmp(&text.as_ref())
            }
        }
    }
}

fn in_base64(object: &[u8]) -> Text {
    Text::object(|value| {
        value.base64("data", object);
    })
}

/// Compares two texts by their base64 encodings, encoding only the chunk that differs.
fn order_in_base64(a: &[u8], b: &[u8]) -> Ordering {
    // Objects of one kind share long prefixes: compare by chunks first.
    const CHUNK: usize = 240;
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK)).take_while(|(a, b)| a == b).map(|(chunk, _)| chunk.len());
    let common = chunks.sum::<usize>();
    let common = common + a[common..].iter().zip(&b[common..]).take_while(|(a, b)| a == b).count();
    let group = common / 3 * 3;
    let encoded = |bytes: &[u8]| {
        let mut out = Vec::new();
        base64::encode(&bytes[group..bytes.len().min(group + 3)], &mut out);
        out
    };
    encoded(a).cmp(&encoded(b))
}

/// Moves the properties that come last in a bundle out of `properties` and returns them in order, together with the
/// objects of the bundle.
fn trailing(properties: &mut Vec<BundleProperty>, objects: Vec<Text>) -> Vec<(&'static str, PropertyValue)> {
    let mut take = |kind: &'static str| -> Vec<(&'static str, PropertyValue)> {
        properties
            .extract_if(.., |listed| listed.kind == kind)
            .map(|trailing| (kind, PropertyValue::Text(trailing.value)))
            .collect()
    };
    let (mut trailing, metadata) = (take(property::BUNDLE_OBJECT), take(property::CSV_METADATA));
    trailing.extend(objects.into_iter().map(|object| (property::BUNDLE_OBJECT, PropertyValue::Object(object))));
    trailing.sort_by(|(_, a), (_, b)| a.order(b));
    trailing.extend(metadata);
    trailing
}

/// Writes an `olm.bundle` blob.
fn write(
    name: &str,
    package: &str,
    image: &str,
    properties: Vec<BundleProperty>,
    trailing: Vec<(&'static str, PropertyValue)>,
    related: &[CsvImage],
) -> Text {
    let size = |(_, value): &(_, PropertyValue)| match value {
        PropertyValue::Text(text) => text.as_ref().map_or(4, |text| text.len()),
        PropertyValue::Object(text) => text.len() / 3 * 4 + 64,
    };
    let early = properties.into_iter().map(|early| (Cow::Owned(early.kind), PropertyValue::Text(early.value)));
    let capacity = trailing.iter().map(size).sum::<usize>() + 4096;
    let all = early.chain(trailing.into_iter().map(|(kind, value)| (Cow::Borrowed(kind), value)));
    Text::object_of_size(capacity, |blob| {
        blob.string("schema", blob::BUNDLE).string("name", name).string("package", package).string("image", image);
        // Each value is dropped after it is written, so that a large bundle is in memory little more than once.
        blob.objects("properties", all, |(kind, value), property| {
            property.string("type", &kind);
            value.write(property);
        });
        blob.objects("relatedImages", related, |CsvImage { name, image }, related| {
            related.string("name", name).string("image", image);
        });
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use super::*;
    use crate::testing::{lines, rendered, templated};

    #[test]
    fn a_small_bundle_becomes_a_blob() {
        assert_snapshot!(rendered(&BundleDir::new()), @r#"
        foo foo.v1.2.3
        olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}
        olm.package {"packageName":"foo","version":"1.2.3"}
        object {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","names":{"kind":"Foo","plural":"foos"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"served":true,"storage":true}]}}
        object {"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1.2.3"},"spec":{"version":"1.2.3"}}
        "#);
    }

    #[test]
    fn objects_are_last_sorted_by_their_base64() {
        let given = r#"{"properties":[{"type":"olm.bundle.object","value":{"data":"e30="}},{"type":"zz","value":1},
            {"type":"olm.csv.metadata","value":{}},{"type":"olm.bundle.object","value":{ "data":"e30="}}]}"#;
        let bundle = BundleDir::new().metadata("p.json", given).manifest("a.yaml", "kind: A\n");
        assert_snapshot!(lines(&bundle, &["object", "olm.csv", "zz"]), @r#"
        zz 1
        object {}
        object {}
        object {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","names":{"kind":"Foo","plural":"foos"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"served":true,"storage":true}]}}
        object {"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1.2.3"},"spec":{"version":"1.2.3"}}
        object {"kind":"A"}
        olm.csv.metadata {}
        "#);
    }

    #[test]
    fn an_image_template_uses_the_effective_package() {
        let bundle = BundleDir::new()
            .metadata("p.yaml", "properties: [{type: olm.package, value: {packageName: loses, version: 9.9.9}}]\n");
        assert_snapshot!(templated(&bundle, "r/{{.Package}}/{{.Name}}:{{.Version}}", false).lines().next().unwrap(), @"foo foo.v1.2.3 r/foo/foo.v1.2.3:1.2.3");
    }

    #[test]
    fn migration_replaces_objects_with_metadata() {
        let bundle = BundleDir::new().csv_spec("  displayName: Foo <3\n");
        assert_snapshot!(templated(&bundle, "r/foo", true), @r#"
        foo foo.v1.2.3 r/foo
        olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}
        olm.package {"packageName":"foo","version":"1.2.3"}
        olm.csv.metadata {"apiServiceDefinitions":{},"crdDescriptions":{},"displayName":"Foo <3","provider":{}}
        image r/foo
        "#);
        let objects = |shown: String| shown.lines().filter(|line| line.starts_with("object")).count();
        assert_eq!(objects(templated(&bundle, "", true)), 2, "a bundle without an image was changed");
        let bundle = bundle.metadata("p.yaml", "properties: [{type: olm.csv.metadata, value: {}}]\n");
        assert_eq!(objects(templated(&bundle, "r/foo", true)), 2, "a migrated bundle was changed");
    }

    #[test]
    fn migration_returns_the_removed_csv() {
        let bundle = BundleDir::new();
        let csv = |image, migrate| {
            let options = RenderOptions { image, image_template: None, migrate, limits: Limits::default() };
            render(bundle.path(), &options).unwrap().csv
        };
        assert!(csv("r/foo", true).unwrap().contains("\"ClusterServiceVersion\""));
        assert_eq!(csv("r/foo", false), None);
        assert_eq!(csv("", true), None);
    }

    #[test]
    fn migration_requires_a_version() {
        let bundle = BundleDir::new().manifest("csv.yaml", "kind: ClusterServiceVersion\nspec: {version: one}\n");
        assert_snapshot!(templated(&bundle, "r/foo", true), @r#"migrate: Invalid character(s) found in major number "0one" (manifests/csv.yaml)"#);
    }

    #[test]
    fn a_bundle_without_package_is_rejected() {
        let annotations = "annotations: {operators.operatorframework.io.bundle.channels.v1: stable}\n";
        assert_snapshot!(rendered(&BundleDir::new().metadata("annotations.yaml", annotations)), @r#"package name must be set for bundle "foo.v1.2.3" (annotation operators.operatorframework.io.bundle.package.v1 in metadata/annotations.yaml)"#);
    }

    #[test]
    fn a_missing_directory_is_reported() {
        let bundle = BundleDir::empty();
        std::fs::remove_dir(bundle.path().join("manifests")).unwrap();
        assert_snapshot!(rendered(&bundle), @"BUNDLE/manifests: No such file or directory (os error 2)");
    }

    proptest::proptest! {
        #[test]
        fn texts_are_sorted_like_their_base64(
            same in "[a-c]{0,500}", a in "[a-z]{0,3}[0-9é]{0,7}", b in "[a-z]{0,3}[0-9é]{0,7}",
        ) {
            let (a, b) = (format!("{same}{a}"), format!("{same}{b}"));
            let encoded = |text: &str| in_base64(text.as_bytes());
            let expected = encoded(&a).cmp(&encoded(&b));
            proptest::prop_assert_eq!(order_in_base64(a.as_bytes(), b.as_bytes()), expected);
        }
    }
}
