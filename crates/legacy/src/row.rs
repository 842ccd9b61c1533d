//! The stored rows of one bundle.

use std::collections::HashSet;

use fbc::json::Raw;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Error;
use crate::value::{self, DEPTH};

/// A bundle row.
#[derive(Debug, Clone, Default)]
pub(crate) struct BundleRow {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) image: String,
    pub(crate) skip_range: String,
}

impl BundleRow {
    /// Reads a bundle without its manifests from a table with these columns.
    pub(crate) fn read(connection: &Connection, table: &str, name: &str) -> Result<Option<BundleRow>, Error> {
        let sql = format!("SELECT name, version, bundlepath, skiprange FROM {table} WHERE name = ?1");
        let row = connection.prepare_cached(&sql)?.query_row([name], |row| {
            Ok(BundleRow {
                name: value::text(row, 0)?,
                version: value::text(row, 1)?,
                image: value::text(row, 2)?,
                skip_range: value::text(row, 3)?,
            })
        });
        Ok(row.optional()?)
    }

    /// Reads its properties or dependencies: distinct pairs of type and value, in row order.
    ///
    /// `table` is a temporary table with the columns of `properties`.
    pub(crate) fn typed(&self, connection: &Connection, table: &str) -> Result<Vec<(String, String)>, Error> {
        let sql = format!(
            "SELECT type, value FROM {table} WHERE operatorbundle_name = ?1
                AND (operatorbundle_version IS NULL OR operatorbundle_version = ?2)
                AND (operatorbundle_path IS NULL OR operatorbundle_path = ?3) ORDER BY rowid"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([&self.name, &self.version, &self.image])?;
        let (mut pairs, mut seen) = (Vec::new(), HashSet::new());
        while let Some(row) = rows.next()? {
            let pair = (value::text(row, 0)?, value::text(row, 1)?);
            if seen.insert(pair.clone()) {
                pairs.push(pair);
            }
        }
        Ok(pairs)
    }
}

/// Reads one of the manifest columns; `None` for NULL.
pub(crate) fn body(connection: &Connection, name: &str, column: &str) -> Result<Option<String>, Error> {
    let sql = format!("SELECT {column} FROM operatorbundle WHERE name = ?1");
    let text = connection.prepare_cached(&sql)?.query_row([name], |row| row.get::<_, Option<value::ColumnText>>(0));
    Ok(text.optional()?.flatten().map(|text| text.0))
}

/// Iterates over concatenated JSON values; stops at the first invalid one.
pub(crate) fn objects(text: &str) -> impl Iterator<Item = Raw<'_>> {
    Raw::sequence(text, DEPTH)
}
