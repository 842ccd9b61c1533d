//! `registries.conf`: mirrors, rewritten locations, blocked or insecure registries, and short names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::registry::RegistrySource;
use crate::{Environment, Error, ErrorKind, Reference};

/// Maximum size of a file.
const FILE_LIMIT: u64 = 4 << 20;

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesConfError {
    /// It is not TOML, or a value has the wrong type.
    #[error("{}", one_line(.0))]
    Toml(#[from] toml::de::Error),
    /// The location of a registry or a mirror has a scheme.
    #[error("invalid location {0:?}: expected host[/path] without a scheme")]
    Location(String),
    /// A registry has neither prefix nor location.
    #[error("a registry needs a prefix or a location")]
    Unnamed,
    /// A wildcard does not stand for a subdomain.
    #[error("invalid prefix {0:?}: expected *. in front of a domain")]
    Prefix(String),
    /// A mirror of this prefix has no location.
    #[error("a mirror of {0} has no location")]
    Mirror(String),
}

fn one_line(error: &toml::de::Error) -> String {
    error.to_string().trim_end().replace('\n', " ")
}

/// The merged configuration.
#[derive(Debug, Clone, Default)]
pub struct RegistriesConf {
    registries: Vec<Rule>,
    search: Vec<String>,
    aliases: BTreeMap<String, String>,
    files: Vec<PathBuf>,
}

/// A rule for all references with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    digest_only: bool,
    mirrors: Vec<Mirror>,
    file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    pull: Pull,
}

/// Which references a mirror serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum Pull {
    #[default]
    #[serde(rename = "all")]
    All,
    #[serde(rename = "digest-only")]
    DigestOnly,
    #[serde(rename = "tag-only")]
    TagOnly,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegistriesToml {
    #[serde(default)]
    unqualified_search_registries: Option<Vec<String>>,
    #[serde(default)]
    registry: Vec<RawRule>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    /// The format of version 1.
    #[serde(default)]
    registries: Option<First>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawRule {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<RawMirror>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawMirror {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: Option<Pull>,
}

#[derive(Debug, Default, Deserialize)]
struct First {
    #[serde(default)]
    search: List,
    #[serde(default)]
    insecure: List,
    #[serde(default)]
    block: List,
}

#[derive(Debug, Default, Deserialize)]
struct List {
    #[serde(default)]
    registries: Vec<String>,
}

/// A source to try for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) source: RegistrySource,
    pub(crate) mirror: bool,
}

impl RegistriesConf {
    /// Reads the user's file or else the system's, then the drop-ins of both; or only the file that
    /// CONTAINERS_REGISTRIES_CONF names.
    ///
    /// # Errors
    /// Fails when a file cannot be read or parsed.
    pub(crate) fn load(environment: &Environment) -> Result<RegistriesConf, Error> {
        let mut conf = RegistriesConf::default();
        if let Some(path) = environment.dir("CONTAINERS_REGISTRIES_CONF").or(environment.dir("REGISTRIES_CONFIG_PATH"))
        {
            conf.add_file(&path)?;
            return Ok(conf);
        }
        let system = environment.etc().join("containers");
        let user = environment.config_home().map(|config| config.join("containers"));
        let main = user.iter().chain([&system]).map(|dir| dir.join("registries.conf")).find(|path| path.exists());
        if let Some(path) = main {
            conf.add_file(&path)?;
        }
        for dir in [&system].into_iter().chain(&user).map(|dir| dir.join("registries.conf.d")) {
            let Ok(entries) = fs::read_dir(dir) else { continue };
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
            paths.sort();
            for path in paths {
                conf.add_file(&path)?;
            }
        }
        Ok(conf)
    }

    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let read = || {
            let text = fs::read(path)?;
            if text.len() as u64 > FILE_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {FILE_LIMIT} bytes")));
            }
            String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        };
        let text = read().map_err(|error| Error::file(path.display(), &error))?;
        self.add(path, &text).map_err(|text| Error::new(ErrorKind::File, format!("{}: {text}", path.display())))
    }

    /// Merges a file, which overrides earlier ones.
    ///
    /// # Errors
    /// Fails when the text is invalid.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), RegistriesConfError> {
        let content: RegistriesToml = toml::from_str(text)?;
        for raw in content.registry {
            let rule = raw.check(path)?;
            self.replace(rule);
        }
        if let Some(first) = content.registries {
            for (list, insecure, blocked) in [(first.insecure, true, false), (first.block, false, true)] {
                for location in list.registries {
                    let location = location.trim_end_matches('/').to_owned();
                    let known = self.registries.iter_mut().find(|rule| rule.prefix == location);
                    match known {
                        Some(rule) => {
                            rule.insecure |= insecure;
                            rule.blocked |= blocked;
                        }
                        None => self.replace(Rule {
                            prefix: location.clone(),
                            location,
                            insecure,
                            blocked,
                            digest_only: false,
                            mirrors: Vec::new(),
                            file: path.to_owned(),
                        }),
                    }
                }
            }
            if !first.search.registries.is_empty() {
                self.search = first.search.registries;
            }
        }
        if let Some(search) = content.unqualified_search_registries {
            self.search = search;
        }
        for (name, target) in content.aliases {
            // An empty value removes an earlier alias.
            if target.is_empty() {
                self.aliases.remove(&name);
            } else {
                self.aliases.insert(name, target);
            }
        }
        self.files.push(path.to_owned());
        Ok(())
    }

    fn replace(&mut self, rule: Rule) {
        self.registries.retain(|known| known.prefix != rule.prefix);
        self.registries.push(rule);
    }

    /// Returns the files that were read.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Finds the rule with the longest prefix, and the length of its match.
    fn rule_for(&self, text: &str) -> Option<(&Rule, usize)> {
        let fitting = self.registries.iter().filter_map(|rule| Some((rule, covers(&rule.prefix, text)?)));
        fitting.max_by_key(|(rule, _)| rule.prefix.len())
    }

    /// Returns the file with the rule for a reference.
    pub(crate) fn file_for(&self, reference: &Reference) -> Option<&Path> {
        self.rule_for(&plain(reference)).map(|(rule, _)| rule.file.as_path())
    }

    /// Returns the references to try for an image, in order.
    ///
    /// # Errors
    /// Fails when the registry is blocked or a rule gives an invalid reference.
    pub fn places(&self, reference: &Reference) -> Result<Vec<Reference>, Error> {
        Ok(self.candidates(reference)?.into_iter().map(|candidate| candidate.source.reference).collect())
    }

    /// Returns the sources to try for an image, in order.
    ///
    /// # Errors
    /// Fails when the registry is blocked or a rule gives an invalid reference.
    pub(crate) fn candidates(&self, reference: &Reference) -> Result<Vec<Candidate>, Error> {
        let text = plain(reference);
        let Some((rule, covered)) = self.rule_for(&text) else {
            return Ok(vec![Candidate { source: RegistrySource::new(reference.clone()), mirror: false }]);
        };
        if rule.blocked {
            let text = format!("registry {} is blocked in {}", rule.prefix, rule.file.display());
            return Err(Error::new(ErrorKind::Forbidden, text));
        }
        let rest = &text[covered..];
        let moved = |location: &str, insecure: bool| -> Result<RegistrySource, Error> {
            if location.is_empty() {
                return Ok(RegistrySource { reference: reference.clone(), insecure });
            }
            let to_error = |error| {
                let text = format!("{}: {location}{rest} for {reference}: {error}", rule.file.display());
                Error::new(ErrorKind::File, text)
            };
            let reference = Reference::parse_name(&format!("{location}{rest}")).map_err(to_error)?;
            Ok(RegistrySource { reference, insecure })
        };
        let by_digest = reference.digest().is_some();
        let mut candidates = Vec::new();
        for mirror in &rule.mirrors {
            let pull = if rule.digest_only { Pull::DigestOnly } else { mirror.pull };
            let used = match pull {
                Pull::All => true,
                Pull::DigestOnly => by_digest,
                Pull::TagOnly => !by_digest,
            };
            if used {
                candidates.push(Candidate { source: moved(&mirror.location, mirror.insecure)?, mirror: true });
            }
        }
        candidates.push(Candidate { source: moved(&rule.location, rule.insecure)?, mirror: false });
        Ok(candidates)
    }

    /// Expands a name without a registry to its candidates, in order.
    pub(crate) fn full_names(&self, short: &str) -> Vec<String> {
        let end = short.find('@').unwrap_or(short.len());
        let end = short[..end].rfind(':').unwrap_or(end);
        let (name, version) = short.split_at(end);
        if let Some(target) = self.aliases.get(name) {
            return vec![format!("{target}{version}")];
        }
        self.search
            .iter()
            .map(|registry| {
                // Docker Hub keeps names without a namespace in `library/`.
                let library = if registry == "docker.io" && !short.contains('/') { "library/" } else { "" };
                format!("{registry}/{library}{short}")
            })
            .collect()
    }
}

