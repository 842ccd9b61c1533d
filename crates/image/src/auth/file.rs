//! Parses auth files.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Credentials;

/// An entry of an auth file for a registry or a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthEntry {
    Credentials(Credentials),
    /// A credential helper to run, `docker-credential-<name>`, and the server to ask it for.
    Helper {
        name: String,
        server: String,
    },
    /// The global credential store (`credsStore`), likewise. Many files name one that is not installed.
    Store {
        name: String,
        server: String,
    },
}

/// An auth file of docker or podman.
#[derive(Debug, Default)]
pub struct AuthFile {
    helpers: BTreeMap<String, String>,
    /// The global credential store: the helper for all registries without their own.
    store: Option<String>,
    auths: BTreeMap<String, Credentials>,
}

#[derive(Deserialize)]
struct AuthJson {
    #[serde(default)]
    auths: Option<BTreeMap<String, RawEntry>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default, rename = "identitytoken")]
    identity_token: Option<String>,
}

/// Why a text is not an auth file. Messages of the parser may quote the file, which is full of secrets; the position
/// is enough.
#[derive(Debug, thiserror::Error)]
#[error("not an auth file: invalid JSON at line {line} column {column}")]
pub struct AuthFileError {
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for AuthFileError {
    fn from(error: serde_json::Error) -> AuthFileError {
        AuthFileError { line: error.line(), column: error.column() }
    }
}

impl AuthFile {
    /// Parses a file: `config.json`, `auth.json`, or `.dockercfg` in its old form.
    ///
    /// # Errors
    /// Fails when the content is not JSON of that form.
    pub fn parse(content: &[u8], old_form: bool) -> Result<AuthFile, AuthFileError> {
        if content.iter().all(u8::is_ascii_whitespace) {
            return Ok(AuthFile::default());
        }
        let content = if old_form {
            AuthJson { auths: Some(serde_json::from_slice(content)?), helpers: None, store: None }
        } else {
            serde_json::from_slice(content)?
        };
        let entries = content.auths.unwrap_or_default().into_iter();
        let auths = entries.filter_map(|(key, entry)| Some((key, entry.credentials()?))).collect();
        let store = content.store.filter(|name| !name.is_empty());
        Ok(AuthFile { helpers: content.helpers.unwrap_or_default(), store, auths })
    }

    /// Returns the keys of matching entries, best match first.
    pub fn keys(&self, host: &str, repository: &str) -> Vec<&str> {
        let entries = self.matches(host, repository).into_iter();
        entries.filter(|(_, entry)| !matches!(entry, AuthEntry::Store { .. })).map(|(key, _)| key).collect()
    }

