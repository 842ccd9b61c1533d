//! Errors of reading or changing an index.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fbc::fault::{Class, Fault};

use crate::add::AddError;
use crate::fetch::FetchError;

/// Why an index cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process is writing.
    #[error("{}: database is locked: another program is changing it", .0.display())]
    Locked(PathBuf),
    /// The file is not a database.
    #[error("{}: file is not a database", .0.display())]
    NotADatabase(PathBuf),
    /// The database is damaged.
    #[error("{}: database is damaged or truncated: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The message of SQLite.
        reason: String,
    },
    /// The database is not an index.
    #[error("{}: not an operator index: the database has other tables: {tables}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its tables.
        tables: String,
    },
    /// The database has objects that no index has.
    #[error("{}: not an operator index: {what}", path.display())]
    Disguised {
        /// The file.
        path: PathBuf,
        /// The objects.
        what: String,
    },
    /// A query takes too long.
    #[error(
        "{}: a query takes longer than {} s, which no index of this size needs: the database is damaged or hostile",
        path.display(),
        limit.as_secs()
    )]
    TooSlow {
        /// The file.
        path: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The file or its directory cannot be written.
    #[error("{}: the database is read-only: changing it requires write access to the file and to its directory", .0.display())]
    ReadOnly(PathBuf),
    /// The database was written by a newer program, so that a change could damage it.
    #[error(
        "{}: schema version {version} is newer than the newest supported one ({}): use the program that wrote the \
         database, or a newer opm, to change it",
        path.display(),
        crate::schema::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        version: i64,
    },
    /// The database was written by a newer program, and its schema is incompatible.
    #[error(
        "{}: schema version {version} is newer than the newest supported one ({}), and {missing} is missing",
        path.display(),
        crate::schema::VERSION
    )]
    Future {
        /// The file.
        path: PathBuf,
        version: i64,
        /// The missing table or column.
        missing: String,
    },
    /// The schema does not match the version that the database states.
    #[error("{}: the database states schema version {version}, but {missing} is missing", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The stated version.
        version: i64,
        /// The missing table or column.
        missing: String,
    },
    /// A migration failed.
    #[error("migrating the database from schema version {from}: {reason}")]
    Migration {
        /// The version.
        from: i64,
        /// The cause.
        reason: String,
    },
    /// A query or change failed in SQLite.
    #[error("database: {0}")]
    Sql(#[from] rusqlite::Error),
    /// Any other failure.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// Creates an error with a message.
    pub(crate) fn message(text: impl Into<String>) -> Error {
        Error::Message(text.into())
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_owned(), source }
    }

    /// Returns the error for a database file that cannot be opened or created.
    pub(crate) fn cannot_open(path: &Path, source: &io::Error) -> Error {
        let text = format!("unable to open database file: {source}");
        Error::Io { path: path.to_owned(), source: io::Error::other(text) }
    }

    /// Adds the file to errors of SQLite that concern the whole file.
    pub(crate) fn in_file(self, path: &Path) -> Error {
        use rusqlite::ErrorCode;
        let Error::Sql(error) = self else { return self };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked(path.to_owned()),
            Some(ErrorCode::ReadOnly) => Error::ReadOnly(path.to_owned()),
            Some(ErrorCode::OperationInterrupted) => {
                Error::TooSlow { path: path.to_owned(), limit: crate::defend::time_limit(path) }
            }
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

impl Fault for Error {
    fn class(&self) -> Class {
        Class::Refused
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The database cannot be read or changed.
    #[error("{}", bounded(.0.to_string()))]
    Database(#[from] Error),
    /// Bundles were not added.
    #[error("{}", bounded(.0.to_string()))]
    Refused(#[from] AddError),
    /// An image cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The images of bundles cannot be fetched.
    #[error(
        "[{}]",
        .0.iter().map(|(image, error)| format!("exporting bundle image:{image} failed with {error}"))
            .collect::<Vec<_>>().join(", ")
    )]
    Export(Vec<(String, FetchError)>),
    /// The current digest of an image is unknown.
    #[error("image {image}: {source}")]
    Pin {
        image: String,
        /// The cause.
        source: FetchError,
    },
    /// The index does not have the package.
    #[error("package \"{0}\" not found in index")]
    UnknownPackage(String),
    /// A package or version cannot become a directory.
    #[error("{0:?} is not a valid directory name")]
    DirectoryName(String),
    /// A generated file is the current index of other commands.
    #[error(
        "{} already exists: use --overwrite to replace it, or 'opm registry' commands to change a database",
        .0.display()
    )]
    Generated(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An image cannot be built; the error names the file.
    #[error(transparent)]
    Build(#[from] io::Error),
}

impl OperationError {
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> OperationError + '_ {
        move |source| OperationError::File { path: path.to_owned(), source }
    }

    /// Returns the recorded exit code for the reason, which scripts rely on; `None` for the usual one.
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            OperationError::Refused(error) => Some(error.exit_code()).filter(|code| *code != 1),
            _ => None,
        }
    }
}

impl Fault for OperationError {
    fn class(&self) -> Class {
        match self {
            OperationError::Fetch(error) | OperationError::Pin { source: error, .. } => error.class(),
            OperationError::File { .. } | OperationError::Build(_) => Class::World,
            _ => Class::Refused,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            OperationError::Fetch(error) => error.hint(),
            _ => None,
        }
    }
}

/// Maximum length of a message about a database: names and values in it are as long as others want.
const MAX_MESSAGE: usize = 64 << 10;

/// Shortens a message about a database.
pub fn bounded(mut text: String) -> String {
    if text.len() > MAX_MESSAGE {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_databases_are_bounded() {
        assert_eq!(bounded("short".into()), "short");
        let long = bounded("xä".repeat(1 << 20));
        assert!(long.len() <= MAX_MESSAGE + 3 && long.ends_with("..."), "{} bytes", long.len());
    }
}
