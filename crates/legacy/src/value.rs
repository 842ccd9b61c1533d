//! Column values: text or bytes, JSON or not.

use fbc::json::{self, JsonKind, JsonObject, Raw};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, Params};

use crate::error::Error;

/// Maximum nesting depth of JSON in a database.
pub(crate) const DEPTH: usize = fbc::limits::MAX_DEPTH;

/// The text of a column, stored as text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnText(pub(crate) String);

impl FromSql for ColumnText {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<ColumnText> {
        match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                Ok(ColumnText(String::from_utf8_lossy(bytes).into_owned()))
            }
            ValueRef::Integer(number) => Ok(ColumnText(number.to_string())),
            ValueRef::Real(number) => Ok(ColumnText(number.to_string())),
            ValueRef::Null => Err(FromSqlError::InvalidType),
        }
    }
}

/// Returns the text of a column; empty for NULL.
pub(crate) fn text(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(row.get::<_, Option<ColumnText>>(column)?.map(|text| text.0).unwrap_or_default())
}

/// Returns the first column of all rows.
pub(crate) fn strings(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| text(row, 0))?.collect::<Result<_, _>>()?;
    Ok(rows)
}

/// Returns NULL for an empty text, in columns that refer to a bundle.
pub(crate) fn or_null(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Returns the value of an `olm.package` property.
pub(crate) fn package_property(package: &str, version: &str) -> json::Text {
    JsonObject::new().string("packageName", package).string("version", version).end()
}

/// Returns the value of an `olm.gvk` property.
pub(crate) fn gvk_property(group: &str, kind: &str, version: &str) -> json::Text {
    JsonObject::new().string("group", group).string("kind", kind).string("version", version).end()
}

/// Parses JSON in a column.
pub(crate) fn json(text: &str) -> Option<Raw<'_>> {
    Raw::parse(text, DEPTH).ok()
}

/// Returns string fields of a JSON object; missing ones are empty.
pub(crate) fn fields<const N: usize>(text: &str, names: [&str; N]) -> Option<[String; N]> {
    let value = json(text).filter(|value| value.kind() == JsonKind::Object)?;
    Some(names.map(|name| value.get_str(name).into_owned()))
}

/// Returns a JSON object without one of its members, or `None` if it lacks it.
pub(crate) fn without_member(text: &str, name: &str) -> Option<json::Text> {
    let value = json(text).filter(|value| value.kind() == JsonKind::Object)?;
    if value.members().all(|(key, _)| key != name) {
        return None;
    }
    Some(json::Text::object(|out| {
        for (key, member) in value.members().filter(|(key, _)| key != name) {
            out.value(&key, member);
        }
    }))
}
