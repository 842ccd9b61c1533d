//! Downloads packages from application registries to directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cluster::Access;
use fbc::json::{Raw, Text};
use fbc::{Limits, stream};
use image::{AppRegistry, Blob, Client, Digest, LayerFile, Repository, UnpackLimits};
use source::Images;

use crate::commands::read_input;
use crate::exit::{Failure, in_path};
use crate::interrupt::Unfinished;
use crate::{runtime, tree};

/// The file that lists the directories created by downloads, one per line.
const CREATED_LIST: &str = ".opm-downloaded";

/// A source of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    base: String,
    namespace: String,
    /// Namespace and name of a secret with a token.
    secret: Option<(String, String)>,
}

/// A requested package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    name: String,
    /// `None` for the default release.
    release: Option<String>,
}

/// Parses `URL|NAMESPACE[|SECRET-NAMESPACE/SECRET]`.
fn source(text: &str) -> Result<Source, String> {
    let parts: Vec<&str> = text.split('|').map(str::trim).collect();
    let (base, namespace, secret) = match parts.as_slice() {
        [base, namespace] => (base, namespace, None),
        [base, namespace, ""] => (base, namespace, None),
        [base, namespace, secret] => match secret.split_once('/') {
            Some((of, name)) if !of.is_empty() && !name.is_empty() && !name.contains('/') => {
                (base, namespace, Some((of.to_owned(), name.to_owned())))
            }
            _ => return Err("expected URL|NAMESPACE|SECRET-NAMESPACE/SECRET: the secret is malformed".into()),
        },
        _ => return Err("expected URL|NAMESPACE or URL|NAMESPACE|SECRET-NAMESPACE/SECRET".into()),
    };
    if namespace.is_empty() || !(base.starts_with("https://") || base.starts_with("http://")) {
        return Err("expected URL|NAMESPACE, with a URL such as https://quay.io/cnr".into());
    }
    Ok(Source { base: (*base).into(), namespace: (*namespace).into(), secret })
}

/// Parses `NAME[:RELEASE]`.
fn wanted(text: &str) -> Result<Wanted, String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (name, release) = match text.split_once(':') {
        Some((name, release)) => (name, Some(release.to_owned()).filter(|release| !release.is_empty())),
        None => (text.as_str(), None),
    };
    if name.is_empty() || release.as_ref().is_some_and(|release| release.contains(':')) {
        return Err("expected NAME or NAME:RELEASE".into());
    }
    Ok(Wanted { name: name.into(), release })
}

/// The packages to download and their sources.
#[derive(clap::Args)]
pub(crate) struct AppRegistryFlags {
    /// Application registry: URL|NAMESPACE, or URL|NAMESPACE|SECRET-NAMESPACE/SECRET with a Secret of the cluster
    #[arg(short = 'r', long = "registry", value_name = "SOURCE", value_parser = source)]
    registries: Vec<Source>,
    /// Packages to download, each NAME or NAME:RELEASE; defaults to all
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',', value_parser = wanted, requires = "registries")]
    packages: Vec<Wanted>,
    /// File with a token for application registries without a Secret
    #[arg(long, value_name = "FILE", requires = "registries")]
    token_file: Option<String>,
    /// Path to the kubeconfig file of the cluster with the Secrets
    #[arg(short, long, value_name = "FILE", requires = "registries")]
    kubeconfig: Option<PathBuf>,
}

impl AppRegistryFlags {
    /// Returns whether an application registry is given.
    pub(crate) fn are_given(&self) -> bool {
        !self.registries.is_empty()
    }

    /// Downloads the packages to directories below `folder`, replacing those of earlier downloads.
    pub(crate) fn download(&self, images: &Images, limits: &Limits, folder: &Path) -> Result<Downloaded, Failure> {
        let token = self.token_file.as_deref().map(|file| {
            let text = read_input(file, limits).map_err(|error| in_path(Path::new(file), &error))?;
            String::from_utf8(text).map_err(|_| Failure::message(format!("{file}: not UTF-8 text")))
        });
        let download = Download {
            sources: &self.registries,
            wanted: &self.packages,
            client: images.client()?,
            token: token.transpose()?,
            access: Access { kubeconfig: self.kubeconfig.clone(), ..Access::default() },
            limits,
        };
        Ok(download.run(folder))
    }
}

/// A download.
struct Download<'a> {
    /// In order: a package comes from the first source that has it.
    sources: &'a [Source],
    /// Empty for all packages.
    wanted: &'a [Wanted],
    client: &'a Client,
    /// The token for sources without a Secret.
    token: Option<String>,
    /// The cluster with the Secrets.
    access: Access,
    limits: &'a Limits,
}

