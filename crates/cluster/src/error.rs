//! What goes wrong on a cluster.

use std::path::PathBuf;

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
    /// Something is not as it has to be.
    #[error("{0}")]
    Message(String),
    /// The API server refused, or could not be asked.
    #[error("{what}: {source}")]
    Api {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Says what was being done when a request failed.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let what = what.into();
        move |source| Error::Api { what, source: Box::new(source) }
    }
}
