//! Writes objects as YAML files.

use std::fs;
use std::path::Path;

use fbc::json::Text;
use serde_json::Value;

use crate::exit::{CommandResult, in_path};
use crate::interrupt::Unfinished;
use crate::tree;

/// Returns objects as a stream of YAML documents.
pub(super) fn stream(objects: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for object in objects {
        out.extend_from_slice(b"---\n");
        document(object, &mut out);
    }
    out
}

fn document(object: &Value, out: &mut Vec<u8>) {
    fbc::yaml::write_document(Text::from(object).raw(), out);
}

/// Writes each object to a file whose name starts with its position in the order of application.
pub(super) fn directory(objects: &[Value], target: &Path) -> CommandResult {
    tree::check_empty(target)?;
    let parent = tree::parent(target);
    fs::create_dir_all(parent).map_err(|error| in_path(parent, &error))?;
    let aside = Unfinished::create(parent, ".opm-rehearse-").map_err(|error| in_path(parent, &error))?;
    for (at, object) in objects.iter().enumerate() {
        let mut text = Vec::new();
        document(object, &mut text);
        let path = aside.path().join(file_name(at, object));
        fs::write(&path, text).map_err(|error| in_path(&path, &error))?;
    }
    // The rename replaces an empty directory.
    aside.finish(target).map_err(|error| in_path(target, &error))
}

fn file_name(at: usize, object: &Value) -> String {
    let field = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = match field("/metadata/name") {
        "" => field("/metadata/generateName"),
        name => name,
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = format!("{}-{name}", field("/kind")).chars().map(plain).take(150).collect();
    format!("{:03}-{}.yaml", at + 1, name.trim_end_matches(['-', '.']))
}
