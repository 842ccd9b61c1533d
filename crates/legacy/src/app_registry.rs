//! Packages from application registries, which stored operators before operators shipped as images.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::json::{Raw, Text};
use fbc::scratch::TempFolder;
use fbc::stream::StreamError;
use fbc::{Limits, stream};
use image::{AppRegistry, Client, Digest, LayerFile, Repository, StoredBlob, UnpackError, UnpackLimits};

use crate::error::Error;
use crate::open::Database;
use crate::remove::Strictness;

/// The file that lists the directories created by downloads, one per line.
const CREATED_LIST: &str = ".opm-downloaded";

/// A source of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSource {
    base: String,
    namespace: String,
    /// Namespace and name of a secret with a token.
    secret: Option<(String, String)>,
}

/// A requested package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedPackage {
    name: String,
    /// `None` for the default release.
    release: Option<String>,
}

/// Why a text is not a source or a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The secret of a source is malformed.
    #[error("expected URL|NAMESPACE|SECRET-NAMESPACE/SECRET: the secret is malformed")]
    Secret,
    /// A source has too few or too many parts.
    #[error("expected URL|NAMESPACE or URL|NAMESPACE|SECRET-NAMESPACE/SECRET")]
    Parts,
    /// A source has no URL or namespace.
    #[error("expected URL|NAMESPACE, with a URL such as https://quay.io/cnr")]
    Url,
    /// A package has no name, or several releases.
    #[error("expected NAME or NAME:RELEASE")]
    Package,
}

impl PackageSource {
    /// Parses `URL|NAMESPACE[|SECRET-NAMESPACE/SECRET]`.
    ///
    /// # Errors
    /// Fails for any other text.
    pub fn parse(text: &str) -> Result<PackageSource, ArgumentError> {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let (base, namespace, secret) = match parts.as_slice() {
            [base, namespace] => (base, namespace, None),
            [base, namespace, ""] => (base, namespace, None),
            [base, namespace, secret] => match secret.split_once('/') {
                Some((of, name)) if !of.is_empty() && !name.is_empty() && !name.contains('/') => {
                    (base, namespace, Some((of.to_owned(), name.to_owned())))
                }
                _ => return Err(ArgumentError::Secret),
            },
            _ => return Err(ArgumentError::Parts),
        };
        if namespace.is_empty() || !(base.starts_with("https://") || base.starts_with("http://")) {
            return Err(ArgumentError::Url);
        }
        Ok(PackageSource { base: (*base).into(), namespace: (*namespace).into(), secret })
    }
}

impl WantedPackage {
    /// Parses `NAME[:RELEASE]`.
    ///
    /// # Errors
    /// Fails for any other text.
    pub fn parse(text: &str) -> Result<WantedPackage, ArgumentError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (name, release) = match text.split_once(':') {
            Some((name, release)) => (name, Some(release.to_owned()).filter(|release| !release.is_empty())),
            None => (text.as_str(), None),
        };
        if name.is_empty() || release.as_ref().is_some_and(|release| release.contains(':')) {
            return Err(ArgumentError::Package);
        }
        Ok(WantedPackage { name: name.into(), release })
    }

    fn matches(&self, name: &str, repository: &Repository) -> bool {
        self.name == name && self.release.as_ref().is_none_or(|release| repository.releases.contains(release))
    }
}

/// Reads the token in a Secret of a cluster, by namespace and name.
pub type ReadSecret<'a> = &'a dyn Fn(&str, &str) -> Result<String, Box<dyn StdError + Send + Sync>>;

/// A download of packages.
pub struct Download<'a> {
    /// In order: a package comes from the first source that has it.
    pub sources: &'a [PackageSource],
    /// Empty for all packages.
    pub wanted: &'a [WantedPackage],
    /// The connection to the registries.
    pub client: &'a Client,
    /// The token for sources without a Secret.
    pub token: Option<String>,
    /// The Secrets of sources.
    pub secret: ReadSecret<'a>,
    /// Size limits.
    pub limits: &'a Limits,
}

