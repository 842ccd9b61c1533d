//! Applies catalogs from files, such as those that `opm mirror push` writes.

use std::path::Path;

use cluster::{CatalogTemplate, CatalogTemplateError};
use serde_json::Value;

use super::{ApplyArgs, CatalogGeneration, v1};
use crate::exit::{CommandResult, Failure, in_path};
use crate::limits;
use crate::printer::Printer;

/// The maximum file size in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Applies the object in a file, with the fields that flags override.
fn apply_from(args: &ApplyArgs, object: Value, printer: &mut Printer) -> Result<CommandResult, CatalogTemplateError> {
    let template = CatalogTemplate::read(&object)?;
    let mut args = args.clone();
    for (field, given, what) in [(&mut args.name, template.name, "name"), (&mut args.image, template.image, "image")] {
        if field.is_empty() {
            *field = Some(given).filter(|given| !given.is_empty()).ok_or(CatalogTemplateError::Missing(what))?;
        }
    }
    args.priority = args.priority.or(template.priority);
    if template.is_v1 {
        args.olm = CatalogGeneration::V1;
        args.poll = args.poll.take().or(template.poll_minutes.map(|minutes| format!("{minutes}m")));
        args.unavailable |= template.unavailable;
        return Ok(v1::apply(&args, printer));
    }
    args.cluster.namespace = args.cluster.namespace.take().or(template.namespace);
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
