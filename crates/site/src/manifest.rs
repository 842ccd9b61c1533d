//! A whole bundle for the page of a version: its blob, and the manifests in it.

use std::io;

use bundle::review::facts::BundleFacts;
use bundle::{BundleObject, ParsedBundle};
use edit::diff::changes::{ComparedBundle, ImageDifference, PropertyDifference};
use fbc::property;
use serde_json::Value;

use crate::csv::{CsvDescription, items, text};

const CRD: &str = "CustomResourceDefinition";

/// Why the examples of a bundle cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ExamplesError {
    /// They are not a list.
    #[error("alm-examples is not a list")]
    NotList,
    /// They are not JSON.
    #[error("alm-examples is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A bundle whose blob was read.
#[derive(Debug, Clone, Default)]
pub struct VersionManifest {
    pub blob: Value,
    /// Its description.
    pub csv: CsvDescription,
    /// The objects in the blob.
    pub objects: ParsedBundle,
    /// The facts of the manifests.
    pub facts: BundleFacts,
    /// Whether objects are in separate files.
    pub elsewhere: bool,
}

impl VersionManifest {
    /// Returns the whole CSV, if the blob contains it.
    pub fn whole_csv(&self) -> Option<&Value> {
        self.objects.csv().map(|object| &object.value)
    }

    /// Returns the CRDs in the blob.
    pub fn crds(&self) -> impl Iterator<Item = &Value> {
        self.objects.of_kind(CRD).map(|object| &object.value)
    }

    /// Returns all objects in the blob but the CSV and the CRDs.
    pub fn others(&self) -> impl Iterator<Item = &BundleObject> {
        self.objects.objects.iter().filter(|object| !matches!(object.kind(), CRD | "ClusterServiceVersion"))
    }

    /// Parses the JSON of a blob.
    ///
    /// # Errors
    /// Fails if the blob is not valid JSON.
    pub fn read(blob: &str) -> io::Result<VersionManifest> {
        let blob: Value = serde_json::from_str(blob).map_err(io::Error::other)?;
        let mut manifest = VersionManifest::default();
        let (mut metadata, mut objects) = (None, Vec::new());
        for property in items(&blob["properties"]) {
            match property["type"].as_str() {
                Some("olm.csv.metadata") => {
                    metadata.get_or_insert_with(|| property["value"].clone());
                }
                Some("olm.bundle.object") => objects.extend(manifest.object(&property["value"])),
                _ => {}
            }
        }
        manifest.objects = ParsedBundle::of_values(objects);
        manifest.facts = BundleFacts::of(manifest.whole_csv().into_iter().chain(manifest.crds()), metadata.as_ref());
        manifest.csv = CsvDescription::of(manifest.whole_csv().or(metadata.as_ref()).unwrap_or(&Value::Null));
        manifest.blob = blob;
        Ok(manifest)
    }

    /// Decodes the object of a property; notes one that is elsewhere.
    fn object(&mut self, value: &Value) -> Option<Value> {
        let Some(data) = value["data"].as_str() else {
            self.elsewhere |= value.get("ref").is_some();
            return None;
        };
        serde_json::from_slice(&fbc::base64::decode(data).ok()?).ok()
    }

    /// Returns the content to compare with another version.
    pub(crate) fn contents(&self) -> ComparedBundle {
        let manifests =
            |kind: &str| matches!(kind, property::BUNDLE_OBJECT | property::CSV_METADATA | property::PACKAGE);
        let properties =
            items(&self.blob["properties"]).iter().filter(|one| !manifests(one["type"].as_str().unwrap_or_default()));
        let images = self.images().into_iter().map(|(name, image)| ImageDifference { name, image });
        let properties = properties.map(|one| PropertyDifference::new(&text(&one["type"]), &one["value"]));
        ComparedBundle::new(images.collect(), properties.collect(), self.facts.clone())
    }

    /// Returns the install strategy of the CSV.
    pub fn install(&self) -> &Value {
        self.whole_csv().map_or(&Value::Null, |csv| &csv["spec"]["install"]["spec"])
    }

    /// Returns the webhooks of the CSV.
    pub fn webhooks(&self) -> &[Value] {
        self.whole_csv().map_or(&[], |csv| items(&csv["spec"]["webhookdefinitions"]))
    }

    /// Returns the example objects with their kinds.
    ///
    /// # Errors
    /// Fails when the annotation is not a list of objects.
    pub fn examples(&self) -> Result<Vec<(String, Value)>, ExamplesError> {
        let written = self.csv.annotation("alm-examples");
        if written.is_empty() {
            return Ok(Vec::new());
        }
        match serde_json::from_str::<Value>(written) {
            Ok(Value::Array(list)) => Ok(list.into_iter().map(|one| (text(&one["kind"]), one)).collect()),
            Ok(_) => Err(ExamplesError::NotList),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the definitions that are internal to the operator.
    pub fn internal(&self) -> Vec<String> {
        crate::csv::json_list(self.csv.annotation("operators.operatorframework.io/internal-objects"))
    }

    /// Returns the schema of a kind, if the blob contains its definition.
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Option<(&Value, &Value)> {
        let crd = self.crds().find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind)?;
        let found = items(&crd["spec"]["versions"]).iter().find(|one| one["name"] == version)?;
        Some((found, &found["schema"]["openAPIV3Schema"]))
    }

    /// Returns the related images: name and image.
    pub fn images(&self) -> Vec<(String, String)> {
        items(&self.blob["relatedImages"]).iter().map(|one| (text(&one["name"]), text(&one["image"]))).collect()
    }
}

/// Formats a value as YAML in the usual style of manifests.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 || !out.ends_with("- ") {
                    indent(depth, out);
                }
                out.push_str(&scalar(name));
                out.push(':');
                nested(value, depth, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for item in list {
                indent(depth, out);
                out.push_str("- ");
                match item {
                    Value::Object(members) if !members.is_empty() => write(item, depth + 1, out),
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push('\n');
                        write(item, depth + 1, out);
                    }
                    _ => {
                        out.push_str(&leaf(item));
                        out.push('\n');
                    }
                }
            }
        }
        _ => {
            out.push_str(&leaf(value));
            out.push('\n');
        }
    }
}

fn nested(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            write(value, depth + 1, out);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            write(value, depth, out);
        }
        Value::String(text) if text.contains('\n') && !text.chars().any(|c| c.is_control() && c != '\n') => {
            let ending = if text.ends_with('\n') { "|" } else { "|-" };
            // A text that starts with a space needs an indentation indicator.
            let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
            out.push_str(&format!(" {}{hint}{}\n", &ending[..1], &ending[1..]));
            for line in text.trim_end_matches('\n').split('\n') {
                if !line.is_empty() {
                    indent(depth + 1, out);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        _ => {
            out.push(' ');
            out.push_str(&leaf(value));
            out.push('\n');
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        value => value.to_string(),
    }
}

/// Writes a text without quotes if every parser reads it as text.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./ ".contains(c) || c == '@';
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let word = text.to_ascii_lowercase();
    let special = matches!(word.as_str(), "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null");
    if starts && !special && text.chars().all(plain) && !text.ends_with(' ') {
        return text.to_owned();
    }
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_has_the_usual_formatting() {
        let value = serde_json::json!({"a": {"b": ["x", {"c": 1, "d": []}], "e": "yes", "f": "one\ntwo"}, "g": null});
        assert_eq!(
            yaml(&value),
            "a:\n  b:\n  - x\n  - c: 1\n    d: []\n  e: \"yes\"\n  f: |-\n    one\n    two\ng: null\n"
        );
    }
}
