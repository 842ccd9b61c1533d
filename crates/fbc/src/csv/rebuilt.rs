//! Reconstructs a CSV from `olm.csv.metadata`, for clients that request one.

use super::metadata::{self, FIELDS, MAX_FIELDS, MetadataField, write_field};
use crate::json::{JsonKind, MemberWriter, Raw, Text};
use crate::property;
use crate::version::Version;

/// The inputs for a reconstructed CSV.
pub struct CsvInputs<'a> {
    /// The name of the bundle.
    pub name: &'a str,
    /// The version of the bundle.
    pub version: &'a Version,
    /// The text of the bundle, with its metadata and related images.
    pub bundle: Raw<'a>,
    /// The text of its package, with description and icon.
    pub package: Option<Raw<'a>>,
}

/// The parts of `spec` in CSV order.
const SPEC: &[&str] = &[
    "maturity",
    "customresourcedefinitions",
    "apiservicedefinitions",
    "nativeAPIs",
    "minKubeVersion",
    "displayName",
    "description",
    "keywords",
    "maintainers",
    "provider",
    "links",
    "icon",
    "installModes",
    "cleanup",
    "relatedImages",
];

/// Returns the CSV of a bundle that contains only metadata.
///
/// Characters with a meaning in HTML are escaped, as in the existing tools.
pub fn from_metadata(facts: &CsvInputs<'_>) -> Text {
    let metadata = property::of(facts.bundle).find(|(kind, _)| kind == property::CSV_METADATA);
    let metadata = metadata.and_then(|(_, value)| value).map_or([None; MAX_FIELDS], metadata::fields);
    let csv = Text::object(|csv| {
        csv.string("kind", super::KIND).string("apiVersion", "operators.coreos.com/v1alpha1");
        csv.object("metadata", |object| {
            object.string("name", facts.name);
            for name in ["labels", "annotations"] {
                copy(["metadata", name], name, &metadata, object);
            }
        });
        csv.object("spec", |spec| write_spec(facts, &metadata, spec));
        csv.object("status", |status| {
            status.object("cleanup", |_| {});
        });
    });
    csv.for_html()
}

fn write_spec(facts: &CsvInputs<'_>, metadata: &CsvFields<'_>, spec: &mut MemberWriter<'_>) {
    spec.object("install", |install| {
        install.string("strategy", "deployment").object("spec", |spec| {
            spec.compact("deployments", None);
        });
    });
    spec.string("version", &facts.version.to_string());
    for name in SPEC {
        match *name {
            "description" => description(facts, metadata, spec),
            "icon" => icon(facts, spec),
            "cleanup" => {
                spec.object("cleanup", |cleanup| {
                    cleanup.bool("enabled", false);
                });
            }
            "relatedImages" => related_images(facts.bundle, spec),
            name => copy(["spec", name], name, metadata, spec),
        }
    }
}

/// The fields of the metadata, in the order of [`FIELDS`].
type CsvFields<'a> = [Option<Raw<'a>>; MAX_FIELDS];

fn place(path: [&str; 2]) -> Option<usize> {
    FIELDS.iter().position(|(known, _)| *known == path)
}

/// Copies the field at `path` of a CSV, under its name there.
fn copy(path: [&str; 2], name: &'static str, metadata: &CsvFields<'_>, out: &mut MemberWriter<'_>) {
    let Some(place) = place(path) else { return };
    let field = &FIELDS[place].1;
    let always = field.always || name == "displayName";
    write_field(&MetadataField { name, form: field.form, always }, metadata[place], out);
}

fn description(facts: &CsvInputs<'_>, metadata: &CsvFields<'_>, out: &mut MemberWriter<'_>) {
    let own = place(["spec", "description"]).and_then(|place| metadata[place]?.as_str()).filter(|own| !own.is_empty());
    let of_package = || facts.package.and_then(|package| package.get("description")?.as_str());
    out.string_if_any("description", &own.or_else(of_package).unwrap_or_default());
}

fn icon(facts: &CsvInputs<'_>, out: &mut MemberWriter<'_>) {
    let icon = facts.package.and_then(|package| package.get("icon")).filter(|icon| icon.kind() == JsonKind::Object);
    let Some(icon) = icon else { return };
    let field = |name| icon.get_str(name);
    out.objects("icon", [icon], |_, out| {
        out.string("base64data", &field("base64data").replace(['\n', '\r'], ""));
        out.string("mediatype", &field("mediatype"));
    });
}

fn related_images(bundle: Raw<'_>, out: &mut MemberWriter<'_>) {
    let mut images = bundle.get_items("relatedImages").peekable();
    if images.peek().is_none() {
        return;
    }
    out.objects("relatedImages", images, |image, out| {
        let field = |name| image.get_str(name);
        out.string("name", &field("name")).string("image", &field("image"));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_is_built_from_metadata_package_and_bundle() {
        let bundle = r#"{"properties":[{"type":"olm.csv.metadata","value":{"annotations":{"b":"<1>","a":"&"},
            "displayName":"D","installModes":[{"type":"AllNamespaces","supported":true}],"keywords":["k"],
            "crdDescriptions":{"owned":[{"kind":"K","name":"n","version":"v"}]},"provider":{"name":"P"}}}],
            "relatedImages":[{"name":"","image":"i:1"}]}"#;
        let package = r#"{"description":"of the package","icon":{"base64data":"eA==","mediatype":"image/png"}}"#;
        let facts = CsvInputs {
            name: "n.v1",
            version: &Version::parse_strict("1.0.0").unwrap(),
            bundle: Raw::parse(bundle, 50).unwrap(),
            package: Some(Raw::parse(package, 50).unwrap()),
        };
        let out = from_metadata(&facts);
        insta::assert_snapshot!(out, @r#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"n.v1","annotations":{"a":"\u0026","b":"\u003c1\u003e"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"version":"1.0.0","customresourcedefinitions":{"owned":[{"name":"n","version":"v","kind":"K"}]},"apiservicedefinitions":{},"displayName":"D","description":"of the package","keywords":["k"],"provider":{"name":"P"},"icon":[{"base64data":"eA==","mediatype":"image/png"}],"installModes":[{"type":"AllNamespaces","supported":true}],"cleanup":{"enabled":false},"relatedImages":[{"name":"","image":"i:1"}]},"status":{"cleanup":{}}}"#);
    }
}
