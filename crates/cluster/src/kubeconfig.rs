//! Finds and reads the kubeconfig, and explains why it selects no cluster.

use std::io;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Config, config};

/// Why a kubeconfig selects no cluster.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// There is no home directory for the default file.
    #[error("no cluster configured: neither KUBECONFIG nor HOME is set")]
    NoHome,
    /// The file does not exist; it may be `listed` in `KUBECONFIG`.
    #[error("no cluster configured: kubeconfig {}{} does not exist", path.display(), origin(*listed))]
    Missing { path: PathBuf, listed: bool },
    /// The file cannot be read.
    #[error("kubeconfig {}{} cannot be read: {source}", path.display(), origin(*listed))]
    Unreadable { path: PathBuf, listed: bool, source: io::Error },
    /// The file is not a kubeconfig. Its lines may be secret, so the message quotes none.
    #[error("kubeconfig {} is not valid: {message}", path.display())]
    Invalid { path: PathBuf, message: String },
    /// The files have no context.
    #[error("kubeconfig {files} has no contexts")]
    Empty { files: String },
    /// The current context is not set.
    #[error("kubeconfig {files} does not set current-context")]
    NoContext { files: String, known: Vec<String> },
    /// The context does not exist.
    #[error("kubeconfig {files} has no context {name:?}")]
    UnknownContext { files: String, name: String, known: Vec<String> },
    /// Any other failure.
    #[error("kubeconfig {files}: {source}")]
    Other { files: String, source: config::KubeconfigError },
}

impl KubeconfigError {
    /// Returns how to fix it, if that is known.
    pub(crate) fn hint(&self) -> Option<String> {
        const WAYS: &str = "name the kubeconfig of a cluster with --kubeconfig or KUBECONFIG; --context selects one of \
                            its contexts";
        match self {
            KubeconfigError::NoHome | KubeconfigError::Missing { .. } | KubeconfigError::Empty { .. } => {
                Some(WAYS.into())
            }
            KubeconfigError::NoContext { known, .. } => {
                Some(format!("select one of its contexts with --context: {}", known.join(", ")))
            }
            KubeconfigError::UnknownContext { name, known, .. } => {
                let meant = fbc::similar::nearest(name, known.iter().map(String::as_str));
                let meant = meant.map(|meant| format!("did you mean {meant:?}? ")).unwrap_or_default();
                Some(format!("{meant}its contexts are: {}", known.join(", ")))
            }
            _ => None,
        }
    }
}

/// Names the variable, if a file is listed there.
fn origin(listed: bool) -> &'static str {
    if listed { " (from KUBECONFIG)" } else { "" }
}

/// Returns the configuration of a context, the current one by default, and the name of the context.
pub(crate) async fn load(file: Option<&Path>, context: Option<&str>) -> Result<(Config, String), KubeconfigError> {
    let (paths, listed) = match file {
        Some(path) => (vec![path.to_owned()], false),
        None => default_paths()?,
    };
    let mut merged = Kubeconfig::default();
    let files = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    for path in paths {
        let read = Kubeconfig::read_from(&path).map_err(|error| unreadable(path, listed, error))?;
        merged = merged.merge(read).map_err(|source| KubeconfigError::Other { files: files.clone(), source })?;
    }
    let known: Vec<String> = merged.contexts.iter().map(|context| context.name.clone()).collect();
    if known.is_empty() {
        return Err(KubeconfigError::Empty { files });
    }
    let wanted = context.map(str::to_owned).or_else(|| merged.current_context.clone().filter(|name| !name.is_empty()));
    let Some(name) = wanted else { return Err(KubeconfigError::NoContext { files, known }) };
    if !known.contains(&name) {
        return Err(KubeconfigError::UnknownContext { files, name, known });
    }
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(merged, &options).await;
    Ok((config.map_err(|source| KubeconfigError::Other { files, source })?, name))
}

fn default_paths() -> Result<(Vec<PathBuf>, bool), KubeconfigError> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return Ok((listed, true));
    }
    let home = std::env::home_dir().ok_or(KubeconfigError::NoHome)?;
    Ok((vec![home.join(".kube/config")], false))
}

fn unreadable(path: PathBuf, listed: bool, error: config::KubeconfigError) -> KubeconfigError {
    match error {
        config::KubeconfigError::ReadConfig(source, _) if source.kind() == io::ErrorKind::NotFound => {
            KubeconfigError::Missing { path, listed }
        }
        config::KubeconfigError::ReadConfig(source, _) => KubeconfigError::Unreadable { path, listed, source },
        config::KubeconfigError::Parse(why) => {
            KubeconfigError::Invalid { path, message: why.without_snippet().to_string() }
        }
        source => KubeconfigError::Other { files: path.display().to_string(), source },
    }
}