/// The result of a download.
#[derive(Debug, Default)]
pub struct Downloaded {
    /// One directory per package.
    pub packages: Vec<PathBuf>,
    /// Errors and missing packages.
    pub problems: Vec<DownloadProblem>,
}

/// Why a download is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum DownloadProblem {
    /// A source cannot be listed.
    #[error("{base}, namespace {namespace}: {source}")]
    Source {
        /// The URL of the source.
        base: String,
        /// Its namespace.
        namespace: String,
        /// The cause.
        source: DownloadError,
    },
    /// A package cannot be downloaded.
    #[error("{base}, namespace {namespace}: {repository}: {source}")]
    Package {
        /// The URL of the source.
        base: String,
        /// Its namespace.
        namespace: String,
        /// The repository of the package.
        repository: String,
        /// The cause.
        source: DownloadError,
    },
    /// No source has a package.
    #[error("package {name}{} not found", release.as_ref().map(|it| format!(" in release {it}")).unwrap_or_default())]
    Missing {
        /// The package.
        name: String,
        /// The requested release.
        release: Option<String>,
    },
}

/// Packages that could not be downloaded or loaded, with a line for each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct IncompletePackages(Vec<String>);

impl Fault for IncompletePackages {
    fn class(&self) -> Class {
        Class::Refused
    }
}

/// Why downloaded packages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Incomplete(#[from] IncompletePackages),
    #[error(transparent)]
    Database(#[from] Error),
}

/// Why a package or a list of packages cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The token cannot be read.
    #[error("{0}")]
    Secret(Box<dyn StdError + Send + Sync>),
    /// The registry does not answer as expected.
    #[error("{}{}", .0, .0.help().map(|help| format!("\n  help: {help}")).unwrap_or_default())]
    Registry(#[from] image::Error),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The only file of the archive is neither YAML nor JSON.
    #[error(transparent)]
    Syntax(#[from] StreamError),
    /// The only file of the archive is empty.
    #[error("unexpected end of JSON input")]
    Empty,
    /// The only file of the archive is not a package.
    #[error("the only file of the archive has no field data")]
    NoData,
    /// A list of objects is malformed.
    #[error("{key}: {source}")]
    List {
        /// The field with the list.
        key: &'static str,
        /// The cause.
        source: StreamError,
    },
    /// The archive has no package.
    #[error("no packages found")]
    NoPackages,
    /// An object would get a path outside its directory.
    #[error("an object has an invalid file name: {0:?}")]
    FileName(String),
    /// The directory of the package is not ours.
    #[error("{} already exists, and opm did not download it; not overwriting it", .0.display())]
    Foreign(PathBuf),
}

impl DownloadError {
    fn file(path: &Path) -> impl Fn(io::Error) -> DownloadError + '_ {
        move |source| DownloadError::File { path: path.to_owned(), source }
    }
}

impl Fault for DownloadProblem {
    fn class(&self) -> Class {
        match self {
            DownloadProblem::Missing { .. } => Class::Refused,
            DownloadProblem::Source { source, .. } | DownloadProblem::Package { source, .. } => match source {
                DownloadError::Secret(_) | DownloadError::Registry(_) | DownloadError::File { .. } => Class::World,
                _ => Class::Refused,
            },
        }
    }
}

