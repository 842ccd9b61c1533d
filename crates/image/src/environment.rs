//! What the surroundings say: variables, the home directory, the directory of the system's settings.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What registries, credentials and certificates are looked up with.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    user: u32,
    etc: PathBuf,
}

impl Environment {
    /// Returns the surroundings of this process.
    pub fn current() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let user = std::fs::metadata("/proc/self").map(|about| about.uid()).unwrap_or_default();
        Environment { variables: std::env::vars_os().filter_map(text).collect(), user, etc: "/etc".into() }
    }

    /// Returns surroundings that are made up: `etc` in place of `/etc`, and only these variables.
    pub fn made_up(etc: &Path, variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { variables, user: 0, etc: etc.into() }
    }

    /// Returns the same surroundings with another value of a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Environment {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns a variable, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a directory that a variable names.
    pub(crate) fn dir(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.dir("HOME")
    }

    /// Returns where a user's own settings are.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.dir("XDG_CONFIG_HOME").or_else(|| self.home().map(|home| home.join(".config")))
    }

    /// Returns where podman keeps the credentials of a session.
    pub(crate) fn session_auth_file(&self) -> PathBuf {
        match self.dir("XDG_RUNTIME_DIR") {
            Some(dir) => dir.join("containers/auth.json"),
            None => format!("/run/containers/{}/auth.json", self.user).into(),
        }
    }

    /// Returns where signatures are if nothing says where.
    #[cfg(feature = "signatures")]
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
