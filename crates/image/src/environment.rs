//! The process environment: variables, the home directory and the system's configuration directory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The settings that registries, credentials and certificates are looked up in.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    user: u32,
    etc: PathBuf,
}

impl Environment {
    /// Returns the environment of this process.
    pub fn current() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let user = std::fs::metadata("/proc/self").map(|about| about.uid()).unwrap_or_default();
        Environment { variables: std::env::vars_os().filter_map(text).collect(), user, etc: "/etc".into() }
    }

    /// Returns an environment with only these variables and `etc` in place of `/etc`.
    pub fn isolated(etc: &Path, variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { variables, user: 0, etc: etc.into() }
    }

    /// Returns the environment with one variable changed.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Environment {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns a variable; empty counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the directory that a variable names.
    pub(crate) fn dir(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.dir("HOME")
    }

    /// Returns the user's configuration directory.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.dir("XDG_CONFIG_HOME").or_else(|| self.home().map(|home| home.join(".config")))
    }

    /// Returns podman's auth file for the login session.
    pub(crate) fn session_auth_file(&self) -> PathBuf {
        match self.dir("XDG_RUNTIME_DIR") {
            Some(dir) => dir.join("containers/auth.json"),
            None => format!("/run/containers/{}/auth.json", self.user).into(),
        }
    }

    /// Returns the default signature storage.
    pub(crate) fn signature_storage(&self) -> PathBuf {
        let home = self.home().filter(|_| self.user != 0);
        match home {
            Some(home) => home.join(".local/share/containers/sigstore"),
            None => self.etc.parent().unwrap_or(&self.etc).join("var/lib/containers/sigstore"),
        }
    }

    pub(crate) fn etc(&self) -> &Path {
        &self.etc
    }
}
