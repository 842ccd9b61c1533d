//! Copying databases that other programs may be writing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::Error;
use crate::open::{PATIENCE, connect};

/// What stands in the header of a database that keeps its changes in a file of their own.
const WAL: u8 = 2;
/// What SQLite keeps beside a database, but for the index of the changes, which is made again when it is missing.
const FILES: [&str; 3] = ["", "-journal", "-wal"];
/// The index of the changes: there as long as a program works on them.
const LIVE: &str = "-shm";
const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const PAUSE: Duration = Duration::from_millis(20);

/// Copies the database in `path` as it is at one moment; nothing beside it comes or goes.
pub(crate) fn copy(path: &Path, target: &Path) -> Result<(), Error> {
    check_file(path)?;
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(source) = reading(path)? {
            return back_up(&source, target).map_err(|error| error.in_file(path));
        }
        if let Some(source) = joining(path)? {
            return back_up(&source, target).map_err(|error| error.in_file(path));
        }
        // Nobody works on it, and a program left something unfinished. SQLite puts that right, in the copy.
        if copy_files(path, target)? {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Error::Locked(path.to_owned()));
        }
        thread::sleep(PAUSE);
    }
}

/// Copies through SQLite, which keeps others from writing what is being read.
fn back_up(source: &Connection, target: &Path) -> Result<(), Error> {
    let _ = fs::remove_file(target);
    let mut made = Connection::open(target)?;
    let backup = Backup::new(source, &mut made)?;
    let end = Instant::now() + PATIENCE;
    while backup.step(-1)? != StepResult::Done {
        if Instant::now() > end {
            return Err(Error::Locked(target.to_owned()));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Opens a file that is only read, all of it at one moment; nothing when that would change something: an unfinished
/// change has to be undone, or changes are kept in a file of their own.
pub(crate) fn reading(path: &Path) -> Result<Option<Connection>, Error> {
    use std::io::Read;
    let mut header = [0; 20];
    let mut file = fs::File::open(path).map_err(Error::io(path))?;
    if file.read_exact(&mut header).is_ok() && header[18..] == [WAL, WAL] {
        return Ok(None);
    }
    drop(file);
    open_reading(path)
}

/// Joins the programs that keep their changes in a file of their own; nothing when there are none.
fn joining(path: &Path) -> Result<Option<Connection>, Error> {
    if !beside(path, LIVE).exists() || !beside(path, "-wal").exists() {
        return Ok(None);
    }
    let Some(connection) = open_reading(path)? else { return Ok(None) };
    // The changes stay where they are, even if the others go in the meantime.
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

/// Copies a database that nobody works on with what is beside it; false when somebody came in the meantime.
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

/// What shows whether files were written to: which they are, how long, and when they changed.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

fn stamps(path: &Path) -> Result<Stamps, Error> {
    let mut stamps = Vec::new();
    for ending in FILES.iter().chain(&[LIVE]) {
        let file = beside(path, ending);
        stamps.push(match fs::metadata(&file) {
            Ok(file) => Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&file)(error)),
        });
    }
    Ok(stamps)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
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
