//! Atomic changes of a database, including the file and the schema they need.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use fbc::scratch::{TempFolder, parent};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, Transaction, TransactionBehavior};
use serde::Serialize;

use crate::error::Error;
use crate::open::{BUSY_TIMEOUT, CREATE, Database, READ_WRITE, check_schema, connect};
use crate::schema::{self, VERSION, has_table};
use crate::{copy, defend, migrate};

/// The name prefix of directories of databases under construction.
const SCRATCH: &str = ".opm-new-index-";

/// The result of a change.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Changed {
    /// Likely mistakes in new bundles, and failures after the change was committed.
    pub warnings: Vec<String>,
    /// Failures that were skipped.
    pub skipped: Vec<String>,
}

impl Database {
    /// Makes an atomic change, including the migration to the newest schema and the creation of the file.
    pub(crate) fn change<T, E: From<Error>>(&self, change: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let Some(connection) = self.existing() else { return self.create_with(change) };
        let in_file = |error: Error| error.in_file(self.path());
        let transaction = begin(connection).map_err(in_file)?;
        if connection.is_readonly(MAIN_DB).map_err(|error| in_file(error.into()))? {
            return Err(Error::ReadOnly(self.path().to_owned()).into());
        }
        let version = schema::version(&transaction).map_err(in_file)?;
        prepare(&transaction, self.path()).map_err(in_file)?;
        let before = changes(&transaction).map_err(in_file)?;
        let outcome = change(&transaction)?;
        if version > VERSION {
            // A command that has nothing to change succeeds, and leaves the database as it is.
            if changes(&transaction).map_err(in_file)? > before {
                return Err(Error::Newer { path: self.path().to_owned(), version }.into());
            }
            return Ok(outcome);
        }
        transaction.commit().map_err(|error| in_file(error.into()))?;
        Ok(outcome)
    }

    /// Creates the file with a change. It becomes visible when complete; a failed change leaves nothing.
    fn create_with<T, E: From<Error>>(&self, change: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let path = self.path();
        let in_file = |error: Error| error.in_file(path);
        let Some(new) = NewFile::wait(path)? else { return Database::write(path)?.change(change) };
        let connection = connect(&new.file, CREATE).map_err(in_file)?;
        let transaction = begin(&connection).map_err(in_file)?;
        prepare(&transaction, path).map_err(in_file)?;
        let outcome = change(&transaction)?;
        transaction.commit().map_err(|error| in_file(error.into()))?;
        connection.close().map_err(|(_, error)| in_file(error.into()))?;
        new.put(path)?;
        Ok(outcome)
    }

    /// Writes the content of this database to `target`: replaces the content of an existing database in one
    /// transaction, or creates the file.
    ///
    /// # Errors
    /// Fails when `target` is not an index, is in use, or cannot be written; it is then unchanged.
    pub fn publish(&self, target: &Path) -> Result<(), Error> {
        let in_file = |error: Error| error.in_file(target);
        let mut existing = Database::write(target)?;
        if let Some(connection) = existing.existing_mut() {
            let source = self.connection()?;
            let version = schema::version(connection).map_err(in_file)?;
            if version > VERSION {
                return Err(Error::Newer { path: target.to_owned(), version });
            }
            return copy::backup(source, connection, target).map_err(in_file);
        }
        match self.publish_new(target)? {
            true => Ok(()),
            false => self.publish(target),
        }
    }

    /// Creates the file `target` with the content of this database; returns `false` if it exists.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(crate) fn publish_new(&self, target: &Path) -> Result<bool, Error> {
        let in_file = |error: Error| error.in_file(target);
        let source = self.connection()?;
        // Leave WAL mode, so that the file is self-contained.
        source.execute_batch("PRAGMA journal_mode = DELETE")?;
        let Some(new) = NewFile::wait(target)? else { return Ok(false) };
        let mut connection = connect(&new.file, CREATE).map_err(in_file)?;
        copy::backup(source, &mut connection, target).map_err(in_file)?;
        connection.close().map_err(|(_, error)| in_file(error.into()))?;
        new.put(target)?;
        Ok(true)
    }

    /// Reclaims the space of removed rows, and returns the result of a change.
    pub(crate) fn changed(&self, skipped: Vec<String>) -> Changed {
        let vacuum = || -> Result<(), Error> {
            match self.existing() {
                Some(connection) if schema::version(connection)? > VERSION => {}
                Some(connection) => connection.execute_batch("VACUUM")?,
                None => connect(self.path(), READ_WRITE)?.execute_batch("VACUUM")?,
            }
            Ok(())
        };
        let warning = |error: Error| {
            let (file, error) = (self.path().display().to_string(), error.in_file(self.path()).to_string());
            let reason = error.strip_prefix(&format!("{file}: ")).unwrap_or(&error);
            format!("{file}: the change is committed, but the space of removed rows is not reclaimed: {reason}")
        };
        Changed { skipped, warnings: vacuum().err().map(warning).into_iter().collect() }
    }
}