/// Returns a reference in the form that prefixes match.
fn plain(reference: &Reference) -> String {
    let name = reference.name();
    match (reference.digest(), reference.tag()) {
        (Some(digest), _) => format!("{name}@{digest}"),
        (None, Some(tag)) => format!("{name}:{tag}"),
        (None, None) => name,
    }
}

/// Returns the length of the match, if the prefix matches.
fn covers(prefix: &str, text: &str) -> Option<usize> {
    let end = match prefix.strip_prefix('*') {
        // `*.example.com` matches any subdomain.
        Some(suffix) => {
            let at = text.find(suffix).filter(|at| *at > 0)?;
            if text[..at].contains('/') {
                return None;
            }
            at + suffix.len()
        }
        None => text.strip_prefix(prefix).map(|_| prefix.len())?,
    };
    // After a host, a colon starts a port, which makes it another host.
    let fits = match text.as_bytes().get(end) {
        None | Some(b'/' | b'@') => true,
        Some(b':') => text[..end].contains('/'),
        Some(_) => false,
    };
    fits.then_some(end)
}

impl RawRule {
    fn check(self, file: &Path) -> Result<Rule, RegistriesConfError> {
        let tidy = |text: &str| {
            if text.contains("://") {
                return Err(RegistriesConfError::Location(text.to_owned()));
            }
            Ok(text.trim_end_matches('/').to_owned())
        };
        let (prefix, location) = (tidy(&self.prefix)?, tidy(&self.location)?);
        if prefix.is_empty() && location.is_empty() {
            return Err(RegistriesConfError::Unnamed);
        }
        let wild = prefix.starts_with('*');
        if wild && !prefix.starts_with("*.") {
            return Err(RegistriesConfError::Prefix(prefix));
        }
        let prefix = if prefix.is_empty() { location.clone() } else { prefix };
        // A wildcard rule has a location only if it is set.
        let location = if location.is_empty() && !wild { prefix.clone() } else { location };
        let mut mirrors = Vec::new();
        for raw in self.mirror {
            let location = tidy(&raw.location)?;
            if location.is_empty() {
                return Err(RegistriesConfError::Mirror(prefix));
            }
            mirrors.push(Mirror { location, insecure: raw.insecure, pull: raw.pull_from_mirror.unwrap_or_default() });
        }
        Ok(Rule {
            prefix,
            location,
            insecure: self.insecure,
            blocked: self.blocked,
            digest_only: self.mirror_by_digest_only,
            mirrors,
            file: file.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
