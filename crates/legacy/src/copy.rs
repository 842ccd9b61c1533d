//! Copies databases while other programs may write to them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::Error;
use crate::open::{BUSY_TIMEOUT, connect};

/// The header value of a database in WAL mode.
const WAL: u8 = 2;
/// The files of a database, except for the WAL index, which SQLite rebuilds.
const FILES: [&str; 3] = ["", "-journal", "-wal"];
/// The WAL index: it exists while a program uses the WAL.
const WAL_INDEX: &str = "-shm";
const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const PAUSE: Duration = Duration::from_millis(20);

/// Copies a consistent snapshot of the database at `path`; no file next to it is created or removed.
pub(crate) fn copy(path: &Path, target: &Path) -> Result<(), Error> {
    check_file(path)?;
    // Journals are next to the file that a link leads to.
    let path = &path.canonicalize().map_err(Error::io(path))?;
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        if let Some(source) = open_snapshot(path)? {
            return new_backup(&source, target).map_err(|error| error.in_file(path));
        }
        if let Some(source) = join_wal(path)? {
            return new_backup(&source, target).map_err(|error| error.in_file(path));
        }
        // No program uses it, and one left an unfinished transaction. SQLite recovers it in the copy.
        if copy_files(path, target)? {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Error::Locked(path.to_owned()));
        }
        thread::sleep(PAUSE);
    }
}

/// Copies to a new file.
fn new_backup(source: &Connection, target: &Path) -> Result<(), Error> {
    let _ = fs::remove_file(target);
    backup(source, &mut Connection::open(target)?, target)
}

/// Copies with SQLite's backup API, which locks out writers and replaces the content of `target` in one transaction.
pub(crate) fn backup(source: &Connection, target: &mut Connection, path: &Path) -> Result<(), Error> {
    let backup = Backup::new(source, target)?;
    let end = Instant::now() + BUSY_TIMEOUT;
    while backup.step(-1)? != StepResult::Done {
        if Instant::now() > end {
            return Err(Error::Locked(path.to_owned()));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Opens a file for a consistent read; `None` if reading would change files: a hot journal needs a rollback, or the
/// database is in WAL mode.
pub(crate) fn open_snapshot(path: &Path) -> Result<Option<Connection>, Error> {
    use std::io::Read;
    let mut header = [0; 20];
    let mut file = fs::File::open(path).map_err(Error::io(path))?;
    if file.read_exact(&mut header).is_ok() && header[18..] == [WAL, WAL] {
        return Ok(None);
    }
    drop(file);
    open_reading(path)
}

/// Opens a database in WAL mode that other programs use; `None` if there are none.
fn join_wal(path: &Path) -> Result<Option<Connection>, Error> {
    if !beside(path, WAL_INDEX).exists() || !beside(path, "-wal").exists() {
        return Ok(None);
    }
    let Some(connection) = open_reading(path)? else { return Ok(None) };
    // Do not checkpoint the WAL, even if the other programs exit meanwhile.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(Some(connection))
}

fn open_reading(path: &Path) -> Result<Option<Connection>, Error> {
    let open = || -> Result<Connection, Error> {
        let connection = connect(path, READ_ONLY)?;
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

/// Copies the files of a database that is not in use; `false` if it was changed meanwhile.
fn copy_files(path: &Path, target: &Path) -> Result<bool, Error> {
    let before = stamps(path)?;
    for ending in FILES {
        let (from, to) = (beside(path, ending), beside(target, ending));
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if let Err(error) = fs::remove_file(&to)
            && !gone(&error)
        {
            return Err(Error::io(&to)(error));
        }
        match fs::copy(&from, &to) {
            Err(error) if gone(&error) && !ending.is_empty() => {}
            copied => drop(copied.map_err(Error::io(&from))?),
        }
    }
    make_writable(target)?;
    Ok(stamps(path)? == before)
}

/// Detects writes to files: inode, length and modification time.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

fn stamps(path: &Path) -> Result<Stamps, Error> {
    let mut stamps = Vec::new();
    for ending in FILES.iter().chain(&[WAL_INDEX]) {
        let file = beside(path, ending);
        stamps.push(match fs::metadata(&file) {
            Ok(file) => Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&file)(error)),
        });
    }
    Ok(stamps)
}

pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

pub(crate) fn check_file(path: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(Error::io(path))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::message(format!("{} is not a regular file", path.display()))) }
}

fn make_writable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::io(path))
}
