//! Splits a bundle into a blob and object files, in the layout of the first file-based catalogs.

use std::collections::BTreeSet;

use fbc::json::{JsonObject, ListItem, Raw, Text};
use fbc::limits::MAX_DEPTH;
use fbc::{base64, property};

/// The maximum length of a file name derived from an object.
const MAX_NAME: usize = 240;

/// An object of a bundle that is not valid base64.
#[derive(Debug, thiserror::Error)]
#[error("object is not valid base64 at offset {at}")]
pub struct InvalidObject {
    at: usize,
}

/// Moves the objects of an `olm.bundle` to files. Returns the blob with references to them, and the files.
#[expect(clippy::type_complexity, reason = "a name and its content")]
///
/// # Errors
/// Fails if an object is not valid base64.
pub fn split(json: Raw<'_>, name: &str) -> Result<(Text, Vec<(String, Vec<u8>)>), InvalidObject> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut blob = JsonObject::new();
    for (key, value) in json.members() {
        match &*key {
            "properties" => {
                let mut properties = Vec::new();
                for item in value.items() {
                    let kind = item.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
                    let data = item.get("value").and_then(|value| value.get("data")).and_then(|data| data.as_str());
                    let (true, Some(data)) = (kind == property::BUNDLE_OBJECT, data) else {
                        properties.push(ListItem::Value(item));
                        continue;
                    };
                    let object = base64::decode(&data).map_err(|at| InvalidObject { at })?;
                    // A catalog can contain objects that are not JSON; they stay unchanged.
                    let json = std::str::from_utf8(&object).ok().and_then(|text| Raw::parse(text, MAX_DEPTH).ok());
                    let stem =
                        json.map_or_else(|| format!("obj{:04}", files.len()), |json| file_name(json, files.len()));
                    let file = unused(&stem, &mut taken);
                    let yaml = json.map_or_else(
                        || object.clone(),
                        |json| {
                            let mut yaml = Vec::new();
                            fbc::yaml::write_document(json, &mut yaml);
                            yaml.push(b'\n');
                            yaml
                        },
                    );
                    let reference = JsonObject::new().string("ref", &format!("objects/{name}/{file}"));
                    properties
                        .push(ListItem::Object(JsonObject::new().string("type", &kind).object("value", reference)));
                    files.push((file, yaml));
                }
                blob = blob.parts("properties", properties);
            }
            "relatedImages" if value.items().next().is_none() => {}
            _ => blob = blob.value(&key, value),
        }
    }
    Ok((blob.end(), files))
}

/// Returns the file name of an object: name, group, version and kind.
fn file_name(object: Raw<'_>, index: usize) -> String {
    let text = |value: Option<Raw<'_>>| value.and_then(|value| value.as_str()).unwrap_or_default().into_owned();
    let name = text(object.get("metadata").and_then(|metadata| metadata.get("name")));
    let name = if name.is_empty() { format!("obj{index:04}") } else { name };
    let api = text(object.get("apiVersion"));
    let (group, version) = api.split_once('/').unwrap_or(("", &api));
    let kind = text(object.get("kind")).to_lowercase();
    let file = format!("{name}_{group}_{version}_{kind}").replace(['/', '\0'], "-");
    let file = if file.len() > MAX_NAME { format!("obj{index:04}") } else { file };
    // Loaders treat hidden files, `.` and `..` specially.
    file.trim_start_matches('.').to_owned()
}

fn unused(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut file = format!("{name}.yaml");
    let mut number = 2;
    while !taken.insert(file.clone()) {
        file = format!("{name}-{number}.yaml");
        number += 1;
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_files_named_after_them() {
        let object = |json: &str| {
            let mut data = Vec::new();
            base64::encode(json.as_bytes(), &mut data);
            format!(
                "{{\"type\":\"olm.bundle.object\",\"value\":{{\"data\":\"{}\"}}}}",
                String::from_utf8(data).unwrap()
            )
        };
        let objects = [
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":"\u003c"}"#,
            r#"{"apiVersion":"g.io/v1","kind":"Role","metadata":{"name":"../../b"}}"#,
            r#"{"kind":"Thing"}"#,
        ];
        let list: Vec<String> = objects.iter().map(|json| object(json)).collect();
        let json = format!(
            "{{\"schema\":\"olm.bundle\",\"properties\":[{{\"type\":\"x\",\"value\":1}},{}],\"relatedImages\":[]}}",
            list.join(",")
        );
        let (blob, files) = split(Raw::parse(&json, 9).unwrap(), "foo.v1").unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["a__v1_configmap.yaml", "a__v1_configmap-2.yaml", "-..-b_g.io_v1_role.yaml", "obj0003___thing.yaml"]
        );
        assert!(String::from_utf8_lossy(&files[1].1).contains("x: <\n"));
        assert_eq!(
            blob,
            r#"{"schema":"olm.bundle","properties":[{"type":"x","value":1},{"type":"olm.bundle.object","value":{"ref":"objects/foo.v1/a__v1_configmap.yaml"}},{"type":"olm.bundle.object","value":{"ref":"objects/foo.v1/a__v1_configmap-2.yaml"}},{"type":"olm.bundle.object","value":{"ref":"objects/foo.v1/-..-b_g.io_v1_role.yaml"}},{"type":"olm.bundle.object","value":{"ref":"objects/foo.v1/obj0003___thing.yaml"}}]}"#
        );
    }
}
