//! Applies catalogs from files, such as those that `opm mirror push` writes.

use std::path::Path;

use serde_json::Value;

use super::{ApplyArgs, CatalogGeneration, v1};
use crate::exit::{CommandResult, Failure, in_path};
use crate::limits;
use crate::printer::Printer;

/// The maximum file size in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Why an object in a file cannot be applied.
#[derive(Debug, thiserror::Error)]
enum ObjectError {
    #[error("expected a CatalogSource or a ClusterCatalog, found {0:?}")]
    Kind(String),
    #[error("the object has no {0}")]
    Missing(&'static str),
    #[error("only a CatalogSource of sourceType grpc has an image")]
    NoImage,
}

/// Applies the object in a file, with the fields that flags override.
fn apply_from(args: &ApplyArgs, object: Value, printer: &mut Printer) -> Result<CommandResult, ObjectError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let mut args = args.clone();
    let is_v1 = match text("/kind").as_deref() {
        Some("CatalogSource") => false,
        Some("ClusterCatalog") => true,
        kind => return Err(ObjectError::Kind(kind.unwrap_or_default().to_owned())),
    };
    let (name, image) = match is_v1 {
        true => (text("/metadata/name"), text("/spec/source/image/ref")),
        false => (text("/metadata/name"), text("/spec/image")),
    };
    if args.name.is_empty() {
        args.name = name.ok_or(ObjectError::Missing("name"))?;
    }
    if args.image.is_empty() {
        args.image = image.ok_or(ObjectError::Missing("image"))?;
    }
    let priority = object.pointer("/spec/priority").and_then(Value::as_i64);
    args.priority = args.priority.or(priority.filter(|priority| *priority != 0));
    if is_v1 {
        args.olm = CatalogGeneration::V1;
        let minutes = object.pointer("/spec/source/image/pollIntervalMinutes").and_then(Value::as_u64);
        args.poll = args.poll.take().or(minutes.map(|minutes| format!("{minutes}m")));
        args.unavailable |= text("/spec/availabilityMode").as_deref() == Some("Unavailable");
        return Ok(v1::apply(&args, printer));
    }
    if text("/spec/sourceType").is_some_and(|kind| kind != "grpc") {
        return Err(ObjectError::NoImage);
    }
    args.cluster.namespace = args.cluster.namespace.take().or(text("/metadata/namespace"));
    Ok(super::apply(&args, object, printer))
}

pub(super) fn apply(args: &ApplyArgs, path: &Path, printer: &mut Printer) -> CommandResult {
    let mut limits = limits::from_env()?;
    limits.file_size = limits.file_size.min(MAX_SIZE);
    let shown = path.display().to_string();
    let named = |error: String| Failure::message(format!("{shown}: {error}"));
    let content = crate::commands::read_input(&shown, &limits).map_err(|error| in_path(path, &error))?;
    let documents = fbc::stream::documents(&content, &limits).map_err(|error| named(error.to_string()))?;
    let [document] = documents.as_slice() else {
        return Err(named(format!("expected one object, found {}", documents.len())));
    };
    let object = serde_json::from_str(document.raw().text()).map_err(|error| named(error.to_string()))?;
    apply_from(args, object, printer).map_err(|error| named(error.to_string()))?
}
