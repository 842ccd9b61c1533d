//! Opens databases for writing, or for reading without changes.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use fbc::scratch::{TempFolder, parent};
use rusqlite::{Connection, OpenFlags, Transaction};

use crate::change::begin;
use crate::error::Error;
use crate::schema::{self, VERSION};
use crate::{copy, defend, migrate};

/// How long to wait for another process.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The flags for opening an existing file for writing.
pub(crate) const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// The flags for creating a file.
pub(crate) const CREATE: OpenFlags = READ_WRITE.union(OpenFlags::SQLITE_OPEN_CREATE);
/// The page cache, in KiB.
const CACHE_KIB: i64 = 16 << 10;

/// An open index.
pub struct Database {
    /// `None` until the first change creates the file.
    connection: Option<Connection>,
    path: PathBuf,
    /// The directory of the temporary copy, if this is one.
    copy: Option<TempFolder>,
}

impl Database {
    /// Opens the index at `path` for writing.
    ///
    /// Nothing is written before the first change. That change creates a missing file or migrates an older index, in
    /// the same transaction. A failed change leaves everything unchanged.
    ///
    /// # Errors
    /// Fails when the file is not an index, is in use, or cannot be written.
    pub fn write(path: &Path) -> Result<Database, Error> {
        let in_file = |error: Error| error.in_file(path);
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            if !parent(path).is_dir() {
                return Err(Error::cannot_open(path, &io::ErrorKind::NotFound.into()));
            }
            return Ok(Database { connection: None, path: path.to_owned(), copy: None });
        }
        let connection = connect(path, READ_WRITE).map_err(in_file)?;
        check(&connection, path, path).map_err(in_file)?;
        if schema::version(&connection).map_err(in_file)? >= VERSION {
            check_schema(&connection, path, true).map_err(in_file)?;
        }
        Ok(Database { connection: Some(connection), path: path.to_owned(), copy: None })
    }

    /// Opens the index at `path` for reading; the file stays unchanged.
    ///
    /// An older index is copied, and the copy is migrated.
    ///
    /// # Errors
    /// Fails when the file is not an index, is in use, or cannot be read.
    pub fn read(path: &Path) -> Result<Database, Error> {
        copy::check_file(path)?;
        let in_file = |error: Error| error.in_file(path);
        if let Some(connection) = copy::open_snapshot(path)? {
            check(&connection, path, path).map_err(in_file)?;
            if schema::version(&connection).map_err(in_file)? >= VERSION {
                check_schema(&connection, path, false).map_err(in_file)?;
                return Ok(Database { connection: Some(connection), path: path.to_owned(), copy: None });
            }
        }
        let database = Database::copy(path)?;
        database.migrate()?;
        Ok(database)
    }

    /// Opens a temporary copy of the index at `path`, which can be changed freely.
    ///
    /// # Errors
    /// Fails when the file is not an index, is in use, or cannot be read.
    pub fn copy(path: &Path) -> Result<Database, Error> {
        let in_file = |error: Error| error.in_file(path);
        let (directory, target) = aside(path)?;
        copy::copy(path, &target)?;
        let connection = connect(&target, READ_WRITE).map_err(in_file)?;
        // The copy does not outlive the process.
        connection.pragma_update(None, "synchronous", "OFF")?;
        check(&connection, &target, path).map_err(in_file)?;
        Ok(Database { connection: Some(connection), path: path.to_owned(), copy: Some(directory) })
    }

    /// Creates an empty temporary database, which can be changed freely.
    ///
    /// # Errors
    /// Fails when the temporary directory cannot be written.
    pub fn temporary() -> Result<Database, Error> {
        let (directory, path) = aside(Path::new("a temporary database"))?;
        let connection = connect(&path, CREATE)?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        Ok(Database { connection: Some(connection), path, copy: Some(directory) })
    }

    /// Migrates the database to the newest schema, creating it if needed.
    ///
    /// # Errors
    /// Fails when the migration fails; the database is then unchanged.
    pub fn migrate(&self) -> Result<(), Error> {
        let Some(connection) = &self.connection else { return self.change(|_| Ok(())) };
        let transaction = begin(connection).map_err(|error| error.in_file(&self.path))?;
        migrate::migrate(&transaction).map_err(|error| error.in_file(&self.path))?;
        transaction.commit().map_err(|error| Error::from(error).in_file(&self.path))
    }

    /// Returns a warning if the database has a newer schema, whose content may not be read completely.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn warning(&self) -> Result<Option<String>, Error> {
        let version = self.version()?;
        let text = || {
            format!(
                "{}: schema version {version} is newer than the newest supported one ({VERSION}): content may be missing",
                self.path.display()
            )
        };
        Ok((version > VERSION).then(text))
    }

    /// Returns the version of the schema; −1 without a schema.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn version(&self) -> Result<i64, Error> {
        schema::version(self.connection()?)
    }

    /// Returns whether the database has no tables.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(schema::tables(self.connection()?)?.is_empty())
    }

    /// Returns the first missing table or column that queries need.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn missing_table(&self) -> Result<Option<String>, Error> {
        schema::missing(self.connection()?, false)
    }

    /// Returns the path of the opened file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the connection for queries.
    pub(crate) fn connection(&self) -> Result<&Connection, Error> {
        let missing = || Error::Io { path: self.path.clone(), source: io::ErrorKind::NotFound.into() };
        self.connection.as_ref().inspect(|connection| defend::restart_clock(connection)).ok_or_else(missing)
    }

    /// Returns the connection for changes; `None` if there is no file.
    pub(crate) fn existing(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Returns the connection, to write the whole content.
    pub(crate) fn existing_mut(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Closes the database; returns the directory of the temporary copy, if this is one.
    pub(crate) fn into_copy(self) -> Option<TempFolder> {
        self.copy
    }
}

/// Creates the directory of a temporary copy of `path`; returns it with the path of the copy.
fn aside(path: &Path) -> Result<(TempFolder, PathBuf), Error> {
    let directory = TempFolder::private("db-").map_err(Error::io(path))?;
    let target = directory.path().join("index.db");
    Ok((directory, target))
}

/// Opens a connection with the common settings.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    defend::restrict(&connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Also sync the directory after the journal is removed, so that a commit survives a power failure.
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Checks that a database with the newest or a newer schema has the required tables.
pub(crate) fn check_schema(connection: &Connection, path: &Path, writing: bool) -> Result<(), Error> {
    let Some(missing) = schema::missing(connection, writing)? else { return Ok(()) };
    let (path, version) = (path.to_owned(), schema::version(connection)?);
    Err(match version {
        ..=VERSION => Error::Incomplete { path, version, missing },
        _ => Error::Future { path, version, missing },
    })
}

/// Checks that the database in `file` is an index or empty, and has its full length; messages call it `path`.
fn check(connection: &Connection, file: &Path, path: &Path) -> Result<(), Error> {
    let tables = schema::tables(connection)?;
    let ours = ["operatorbundle", "package", "channel", "schema_migrations"];
    if !tables.is_empty() && !tables.iter().any(|table| ours.contains(&table.as_str())) {
        return Err(Error::Foreign { path: path.to_owned(), tables: defend::excerpt(&tables.join(", ")) });
    }
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    // Within a transaction, no other process can shorten the file between the two readings.
    let reading = if connection.is_autocommit() { Some(connection.unchecked_transaction()?) } else { None };
    let pages: u64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let size: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let length = fs::metadata(file).map_or(u64::MAX, |file| file.len());
    reading.map_or(Ok(()), Transaction::finish)?;
    // In WAL mode, the last pages can be in the log.
    if mode != "wal" && length < pages.saturating_mul(size) {
        let reason = format!("expected {} bytes, found {length}", pages * size);
        return Err(Error::Damaged { path: path.to_owned(), reason });
    }
    defend::check(connection, path)
}
