//! Bringing bundles to the newest form.

use crate::blob::Bundle;
use crate::csv_metadata;
use crate::json::{Layout, Raw, write_canonical, write_str};
use crate::object::{self, RefBase};
use crate::property;

/// Returns the text of a bundle with one `olm.csv.metadata` property in place of its objects,
/// or nothing when it stays as it is: without an image, without a CSV, or migrated already.
pub(crate) fn bundle(raw: Raw<'_>, bundle: &mut Bundle, refs: &RefBase<'_>) -> Result<Option<Vec<u8>>, String> {
    if bundle.image.is_empty() || bundle.csv_metadata > 0 || bundle.objects == 0 {
        return Ok(None);
    }
    let Some(csv) = object::csv(raw, refs) else { return Ok(None) };
    let csv = Raw::parse(&csv, refs.limits.depth).map_err(|error| format!("migrate: {error}"))?;
    let mut out = Vec::with_capacity(raw.text().len() / 4);
    out.push(b'{');
    for (key, value) in raw.members().filter(|(key, _)| !key.eq_ignore_ascii_case("properties")) {
        write_str(&mut out, &key);
        out.push(b':');
        write_canonical(value, Layout::Compact, &mut out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"properties\":[");
    for item in raw.get("properties").into_iter().flat_map(Raw::items) {
        if property::parts(item).0 != property::BUNDLE_OBJECT {
            write_canonical(item, Layout::Compact, &mut out);
            out.push(b',');
        }
    }
    out.extend_from_slice(b"{\"type\":");
    write_str(&mut out, property::CSV_METADATA);
    out.extend_from_slice(b",\"value\":");
    csv_metadata::from_csv(csv, &mut out).map_err(|message| format!("migrate: {message}"))?;
    out.extend_from_slice(b"}]}");
    bundle.objects = 0;
    bundle.csv_metadata = 1;
    Ok(Some(out))
}
