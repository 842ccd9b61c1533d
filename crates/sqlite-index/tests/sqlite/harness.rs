//! Bundles made up for a test, and databases told in words.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use sqlite_index::{AddError, AddOptions, Added, Database, Mode, NewBundle, Strictness};
use tempfile::TempDir;

/// A bundle to be written.
#[derive(Clone, Default)]
pub(crate) struct Made<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) channels: &'a str,
    pub(crate) default: &'a str,
    /// More lines of the CSV's spec.
    pub(crate) spec: &'a str,
    /// More lines of the CSV's annotations.
    pub(crate) annotations: &'a str,
}

impl Made<'_> {
    pub(crate) fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    pub(crate) fn image(&self) -> String {
        format!("registry.test/{}:v{}", self.package, self.version.replace('+', "_"))
    }
}

/// A place for bundles and databases, gone with this value.
pub(crate) struct Place {
    root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a bundle, and returns it as one to be added.
    pub(crate) fn bundle(&self, made: &Made<'_>) -> NewBundle {
        let directory = self.path(&made.name());
        let (manifests, metadata) = (directory.join("manifests"), directory.join("metadata"));
        fs::create_dir_all(&manifests).unwrap();
        fs::create_dir_all(&metadata).unwrap();
        let (package, version, name) = (made.package, made.version, made.name());
        let mut csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {name}\n"
        );
        if !made.annotations.is_empty() {
            write!(csv, "  annotations:\n{}", made.annotations).unwrap();
        }
        write!(csv, "spec:\n  version: {version}\n{}", made.spec).unwrap();
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
            made.channels
        );
        if !made.default.is_empty() {
            writeln!(annotations, "  operators.operatorframework.io.bundle.channel.default.v1: {}", made.default)
                .unwrap();
        }
        fs::write(metadata.join("annotations.yaml"), annotations).unwrap();
        NewBundle { image: made.image(), directory }
    }
}

pub(crate) fn options(mode: Mode) -> AddOptions {
    AddOptions {
        mode,
        strictness: Strictness::Strict,
        overwrite_latest: false,
        enable_alpha: false,
        heads_only: false,
        older_moves_default: false,
        limits: fbc::Limits::default(),
    }
}

pub(crate) fn add(database: &Path, bundles: &[NewBundle], mode: Mode) -> Result<Added, AddError> {
    Database::write(database).unwrap().add(bundles, &options(mode))
}

pub(crate) fn raw(database: &Path) -> Connection {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// Returns the rows of a question as text, NULL as nothing.
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

/// Tells the entries of a channel: bundle, what it replaces, depth.
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

/// Tells everything that is in a database, in an order that does not depend on how it came in.
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
