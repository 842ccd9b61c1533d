//! The newest schema, and indexes for fast lookups.

use rusqlite::Connection;

use crate::error::Error;

/// The newest version of the schema.
pub const VERSION: i64 = 13;

/// The tables and columns that reading and changing an index needs.
const NEEDED: &[(&str, &[&str])] = &[
    ("operatorbundle", &["name", "csv", "bundle", "bundlepath", "skiprange", "version", "replaces", "skips"]),
    ("package", &["name", "default_channel"]),
    ("channel", &["name", "package_name", "head_operatorbundle_name"]),
    ("channel_entry", &["entry_id", "channel_name", "package_name", "operatorbundle_name", "replaces", "depth"]),
    ("related_image", &["image", "operatorbundle_name"]),
    ("api", &["group_name", "version", "kind", "plural"]),
    ("api_provider", &["group_name", "version", "kind", "operatorbundle_name"]),
    ("api_requirer", &["group_name", "version", "kind", "operatorbundle_name"]),
    ("dependencies", &["type", "value", "operatorbundle_name"]),
    ("properties", &["type", "value", "operatorbundle_name"]),
];

/// Additional columns that changing an index needs.
const NEEDED_FOR_WRITING: &[(&str, &[&str])] =
    &[("operatorbundle", &["substitutesfor"]), ("deprecated", &["operatorbundle_name"])];

/// The triggers that remove an API with its bundles.
pub(crate) const TRIGGERS: [&str; 2] = ["api_provider_cleanup", "api_requirer_cleanup"];

/// Lists the tables of all versions of the schema.
pub(crate) fn known_tables() -> impl Iterator<Item = &'static str> {
    NEEDED.iter().map(|(table, _)| *table).chain(["deprecated", "schema_migrations"])
}

