//! Migrates bundles to the newest form.

use crate::blob::Bundle;
use crate::csv::metadata::{self, MetadataError};
use crate::json::{self, JsonLayout, Raw, Text};
use crate::object::{self, RefBase};
use crate::property;

/// Why a bundle cannot be migrated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error("migrate: {0}")]
    Json(#[from] json::JsonSyntaxError),
    #[error("migrate: {0}")]
    Csv(#[from] MetadataError),
}

/// Returns the text of a bundle with one `olm.csv.metadata` property instead of its objects, or `None` if it stays
/// unchanged: without an image, without a CSV, or already migrated.
pub(crate) fn bundle(raw: Raw<'_>, bundle: &mut Bundle, refs: &RefBase<'_>) -> Result<Option<Text>, MigrateError> {
    if bundle.image.is_empty() || bundle.csv_metadata > 0 || bundle.objects == 0 {
        return Ok(None);
    }
    let Some(csv) = object::csv(raw, refs) else { return Ok(None) };
    let csv = Raw::parse(&csv, refs.limits.depth)?;
    let value = metadata::from_csv(csv)?;
    let properties = raw.get_items("properties");
    let kept = properties.filter(|item| property::parts(*item).0 != property::BUNDLE_OBJECT);
    let mut properties: Vec<Text> = kept.map(|item| Text::canonical(item, JsonLayout::Compact)).collect();
    properties.push(Text::object(|property| {
        property.string("type", property::CSV_METADATA).value("value", value.raw());
    }));
    let migrated = Text::object(|out| {
        for (key, value) in raw.members().filter(|(key, _)| !key.eq_ignore_ascii_case("properties")) {
            out.canonical(&key, Some(value));
        }
        out.values("properties", properties.iter().map(Text::raw));
    });
    bundle.objects = 0;
    bundle.csv_metadata = 1;
    Ok(Some(migrated))
}
