//! `policy.json`: which images may be used at all. Without such a file, all may.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::client::INSECURE_POLICY;
use crate::{Environment, Error, ErrorKind, Location, Reference};

/// What the file says.
#[derive(Debug, Deserialize)]
pub(crate) struct Policy {
    default: Vec<Requirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
    #[serde(skip)]
    file: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Requirement {
    #[serde(rename = "type")]
    kind: String,
}

impl Policy {
    /// Reads the user's file, or else the system's.
    pub(crate) fn load(environment: &Environment) -> Result<Option<Policy>, Error> {
        let user = environment.config_home().map(|config| config.join("containers/policy.json"));
        let system = environment.etc().join("containers/policy.json");
        for path in user.into_iter().chain([system]) {
            match fs::read(&path) {
                Ok(content) => return Policy::parse(&path, &content).map(Some),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Error::file(path.display(), &error)),
            }
        }
        Ok(None)
    }

    fn parse(path: &Path, content: &[u8]) -> Result<Policy, Error> {
        let wrong =
            |error: String| Error::new(ErrorKind::File, format!("invalid policy in {}: {error}", path.display()));
        let policy: Policy = serde_json::from_slice(content).map_err(|error| wrong(error.to_string()))?;
        if policy.default.is_empty() {
            return Err(wrong("default has no requirements".into()));
        }
        Ok(Policy { file: path.to_owned(), ..policy })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Checks that an image may be used.
    ///
    /// # Errors
    /// Fails when the policy refuses it, or wants signatures, which are not checked here.
    pub(crate) fn check(&self, location: &Location) -> Result<(), Error> {
        let (transport, scopes) = scopes(location);
        let rules = self.transports.get(transport);
        let found = rules.and_then(|rules| scopes.iter().find_map(|scope| rules.get(scope)));
        for requirement in found.unwrap_or(&self.default) {
            match requirement.kind.as_str() {
                "insecureAcceptAnything" => {}
                "reject" => {
                    let text = format!("{} is rejected by policy", shown(location));
                    return Err(
                        Error::new(ErrorKind::Forbidden, text).hint(format!("the policy is {}", self.file.display()))
                    );
                }
                other => {
                    let text =
                        format!("policy wants {} to be {other}, and signatures are not checked here", shown(location));
                    let hint = format!("the policy is {}; {INSECURE_POLICY}=true goes without", self.file.display());
                    return Err(Error::new(ErrorKind::Forbidden, text).hint(hint));
                }
            }
        }
        Ok(())
    }
}

fn shown(location: &Location) -> String {
    match location {
        Location::Registry(reference) => format!("docker://{reference}"),
        other => other.to_string(),
    }
}

/// Returns what an image is called in a policy, the narrowest first.
fn scopes(location: &Location) -> (&'static str, Vec<String>) {
    match location {
        Location::Registry(reference) => ("docker", registry_scopes(reference)),
        Location::Layout { path, .. } => ("oci", file_scopes(path)),
        Location::LayoutArchive { path, .. } => ("oci-archive", file_scopes(path)),
        // This one has no scopes but the empty one.
        Location::DockerArchive { .. } => ("docker-archive", vec![String::new()]),
    }
}

fn registry_scopes(reference: &Reference) -> Vec<String> {
    let name = reference.name();
    let mut scopes = vec![match (reference.digest(), reference.tag()) {
        (Some(digest), _) => format!("{name}@{digest}"),
        (None, tag) => format!("{name}:{}", tag.unwrap_or("latest")),
    }];
    let mut part = name.as_str();
    scopes.push(part.to_owned());
    while let Some(slash) = part.rfind('/') {
        part = &part[..slash];
        scopes.push(part.to_owned());
    }
    let mut host = reference.host();
    while let Some(dot) = host.find('.') {
        host = &host[dot + 1..];
        scopes.push(format!("*.{host}"));
    }
    scopes.push(String::new());
    scopes
}

fn file_scopes(path: &Path) -> Vec<String> {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    full.ancestors().map(|path| path.display().to_string()).chain([String::new()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(policy: &str, location: &str) -> Result<(), String> {
        let policy = Policy::parse(Path::new("policy.json"), policy.as_bytes()).map_err(|error| error.to_string())?;
        policy.check(&Location::parse(location).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_narrowest_scope_counts() {
        let policy = r#"{"default": [{"type": "reject"}], "transports": {"docker": {
            "a.test": [{"type": "insecureAcceptAnything"}], "a.test/bad": [{"type": "reject"}],
            "*.b.test": [{"type": "insecureAcceptAnything"}]}, "oci": {"": [{"type": "insecureAcceptAnything"}]}}}"#;
        for (location, good) in [
            ("a.test/x:v1", true),
            ("a.test/bad/x:v1", false),
            ("c.b.test/x:v1", true),
            ("b.test/x:v1", false),
            ("other.test/x:v1", false),
            ("oci:dir:v1", true),
            ("docker-archive:file", false),
        ] {
            assert_eq!(outcome(policy, location).is_ok(), good, "{location}");
        }
        assert_eq!(outcome(policy, "other.test/x:v1").unwrap_err(), "docker://other.test/x:v1 is rejected by policy");
    }

    #[test]
    fn signatures_that_cannot_be_checked_are_not_waved_through() {
        let policy = r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys"}]}"#;
        assert!(outcome(policy, "a.test/x:v1").unwrap_err().contains("signedBy"));
    }

    #[test]
    fn a_broken_policy_is_no_policy() {
        for policy in ["", "{}", r#"{"default": []}"#, r#"{"default": [{}]}"#] {
            assert!(outcome(policy, "a.test/x:v1").unwrap_err().starts_with("invalid policy in"), "{policy}");
        }
    }
}
