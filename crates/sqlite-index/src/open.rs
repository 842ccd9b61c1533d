//! Opening databases: to change them, or to read them and leave them as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tempfile::TempDir;

use crate::error::Error;
use crate::migrate;
use crate::schema::{self, VERSION};

/// How long another program is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// What stands in the header of a database that keeps its changes in a file of their own.
const WAL: u8 = 2;
/// Pages that are kept in memory, in KiB.
const CACHE_KIB: i64 = 16 << 10;

/// An open index.
pub struct Database {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Where the copy is, if it is one.
    copy: Option<TempDir>,
}

impl Database {
    /// Opens the index in `path` to change it, bringing it to the newest schema first.
    ///
    /// A file that is not there is made.
    ///
    /// # Errors
    /// Fails when the file is no index, is in use, or cannot be written.
    pub fn write(path: &Path) -> Result<Database, Error> {
        let in_file = |error: Error| error.in_file(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = connect(path, flags).map_err(in_file)?;
        check(&connection, path, path).map_err(in_file)?;
        migrate::migrate(&mut connection).map_err(in_file)?;
        if let Some(missing) = schema::missing(&connection, true).map_err(in_file)? {
            let version = schema::version(&connection)?;
            return Err(Error::Future { path: path.to_owned(), version, missing });
        }
        let database = Database { connection, path: path.to_owned(), copy: None };
        database.change(schema::index_for_writing).map_err(in_file)?;
        Ok(database)
    }

    /// Opens the index in `path` for reading; the file stays as it is.
    ///
    /// An older index is copied and the copy brought to the newest schema.
    ///
    /// # Errors
    /// Fails when the file is no index, is in use, or cannot be read.
    pub fn read(path: &Path) -> Result<Database, Error> {
        check_file(path)?;
        let in_file = |error: Error| error.in_file(path);
        if let Some(connection) = reading(path)? {
            check(&connection, path, path).map_err(in_file)?;
            let version = schema::version(&connection).map_err(in_file)?;
            if version >= VERSION {
                if let Some(missing) = schema::missing(&connection, false).map_err(in_file)? {
                    return Err(Error::Future { path: path.to_owned(), version, missing });
                }
                return Ok(Database { connection, path: path.to_owned(), copy: None });
            }
        }
        let mut database = Database::copy(path)?;
        database.migrate()?;
        Ok(database)
    }

    /// Opens a temporary copy of the index in `path`, which can be changed without anybody noticing.
    ///
    /// # Errors
    /// Fails when the file is no index, is in use, or cannot be read.
    pub fn copy(path: &Path) -> Result<Database, Error> {
        check_file(path)?;
        let in_file = |error: Error| error.in_file(path);
        let directory = tempfile::Builder::new().prefix("db-").tempdir().map_err(Error::io(path))?;
        let target = directory.path().join("index.db");
        match reading(path)? {
            // Nobody writes as long as it is read.
            Some(_reading) => drop(fs::copy(path, &target).map_err(Error::io(path))?),
            // Whoever wrote last did not finish. SQLite puts that right, in the copy.
            None => {
                for ending in ["", "-journal", "-wal"] {
                    let (from, to) = (beside(path, ending), beside(&target, ending));
                    if from.exists() {
                        fs::copy(&from, to).map_err(Error::io(&from))?;
                    }
                }
            }
        }
        make_writable(&target)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(&target, flags).map_err(in_file)?;
        // The copy goes with the process.
        connection.pragma_update(None, "synchronous", "OFF")?;
        check(&connection, &target, path).map_err(in_file)?;
        Ok(Database { connection, path: path.to_owned(), copy: Some(directory) })
    }

    /// Writes a copy of the index in `path` to `target`, without what a program left unfinished.
    ///
    /// # Errors
    /// Fails when the file is no index, is in use, or cannot be read or written.
    pub fn save(path: &Path, target: &Path) -> Result<(), Error> {
        let copy = Database::copy(path)?;
        // All of it is in the file, whatever the journal was.
        copy.connection.execute_batch("PRAGMA journal_mode = DELETE").map_err(Error::from)?;
        let (connection, directory) = copy.into_parts();
        drop(connection);
        if let Some(directory) = directory {
            fs::copy(directory.path().join("index.db"), target).map_err(Error::io(target))?;
        }
        Ok(())
    }

    /// Brings the database to the newest schema.
    ///
    /// # Errors
    /// Fails when that is not possible; the database is then as it was.
    pub fn migrate(&mut self) -> Result<(), Error> {
        migrate::migrate(&mut self.connection).map_err(|error| error.in_file(&self.path))
    }

    /// Returns the version of the schema; −1 when there is none.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn version(&self) -> Result<i64, Error> {
        schema::version(&self.connection)
    }

    /// Tells whether there is any table.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(schema::tables(&self.connection)?.is_empty())
    }

    /// Names the first table or column that questions need and that is not there.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn lacks(&self) -> Result<Option<String>, Error> {
        schema::missing(&self.connection, false)
    }

    /// Returns the file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the database apart: its connection, and the directory of the copy if it is one.
    pub(crate) fn into_parts(self) -> (Connection, Option<TempDir>) {
        (self.connection, self.copy)
    }

    /// Makes a change that happens whole or not at all.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let transaction = rusqlite::Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let outcome = change(&transaction)?;
        transaction.commit()?;
        Ok(outcome)
    }

    /// Gives space back that removed rows took.
    pub(crate) fn vacuum(&self) -> Result<(), Error> {
        self.connection.execute_batch("VACUUM")?;
        Ok(())
    }
}

/// Opens a connection as all of ours are.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Opens a file that is only read, all of it at one moment; nothing when that would change something: an unfinished
/// change has to be undone, or changes are kept in a file of their own.
fn reading(path: &Path) -> Result<Option<Connection>, Error> {
    use std::io::Read;
    let mut header = [0; 20];
    let mut file = fs::File::open(path).map_err(Error::io(path))?;
    if file.read_exact(&mut header).is_ok() && header[18..] == [WAL, WAL] {
        return Ok(None);
    }
    drop(file);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> Result<Connection, Error> {
        let connection = connect(path, flags)?;
        connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_master;")?;
        Ok(connection)
    };
    match open() {
        Ok(connection) => Ok(Some(connection)),
        Err(Error::Sql(error))
            if matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.in_file(path)),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn check_file(path: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(Error::io(path))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::message(format!("{} is not a regular file", path.display()))) }
}

fn make_writable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::io(path))
}

/// Checks that the database in `file` is an index, or nothing yet, and as long as it says; the user knows it as `path`.
fn check(connection: &Connection, file: &Path, path: &Path) -> Result<(), Error> {
    let tables = schema::tables(connection)?;
    let ours = ["operatorbundle", "package", "channel", "schema_migrations"];
    if !tables.is_empty() && !tables.iter().any(|table| ours.contains(&table.as_str())) {
        return Err(Error::Foreign { path: path.to_owned(), tables: tables.join(", ") });
    }
    let pages: u64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let size: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let length = fs::metadata(file).map_or(u64::MAX, |file| file.len());
    if pages > 0 && length < pages.saturating_mul(size) {
        let reason = format!("it should have {} bytes and has {length}", pages * size);
        return Err(Error::Damaged { path: path.to_owned(), reason });
    }
    Ok(())
}
