//! Errors of cluster operations.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};

use crate::bundle_map::BundleMapError;
use crate::kubeconfig::KubeconfigError;
use crate::run::catalog::RunCatalogError;
use crate::run::install_mode::InstallModeError;
use crate::run::objects::InjectedError;
use crate::run::operator_group::OperatorGroupError;
use crate::run::planned::RecordError;

/// Why a cluster operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig selects no cluster.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// What is on the cluster does not allow what was asked for, or a rollback left something behind.
    #[error("{0}")]
    Refused(String),
    /// The requested install mode is invalid, or the operator does not support it.
    #[error(transparent)]
    InstallMode(#[from] InstallModeError),
    /// The catalog of a run cannot be built.
    #[error(transparent)]
    Catalog(Box<RunCatalogError>),
    /// The OperatorGroup of the namespace does not match the request.
    #[error(transparent)]
    OperatorGroup(#[from] OperatorGroupError),
    /// A CatalogSource has an annotation that opm did not write.
    #[error(transparent)]
    Injected(#[from] InjectedError),
    /// So is its record of created objects.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A bundle in files or in a ConfigMap cannot be used.
    #[error("{what}: {source}")]
    Bundle {
        /// The file or the ConfigMap.
        what: String,
        /// The cause.
        source: BundleMapError,
    },
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
    /// The API server refused, or is unreachable.
    #[error("{what}: {}", api_message(source))]
    Api {
        /// The operation.
        what: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The API server has never answered, and there is no connection to it.
    #[error("{what}: the API server {server} cannot be reached: {cause}")]
    Unreachable {
        /// The operation.
        what: String,
        /// Its URL and the context.
        server: String,
        cause: String,
        /// The certificate that it presents, if it speaks TLS.
        certificate: Option<String>,
    },
    /// The API server did not respond in time.
    #[error("{what}: the API server did not respond in time")]
    NoResponse {
        /// The operation.
        what: String,
    },
    /// A field of an object has another type than its kind defines.
    #[error("{object}: the field {field} cannot be read: {source}")]
    Field {
        object: String,
        /// The path of the field.
        field: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The ClusterCatalog of a run lacks what the run recorded.
    #[error(
        "{object} has no annotation {key}, with which 'run bundle --olm v1' creates it; nothing was changed\n  help: \
         remove the operator with 'opm cleanup {package} --olm v1', and install it again"
    )]
    Unannotated { object: String, key: &'static str, package: String },
    /// An object to create already exists.
    #[error("{object} already exists")]
    Exists { object: String },
    /// A required object was deleted.
    #[error("{object} no longer exists: it was deleted meanwhile; run the command again")]
    Deleted { object: String },
    /// A timeout while waiting.
    #[error("{what}: timed out: {cause}")]
    Timeout {
        /// The expected event.
        what: String,
        /// The probable cause.
        cause: String,
    },
}

impl Error {
    /// Returns whether the API server reports that something does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Api { source, .. } if has_code(source, 404))
    }

    /// Returns whether the API server denied a permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Error::Api { source, .. } if has_code(source, 403))
    }

    /// Creates an error that means: the state of the cluster does not allow it.
    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::Refused(text.into())
    }

    /// Adds the operation to a failed request.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let what = what.into();
        move |source| Error::Api { what, source: Box::new(source) }
    }

    /// Adds the file to what is wrong in it.
    pub(crate) fn bundle(path: &Path) -> impl FnOnce(BundleMapError) -> Error {
        let what = path.display().to_string();
        move |source| Error::Bundle { what, source }
    }

    /// Adds the file to an I/O error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { path, source }
    }
}

impl From<RunCatalogError> for Error {
    fn from(error: RunCatalogError) -> Error {
        Error::Catalog(Box::new(error))
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Error::Catalog(error) => error.class(),
            Error::InstallMode(error) => error.class(),
            Error::Refused(_)
            | Error::OperatorGroup(_)
            | Error::Injected(_)
            | Error::Record(_)
            | Error::Unannotated { .. }
            | Error::Bundle { .. }
            | Error::Exists { .. } => Class::Refused,
            Error::Api { source, .. } if is_decision(source) => Class::Refused,
            _ => Class::World,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Error::Kubeconfig(error) => error.hint().map(Cow::Owned),
            Error::Unreachable { certificate: Some(certificate), .. } => Some(Cow::Owned(format!(
                "{certificate}; certificate-authority of the kubeconfig must contain the authority of this cluster"
            ))),
            Error::Unreachable { .. } => {
                Some(Cow::Borrowed("start the cluster, or select another one with --context or --kubeconfig"))
            }
            _ => None,
        }
    }
}

/// Returns the message of the API server, or why it is unreachable, without wrapping errors.
pub(crate) fn api_message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() { format!("status {}", status.code) } else { status.message.clone() };
    }
    let text = root_cause(error);
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) => format!("the API server cannot be reached: {text}"),
        _ => text,
    }
}

/// Returns the message of the innermost error.
pub(crate) fn root_cause(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Whether the API server decided about the request: the same request fails again. Without valid credentials, in time
/// or under its load limits it decides nothing.
fn is_decision(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400..500) && !matches!(status.code, 401 | 408 | 429))
}

/// Returns whether the API server responded with this code.
pub(crate) fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
