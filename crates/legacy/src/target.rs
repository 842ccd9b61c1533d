//! The database that an operation changes.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::open::Database;

/// What to do if the database to change does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Create it, with the change.
    Create,
    /// Create it even if the change fails, then without content: scripts of upstream opm open it.
    CreateAnyway,
    /// Fail.
    Reject,
}

/// A database to change, and where the result goes. Every operation that changes a database does it through one.
#[derive(Debug, Clone)]
pub struct DatabaseTarget {
    /// The database.
    pub path: PathBuf,
    /// What to do if it does not exist.
    pub missing: IfMissing,
    /// The database that gets the result instead.
    pub output: Option<PathBuf>,
}

impl DatabaseTarget {
    /// A database to change in place.
    pub fn in_place(path: &Path, missing: IfMissing) -> DatabaseTarget {
        DatabaseTarget { path: path.to_owned(), missing, output: None }
    }

    /// Changes the database in place, or a copy that becomes the output.
    ///
    /// # Errors
    /// Fails when the change does, or a file cannot be read or written. A failed change leaves every file as it was.
    pub fn change<T, E: From<Error>>(&self, work: impl FnOnce(&Database) -> Result<T, E>) -> Result<T, E> {
        let path = &self.path;
        if let Some(output) = self.output.as_deref().filter(|output| !is_same_file(output, path)) {
            let copy = match self.missing {
                IfMissing::Create | IfMissing::CreateAnyway if !path.exists() => Database::temporary()?,
                _ => Database::copy(path)?,
            };
            let report = work(&copy)?;
            copy.publish(output)?;
            return Ok(report);
        }
        if self.missing == IfMissing::Reject {
            path.metadata().map_err(Error::io(path))?;
        }
        let changed = Database::write(path).map_err(E::from).and_then(|database| work(&database));
        if changed.is_err() && self.missing == IfMissing::CreateAnyway && !path.exists() {
            // The failure of the change is the one to report.
            let _ = Database::write(path).and_then(|database| database.migrate());
        }
        changed
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
