//! Migrates databases of older programs to the newest schema.

use std::collections::BTreeMap;

use fbc::Limits;
use fbc::json::Raw;
use rusqlite::config::DbConfig;
use rusqlite::{ErrorCode, Transaction, params};

use crate::error::Error;
use crate::schema::{self, ApiCleanup, VERSION};
use crate::value::{self, ColumnText};

type Migration = fn(&Transaction<'_>) -> Result<(), Error>;

/// The migrations in order; the index of each is the version it migrates to.
const STEPS: [Migration; VERSION as usize + 1] = [
    init,
    related_images,
    bundle_path,
    required_apis,
    cascading_keys,
    version_and_skip_range,
    apis_of_bundles,
    replaces_and_skips,
    dependencies,
    properties,
    property_paths,
    substitutes_for,
    deprecated,
    truncated_deprecations,
];

/// Migrates a database to the newest schema within a transaction.
///
/// A newer database stays unchanged.
pub(crate) fn migrate(transaction: &Transaction<'_>) -> Result<(), Error> {
    let from = schema::version(transaction)?;
    if from >= VERSION {
        return Ok(());
    }
    let failed = |error: Error| match error {
        // The caller adds the file.
        error @ Error::Sql(_) if is_about_the_file(&error) => error,
        error => Error::Migration { from, reason: error.to_string() },
    };
    // Tables with foreign keys to them are recreated, so keys are checked at the end. The pragma has no effect within
    // a transaction; this is the same switch, and safe, because no key has been broken in this transaction yet.
    transaction.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    let outcome = run(transaction, from).map_err(failed);
    transaction.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    outcome
}

fn is_about_the_file(error: &Error) -> bool {
    let Error::Sql(error) = error else { return false };
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::ReadOnly))
}

fn run(transaction: &Transaction<'_>, from: i64) -> Result<(), Error> {
    let before = broken_keys(transaction)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations \
         (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)",
    )?;
    for (version, step) in STEPS.iter().enumerate().skip((from + 1) as usize) {
        step(transaction)?;
        transaction.execute("DELETE FROM schema_migrations", [])?;
        transaction.execute("INSERT INTO schema_migrations(version) VALUES (?1)", [version as i64])?;
    }
    for (table, count) in broken_keys(transaction)? {
        let known = before.get(&table).copied().unwrap_or_default();
        if count > known {
            return Err(Error::message(format!("{} foreign keys of table {table} would be broken", count - known)));
        }
    }
    Ok(())
}

/// Counts the broken foreign keys of each table.
fn broken_keys(transaction: &Transaction<'_>) -> Result<BTreeMap<String, usize>, Error> {
    let mut statement = transaction.prepare("SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)));
    // Keys to tables without the referenced columns cannot be checked at all.
    Ok(rows.and_then(|rows| rows.collect()).unwrap_or_default())
}

fn init(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT);
         CREATE TABLE IF NOT EXISTS package (
             name TEXT PRIMARY KEY, default_channel TEXT,
             FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name));
         CREATE TABLE IF NOT EXISTS channel (
             name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
             PRIMARY KEY(name, package_name),
             FOREIGN KEY(package_name) REFERENCES package(name),
             FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name));
         CREATE TABLE IF NOT EXISTS channel_entry (
             entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT,
             replaces INTEGER, depth INTEGER,
             FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
             FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name));
         CREATE TABLE IF NOT EXISTS api (
             group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL, PRIMARY KEY(group_name, version, kind));
         CREATE TABLE IF NOT EXISTS api_provider (
             group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
             FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id),
             FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind));",
    )?;
    Ok(())
}

/// Calls `each` with the name and the CSV of every bundle that has one.
fn each_csv(transaction: &Transaction<'_>, mut each: impl FnMut(&str, &str) -> Result<(), Error>) -> Result<(), Error> {
    let names = value::strings(transaction, "SELECT name FROM operatorbundle WHERE name IS NOT NULL", [])?;
    let mut statement = transaction.prepare("SELECT csv FROM operatorbundle WHERE name = ?1")?;
    for name in names {
        let csv: Option<ColumnText> = statement.query_row([&name], |row| row.get(0))?;
        if let Some(csv) = csv {
            each(&name, &csv.0)?;
        }
    }
    Ok(())
}

/// Parses a stored CSV; `None` if that fails.
fn contents(csv: &str) -> Option<bundle::BundleSummary> {
    bundle::of_objects([csv.as_bytes()], &Limits::default()).ok()
}

fn related_images(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS related_image (
             image TEXT, operatorbundle_name TEXT,
             FOREIGN KEY(operatorbundle_name) REFERENCES operatorbundle(name));",
    )?;
    let mut insert = transaction.prepare("INSERT INTO related_image(image, operatorbundle_name) VALUES (?1, ?2)")?;
    each_csv(transaction, |name, csv| {
        for image in contents(csv).map(|contents| contents.images).unwrap_or_default() {
            insert.execute(params![image, name])?;
        }
        Ok(())
    })
}

