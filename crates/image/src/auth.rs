//! Registry credentials: the auth files of docker and podman, and credential helpers.

mod file;
mod helper;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use file::AuthEntry;
pub use file::{AuthFile, AuthFileError};

use crate::{Environment, Error, ErrorKind};

/// Maximum size of an auth file.
const FILE_LIMIT: u64 = 4 << 20;

/// How long a helper's answer is cached. Some secrets are valid for hours only.
const ANSWER_TTL: Duration = Duration::from_secs(10 * 60);

/// How long a helper's failure is cached.
const FAILURE_TTL: Duration = Duration::from_secs(30);

/// Credentials for a registry. `Debug` never prints the secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A user name and a password.
    Password { user: String, password: String },
    /// An identity token, to be exchanged for access tokens.
    IdentityToken(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::Password { .. } => "Password(..)",
            Credentials::IdentityToken(_) => "IdentityToken(..)",
        })
    }
}

/// Credentials and their source.
#[derive(Debug, Clone)]
pub(crate) struct FoundCredentials {
    pub(crate) credentials: Credentials,
    pub(crate) file: PathBuf,
    /// The key of the entry in the file.
    pub(crate) key: String,
    /// The credential helper, if the file names one.
    pub(crate) helper: Option<String>,
}

/// The auth file at a path, if it exists.
type MaybeFile = Result<Option<Arc<AuthFile>>, Error>;

/// Identifies one state of a file: a different stamp means that the file changed.
type Stamp = (u64, u64, i64, i64);

/// The cached answer of a credential helper and its expiry.
type CachedAnswer = (Instant, Result<Option<Credentials>, Error>);

/// Looks up credentials.
pub(crate) struct Auth {
    environment: Environment,
    /// Timeout for a credential helper.
    helper_timeout: Duration,
    files: Mutex<HashMap<PathBuf, (Stamp, Arc<AuthFile>)>>,
    helpers: Mutex<HashMap<(String, String), CachedAnswer>>,
    /// Errors of the global credential store (`credsStore`), by registry.
    store_failures: Mutex<HashMap<String, Error>>,
}

impl Auth {
    pub(crate) fn new(environment: Environment, helper_timeout: Duration) -> Auth {
        let (files, helpers, store_failures) = (Mutex::default(), Mutex::default(), Mutex::default());
        Auth { environment, helper_timeout, files, helpers, store_failures }
    }

    /// Returns the auth files to search, in order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let environment = &self.environment;
        let home = environment.home();
        let docker = environment.dir("DOCKER_CONFIG").or_else(|| home.as_ref().map(|home| home.join(".docker")));
        let docker = docker.map(|dir| dir.join("config.json"));
        let first = environment.dir("REGISTRY_AUTH_FILE").or_else(|| docker.clone());
        let runtime = environment.session_auth_file();
        let config = environment.config_home().map(|config| config.join("containers/auth.json"));
        let old = home.map(|home| home.join(".dockercfg"));
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in first.into_iter().chain([runtime]).chain(config).chain(docker).chain(old) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// Finds the credentials for a repository. May run a credential helper and wait for it.
    ///
    /// # Errors
    /// Fails when an auth file or the output of a helper is invalid.
    pub(crate) fn find(&self, host: &str, repository: &str) -> Result<Option<FoundCredentials>, Error> {
        for path in self.paths() {
            let Some(file) = self.file(&path)? else { continue };
            for (key, entry) in file.matches(host, repository) {
                let found = match entry {
                    AuthEntry::Credentials(credentials) => Some((credentials, None)),
                    AuthEntry::Helper { name, server } => self
                        .ask_helper(&name, &server)
                        .map_err(|error| error.context(path.display()))?
                        .map(|credentials| (credentials, Some(name))),
                    AuthEntry::Store { name, server } => match self.ask_helper(&name, &server) {
                        Ok(credentials) => credentials.map(|credentials| (credentials, Some(name))),
                        // Most images need no credentials: as in docker, this error matters only if the registry
                        // rejects the request.
                        Err(error) => {
                            let mut failures = self.store_failures.lock().unwrap_or_else(PoisonError::into_inner);
                            failures.insert(host.to_owned(), error.context(path.display()));
                            None
                        }
                    },
                };
                if let Some((credentials, helper)) = found {
                    return Ok(Some(FoundCredentials { credentials, file: path, key: key.to_owned(), helper }));
                }
            }
        }
        Ok(None)
    }

