//! What goes wrong on a cluster.

use std::path::{Path, PathBuf};

/// Why something could not be done on a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig that was asked for cannot be used.
    #[error("kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// No cluster is configured.
    #[error("no cluster to talk to: {0}")]
    NoCluster(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// Something else is wrong; the text says what.
    #[error("{0}")]
    Message(String),
    /// The API server refused, or could not be asked.
    #[error("{what}: {}", said(source))]
    Api {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// The API server gave no answer in time.
    #[error("{what}: the API server did not answer in time")]
    Silent {
        /// What was being done.
        what: String,
    },
    /// An object that was to be created exists.
    #[error("{object} already exists")]
    Exists {
        /// The object.
        object: String,
    },
    /// An object vanished that was needed.
    #[error("{object} is gone")]
    Gone {
        /// The object.
        object: String,
    },
    /// Something did not happen in time.
    #[error("{what}: not in time: {cause}")]
    Late {
        /// What should have happened.
        what: String,
        /// What seems to have kept it from happening.
        cause: String,
    },
}

impl Error {
    /// Returns whether the API server says that something does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Api { source, .. } if has_code(source, 404))
    }

    /// Returns whether the API server says that somebody may not do something.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Error::Api { source, .. } if has_code(source, 403))
    }

    /// Makes an error of a text.
    pub(crate) fn message(text: impl Into<String>) -> Error {
        Error::Message(text.into())
    }

    /// Says what was being done when a request failed.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let what = what.into();
        move |source| Error::Api { what, source: Box::new(source) }
    }

    /// Says which file something went wrong with.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { path, source }
    }
}

/// Returns what the API server said, or why it could not be asked, without the ways it came.
pub(crate) fn said(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() { format!("status {}", status.code) } else { status.message.clone() };
    }
    let mut cause: &dyn std::error::Error = error;
    let mut text = error.to_string();
    while let Some(deeper) = cause.source() {
        text = deeper.to_string();
        cause = deeper;
    }
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => format!("the API server cannot be reached: {text}"),
        _ => text,
    }
}

/// Returns whether the API server answered with this code.
pub(crate) fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
