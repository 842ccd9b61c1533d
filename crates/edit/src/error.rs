//! The reasons why an edit fails.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::scratch::OutputDirError;
use fbc::{Fbc, Problem};

use crate::refusal::EditRefusal;

/// The reason why an edit failed. The catalog is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The edit is refused.
    #[error(transparent)]
    Refused(#[from] EditRefusal),
    /// A catalog that the edit reads has problems.
    #[error("the catalog cannot be read")]
    Unreadable {
        /// The part of the catalog that was read.
        fbc: Box<Fbc>,
        problems: Vec<Problem>,
    },
    /// The edited catalog would break rules.
    #[error("the edited catalog would not be valid, so nothing was changed")]
    Invalid(Box<InvalidEdit>),
    /// Somebody else changed the catalog meanwhile.
    #[error("{}: the catalog changed during the edit; try again", catalog.display())]
    CatalogChanged { catalog: PathBuf },
    /// Somebody else changed a file meanwhile.
    #[error("{}: the file changed during the edit; try again", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
    },
    /// Another edit of the catalog is running.
    #[error("{} is locked by another edit; try again when that has finished", catalog.display())]
    Locked { catalog: PathBuf },
    /// An interrupted edit can be neither completed nor discarded.
    #[error(
        "{}: {reason}\nhelp: an earlier edit of the catalog was interrupted, and {} has the rest of it; restore the file \
         to complete that edit, or delete that directory to keep the catalog as it is",
        path.display(),
        staging.display()
    )]
    Interrupted {
        /// The file that prevents it.
        path: PathBuf,
        /// What is wrong with the file.
        reason: &'static str,
        /// The directory with the rest of the interrupted edit.
        staging: PathBuf,
    },
    /// No staging directory can be created.
    #[error(
        "{}: {source}: cannot create a staging directory{}",
        directory.display(),
        if *in_place { "; --to writes the changed catalog elsewhere" } else { "" }
    )]
    Staging {
        /// The directory for it.
        directory: PathBuf,
        /// Whether it is the directory that has the catalog.
        in_place: bool,
        /// The I/O error.
        source: io::Error,
    },
    /// A bundle to add cannot be read.
    #[error("{name}: {source}")]
    Bundle {
        /// The bundle, as the user calls it.
        name: String,
        /// The reason.
        source: Box<bundle::Error>,
    },
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The text of a blob cannot be read or kept.
    #[error(transparent)]
    Text(#[from] io::Error),
}

impl Fault for EditError {
    fn class(&self) -> Class {
        match self {
            EditError::Refused(_)
            | EditError::Unreadable { .. }
            | EditError::Invalid(_)
            | EditError::Interrupted { .. } => Class::Refused,
            EditError::Bundle { source, .. } => source.class(),
            EditError::CatalogChanged { .. }
            | EditError::FileChanged { .. }
            | EditError::Locked { .. }
            | EditError::Staging { .. }
            | EditError::File { .. }
            | EditError::Text(_) => Class::World,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            EditError::Refused(refusal) => refusal.help.as_deref().map(Cow::Borrowed),
            _ => None,
        }
    }
}

impl From<OutputDirError> for EditError {
    fn from(error: OutputDirError) -> EditError {
        match error {
            OutputDirError::NotEmpty(_) => EditRefusal::new(error.to_string()).into(),
            OutputDirError::Unreadable { path, source } => EditError::File { path, source },
        }
    }
}

/// Names the file or directory of an I/O error.
pub(crate) fn in_path(path: &Path, source: io::Error) -> EditError {
    EditError::File { path: path.to_path_buf(), source }
}

/// The problems that an edit would add to a catalog.
#[derive(Debug)]
pub struct InvalidEdit {
    /// The catalog before the edit.
    pub catalog: Fbc,
    /// The problems, with positions in the catalog before the edit. What is new has no position there.
    pub problems: Vec<Problem>,
}
