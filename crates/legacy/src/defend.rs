//! Protects against databases of others: nothing that they define runs, and nothing takes forever.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Error;
use crate::schema;

/// Maximum size of a row or a text.
const MAX_LENGTH: i32 = 64 << 20;
/// The time limit for a database of no size; each MiB adds a second.
const BASE_TIME: Duration = Duration::from_secs(30);
/// The maximum size of temporary tables for a database of no size; each byte adds two.
const BASE_TEMPORARY: u64 = 16 << 20;
/// How often a query checks the time, in instructions of SQLite.
const INSTRUCTIONS: i32 = 100_000;
/// Maximum number of characters of a foreign text in a message.
const MAX_QUOTED: usize = 200;

/// The settings of a connection. Triggers are off until the triggers of a database are known; see [`schema::triggers`].
const SETTINGS: [(DbConfig, bool); 4] = [
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
];

/// Restricts a new connection.
pub(crate) fn restrict(connection: &Connection) -> Result<(), Error> {
    for (setting, on) in SETTINGS {
        connection.set_db_config(setting, on)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_LENGTH)?;
    restart_clock(connection);
    // Temporary tables are copies without manifests; SQLite counts their pages of 4 KiB.
    let pages = (length(file(connection)) * 2 + BASE_TEMPORARY) / 4096;
    connection.query_row(&format!("PRAGMA temp.max_page_count = {pages}"), [], |_| Ok(()))?;
    Ok(())
}

/// Restarts the time limit of the queries of a connection.
pub(crate) fn restart_clock(connection: &Connection) {
    limit(connection, time_limit(file(connection)));
}

/// Lifts the time limit: a change takes as long as the request needs, not as the old content suggests.
pub(crate) fn stop_clock(connection: &Connection) {
    connection.progress_handler(0, None::<fn() -> bool>);
}

fn file(connection: &Connection) -> &Path {
    Path::new(connection.path().unwrap_or_default())
}

fn limit(connection: &Connection, limit: Duration) {
    let end = Instant::now() + limit;
    connection.progress_handler(INSTRUCTIONS, Some(move || Instant::now() > end));
}

/// Returns the time limit for the queries of a database: far more than they take.
pub(crate) fn time_limit(path: &Path) -> Duration {
    BASE_TIME + Duration::from_secs(length(path) >> 20)
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Checks that the tables of an index are tables, and that their pages form trees: then the file has no more rows than
/// its size suggests.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let sql = "SELECT name, type FROM sqlite_master WHERE lower(name) = ?1
        AND (type <> 'table' OR lower(ltrim(substr(sql, 7, 20))) LIKE 'virtual%')";
    for table in schema::known_tables() {
        let found = connection.prepare_cached(sql)?.query_row([table], |row| row.get::<_, String>(1)).optional()?;
        if let Some(kind) = found {
            let kind = if kind == "table" { "virtual table" } else { &kind };
            return Err(Error::Disguised { path: path.to_owned(), what: format!("{table} is a {kind}, not a table") });
        }
    }
    let problem: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match problem.as_str() {
        "ok" => Ok(()),
        _ => Err(Error::Damaged { path: path.to_owned(), reason: excerpt(&problem) }),
    }
}

/// Checks that a database has no triggers of its own before a change, which would run them.
pub(crate) fn check_triggers(connection: &Connection, path: &Path) -> Result<(), Error> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name NOT IN (?1, ?2) LIMIT 1";
    let foreign = connection.query_row(sql, schema::TRIGGERS, |row| row.get::<_, String>(0)).optional()?;
    foreign.map_or(Ok(()), |name| {
        let what = format!("it has the trigger {}, which a change would run; drop it first", excerpt(&name));
        Err(Error::Disguised { path: path.to_owned(), what })
    })
}

/// Shortens a foreign text for a message.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    #[test]
    fn an_endless_query_ends() {
        let connection = Connection::open_in_memory().unwrap();
        limit(&connection, Duration::from_millis(20));
        let error = connection.query_row(ENDLESS, [], |_| Ok(())).unwrap_err();
        let error = Error::from(error).in_file(Path::new("index.db"));
        assert!(error.to_string().starts_with("index.db: a query takes longer than 30 s"), "{error}");
    }

    #[test]
    fn temporary_tables_are_bounded() {
        let connection = Connection::open_in_memory().unwrap();
        restrict(&connection).unwrap();
        let fill =
            "CREATE TEMP TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
            SELECT zeroblob(1000) FROM n";
        let error = connection.execute_batch(fill).unwrap_err();
        assert!(error.to_string().contains("full"), "{error}");
    }

    #[test]
    fn texts_of_others_are_shortened() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"ä".repeat(1000)).chars().count(), MAX_QUOTED + 3);
    }
}
