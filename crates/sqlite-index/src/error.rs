//! Why an index cannot be read or changed.

use std::io;
use std::path::{Path, PathBuf};

/// Says what went wrong with an index.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else is writing.
    #[error("{}: database is locked: another program is changing it", .0.display())]
    Locked(PathBuf),
    /// The file is something else.
    #[error("{}: file is not a database", .0.display())]
    NotADatabase(PathBuf),
    /// The file was a database once.
    #[error("{}: database is damaged or cut short: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The database holds something else.
    #[error("{}: not an operator index: the database has the tables {tables}, and none of an index", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is in it.
        tables: String,
    },
    /// The database was made by a newer program, and differs too much.
    #[error(
        "{}: schema version {version} is newer than the newest one known here ({}), and {missing} is not in it",
        path.display(),
        crate::schema::VERSION
    )]
    Future {
        /// The file.
        path: PathBuf,
        /// The version it has.
        version: i64,
        /// The table or column that is missed.
        missing: String,
    },
    /// The database says which schema it has, and that is not so.
    #[error("{}: the database says that it has schema version {version}, and {missing} is not in it", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The version it says it has.
        version: i64,
        /// The table or column that is missed.
        missing: String,
    },
    /// A database cannot be brought to the newest schema.
    #[error("migrating the database from schema version {from}: {reason}")]
    Migration {
        /// The version it has.
        from: i64,
        /// Why not.
        reason: String,
    },
    /// A question or change that SQLite refused.
    #[error("database: {0}")]
    Sql(#[from] rusqlite::Error),
    /// Something that cannot be done; the text says what and why.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// Makes an error with a text for the user.
    pub(crate) fn message(text: impl Into<String>) -> Error {
        Error::Message(text.into())
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_owned(), source }
    }

    /// Says why a database file cannot be opened or made.
    pub(crate) fn cannot_open(path: &Path, source: &io::Error) -> Error {
        let text = format!("unable to open database file: {source}");
        Error::Io { path: path.to_owned(), source: io::Error::other(text) }
    }

    /// Says which file SQLite is talking of, where that explains it.
    pub(crate) fn in_file(self, path: &Path) -> Error {
        use rusqlite::ErrorCode;
        let Error::Sql(error) = self else { return self };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked(path.to_owned()),
            Some(ErrorCode::NotADatabase) => Error::NotADatabase(path.to_owned()),
            Some(ErrorCode::DatabaseCorrupt) => Error::Damaged { path: path.to_owned(), reason: error.to_string() },
            Some(ErrorCode::CannotOpen) => {
                let missing = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists());
                let source = if missing { io::ErrorKind::NotFound.into() } else { io::Error::other(error) };
                Error::cannot_open(path, &source)
            }
            _ => Error::Sql(error),
        }
    }
}