fn bundle_path(transaction: &Transaction<'_>) -> Result<(), Error> {
    add_column(transaction, "bundlepath")?;
    // A bundle without an image has an empty path; other programs take a bundle without a path as incomplete.
    transaction.execute("UPDATE operatorbundle SET bundlepath = '' WHERE bundlepath IS NULL", [])?;
    Ok(())
}

fn add_column(transaction: &Transaction<'_>, column: &str) -> Result<(), Error> {
    let sql = "SELECT count(*) FROM pragma_table_info('operatorbundle') WHERE name = ?1";
    if transaction.query_row(sql, [column], |row| row.get::<_, i64>(0))? == 0 {
        transaction.execute_batch(&format!("ALTER TABLE operatorbundle ADD COLUMN {column} TEXT"))?;
    }
    Ok(())
}

fn required_apis(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS api_requirer (
             group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
             FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id),
             FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind));",
    )?;
    let mut api =
        transaction.prepare("INSERT OR IGNORE INTO api(group_name, version, kind, plural) VALUES (?1, ?2, ?3, ?4)")?;
    let mut requirer = transaction.prepare(
        "INSERT INTO api_requirer(group_name, version, kind, channel_entry_id) \
         SELECT ?1, ?2, ?3, entry_id FROM channel_entry WHERE operatorbundle_name = ?4",
    )?;
    each_csv(transaction, |name, csv| {
        for key in contents(csv).map(|contents| contents.required).unwrap_or_default() {
            api.execute(params![key.group, key.version, key.kind, key.plural])?;
            requirer.execute(params![key.group, key.version, key.kind, name])?;
        }
        Ok(())
    })
}

/// Recreates a table with the same content.
fn rebuild(transaction: &Transaction<'_>, table: &str, columns: &str, definition: &str) -> Result<(), Error> {
    transaction.execute_batch(&format!(
        "CREATE TABLE opm_new ({definition});
         INSERT INTO opm_new({columns}) SELECT {columns} FROM {table};
         DROP TABLE {table};
         ALTER TABLE opm_new RENAME TO {table};"
    ))?;
    Ok(())
}

fn cascading_keys(transaction: &Transaction<'_>) -> Result<(), Error> {
    let api_user = "group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
        FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id) ON DELETE CASCADE,
        FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind) ON DELETE CASCADE";
    for (table, columns, definition) in [
        (
            "operatorbundle",
            "name, csv, bundle, bundlepath",
            "name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT",
        ),
        (
            "package",
            "name, default_channel",
            "name TEXT PRIMARY KEY, default_channel TEXT,
             FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name) ON DELETE CASCADE",
        ),
        (
            "channel",
            "name, package_name, head_operatorbundle_name",
            "name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
             PRIMARY KEY(name, package_name),
             FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name) ON DELETE CASCADE",
        ),
        (
            "channel_entry",
            "entry_id, channel_name, package_name, operatorbundle_name, replaces, depth",
            "entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT,
             replaces INTEGER, depth INTEGER,
             FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
             FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name) ON DELETE CASCADE",
        ),
        ("api_provider", "group_name, version, kind, channel_entry_id", api_user),
        ("api_requirer", "group_name, version, kind, channel_entry_id", api_user),
        (
            "related_image",
            "image, operatorbundle_name",
            "image TEXT, operatorbundle_name TEXT,
             FOREIGN KEY(operatorbundle_name) REFERENCES operatorbundle(name) ON DELETE CASCADE",
        ),
    ] {
        rebuild(transaction, table, columns, definition)?;
    }
    Ok(())
}

fn version_and_skip_range(transaction: &Transaction<'_>) -> Result<(), Error> {
    add_column(transaction, "skiprange")?;
    add_column(transaction, "version")?;
    // Older programs added rows without a name here instead of updating the existing ones.
    transaction.execute("DELETE FROM operatorbundle WHERE name IS NULL", [])?;
    let mut update = transaction.prepare("UPDATE operatorbundle SET skiprange = ?2, version = ?3 WHERE name = ?1")?;
    each_csv(transaction, |name, csv| {
        // Without a version, readers would take the bundle as incomplete, and skip it.
        let csv = Raw::parse(csv.trim(), Limits::default().depth).ok();
        let version = csv.and_then(|csv| fbc::csv::spec(csv, "version")).and_then(Raw::as_str).unwrap_or_default();
        let skip_range = csv.and_then(fbc::csv::skip_range).unwrap_or_default();
        update.execute(params![name, skip_range, version])?;
        Ok(())
    })
}

const API_USER: &str = "group_name TEXT, version TEXT, kind TEXT,
    operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind) ON DELETE CASCADE";

const OF_BUNDLE: &str = "type TEXT, value TEXT,
    operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE";

fn apis_of_bundles(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch("CREATE UNIQUE INDEX IF NOT EXISTS pk ON operatorbundle(name, version, bundlepath);")?;
    for table in ["api_provider", "api_requirer"] {
        transaction.execute_batch(&format!(
            "CREATE TABLE opm_new ({API_USER});
             INSERT INTO opm_new SELECT DISTINCT old.group_name, old.version, old.kind,
                 bundle.name, nullif(bundle.version, ''), nullif(bundle.bundlepath, '')
                 FROM {table} AS old
                 JOIN channel_entry AS entry ON entry.entry_id = old.channel_entry_id
                 JOIN operatorbundle AS bundle ON bundle.name = entry.operatorbundle_name;
             DROP TABLE {table};
             ALTER TABLE opm_new RENAME TO {table};"
        ))?;
    }
    Ok(())
}