impl Download<'_> {
    /// Downloads the packages to directories below `folder`, replacing those of earlier downloads.
    pub fn run(&self, folder: &Path) -> Downloaded {
        let mut downloaded = Downloaded::default();
        let mut missing: BTreeSet<&WantedPackage> = self.wanted.iter().collect();
        let mut taken = BTreeSet::new();
        for source in self.sources {
            let (base, namespace) = (&source.base, &source.namespace);
            let listed = self.registry(source).and_then(|registry| {
                let repositories = registry.repositories(namespace)?;
                Ok((registry, repositories))
            });
            let (registry, repositories) = match listed {
                Ok(listed) => listed,
                Err(source) => {
                    let (base, namespace) = (base.clone(), namespace.clone());
                    downloaded.problems.push(DownloadProblem::Source { base, namespace, source });
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
                    Err(source) => downloaded.problems.push(DownloadProblem::Package {
                        base: base.clone(),
                        namespace: namespace.clone(),
                        repository: repository.name,
                        source,
                    }),
                }
            }
        }
        for wanted in missing {
            let WantedPackage { name, release } = wanted.clone();
            downloaded.problems.push(DownloadProblem::Missing { name, release });
        }
        downloaded
    }

    fn registry(&self, source: &PackageSource) -> Result<AppRegistry, DownloadError> {
        let token = match &source.secret {
            None => self.token.clone(),
            Some((namespace, name)) => Some((self.secret)(namespace, name).map_err(DownloadError::Secret)?),
        };
        Ok(AppRegistry::new(self.client, &source.base, token.as_deref())?)
    }

    fn one(
        &self,
        registry: &AppRegistry,
        name: &str,
        short: &str,
        release: &str,
        folder: &Path,
    ) -> Result<PathBuf, DownloadError> {
        let archive = registry.archive(name, release)?;
        let aside = TempFolder::inside(folder, ".opm-download-").map_err(DownloadError::file(folder))?;
        let file = aside.path().join("archive");
        let blob = StoredBlob::file(Digest::of(&archive), &file, archive.len() as u64);
        fs::write(&file, archive).map_err(DownloadError::file(&file))?;
        let content = aside.path().join("content");
        let layer = LayerFile { blob, media_type: "application/x-gzip".into() };
        // Use the limits of catalogs: packages are only a few megabytes.
        let limits = UnpackLimits { total_size: self.limits.file_size, entries: 100_000, ..UnpackLimits::default() };
        image::unpack(&[layer], &content, &limits, &|_| {})?;
        let (content, name) = match only_file(&content).map_err(DownloadError::file(&content))? {
            None => (content, short.to_owned()),
            Some(file) => {
                let text = fs::read(&file).map_err(DownloadError::file(&file))?;
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
                return Err(DownloadError::Foreign(target));
            }
            fs::remove_dir_all(&target).map_err(DownloadError::file(&target))?;
        }
        if !ours {
            // Record it before the rename: after an interrupt, a later run can still replace it.
            fs::write(&list, format!("{created}{name}\n")).map_err(DownloadError::file(&list))?;
        }
        fs::rename(&content, &target).map_err(DownloadError::file(&target))?;
        Ok(target)
    }
}

/// A new database with the packages that could be loaded.
struct LoadedRegistry {
    /// The database, in a temporary file: packages that were removed from a registry do not reappear.
    database: Database,
    /// The number of loaded packages.
    packages: usize,
    /// What could not be loaded.
    problems: Vec<String>,
}

impl Downloaded {
    /// Refuses an incomplete download, unless in permissive mode.
    ///
    /// # Errors
    /// Fails with all problems.
    pub fn check(&self, strictness: Strictness) -> Result<(), IncompletePackages> {
        complete(self.problems.iter().map(ToString::to_string).collect(), strictness).map(drop)
    }

    /// Replaces the database at `path` by one with the packages. Returns their number, and in permissive mode what could
    /// not be downloaded or loaded.
    ///
    /// # Errors
    /// Fails when something could not be downloaded or loaded, unless in permissive mode, or the database cannot be
    /// written.
    pub fn publish(
        &self,
        path: &Path,
        strictness: Strictness,
        limits: &Limits,
    ) -> Result<(usize, Vec<String>), PublishError> {
        let LoadedRegistry { database, packages, problems } = self.load(limits)?;
        let problems = self.problems.iter().map(ToString::to_string).chain(problems).collect();
        let problems = complete(problems, strictness)?;
        database.publish(path)?;
        Ok((packages, problems))
    }

