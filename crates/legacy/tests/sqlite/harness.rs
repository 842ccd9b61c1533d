//! Bundles and databases for tests, and their content as text.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use legacy::{AddError, AddMode, AddOptions, BundleToAdd, Changed, Database, Fetch, FetchError, Strictness};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// A bundle to write.
#[derive(Clone, Default)]
pub(crate) struct BundleSpec<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) channels: &'a str,
    pub(crate) default: &'a str,
    /// Additional lines of the CSV's spec.
    pub(crate) spec: &'a str,
    /// Additional lines of the CSV's annotations.
    pub(crate) annotations: &'a str,
}

impl BundleSpec<'_> {
    pub(crate) fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    pub(crate) fn image(&self) -> String {
        format!("registry.test/{}:v{}", self.package, self.version.replace('+', "_"))
    }
}

/// A temporary directory for bundles and databases.
pub(crate) struct Scratch {
    root: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a bundle, and returns it as a bundle to add.
    pub(crate) fn bundle(&self, spec: &BundleSpec<'_>) -> BundleToAdd {
        let directory = self.path(&spec.name());
        let (manifests, metadata) = (directory.join("manifests"), directory.join("metadata"));
        fs::create_dir_all(&manifests).unwrap();
        fs::create_dir_all(&metadata).unwrap();
        let (package, version, name) = (spec.package, spec.version, spec.name());
        let mut csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {name}\n"
        );
        if !spec.annotations.is_empty() {
            write!(csv, "  annotations:\n{}", spec.annotations).unwrap();
        }
        write!(csv, "spec:\n  version: {version}\n{}", spec.spec).unwrap();
        fs::write(manifests.join("csv.yaml"), csv).unwrap();
        let crd = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {package}s.{package}.test\n\
             spec:\n  group: {package}.test\n  names: {{kind: Thing, plural: {package}s}}\n  scope: Namespaced\n  \
             versions:\n  - {{name: v1, served: true, storage: true}}\n"
        );
        fs::write(manifests.join("crd.yaml"), crd).unwrap();
        let mut annotations = format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  \
             operators.operatorframework.io.bundle.channels.v1: {}\n",
            spec.channels
        );
        if !spec.default.is_empty() {
            writeln!(annotations, "  operators.operatorframework.io.bundle.channel.default.v1: {}", spec.default)
                .unwrap();
        }
        fs::write(metadata.join("annotations.yaml"), annotations).unwrap();
        BundleToAdd { image: spec.image(), directory }
    }
}

/// Images from directories; `find` returns the one of an image.
pub(crate) struct Images<F>(pub(crate) F);

/// Why a test has no image.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoImage(pub(crate) String);

impl Fault for NoImage {
    fn class(&self) -> Class {
        Class::World
    }
}

impl<F: Fn(&str) -> Result<PathBuf, NoImage>> Fetch for Images<F> {
    fn bundles(&self, references: &[String]) -> Result<Vec<BundleToAdd>, FetchError> {
        let bundle = |image: &String| Ok(BundleToAdd { image: image.clone(), directory: self.unpack_one(image)? });
        references.iter().map(bundle).collect()
    }

    fn unpack(&self, images: &[&str]) -> Vec<Result<PathBuf, FetchError>> {
        images.iter().map(|image| self.unpack_one(image)).collect()
    }

    fn unpack_one(&self, image: &str) -> Result<PathBuf, FetchError> {
        (self.0)(image).map_err(FetchError::new)
    }

    fn database(&self, image: &str, target: &Path) -> Result<(), FetchError> {
        fs::copy(self.unpack_one(image)?, target).map(drop).map_err(|error| FetchError::new(NoImage(error.to_string())))
    }
}

pub(crate) fn options(mode: AddMode) -> AddOptions {
    AddOptions {
        mode,
        modes: std::collections::BTreeMap::new(),
        strictness: Strictness::Strict,
        overwrite_latest: false,
        enable_alpha: false,
        heads_only: false,
        older_moves_default: false,
        limits: fbc::Limits::default(),
    }
}

pub(crate) fn add(database: &Path, bundles: &[BundleToAdd], mode: AddMode) -> Result<Changed, AddError> {
    Database::write(database).unwrap().add(bundles, &options(mode))
}

pub(crate) fn raw(database: &Path) -> Connection {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// Returns the rows of a query as text; NULL is empty.
pub(crate) fn rows(database: &Path, sql: &str) -> Vec<String> {
    let connection = raw(database);
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let mut text = Vec::new();
        for column in 0..columns {
            text.push(match row.get_ref(column)? {
                rusqlite::types::ValueRef::Null => String::new(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Real(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) | rusqlite::types::ValueRef::Blob(text) => {
                    String::from_utf8_lossy(text).into_owned()
                }
            });
        }
        Ok(text.join("|"))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns the entries of a channel: bundle, replaced bundle, depth.
pub(crate) fn entries(database: &Path, channel: &str) -> Vec<String> {
    rows(
        database,
        &format!(
            "SELECT entry.operatorbundle_name, below.operatorbundle_name, entry.depth FROM channel_entry AS entry
             LEFT JOIN channel_entry AS below ON below.entry_id = entry.replaces
             WHERE entry.channel_name = '{channel}' ORDER BY entry.entry_id"
        ),
    )
}

/// Returns the whole content of a database, independent of the order of insertion.
pub(crate) fn content(database: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for (title, sql) in [
        ("package", "SELECT name, default_channel FROM package"),
        ("channel", "SELECT package_name, name, head_operatorbundle_name FROM channel"),
        (
            "entry",
            "SELECT entry.package_name, entry.channel_name, entry.operatorbundle_name, below.operatorbundle_name, \
             entry.depth FROM channel_entry AS entry \
             LEFT JOIN channel_entry AS below ON below.entry_id = entry.replaces",
        ),
        (
            "bundle",
            "SELECT name, csv, bundle, bundlepath, skiprange, version, replaces, skips, substitutesfor \
             FROM operatorbundle",
        ),
        ("image", "SELECT DISTINCT operatorbundle_name, image FROM related_image"),
        ("api", "SELECT group_name, version, kind, plural FROM api"),
        (
            "provider",
            "SELECT DISTINCT group_name, version, kind, operatorbundle_name, operatorbundle_version, \
             operatorbundle_path FROM api_provider",
        ),
        (
            "requirer",
            "SELECT DISTINCT group_name, version, kind, operatorbundle_name, operatorbundle_version, \
             operatorbundle_path FROM api_requirer",
        ),
        (
            "dependency",
            "SELECT DISTINCT type, CAST(value AS TEXT), operatorbundle_name, operatorbundle_version, \
             operatorbundle_path FROM dependencies",
        ),
        (
            "property",
            "SELECT DISTINCT type, CAST(value AS TEXT), operatorbundle_name, operatorbundle_version, \
             operatorbundle_path FROM properties",
        ),
        ("deprecated", "SELECT operatorbundle_name FROM deprecated"),
    ] {
        out.extend(rows(database, sql).into_iter().map(|row| format!("{title}: {row}")));
    }
    out.sort();
    out
}
