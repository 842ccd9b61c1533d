//! `registries.d`: the locations of image signatures.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

use crate::policy::registry_scopes;
use crate::{Environment, Error, ErrorKind, Reference};

/// Maximum size of a file.
const FILE_LIMIT: u64 = 1 << 20;
/// Limits of a file after alias expansion.
const YAML_LIMITS: fbc::yaml::YamlLimits = fbc::yaml::YamlLimits { depth: 32, nodes: 1 << 20, bytes: 16 << 20 };

/// The merged configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegistriesD {
    default: Option<Namespace>,
    docker: BTreeMap<String, Namespace>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RegistriesYaml {
    #[serde(rename = "default-docker")]
    default_docker: Option<Namespace>,
    docker: Option<BTreeMap<String, Option<Namespace>>>,
}

/// The settings of a registry, a namespace, a repository or an image.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Namespace {
    lookaside: Option<String>,
    /// The former name of `lookaside`.
    sigstore: Option<String>,
    use_sigstore_attachments: Option<bool>,
}

impl RegistriesD {
    /// Reads the user's directory, or else the system's.
    pub(crate) fn load(environment: &Environment) -> Result<RegistriesD, Error> {
        let user = environment.config_home().map(|config| config.join("containers/registries.d"));
        let system = environment.etc().join("containers/registries.d");
        let directory = user.filter(|directory| directory.is_dir()).unwrap_or(system);
        let to_error = |error: &io::Error| Error::file(directory.display(), error);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RegistriesD::default()),
            Err(error) => return Err(to_error(&error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| to_error(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
        files.sort();
        let mut all = RegistriesD::default();
        for path in files {
            all.add(&path, &read(&path).map_err(|error| Error::file(path.display(), &error))?)?;
        }
        Ok(all)
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let to_error = |text: String| Error::new(ErrorKind::File, format!("{}: {text}", path.display()));
        if let Some((key, _)) = fbc::yaml::repeated_key(text.as_bytes()) {
            return Err(to_error(format!("{key} is defined twice")));
        }
        let mut json = Vec::new();
        fbc::yaml::to_json(text.as_bytes(), &YAML_LIMITS, &mut json).map_err(|error| to_error(error.to_string()))?;
        // A file with only comments is null.
        let content: Option<RegistriesYaml> =
            serde_json::from_slice(&json).map_err(|error| to_error(error.to_string()))?;
        let content = content.unwrap_or_default();
        if let Some(default) = content.default_docker
            && self.default.replace(default).is_some()
        {
            return Err(to_error("default-docker is already defined in another file".into()));
        }
        for (scope, namespace) in content.docker.unwrap_or_default() {
            if self.docker.insert(scope.clone(), namespace.unwrap_or_default()).is_some() {
                return Err(to_error(format!("docker {scope:?} is already defined in another file")));
            }
        }
        Ok(())
    }

    /// Returns the setting of the narrowest scope that has one.
    fn find<T>(&self, reference: &Reference, get: impl Fn(&Namespace) -> Option<T>) -> Option<T> {
        let scopes = registry_scopes(reference);
        let mut own = scopes.iter().filter_map(|scope| self.docker.get(scope));
        own.find_map(&get).or_else(|| self.default.as_ref().and_then(&get))
    }

    /// Returns the URL of the signature storage.
    pub(crate) fn lookaside(&self, reference: &Reference, environment: &Environment) -> String {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let found = self.find(reference, |it| filled(&it.lookaside).or_else(|| filled(&it.sigstore)));
        found.unwrap_or_else(|| format!("file://{}", environment.signature_storage().display()))
    }

    /// Returns whether signatures are stored as attachments in the repository of the image.
    pub(crate) fn use_attachments(&self, reference: &Reference) -> bool {
        self.find(reference, |it| it.use_sigstore_attachments).unwrap_or(false)
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_LIMIT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {FILE_LIMIT} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_scope_with_settings_applies() {
        let mut all = RegistriesD::default();
        let first = "default-docker:\n  sigstore: https://all.test\ndocker:\n  a.test:\n    lookaside: file:///a\n    \
                     use-sigstore-attachments: true\n  a.test/x:\n    use-sigstore-attachments: false\n    other: 1\n  \"*.b.test\":\n    sigstore: https://b.test\n";
        all.add(Path::new("1.yaml"), first).unwrap();
        all.add(Path::new("2.yaml"), "# nothing\n").unwrap();
        all.add(Path::new("3.yaml"), "default-docker:\ndocker:\n").unwrap();
        let environment = Environment::isolated(Path::new("/x/etc"), &[]);
        for (name, lookaside, attachments) in [
            ("a.test/y:v1", "file:///a", true),
            ("a.test/x:v1", "file:///a", false),
            ("c.b.test/x:v1", "https://b.test", false),
            ("other.test/x:v1", "https://all.test", false),
        ] {
            let reference = name.parse().unwrap();
            assert_eq!(all.lookaside(&reference, &environment), lookaside, "{name}");
            assert_eq!(all.use_attachments(&reference), attachments, "{name}");
        }
        let none = RegistriesD::default().lookaside(&"a.test/x:v1".parse().unwrap(), &environment);
        assert_eq!(none, "file:///x/var/lib/containers/sigstore");
        for (text, expected) in [
            ("docker:\n  a.test:\n    lookaside: file:///b\n", "is already defined in another file"),
            ("default-docker:\n  lookaside: file:///b\n", "is already defined in another file"),
            ("docker: [", "4.yaml: "),
            ("docker: {}\ndocker: {}\n", "4.yaml: "),
            ("docker: a\n", "4.yaml: "),
        ] {
            let error = all.clone().add(Path::new("4.yaml"), text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