    /// Returns the matching entries for a repository, best match first.
    pub(crate) fn matches(&self, host: &str, repository: &str) -> Vec<(&str, AuthEntry)> {
        let mut found: Vec<(&str, AuthEntry)> = Vec::new();
        let helper = self
            .helpers
            .get_key_value(host)
            .or_else(|| self.helpers.iter().find(|(key, _)| normalize(key) == normalize(host)));
        // As in docker: the registry's own helper wins over the global one, and an empty helper name disables both.
        match (helper, &self.store) {
            (Some((_, name)), _) if name.is_empty() => {}
            (Some((key, name)), _) => {
                let server = if key.contains("index.docker.io") { HUB_SERVER } else { host };
                found.push((key, AuthEntry::Helper { name: name.clone(), server: server.into() }));
            }
            (None, Some(name)) => {
                let server = if normalize(host) == "docker.io" { HUB_SERVER } else { host };
                found.push(("credsStore", AuthEntry::Store { name: name.clone(), server: server.into() }));
            }
            (None, None) => {}
        }
        let full = format!("{host}/{repository}");
        let mut key = full.as_str();
        loop {
            if let Some((key, credentials)) = self.auths.get_key_value(key) {
                found.push((key, AuthEntry::Credentials(credentials.clone())));
            }
            match key.rfind('/') {
                Some(slash) => key = &key[..slash],
                None => break,
            }
        }
        for (key, credentials) in &self.auths {
            // Keys with a path and no scheme name repositories and were matched above.
            let names_a_host = key.contains("://") || !key.trim_end_matches('/').contains('/') || is_hub(key);
            if names_a_host && normalize(key) == normalize(host) && !found.iter().any(|(known, _)| known == key) {
                found.push((key, AuthEntry::Credentials(credentials.clone())));
            }
        }
        found
    }
}

/// The server name that docker passes to helpers for Docker Hub.
const HUB_SERVER: &str = "https://index.docker.io/v1/";

fn is_hub(key: &str) -> bool {
    normalize(key) == "docker.io" && key.contains("/v1")
}

impl RawEntry {
    fn credentials(self) -> Option<Credentials> {
        if let Some(token) = self.identity_token.filter(|token| !token.is_empty()) {
            return Some(Credentials::IdentityToken(token));
        }
        let pair = match self.auth.filter(|auth| !auth.trim().is_empty()) {
            Some(auth) => {
                let decoded = base64_simd::STANDARD.decode_to_vec(auth.trim().as_bytes()).ok()?;
                let text = String::from_utf8(decoded).ok()?;
                let (user, password) = text.split_once(':')?;
                (user.to_owned(), password.trim_matches('\0').to_owned())
            }
            None => (self.username?, self.password?),
        };
        let (user, password) = pair;
        if user.is_empty() && password.is_empty() {
            return None;
        }
        Some(if user == "<token>" {
            Credentials::IdentityToken(password)
        } else {
            Credentials::Password { user, password }
        })
    }
}

/// Returns the registry that a key names: without scheme and path, and with one name for Docker Hub.
fn normalize(key: &str) -> &str {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let host = rest.split('/').next().unwrap_or(rest);
    match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(content: &str, host: &str, repository: &str) -> Vec<String> {
        let file = AuthFile::parse(content.as_bytes(), false).unwrap();
        file.keys(host, repository).into_iter().map(Into::into).collect()
    }

    #[test]
    fn the_longest_key_is_first() {
        let entry = r#"{"auth": "YTpi"}"#;
        let content = format!(
            r#"{{"auths": {{"reg.test": {entry}, "reg.test/a": {entry}, "reg.test/a/b": {entry}, "reg.test/x": {entry},
                 "https://reg.test/v1/": {entry}, "other.test": {entry}}}, "credHelpers": {{"reg.test": "kit"}}}}"#
        );
        assert_eq!(
            keys(&content, "reg.test", "a/b"),
            ["reg.test", "reg.test/a/b", "reg.test/a", "reg.test", "https://reg.test/v1/"]
        );
        assert_eq!(keys(&content, "reg.test:5000", "a/b"), Vec::<String>::new());
    }

    #[test]
    fn the_docker_hub_has_many_names() {
        for key in ["docker.io", "index.docker.io", "https://index.docker.io/v1/", "registry-1.docker.io"] {
            let content = format!(r#"{{"auths": {{"{key}": {{"auth": "YTpi"}}}}}}"#);
            assert_eq!(keys(&content, "docker.io", "library/a"), [key]);
        }
    }

    #[test]
    fn entries_without_credentials_are_ignored() {
        for entry in [r#"{}"#, r#"{"auth": ""}"#, r#"{"auth": "YWI="}"#, r#"{"auth": "%%"}"#, r#"{"auth": "Og=="}"#] {
            assert!(keys(&format!(r#"{{"auths": {{"reg.test": {entry}}}}}"#), "reg.test", "a").is_empty(), "{entry}");
        }
    }

    #[test]
    fn other_encodings_of_credentials_are_parsed() {
        for (entry, token) in [
            (r#"{"username": "a", "password": "b"}"#, false),
            (r#"{"auth": "YTpi", "identitytoken": "t"}"#, true),
            (r#"{"username": "<token>", "password": "b"}"#, true),
        ] {
            let content = format!(r#"{{"auths": {{"reg.test": {entry}}}}}"#);
            let file = AuthFile::parse(content.as_bytes(), false).unwrap();
            let matches = file.matches("reg.test", "a");
            let is_token = matches!(matches[0].1, AuthEntry::Credentials(Credentials::IdentityToken(_)));
            assert_eq!(is_token, token, "{entry}");
        }
    }

    #[test]
    fn the_helper_of_a_registry_takes_precedence() {
        let content = r#"{"credsStore": "all", "credHelpers": {"reg.test": "one", "none.test": "",
            "https://index.docker.io/v1/": "hub"}, "auths": {"reg.test": {}, "other.test": {}}}"#;
        let found = |content: &str, host: &str| {
            let file = AuthFile::parse(content.as_bytes(), false).unwrap();
            file.matches(host, "a").into_iter().next().map(|(_, entry)| entry)
        };
        let of = |name: &str, server: &str| (name.to_owned(), server.to_owned());
        let (name, server) = of("one", "reg.test");
        assert_eq!(found(content, "reg.test"), Some(AuthEntry::Helper { name, server }));
        let (name, server) = of("all", "other.test");
        assert_eq!(found(content, "other.test"), Some(AuthEntry::Store { name, server }));
        assert_eq!(found(content, "none.test"), None);
        let (name, server) = of("hub", HUB_SERVER);
        assert_eq!(found(content, "docker.io"), Some(AuthEntry::Helper { name, server }));
        let (name, server) = of("all", HUB_SERVER);
        assert_eq!(found(r#"{"credsStore": "all"}"#, "docker.io"), Some(AuthEntry::Store { name, server }));
        assert_eq!(found(r#"{"credsStore": ""}"#, "docker.io"), None);
    }

    #[test]
    fn messages_do_not_quote_the_file() {
        let message = AuthFile::parse(br#"{"auths": {"reg.test": "hidden"}}"#, false).unwrap_err().to_string();
        assert!(!message.contains("hidden"), "{message}");
    }
}