/// Sets the migration time of a database that no one else has open: equal content then gives equal bytes.
///
/// # Errors
/// Fails when the file is not a database or cannot be written.
pub(crate) fn date(path: &Path, seconds: u64) -> Result<(), Error> {
    let connection = connect(path, READ_WRITE)?;
    if has_table(&connection, "schema_migrations")? {
        let seconds = i64::try_from(seconds).unwrap_or_default();
        connection.execute("UPDATE schema_migrations SET timestamp = datetime(?1, 'unixepoch')", [seconds])?;
    }
    Ok(())
}

/// A lock for creating files in a directory, held by one process at a time.
struct DirectoryLock {
    /// The locked directory; `None` where directories cannot be locked.
    _directory: Option<File>,
}

impl DirectoryLock {
    /// Waits for the lock; returns `None` on timeout.
    fn wait(directory: &Path) -> Option<DirectoryLock> {
        let Ok(file) = File::open(directory) else { return Some(DirectoryLock { _directory: None }) };
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    sweep(directory);
                    return Some(DirectoryLock { _directory: Some(file) });
                }
                Err(TryLockError::WouldBlock) if start.elapsed() < BUSY_TIMEOUT => {
                    thread::sleep(Duration::from_millis(10))
                }
                Err(TryLockError::WouldBlock) => return None,
                Err(TryLockError::Error(_)) => return Some(DirectoryLock { _directory: None }),
            }
        }
    }
}

/// Removes databases of killed processes; the caller holds the lock.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()))
    {
        // Older versions created files.
        let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
    }
}

/// A database under construction next to its final path. Processes that create the same file do so one after the
/// other.
struct NewFile {
    /// The file, next to its journal in a temporary directory.
    file: PathBuf,
    _directory: TempFolder,
    _lock: DirectoryLock,
}

impl NewFile {
    /// Waits for other processes that create files here; returns `None` if `path` exists afterwards.
    fn wait(path: &Path) -> Result<Option<NewFile>, Error> {
        let lock = DirectoryLock::wait(parent(path)).ok_or_else(|| Error::Locked(path.to_owned()))?;
        if path.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let directory = TempFolder::inside(parent(path), SCRATCH).map_err(Error::io(path))?;
        let file = directory.path().join("index.db");
        Ok(Some(NewFile { file, _directory: directory, _lock: lock }))
    }

    /// Renames the file into place.
    fn put(self, path: &Path) -> Result<(), Error> {
        // Like SQLite, remove the journals of a database that no longer exists: they would be played into this one.
        for ending in ["-journal", "-wal", "-shm"] {
            let _ = fs::remove_file(copy::beside(path, ending));
        }
        fbc::scratch::rename_new(self.file, path).map_err(|error| match error.kind() {
            // A process without the lock created the file first.
            io::ErrorKind::AlreadyExists => Error::Locked(path.to_owned()),
            _ => Error::io(path)(error),
        })?;
        // The content is synced; sync its name too.
        let _ = File::open(parent(path)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// Returns the number of rows that a connection has changed.
fn changes(connection: &Connection) -> Result<i64, Error> {
    Ok(connection.query_row("SELECT total_changes()", [], |row| row.get(0))?)
}

/// Begins a write transaction; other writers wait from now on.
pub(crate) fn begin(connection: &Connection) -> Result<Transaction<'_>, Error> {
    defend::restart_clock(connection);
    Ok(Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?)
}

/// Migrates a database to the schema that changes need.
fn prepare(transaction: &Transaction<'_>, path: &Path) -> Result<(), Error> {
    defend::check_triggers(transaction, path)?;
    migrate::migrate(transaction)?;
    check_schema(transaction, path, true)?;
    schema::index_for_writing(transaction)?;
    // The triggers are ours now.
    transaction.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    defend::stop_clock(transaction);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_vacuum_is_a_warning_about_a_committed_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.db");
        Database::create(&path).unwrap();
        let database = Database::write(&path).unwrap();
        let connection = database.connection().unwrap();
        connection.execute_batch("INSERT INTO operatorbundle(name) VALUES ('stranded'), ('too')").unwrap();
        // SQLite does not vacuum while a statement is open.
        let mut question = connection.prepare("SELECT version FROM schema_migrations").unwrap();
        let mut rows = question.query([]).unwrap();
        rows.next().unwrap();
        let changed = database.prune_stranded().unwrap();
        assert_eq!(changed.warnings.len(), 1, "{changed:?}");
        assert!(changed.warnings[0].contains("the change is committed"), "{changed:?}");
        let left: i64 = connection.query_row("SELECT count(*) FROM operatorbundle", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
