//! Who we are to a registry: the auth files of docker and podman, and credential helpers.

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

pub use file::AuthFile;
use file::Entry;

use crate::{Environment, Error, ErrorKind};

/// The largest auth file that is read.
const FILE_LIMIT: u64 = 4 << 20;

/// How long the answer of a program is believed: the secrets of some hold for hours only.
const ANSWER: Duration = Duration::from_secs(10 * 60);

/// How long its failure is.
const FAILURE: Duration = Duration::from_secs(30);

/// What a registry is shown. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A name and a password.
    Password { user: String, password: String },
    /// A token that stands for someone, to be exchanged for others.
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

/// Credentials, and where they come from.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) credentials: Credentials,
    pub(crate) file: PathBuf,
    /// The key in the file.
    pub(crate) key: String,
    /// The program that was asked, if the file names one.
    pub(crate) helper: Option<String>,
}

/// What was found at a path: nothing is fine.
type MaybeFile = Result<Option<Arc<AuthFile>>, Error>;

/// Distinguishes one state of a file from others.
type Stamp = (u64, u64, i64, i64);

/// What a program answered, until when.
type Asked = (Instant, Result<Option<Credentials>, Error>);

/// Finds credentials.
pub(crate) struct Auth {
    environment: Environment,
    /// How long a program may take.
    patience: Duration,
    files: Mutex<HashMap<PathBuf, (Stamp, Arc<AuthFile>)>>,
    helpers: Mutex<HashMap<(String, String), Asked>>,
    /// Why the program for all credentials did not answer, by registry.
    store_failures: Mutex<HashMap<String, Error>>,
}

impl Auth {
    pub(crate) fn new(environment: Environment, patience: Duration) -> Auth {
        let (files, helpers, store_failures) = (Mutex::default(), Mutex::default(), Mutex::default());
        Auth { environment, patience, files, helpers, store_failures }
    }

    /// Returns the files that are searched, in order.
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

    /// Finds the credentials for a repository. It may run a program, and wait for it.
    ///
    /// # Errors
    /// Fails when a file or a helper cannot be understood.
    pub(crate) fn find(&self, host: &str, repository: &str) -> Result<Option<Found>, Error> {
        for path in self.paths() {
            let Some(file) = self.file(&path)? else { continue };
            for (key, entry) in file.matches(host, repository) {
                let found = match entry {
                    Entry::Known(credentials) => Some((credentials, None)),
                    Entry::Helper { name, server } => self
                        .ask(&name, &server)
                        .map_err(|error| error.context(path.display()))?
                        .map(|credentials| (credentials, Some(name))),
                    Entry::Store { name, server } => match self.ask(&name, &server) {
                        Ok(credentials) => credentials.map(|credentials| (credentials, Some(name))),
                        // Most images need no credentials: as with docker, this counts only if a registry refuses.
                        Err(error) => {
                            let mut failures = self.store_failures.lock().unwrap_or_else(PoisonError::into_inner);
                            failures.insert(host.to_owned(), error.context(path.display()));
                            None
                        }
                    },
                };
                if let Some((credentials, helper)) = found {
                    return Ok(Some(Found { credentials, file: path, key: key.to_owned(), helper }));
                }
            }
        }
        Ok(None)
    }

    fn file(&self, path: &Path) -> MaybeFile {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever logs in again while this process runs changes the file; what could not be read is tried again.
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

    /// Returns why the program that keeps all credentials gave none for a registry, if it failed.
    pub(crate) fn store_failure(&self, host: &str) -> Option<Error> {
        self.store_failures.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }

    fn ask(&self, helper: &str, server: &str) -> Result<Option<Credentials>, Error> {
        let key = (helper.to_owned(), server.to_owned());
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, known)) = helpers.get(&key)
            && *until > Instant::now()
        {
            return known.clone();
        }
        let outcome = helper::ask(&self.environment, helper, server, self.patience);
        let life = if outcome.is_ok() { ANSWER } else { FAILURE };
        helpers.insert(key, (Instant::now() + life, outcome.clone()));
        outcome
    }
}

fn read(path: &Path) -> MaybeFile {
    let wrong = |error: io::Error| Error::file(path.display(), &error);
    let mut content = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_LIMIT + 1).read_to_end(&mut content).map_err(wrong)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        // Somebody else's file is nobody's problem.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(wrong(error)),
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
            let auth = Auth::new(Environment::made_up(Path::new("/nonexistent"), &all), Duration::from_secs(30));
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
    fn a_file_without_the_registry_is_passed_over() {
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