    /// Loads the packages into a new database; one that cannot be loaded does not affect the others.
    ///
    /// # Errors
    /// Fails when the database cannot be created.
    fn load(&self, limits: &Limits) -> Result<LoadedRegistry, Error> {
        let database = Database::temporary()?;
        database.migrate()?;
        let mut loaded = LoadedRegistry { database, packages: 0, problems: Vec::new() };
        for package in &self.packages {
            let shown = package.display();
            let directories = std::slice::from_ref(package);
            match loaded.database.load_directories(directories, limits, Strictness::Permissive) {
                Ok(changed) => {
                    loaded.packages += 1;
                    loaded.problems.extend(changed.skipped.iter().map(|problem| format!("{shown}: {problem}")));
                }
                Err(error) => loaded.problems.push(format!("{shown}: {error}")),
            }
        }
        Ok(loaded)
    }
}

/// Returns the problems in permissive mode.
fn complete(problems: Vec<String>, strictness: Strictness) -> Result<Vec<String>, IncompletePackages> {
    match strictness {
        Strictness::Strict if !problems.is_empty() => Err(IncompletePackages(problems)),
        _ => Ok(problems),
    }
}

/// Returns the only file below a directory, or `None` if there are several.
fn only_file(directory: &Path) -> io::Result<Option<PathBuf>> {
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
fn split_file(text: &[u8], target: &Path, limits: &Limits) -> Result<String, DownloadError> {
    let json = |text: &[u8]| stream::first(text, limits).map(|first| first.map(|(_, json)| json));
    let whole = json(text)?.ok_or(DownloadError::Empty)?;
    let data = whole.raw().get("data").ok_or(DownloadError::NoData)?;
    let list = |key: &'static str| {
        let text = data.get_str(key);
        let list = json(text.as_bytes()).map_err(|source| DownloadError::List { key, source })?;
        Ok::<_, DownloadError>(list.unwrap_or_else(|| Text::list([])))
    };
    let field = |object: Raw<'_>, path: &[&str]| -> String {
        let value = path.iter().try_fold(object, |value, name| value.get(name));
        value.and_then(Raw::as_str).unwrap_or_default().into_owned()
    };
    let packages = list("packages")?;
    let package = packages.raw().items().next().ok_or(DownloadError::NoPackages)?;
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
    fs::create_dir(target).map_err(DownloadError::file(target))?;
    for (file, text) in files {
        if file.contains(['/', '\0']) || file.starts_with('.') {
            return Err(DownloadError::FileName(file));
        }
        // Lists can contain an object twice; the last one wins.
        fs::write(target.join(&file), text).map_err(DownloadError::file(Path::new(&file)))?;
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_two_or_three_parts() {
        let plain = PackageSource::parse("https://quay.io/cnr|community").unwrap();
        assert_eq!((plain.base.as_str(), plain.namespace.as_str()), ("https://quay.io/cnr", "community"));
        assert_eq!(plain.secret, None);
        let secret = PackageSource::parse("https://quay.io/cnr|community|openshift/token").unwrap().secret;
        assert_eq!(secret, Some(("openshift".into(), "token".into())));
        for wrong in
            ["https://quay.io/cnr", "a|b|c|d", "quay.io|x", "https://q|", "https://q|n|secret", "https://q|n|a/b/c"]
        {
            PackageSource::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn packages_may_name_a_release() {
        assert_eq!(WantedPackage::parse(" etcd ").unwrap(), WantedPackage { name: "etcd".into(), release: None });
        assert_eq!(
            WantedPackage::parse("etcd: 1.0.0").unwrap(),
            WantedPackage { name: "etcd".into(), release: Some("1.0.0".into()) }
        );
        WantedPackage::parse("a:b:c").unwrap_err();
        WantedPackage::parse(":1").unwrap_err();
    }

    #[test]
    fn names_of_objects_cannot_lead_outside() {
        let folder = tempfile::tempdir().unwrap();
        let text = "data:\n  packages: '[{packageName: ../../x}]'\n";
        split_file(text.as_bytes(), &folder.path().join("apart"), &Limits::default()).unwrap_err();
        assert!(!folder.path().join("x.package.yaml").exists());
    }
}
