//! Changes of a database: whole or not at all, with the file and the schema that they need.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::migrate;
use crate::open::{Database, PATIENCE, READ_WRITE, check_schema, connect, parent};
use crate::schema::{self, has_table};

/// How the names of files begin that are being made.
const SCRATCH: &str = ".opm-new-index-";

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

    /// Makes a new file with a change. Nobody sees it before it is whole, and a change that fails leaves nothing.
    fn make<T, E: From<Error>>(&self, change: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let path = self.path();
        let in_file = |error: Error| error.in_file(path);
        let in_path = |error: io::Error| in_file(Error::io(path)(error));
        // Two programs that make one file do so one after the other.
        let turn = Turn::wait(parent(path)).ok_or_else(|| Error::Locked(path.to_owned()))?;
        if path.symlink_metadata().is_ok() {
            drop(turn);
            return Database::write(path)?.change(change);
        }
        let file = scratch(path).map_err(in_path)?;
        let connection = connect(file.path(), READ_WRITE).map_err(in_file)?;
        let transaction = begin(&connection).map_err(in_file)?;
        prepare(&transaction, path).map_err(in_file)?;
        let outcome = change(&transaction)?;
        transaction.commit().map_err(|error| in_file(error.into()))?;
        connection.close().map_err(|(_, error)| in_file(error.into()))?;
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            // A program that takes no turns was faster.
            io::ErrorKind::AlreadyExists => Error::Locked(path.to_owned()),
            _ => in_path(error.error),
        })?;
        Ok(outcome)
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

/// The right to make files in a directory, held by one program at a time.
struct Turn {
    /// The directory, locked; nothing where directories cannot be locked.
    _directory: Option<File>,
}

impl Turn {
    /// Waits for it; returns nothing when another program keeps it for too long.
    fn wait(directory: &Path) -> Option<Turn> {
        let Ok(file) = File::open(directory) else { return Some(Turn { _directory: None }) };
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    sweep(directory);
                    return Some(Turn { _directory: Some(file) });
                }
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
                Err(TryLockError::WouldBlock) => return None,
                Err(TryLockError::Error(_)) => return Some(Turn { _directory: None }),
            }
        }
    }
}

/// Removes what killed programs left; only one at a time makes files here.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()))
    {
        let _ = fs::remove_file(entry.path());
    }
}

/// Makes an empty file beside `path`, with the rights that SQLite gives new ones.
fn scratch(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(SCRATCH).suffix(".db");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    builder.tempfile_in(parent(path))
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