/// The result of a download.
#[derive(Default)]
pub(crate) struct Downloaded {
    /// One directory per package.
    pub(crate) packages: Vec<PathBuf>,
    /// Errors and missing packages.
    pub(crate) problems: Vec<String>,
}

impl Download<'_> {
    fn run(&self, folder: &Path) -> Downloaded {
        let mut downloaded = Downloaded::default();
        let mut missing: BTreeSet<&Wanted> = self.wanted.iter().collect();
        let mut taken = BTreeSet::new();
        for source in self.sources {
            let named = |error: String| format!("{}, namespace {}: {error}", source.base, source.namespace);
            let listed = self.registry(source).and_then(|registry| {
                let repositories = registry.repositories(&source.namespace).map_err(|error| shown(&error))?;
                Ok((registry, repositories))
            });
            let (registry, repositories) = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    downloaded.problems.push(named(error));
                    continue;
                }
            };
            for repository in repositories {
                let short = repository.name.rsplit('/').next().unwrap_or_default().to_owned();
                let release = if self.wanted.is_empty() {
                    repository.default.clone()
                } else {
                    match missing.iter().copied().find(|wanted| wanted.matches(&short, &repository)) {
                        Some(wanted) => {
                            missing.remove(wanted);
                            wanted.release.clone().unwrap_or_else(|| repository.default.clone())
                        }
                        None => continue,
                    }
                };
                if !taken.insert(short.clone()) {
                    continue;
                }
                match self.one(&registry, &repository.name, &short, &release, folder) {
                    Ok(directory) => downloaded.packages.push(directory),
                    Err(error) => downloaded.problems.push(named(format!("{}: {error}", repository.name))),
                }
            }
        }
        for wanted in missing {
            let release = wanted.release.as_ref().map(|release| format!(" in release {release}")).unwrap_or_default();
            downloaded.problems.push(format!("package {}{release} not found", wanted.name));
        }
        downloaded
    }

    fn registry(&self, source: &Source) -> Result<AppRegistry, String> {
        let token = match &source.secret {
            None => self.token.clone(),
            Some((namespace, name)) => {
                let read = async { self.access.connect().await?.secret(namespace, name, "token").await };
                let token = runtime::block_on(read).map_err(|error| error.to_string())?;
                Some(token.map_err(|error| error.to_string())?)
            }
        };
        AppRegistry::new(self.client, &source.base, token.as_deref()).map_err(|error| shown(&error))
    }

    fn one(
        &self,
        registry: &AppRegistry,
        name: &str,
        short: &str,
        release: &str,
        folder: &Path,
    ) -> Result<PathBuf, String> {
        let archive = registry.archive(name, release).map_err(|error| shown(&error))?;
        let aside = Unfinished::create(folder, ".opm-download-");
        let aside = aside.map_err(|error| format!("{}: {error}", folder.display()))?;
        let file = aside.path().join("archive");
        let blob = Blob::file(Digest::of(&archive), &file, archive.len() as u64);
        fs::write(&file, archive).map_err(|error| format!("{}: {error}", file.display()))?;
        let content = aside.path().join("content");
        let layer = LayerFile { blob, media_type: "application/x-gzip".into() };
        // Use the limits of catalogs: packages are only a few megabytes.
        let limits = UnpackLimits { total_size: self.limits.file_size, entries: 100_000, ..UnpackLimits::default() };
        image::unpack(&[layer], &content, &limits, &|_| {}).map_err(|error| error.to_string())?;
        let failed = |error: std::io::Error| error.to_string();
        let (content, name) = match only_file(&content).map_err(failed)? {
            None => (content, short.to_owned()),
            Some(file) => {
                let text = fs::read(&file).map_err(failed)?;
                let apart = aside.path().join("apart");
                let package = split_file(&text, &apart, self.limits)?;
                (apart, package)
            }
        };
        let target = folder.join(&name);
        let list = folder.join(CREATED_LIST);
        let created = fs::read_to_string(&list).unwrap_or_default();
        let ours = created.lines().any(|line| line == name);
        if target.exists() {
            if !ours {
                return Err(format!(
                    "{} already exists, and opm did not download it; not overwriting it",
                    target.display()
                ));
            }
            fs::remove_dir_all(&target).map_err(|error| tree::in_path(&target, &error)).map_err(failed)?;
        }
        if !ours {
            // Record it before the rename: after an interrupt, a later run can still replace it.
            fs::write(&list, format!("{created}{name}\n"))
                .map_err(|error| tree::in_path(&list, &error))
                .map_err(failed)?;
        }
        fs::rename(&content, &target).map_err(|error| tree::in_path(&target, &error)).map_err(failed)?;
        Ok(target)
    }
}

