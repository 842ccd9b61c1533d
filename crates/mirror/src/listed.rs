//! Lists of images to delete from a registry, in the format of `oc-mirror delete`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use image::Reference;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::lock::Role;

/// Maximum size of a list.
pub const LIMIT: u64 = 64 << 20;
/// The `kind` of a list.
const KIND: &str = "DeleteImageList";

/// An image on a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedImage {
    /// The source of the image.
    pub source: String,
    /// The role of the image.
    pub role: Role,
}

/// Writes a list, sorted by image name at the registry.
pub fn write(images: &BTreeMap<String, ListedImage>) -> String {
    let items: Vec<Value> = images
        .iter()
        .map(|(name, listed)| {
            let kind = match listed.role {
                Role::Bundle => "operatorBundle",
                Role::Related => "operatorRelatedImage",
                Role::Additional | Role::Catalog => "generic",
            };
            json!({"imageName": listed.source, "imageReference": format!("docker://{name}"), "type": kind})
        })
        .collect();
    let document = json!({"apiVersion": "mirror.openshift.io/v2alpha1", "items": items, "kind": KIND});
    fbc::yaml::object(&document)
}

/// Parses a list; returns the images below the target, and the names of the others.
///
/// # Errors
/// Fails when the text is not such a list.
pub fn read(text: &[u8], target: &MirrorDestination) -> Result<(Vec<Reference>, Vec<String>), MirrorError> {
    if text.len() as u64 > LIMIT {
        return Err(MirrorError::TooLarge(LIMIT));
    }
    let mut out = Vec::new();
    let limits = fbc::yaml::YamlLimits { depth: 32, nodes: 4 << 20, bytes: 256 << 20 };
    fbc::yaml::to_json(text, &limits, &mut out)?;
    let list: Value = serde_json::from_slice(&out)?;
    if list["kind"] != KIND {
        return Err(MirrorError::ListKind(KIND));
    }
    let front = format!("{target}/");
    let (mut names, mut others) = (Vec::new(), Vec::new());
    for item in list["items"].as_array().into_iter().flatten() {
        let name = item["imageReference"].as_str().unwrap_or_default();
        let name = name.strip_prefix("docker://").unwrap_or(name);
        match Reference::parse(name) {
            Ok(reference) if name.starts_with(&front) => names.push(reference),
            _ => others.push(name.to_owned()),
        }
    }
    Ok((names, others))
}

/// Reads a list from a file, like [`read`].
///
/// # Errors
/// Fails when the file cannot be read or is not a list.
pub fn read_file(file: &Path, target: &MirrorDestination) -> Result<(Vec<Reference>, Vec<String>), MirrorError> {
    let unread = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    let named = |error: MirrorError| error.named(file.display());
    if fs::metadata(file).map_err(unread)?.len() > LIMIT {
        return Err(named(MirrorError::TooLarge(LIMIT)));
    }
    read(&fs::read(file).map_err(unread)?, target).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_list_is_read_back() {
        let listed = |source: &str, role| ListedImage { source: source.into(), role };
        let images = BTreeMap::from([
            ("r.test/m/ns/a:v1".to_owned(), listed("quay.io/ns/a:v1", Role::Bundle)),
            ("r.test/other/b:v1".to_owned(), listed("quay.io/ns/b:v1", Role::Related)),
        ]);
        let text = write(&images);
        assert!(text.starts_with("apiVersion: mirror.openshift.io/v2alpha1\nitems:\n- imageName: quay.io/ns/a:v1\n"));
        let target = MirrorDestination::parse("r.test/m", None).unwrap();
        let (names, others) = read(text.as_bytes(), &target).unwrap();
        assert_eq!(names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["r.test/m/ns/a:v1"]);
        assert_eq!(others, ["r.test/other/b:v1"]);
        assert!(read(b"kind: Pod\n", &target).unwrap_err().to_string().contains("DeleteImageList"));
        assert!(read(b"{", &target).is_err());
    }
}