fn replaces_and_skips(transaction: &Transaction<'_>) -> Result<(), Error> {
    add_column(transaction, "replaces")?;
    add_column(transaction, "skips")?;
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    {
        let mut statement = transaction.prepare(
            "SELECT entry.operatorbundle_name, replaced.operatorbundle_name FROM channel_entry AS entry
             JOIN channel_entry AS replaced ON replaced.entry_id = entry.replaces
             ORDER BY entry.depth ASC, entry.entry_id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, replaced): (ColumnText, ColumnText) = (row.get(0)?, row.get(1)?);
            let edges = edges.entry(name.0).or_default();
            if !edges.contains(&replaced.0) {
                edges.push(replaced.0);
            }
        }
    }
    let mut update = transaction.prepare("UPDATE operatorbundle SET replaces = ?2, skips = ?3 WHERE name = ?1")?;
    for (name, mut names) in edges {
        let replaces = names.remove(0);
        update.execute(params![name, replaces, names.join(",")])?;
    }
    schema::triggers(transaction, ApiCleanup::Compatible)
}

fn dependencies(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(&format!("CREATE TABLE IF NOT EXISTS dependencies ({OF_BUNDLE})"))?;
    of_apis(transaction, "api_requirer", "dependencies")
}

/// Writes an `olm.gvk` row for each API that a bundle provides or requires.
fn of_apis(transaction: &Transaction<'_>, from: &str, into: &str) -> Result<(), Error> {
    let mut insert = transaction.prepare(&format!(
        "INSERT INTO {into}(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) \
         VALUES ('olm.gvk', ?1, ?2, ?3, ?4)"
    ))?;
    let mut statement = transaction.prepare(&format!(
        "SELECT DISTINCT group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path \
         FROM {from} ORDER BY 4, 1, 3, 2"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let part = |column| row.get::<_, Option<ColumnText>>(column).map(|text| text.map(|text| text.0));
        let [group, version, kind] = [part(0)?, part(1)?, part(2)?].map(Option::unwrap_or_default);
        insert.execute(params![value::gvk_property(&group, &kind, &version).as_str(), part(3)?, part(4)?, part(5)?])?;
    }
    Ok(())
}

fn properties(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(&format!("CREATE TABLE IF NOT EXISTS properties ({OF_BUNDLE})"))?;
    // The value of a dependency used to repeat its type.
    let mut update = transaction.prepare("UPDATE dependencies SET value = ?2 WHERE rowid = ?1")?;
    {
        let mut statement = transaction.prepare("SELECT rowid, value FROM dependencies")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, value): (i64, Option<ColumnText>) = (row.get(0)?, row.get(1)?);
            if let Some(value) = value.and_then(|value| value::without_member(&value.0, "type")) {
                update.execute(params![id, value.as_bytes()])?;
            }
        }
    }
    let mut insert = transaction.prepare(
        "INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) \
         VALUES ('olm.package', ?1, ?2, ?3, ?4)",
    )?;
    let mut statement = transaction.prepare(
        "SELECT DISTINCT entry.package_name, bundle.name, bundle.version, bundle.bundlepath
         FROM channel_entry AS entry JOIN operatorbundle AS bundle ON bundle.name = entry.operatorbundle_name
         ORDER BY 1, 2",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let part =
            |column| row.get::<_, Option<ColumnText>>(column).map(|text| text.map_or(String::new(), |text| text.0));
        let (package, name, version, path) = (part(0)?, part(1)?, part(2)?, part(3)?);
        let value = value::package_property(&package, &version);
        insert.execute(params![value.as_str(), name, value::or_null(&version), value::or_null(&path)])?;
    }
    of_apis(transaction, "api_provider", "properties")
}

fn property_paths(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute(
        "UPDATE properties SET operatorbundle_path = (
             SELECT nullif(bundle.bundlepath, '') FROM operatorbundle AS bundle
             WHERE bundle.name = properties.operatorbundle_name
               AND ifnull(bundle.version, '') = ifnull(properties.operatorbundle_version, ''))
         WHERE operatorbundle_path IS NULL OR operatorbundle_path = ''",
        [],
    )?;
    Ok(())
}

fn substitutes_for(transaction: &Transaction<'_>) -> Result<(), Error> {
    add_column(transaction, "substitutesfor")
}

fn deprecated(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS deprecated (operatorbundle_name TEXT PRIMARY KEY);
         INSERT OR IGNORE INTO deprecated(operatorbundle_name)
             SELECT DISTINCT operatorbundle_name FROM properties WHERE type = 'olm.deprecated';",
    )?;
    Ok(())
}

fn truncated_deprecations(transaction: &Transaction<'_>) -> Result<(), Error> {
    transaction
        .execute("DELETE FROM deprecated WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle)", [])?;
    Ok(())
}