/// Additional indexes. Other tools ignore them; without them, each change of one bundle would scan all others.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS opm_entry_channel ON channel_entry(package_name, channel_name);
CREATE INDEX IF NOT EXISTS opm_entry_bundle ON channel_entry(operatorbundle_name);
CREATE INDEX IF NOT EXISTS opm_entry_replaces ON channel_entry(replaces);
CREATE INDEX IF NOT EXISTS opm_channel_package ON channel(package_name, name);
CREATE INDEX IF NOT EXISTS opm_channel_head ON channel(head_operatorbundle_name);
CREATE INDEX IF NOT EXISTS opm_bundle_light ON operatorbundle(name, version, bundlepath, skiprange, replaces, skips);
CREATE INDEX IF NOT EXISTS opm_bundle_path ON operatorbundle(bundlepath);
CREATE INDEX IF NOT EXISTS opm_bundle_body ON operatorbundle(name, bundlepath) WHERE csv IS NOT NULL OR bundle IS NOT NULL;
CREATE INDEX IF NOT EXISTS opm_image_bundle ON related_image(operatorbundle_name);
CREATE INDEX IF NOT EXISTS opm_dependency_bundle ON dependencies(operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX IF NOT EXISTS opm_property_bundle ON properties(operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX IF NOT EXISTS opm_provider_bundle ON api_provider(operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX IF NOT EXISTS opm_provider_api ON api_provider(group_name, version, kind);
CREATE INDEX IF NOT EXISTS opm_requirer_bundle ON api_requirer(operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX IF NOT EXISTS opm_requirer_api ON api_requirer(group_name, version, kind);
";

/// Indexes that only changes need.
const INDEXES_FOR_WRITING: &str = "
CREATE INDEX IF NOT EXISTS opm_bundle_replaces ON operatorbundle(replaces);
CREATE INDEX IF NOT EXISTS opm_bundle_substitutes ON operatorbundle(substitutesfor);
";

/// Reads the version that a database states; −1 if it states none.
pub(crate) fn version(connection: &Connection) -> Result<i64, Error> {
    if !has_table(connection, "schema_migrations")? {
        return Ok(-1);
    }
    let version = connection.query_row("SELECT max(version) FROM schema_migrations", [], |row| row.get(0))?;
    Ok(Option::<i64>::unwrap_or(version, -1))
}

pub(crate) fn has_table(connection: &Connection, name: &str) -> Result<bool, Error> {
    let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
    Ok(connection.query_row(sql, [name], |row| row.get::<_, i64>(0))? > 0)
}

/// Lists the tables of a database.
pub(crate) fn tables(connection: &Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}

/// Returns the first missing table or column.
pub(crate) fn missing(connection: &Connection, writing: bool) -> Result<Option<String>, Error> {
    let more: &[_] = if writing { NEEDED_FOR_WRITING } else { &[] };
    for (table, columns) in NEEDED.iter().chain(more) {
        if !has_table(connection, table)? {
            return Ok(Some(format!("table {table}")));
        }
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let there: Vec<String> = statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if let Some(column) = columns.iter().find(|column| !there.iter().any(|name| name == *column)) {
            return Ok(Some(format!("column {table}.{column}")));
        }
    }
    Ok(None)
}

/// Creates the missing indexes that queries need.
pub(crate) fn index(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(INDEXES)?;
    Ok(())
}

/// Creates the missing indexes and triggers that changes need.
pub(crate) fn index_for_writing(connection: &Connection) -> Result<(), Error> {
    index(connection)?;
    connection.execute_batch(INDEXES_FOR_WRITING)?;
    triggers(connection, ApiCleanup::Compatible)
}

/// The bundle table through an index that covers all columns except the manifests.
///
/// Manifests are most of a row, and the columns after them can only be read through them.
pub(crate) const LIGHT: &str = "operatorbundle INDEXED BY opm_bundle_light";

/// When to remove an API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiCleanup {
    /// As the Go tool does: an API stays while a bundle provides it and any bundle requires any API, or vice versa.
    /// The Go tool compares all pairs of rows for this, which is not necessary.
    Compatible,
    /// With the last bundle that provides or requires it.
    LastUser,
}

/// Creates the triggers that remove an API with its bundles.
pub(crate) fn triggers(connection: &Connection, cleanup: ApiCleanup) -> Result<(), Error> {
    for (table, name) in ["api_provider", "api_requirer"].into_iter().zip(TRIGGERS) {
        let same = "group_name = OLD.group_name AND version = OLD.version AND kind = OLD.kind";
        let (mark, condition) = match cleanup {
            ApiCleanup::Compatible => (
                "/* without pairs */",
                format!(
                    "NOT (EXISTS (SELECT 1 FROM api_provider WHERE {same}) AND EXISTS (SELECT 1 FROM api_requirer)
                     OR EXISTS (SELECT 1 FROM api_requirer WHERE {same}) AND EXISTS (SELECT 1 FROM api_provider))"
                ),
            ),
            ApiCleanup::LastUser => (
                "/* with the last */",
                format!(
                    "NOT EXISTS (SELECT 1 FROM api_provider WHERE {same})
                     AND NOT EXISTS (SELECT 1 FROM api_requirer WHERE {same})"
                ),
            ),
        };
        let create = format!(
            "CREATE TRIGGER {name} AFTER DELETE ON {table} WHEN {mark} {condition}
             BEGIN
                 DELETE FROM api WHERE {same};
             END"
        );
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = ?1 AND sql = ?2";
        if !connection.prepare_cached(sql)?.exists([name, &create])? {
            connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {name}; {create};"))?;
        }
    }
    Ok(())
}

/// Makes a change during which no bundle loses its APIs because another one is removed.
pub(crate) fn keeping_apis<T>(connection: &Connection, change: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    triggers(connection, ApiCleanup::LastUser)?;
    let outcome = change()?;
    triggers(connection, ApiCleanup::Compatible)?;
    Ok(outcome)
}
