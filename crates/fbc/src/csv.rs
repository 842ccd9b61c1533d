//! A CSV put together again from `olm.csv.metadata`, for consoles that ask for one.

use crate::csv_metadata::{FIELDS, Field, write_field};
use crate::json::{Kind, Raw, write_str};
use crate::property;
use crate::version::Version;

/// What a CSV tells besides its metadata.
pub struct Facts<'a> {
    /// The name of the bundle.
    pub name: &'a str,
    /// The version of the bundle.
    pub version: &'a Version,
    /// The text of the bundle, for its metadata and related images.
    pub bundle: Raw<'a>,
    /// The text of its package, for description and icon.
    pub package: Option<Raw<'a>>,
}

/// Parts of `spec` in the order a CSV has them; those between quotes come from the metadata.
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

/// Appends the CSV of a bundle that carries only metadata.
///
/// Characters that mean something in HTML are escaped, as the existing tools do.
pub fn from_metadata(facts: &Facts<'_>, out: &mut Vec<u8>) {
    let metadata = property::of(facts.bundle).find(|(kind, _)| kind == property::CSV_METADATA);
    let metadata = metadata.and_then(|(_, value)| value);
    let mut csv = Vec::with_capacity(metadata.map_or(0, |value| value.text().len()) + 1024);
    csv.extend_from_slice(
        br#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"#,
    );
    csv.extend_from_slice(b"\"name\":");
    write_str(&mut csv, facts.name);
    let mut first = false;
    for name in ["labels", "annotations"] {
        copy(&["metadata", name], name, metadata, &mut first, &mut csv);
    }
    csv.extend_from_slice(br#"},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"version":"#);
    write_str(&mut csv, &facts.version.to_string());
    for name in SPEC {
        match *name {
            "description" => description(facts, metadata, &mut csv),
            "icon" => icon(facts, &mut csv),
            "cleanup" => csv.extend_from_slice(br#","cleanup":{"enabled":false}"#),
            "relatedImages" => related_images(facts.bundle, &mut csv),
            name => copy(&["spec", name], name, metadata, &mut first, &mut csv),
        }
    }
    csv.extend_from_slice(br#"},"status":{"cleanup":{}}}"#);
    escape_html(&csv, out);
}

/// Writes the field that stands at `way` in a CSV, under the name it has there.
fn copy(way: &[&str], name: &'static str, metadata: Option<Raw<'_>>, first: &mut bool, out: &mut Vec<u8>) {
    let Some((_, field)) = FIELDS.iter().find(|(found, _)| *found == way) else { return };
    let value = metadata.and_then(|metadata| metadata.get(field.name));
    let always = field.always || name == "displayName";
    write_field(&Field { name, form: field.form, always }, value, first, out);
}

fn description(facts: &Facts<'_>, metadata: Option<Raw<'_>>, out: &mut Vec<u8>) {
    let of =
        |value: Option<Raw<'_>>| value.and_then(|value| value.get("description")?.as_str().map(|s| s.into_owned()));
    let own = of(metadata).filter(|text| !text.is_empty());
    if let Some(text) = own.or_else(|| of(facts.package)).filter(|text| !text.is_empty()) {
        out.extend_from_slice(b",\"description\":");
        write_str(out, &text);
    }
}

fn icon(facts: &Facts<'_>, out: &mut Vec<u8>) {
    let icon = facts.package.and_then(|package| package.get("icon")).filter(|icon| icon.kind() == Kind::Object);
    let Some(icon) = icon else { return };
    let field = |name| icon.get(name).and_then(Raw::as_str).unwrap_or_default();
    out.extend_from_slice(b",\"icon\":[{\"base64data\":");
    write_str(out, &field("base64data").replace(['\n', '\r'], ""));
    out.extend_from_slice(b",\"mediatype\":");
    write_str(out, &field("mediatype"));
    out.extend_from_slice(b"}]");
}

fn related_images(bundle: Raw<'_>, out: &mut Vec<u8>) {
    let mut before: &[u8] = b",\"relatedImages\":[";
    for image in bundle.get("relatedImages").into_iter().flat_map(Raw::items) {
        let field = |name| image.get(name).and_then(Raw::as_str).unwrap_or_default();
        out.extend_from_slice(before);
        out.extend_from_slice(b"{\"name\":");
        write_str(out, &field("name"));
        out.extend_from_slice(b",\"image\":");
        write_str(out, &field("image"));
        out.push(b'}');
        before = b",";
    }
    if before == b"," {
        out.push(b']');
    }
}

/// Appends JSON text with `<`, `>` and `&`, which occur only inside strings, escaped.
fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + text.len() / 64);
    let mut from = 0;
    for at in memchr::memchr3_iter(b'<', b'>', b'&', text) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(match text[at] {
            b'<' => b"\\u003c",
            b'>' => b"\\u003e",
            _ => b"\\u0026",
        });
        from = at + 1;
    }
    out.extend_from_slice(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_is_made_from_metadata_package_and_bundle() {
        let bundle = r#"{"properties":[{"type":"olm.csv.metadata","value":{"annotations":{"b":"<1>","a":"&"},
            "displayName":"D","installModes":[{"type":"AllNamespaces","supported":true}],"keywords":["k"],
            "crdDescriptions":{"owned":[{"kind":"K","name":"n","version":"v"}]},"provider":{"name":"P"}}}],
            "relatedImages":[{"name":"","image":"i:1"}]}"#;
        let package = r#"{"description":"of the package","icon":{"base64data":"eA==","mediatype":"image/png"}}"#;
        let facts = Facts {
            name: "n.v1",
            version: &Version::parse_strict("1.0.0").unwrap(),
            bundle: Raw::parse(bundle, 50).unwrap(),
            package: Some(Raw::parse(package, 50).unwrap()),
        };
        let mut out = Vec::new();
        from_metadata(&facts, &mut out);
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"n.v1","annotations":{"a":"\u0026","b":"\u003c1\u003e"}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"version":"1.0.0","customresourcedefinitions":{"owned":[{"name":"n","version":"v","kind":"K"}]},"apiservicedefinitions":{},"displayName":"D","description":"of the package","keywords":["k"],"provider":{"name":"P"},"icon":[{"base64data":"eA==","mediatype":"image/png"}],"installModes":[{"type":"AllNamespaces","supported":true}],"cleanup":{"enabled":false},"relatedImages":[{"name":"","image":"i:1"}]},"status":{"cleanup":{}}}"#);
    }
}
