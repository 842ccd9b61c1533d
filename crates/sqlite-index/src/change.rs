//! Changes of a database: whole or not at all, with the file and the schema that they need.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, ffi};

use crate::error::Error;
use crate::migrate;
use crate::open::{Database, READ_WRITE, check_schema, connect};
use crate::schema::{self, has_table};

/// How often a file is made that another program removes.
const ATTEMPTS: usize = 8;

/// What a change of a database has to report.
#[derive(Debug, Clone, Default)]
pub struct Changed {
    /// What was not done, and forgiven.
    pub forgiven: Vec<String>,
    /// What went wrong after the change was made.
    pub warnings: Vec<String>,
}

impl Database {
    /// Makes a change that happens whole or not at all, the way to the newest schema and a new file included.
    pub(crate) fn change<T, E: From<Error>>(&self, change: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let Some(connection) = self.existing() else { return self.make(change) };
        let in_file = |error: Error| error.in_file(self.path());
        let transaction = begin(connection).map_err(in_file)?;
        prepare(&transaction, self.path()).map_err(in_file)?;
        let outcome = change(&transaction)?;
        transaction.commit().map_err(|error| in_file(error.into()))?;
        Ok(outcome)
    }

    /// Makes the file with a change; when the change fails, the file goes, unless others have written to it.
    fn make<T, E: From<Error>>(&self, change: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let path = self.path();
        let in_file = |error: Error| error.in_file(path);
        for _ in 0..ATTEMPTS {
            let connection = connect(path, READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE).map_err(in_file)?;
            let transaction = begin(&connection).map_err(in_file)?;
            let outcome = match prepare(&transaction, path) {
                Err(error) if was_moved(&error) => continue,
                Err(error) => Err(E::from(in_file(error))),
                Ok(()) => change(&transaction),
            };
            let outcome = match outcome {
                Ok(outcome) => transaction.commit().map(|()| outcome).map_err(|error| in_file(error.into()).into()),
                Err(error) => {
                    drop(transaction);
                    Err(error)
                }
            };
            if outcome.is_err() {
                remove_empty(&connection, path);
            }
            return outcome;
        }
        Err(Error::Locked(path.to_owned()).into())
    }

    /// Gives the space back that removed rows took, and says what a change has to report.
    pub(crate) fn changed(&self, forgiven: Vec<String>) -> Changed {
        let vacuum = || -> Result<(), Error> {
            match self.existing() {
                Some(connection) => connection.execute_batch("VACUUM")?,
                None => connect(self.path(), READ_WRITE)?.execute_batch("VACUUM")?,
            }
            Ok(())
        };
        let warning = |error: Error| {
            let (file, error) = (self.path().display().to_string(), error.in_file(self.path()).to_string());
            let reason = error.strip_prefix(&format!("{file}: ")).unwrap_or(&error);
            format!("{file}: the change is made; the space of what was removed stays in the file: {reason}")
        };
        Changed { forgiven, warnings: vacuum().err().map(warning).into_iter().collect() }
    }
}

/// Dates the schema of a database that nobody else has open: two that hold the same are the same, byte for byte.
///
/// # Errors
/// Fails when the file is no database, or cannot be written.
pub fn date(path: &Path, seconds: u64) -> Result<(), Error> {
    let connection = connect(path, READ_WRITE)?;
    if has_table(&connection, "schema_migrations")? {
        let seconds = i64::try_from(seconds).unwrap_or_default();
        connection.execute("UPDATE schema_migrations SET timestamp = datetime(?1, 'unixepoch')", [seconds])?;
    }
    Ok(())
}

/// Removes a database that nobody has written to.
///
/// Under the lock, and when no journal is there any more: it would be taken for that of the next file of this name.
/// Whoever waits for the lock finds that the file is gone, and makes another.
fn remove_empty(connection: &Connection, path: &Path) {
    let Ok(lock) = begin(connection) else { return };
    if fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        let _ = fs::remove_file(path);
    }
    drop(lock);
}

/// Begins a change; others wait from now on.
pub(crate) fn begin(connection: &Connection) -> Result<Transaction<'_>, Error> {
    Ok(Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?)
}

/// Brings a database to the schema that changes need.
fn prepare(transaction: &Transaction<'_>, path: &Path) -> Result<(), Error> {
    migrate::migrate(transaction)?;
    check_schema(transaction, path, true)?;
    schema::index_for_writing(transaction)
}

fn was_moved(error: &Error) -> bool {
    let Error::Sql(rusqlite::Error::SqliteFailure(error, _)) = error else { return false };
    error.extended_code == ffi::SQLITE_READONLY_DBMOVED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_vacuum_is_a_warning_about_a_change_that_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.db");
        Database::create(&path).unwrap();
        let database = Database::write(&path).unwrap();
        let connection = database.connection().unwrap();
        connection.execute_batch("INSERT INTO operatorbundle(name) VALUES ('stranded'), ('too')").unwrap();
        // SQLite does not vacuum while a question is open.
        let mut question = connection.prepare("SELECT version FROM schema_migrations").unwrap();
        let mut rows = question.query([]).unwrap();
        rows.next().unwrap();
        let changed = database.prune_stranded().unwrap();
        assert_eq!(changed.warnings.len(), 1, "{changed:?}");
        assert!(changed.warnings[0].contains("the change is made"), "{changed:?}");
        let left: i64 = connection.query_row("SELECT count(*) FROM operatorbundle", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