    fn file(&self, path: &Path) -> MaybeFile {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // The user may log in again while this process runs, so a changed file is read again; failures are not
        // cached.
        let about = path.metadata().ok();
        let stamp = about.map(|about| (about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
        if let (Some(stamp), Some((known, file))) = (stamp, files.get(path))
            && *known == stamp
        {
            return Ok(Some(Arc::clone(file)));
        }
        let file = read(path)?;
        if let (Some(stamp), Some(file)) = (stamp, &file) {
            files.insert(path.to_owned(), (stamp, Arc::clone(file)));
        }
        Ok(file)
    }

    /// Returns the error of the global credential store for a registry, if it failed.
    pub(crate) fn store_failure(&self, host: &str) -> Option<Error> {
        self.store_failures.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }

    fn ask_helper(&self, helper: &str, server: &str) -> Result<Option<Credentials>, Error> {
        let key = (helper.to_owned(), server.to_owned());
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, known)) = helpers.get(&key)
            && *until > Instant::now()
        {
            return known.clone();
        }
        let outcome = helper::ask(&self.environment, helper, server, self.helper_timeout);
        let life = if outcome.is_ok() { ANSWER_TTL } else { FAILURE_TTL };
        helpers.insert(key, (Instant::now() + life, outcome.clone()));
        outcome
    }
}

fn read(path: &Path) -> MaybeFile {
    let to_error = |error: io::Error| Error::file(path.display(), &error);
    let mut content = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_LIMIT + 1).read_to_end(&mut content).map_err(to_error)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        // The file belongs to another user: skip it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(to_error(error)),
    };
    if content.len() as u64 > FILE_LIMIT {
        return Err(Error::new(ErrorKind::Limit, format!("{}: larger than {FILE_LIMIT} bytes", path.display())));
    }
    let old_form = path.file_name().is_some_and(|name| name == ".dockercfg");
    let file = AuthFile::parse(&content, old_form)
        .map_err(|error| Error::new(ErrorKind::File, format!("{}: {error}", path.display())))?;
    Ok(Some(Arc::new(file)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Home {
        dir: tempfile::TempDir,
    }

    impl Home {
        fn new(files: &[(&str, &str)]) -> Home {
            let dir = tempfile::tempdir().unwrap();
            for (path, user) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let auth = base64_simd::STANDARD.encode_to_string(format!("{user}:secret"));
                let entries = format!(r#"{{"reg.test": {{"auth": "{auth}"}}}}"#);
                let old = path.ends_with(".dockercfg");
                fs::write(path, if old { entries } else { format!(r#"{{"auths": {entries}}}"#) }).unwrap();
            }
            Home { dir }
        }

        fn user(&self, variables: &[(&str, &str)]) -> Option<String> {
            let root = self.dir.path().to_str().unwrap();
            let mut all = vec![("HOME".to_owned(), root.to_owned())];
            all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), format!("{root}/{value}"))));
            let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let auth = Auth::new(Environment::isolated(Path::new("/nonexistent"), &all), Duration::from_secs(30));
            match auth.find("reg.test", "a/b").unwrap()?.credentials {
                Credentials::Password { user, .. } => Some(user),
                Credentials::IdentityToken(_) => None,
            }
        }
    }

    #[test]
    fn files_are_searched_in_order() {
        let home = Home::new(&[
            ("auth.json", "named"),
            ("docker/config.json", "docker"),
            (".docker/config.json", "home"),
            ("run/containers/auth.json", "runtime"),
            (".config/containers/auth.json", "config"),
            ("xdg/containers/auth.json", "xdg"),
            (".dockercfg", "old"),
        ]);
        let named = ("REGISTRY_AUTH_FILE", "auth.json");
        let docker = ("DOCKER_CONFIG", "docker");
        let runtime = ("XDG_RUNTIME_DIR", "run");
        let empty = ("DOCKER_CONFIG", "nothing");
        assert_eq!(home.user(&[named, docker, runtime]).as_deref(), Some("named"));
        assert_eq!(home.user(&[docker, runtime]).as_deref(), Some("docker"));
        assert_eq!(home.user(&[runtime]).as_deref(), Some("home"));
        assert_eq!(home.user(&[empty, runtime]).as_deref(), Some("runtime"));
        assert_eq!(home.user(&[empty]).as_deref(), Some("config"));
        assert_eq!(home.user(&[empty, ("XDG_CONFIG_HOME", "xdg")]).as_deref(), Some("xdg"));
        assert_eq!(home.user(&[empty, ("XDG_CONFIG_HOME", "none")]).as_deref(), Some("old"));
        assert_eq!(Home::new(&[]).user(&[]), None);
    }

    #[test]
    fn a_file_without_the_registry_is_skipped() {
        let home = Home::new(&[("auth.json", "named"), (".docker/config.json", "home")]);
        fs::write(home.dir.path().join("auth.json"), r#"{"auths": {"other.test": {"auth": "YTpi"}}}"#).unwrap();
        assert_eq!(home.user(&[("REGISTRY_AUTH_FILE", "auth.json")]).as_deref(), Some("home"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials::Password { user: "me".into(), password: "hidden".into() };
        assert!(!format!("{credentials:?}").contains("hidden"));
    }
}
