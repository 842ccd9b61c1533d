//! New blobs, and the files that they refer to.

use std::path::PathBuf;

use fbc::json::{Raw, Text};
use fbc::limits::MAX_DEPTH;
use fbc::property;
use twox_hash::XxHash3_128;

use crate::text::editor::Editor;
use crate::text::tree::TreeNode;
use crate::text::{apply, scalar, sort};

/// The text of a blob that is new to the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlob {
    /// The blob as JSON.
    pub json: Text,
    /// The blob as YAML with the comments of its author, if the source is YAML.
    pub yaml: Option<String>,
    /// The files that it refers to.
    pub files: Vec<AttachedFile>,
}

/// A file that a blob refers to; it has to be written to the path that the blob gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFile {
    /// The path in the blob, relative to the file that contains the blob.
    pub reference: String,
    pub content: AttachedContent,
}

/// The content of an [`AttachedFile`] file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachedContent {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A copy of another file.
    CopyOf {
        /// The file.
        path: PathBuf,
        /// A digest of its content.
        digest: u128,
    },
}

impl AttachedContent {
    /// Describes the content as a copy of the file at `path`, whose content is `bytes`.
    pub fn copy_of(path: PathBuf, bytes: &[u8]) -> AttachedContent {
        AttachedContent::CopyOf { path, digest: XxHash3_128::oneshot(bytes) }
    }

    /// Returns whether the content is `bytes`.
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self {
            AttachedContent::Bytes(own) => own == bytes,
            AttachedContent::CopyOf { digest, .. } => *digest == XxHash3_128::oneshot(bytes),
        }
    }

    /// Returns whether two contents are the same.
    pub fn same_as(&self, other: &AttachedContent) -> bool {
        match (self, other) {
            (AttachedContent::CopyOf { digest: a, .. }, AttachedContent::CopyOf { digest: b, .. }) => a == b,
            (AttachedContent::Bytes(bytes), other) | (other, AttachedContent::Bytes(bytes)) => other.is(bytes),
        }
    }
}

impl NewBlob {
    /// Builds a new blob from JSON only.
    pub fn json(json: impl Into<Text>) -> NewBlob {
        NewBlob { json: json.into(), yaml: None, files: Vec::new() }
    }

    /// Replaces all references to the file `from` with references to `to`.
    ///
    /// If the YAML cannot be edited in place, it is dropped with its comments, and the JSON remains.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(json) = renamed(&self.json, true, from, to).and_then(|json| Text::parse(&json, MAX_DEPTH).ok()) {
            self.json = json;
        }
        self.yaml = self.yaml.as_deref().and_then(|yaml| renamed(yaml, false, from, to));
        for file in self.files.iter_mut().filter(|file| file.reference == from) {
            to.clone_into(&mut file.reference);
        }
    }
}

/// Returns the text of a bundle with one reference renamed.
fn renamed(text: &str, json: bool, from: &str, to: &str) -> Option<String> {
    let root = TreeNode::parse(text, json)?;
    let mut editor = Editor::new(text, json, &root);
    for item in root.get("properties").map(TreeNode::items).unwrap_or_default() {
        let Some(value) = item.get("value").filter(|_| item.string("type") == property::BUNDLE_OBJECT) else {
            continue;
        };
        if let Some(reference) = value.get("ref").filter(|reference| reference.text() == Some(from)) {
            let flow = editor.is_flow(value);
            editor.set_string(reference, to, flow);
        }
    }
    let mut splices = editor.finish(0);
    sort(&mut splices);
    let text = String::from_utf8(apply(text.as_bytes(), &splices)?).ok()?;
    // The edit must have changed exactly the intended references.
    let left = references(&text, json)?.iter().any(|reference| reference == from);
    (!left).then_some(text)
}

/// Returns the files that a bundle refers to, as written.
fn references(text: &str, json: bool) -> Option<Vec<String>> {
    let converted;
    let text = match json {
        true => text,
        false => {
            converted = scalar::document_to_json(text)?;
            &converted
        }
    };
    let bundle = Raw::parse(text, MAX_DEPTH).ok()?;
    let objects = property::of(bundle).filter(|(kind, _)| kind == property::BUNDLE_OBJECT);
    Some(objects.filter_map(|(_, value)| Some(value?.get("ref")?.as_str()?.into_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_changes_in_place() {
        let yaml = "schema: olm.bundle\nproperties:\n- type: olm.bundle.object # csv\n  value:\n    ref: objects/a.yaml\n\
            - {type: olm.bundle.object, value: {ref: \"objects/b.yaml\"}}\n- {type: x, value: {ref: objects/a.yaml}}\n";
        let json = "{\"properties\": [{\"type\": \"olm.bundle.object\", \"value\": {\"ref\": \"objects/a.yaml\"}}]}";
        let file = |reference: &str| AttachedFile {
            reference: reference.to_owned(),
            content: AttachedContent::Bytes(Vec::new()),
        };
        let mut new_blob = NewBlob {
            json: Text::parse(json, 9).unwrap(),
            yaml: Some(yaml.to_owned()),
            files: vec![file("objects/a.yaml"), file("b")],
        };
        new_blob.rename("objects/a.yaml", "objects/a-2.yaml");
        assert_eq!(new_blob.json, *json.replace("a.yaml", "a-2.yaml"));
        assert_eq!(new_blob.yaml.unwrap(), yaml.replacen("a.yaml", "a-2.yaml", 1));
        assert_eq!(new_blob.files, [file("objects/a-2.yaml"), file("b")]);
    }

    #[test]
    fn a_reference_that_cannot_be_changed_leaves_json_unchanged() {
        let yaml = "properties:\n- &a {type: olm.bundle.object, value: {ref: x}}\n- *a\n";
        let json = r#"{"properties":[{"type":"olm.bundle.object","value":{"ref":"x"}},{"type":"olm.bundle.object","value":{"ref":"x"}}]}"#;
        let mut new_blob =
            NewBlob { json: Text::parse(json, 9).unwrap(), yaml: Some(yaml.to_owned()), files: Vec::new() };
        new_blob.rename("x", "y");
        assert_eq!(new_blob.json, *json.replace("\"x\"", "\"y\""));
        assert!(new_blob.yaml.is_none_or(|yaml| !yaml.contains("ref: x")));
    }
}