impl Wanted {
    fn matches(&self, name: &str, repository: &Repository) -> bool {
        self.name == name && self.release.as_ref().is_none_or(|release| repository.releases.contains(release))
    }
}

fn shown(error: &image::Error) -> String {
    let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
    format!("{error}{help}")
}

/// Returns the only file below a directory, or `None` if there are several.
fn only_file(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let (mut found, mut directories) = (None, vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && found.replace(entry.path()).is_some() {
                return Ok(None);
            }
        }
    }
    Ok(found)
}

/// Splits a package in a single file into one file per object; returns the name of the package.
fn split_file(text: &[u8], target: &Path, limits: &Limits) -> Result<String, String> {
    let json = |text: &[u8]| match stream::first(text, limits) {
        Ok(first) => Ok(first.map(|(_, json)| json)),
        Err(error) => Err(error.to_string()),
    };
    let whole = json(text)?.ok_or("unexpected end of JSON input")?;
    let data = whole.raw().get("data").ok_or("the only file of the archive has no field data")?;
    let list = |key: &str| -> Result<Text, String> {
        let text = data.get(key).and_then(Raw::as_str).unwrap_or_default();
        let list = json(text.as_bytes()).map_err(|error| format!("{key}: {error}"))?;
        Ok(list.unwrap_or_else(|| Text::list([])))
    };
    let field = |object: Raw<'_>, path: &[&str]| -> String {
        let value = path.iter().try_fold(object, |value, name| value.get(name));
        value.and_then(Raw::as_str).unwrap_or_default().into_owned()
    };
    let packages = list("packages")?;
    let package = packages.raw().items().next().ok_or("no packages found")?;
    let name = field(package, &["packageName"]);
    let mut files = vec![(format!("{name}.package.yaml"), package.text().to_owned())];
    for csv in list("clusterServiceVersions")?.raw().items() {
        let file = format!("{}.clusterserviceversion.yaml", field(csv, &["metadata", "name"]));
        files.push((file, csv.text().to_owned()));
    }
    for crd in list("customResourceDefinitions")?.raw().items() {
        let version = match field(crd, &["spec", "version"]) {
            version if version.is_empty() => crd
                .get("spec")
                .and_then(|spec| spec.get("versions")?.items().next())
                .map(|version| field(version, &["name"]))
                .unwrap_or_default(),
            version => version,
        };
        let file = format!("{}-{version}.crd.yaml", field(crd, &["spec", "names", "kind"]));
        files.push((file, crd.text().to_owned()));
    }
    fs::create_dir(target).map_err(|error| error.to_string())?;
    for (file, text) in files {
        if file.contains(['/', '\0']) || file.starts_with('.') {
            return Err(format!("an object has an invalid file name: {file:?}"));
        }
        // Lists can contain an object twice; the last one wins.
        fs::write(target.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_two_or_three_parts() {
        let plain = source("https://quay.io/cnr|community").unwrap();
        assert_eq!((plain.base.as_str(), plain.namespace.as_str()), ("https://quay.io/cnr", "community"));
        assert_eq!(plain.secret, None);
        let secret = source("https://quay.io/cnr|community|openshift/token").unwrap().secret;
        assert_eq!(secret, Some(("openshift".into(), "token".into())));
        for wrong in
            ["https://quay.io/cnr", "a|b|c|d", "quay.io|x", "https://q|", "https://q|n|secret", "https://q|n|a/b/c"]
        {
            source(wrong).unwrap_err();
        }
    }

    #[test]
    fn packages_may_name_a_release() {
        assert_eq!(wanted(" etcd ").unwrap(), Wanted { name: "etcd".into(), release: None });
        assert_eq!(wanted("etcd: 1.0.0").unwrap(), Wanted { name: "etcd".into(), release: Some("1.0.0".into()) });
        wanted("a:b:c").unwrap_err();
        wanted(":1").unwrap_err();
    }

    #[test]
    fn names_of_objects_cannot_lead_outside() {
        let folder = tempfile::tempdir().unwrap();
        let text = "data:\n  packages: '[{packageName: ../../x}]'\n";
        split_file(text.as_bytes(), &folder.path().join("apart"), &Limits::default()).unwrap_err();
        assert!(!folder.path().join("x.package.yaml").exists());
    }
}
