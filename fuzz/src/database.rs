//! A database index: arbitrary bytes, or changes to the cells of a valid index.
//!
//! Reading leaves the file unchanged and creates no other file; a rejected change leaves every row as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use catalog::query::ApiType;
use catalog::query::Query;
use fbc::{Fbc, Limits};
use legacy::{AddMode, AddOptions, BundleToAdd, Database, DatabaseIndex, ManifestConversion, Strictness};
use rusqlite::Connection;
use rusqlite::types::Value;

/// Cells with content that the program parses.
const CELLS: &[(&str, &str)] = &[
    ("operatorbundle", "name"),
    ("operatorbundle", "csv"),
    ("operatorbundle", "bundle"),
    ("operatorbundle", "bundlepath"),
    ("operatorbundle", "skiprange"),
    ("operatorbundle", "version"),
    ("operatorbundle", "replaces"),
    ("operatorbundle", "skips"),
    ("operatorbundle", "substitutesfor"),
    ("package", "name"),
    ("package", "default_channel"),
    ("channel", "name"),
    ("channel", "package_name"),
    ("channel", "head_operatorbundle_name"),
    ("channel_entry", "channel_name"),
    ("channel_entry", "package_name"),
    ("channel_entry", "operatorbundle_name"),
    ("channel_entry", "replaces"),
    ("channel_entry", "depth"),
    ("properties", "type"),
    ("properties", "value"),
    ("properties", "operatorbundle_name"),
    ("dependencies", "type"),
    ("dependencies", "value"),
    ("related_image", "image"),
    ("api", "plural"),
    ("api_provider", "kind"),
    ("api_requirer", "group_name"),
    ("deprecated", "operatorbundle_name"),
    ("schema_migrations", "version"),
];

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let file = scratch.path().join("index.db");
    match bytes.strip_prefix(b"cells") {
        Some(changes) => change_cells(&file, changes),
        None => fs::write(&file, bytes).expect("scratch file"),
    }
    let before = fs::read(&file).expect("the file");
    read(&file);
    assert!(fs::read(&file).expect("the file") == before, "reading changed the file");
    assert_eq!(fs::read_dir(scratch.path()).expect("scratch directory").count(), 1, "reading left another file");
    change(&file);
}

fn read(file: &Path) {
    let limits = Limits::default();
    if let Ok(database) = Database::read(file) {
        for manifests in [ManifestConversion::Objects, ManifestConversion::Metadata, ManifestConversion::Omit] {
            let mut fbc = Fbc::default();
            let _ = database.convert(&mut fbc, manifests, &limits);
        }
        let _ = (database.manifest(), database.packages());
    }
    let Ok(copy) = Database::copy(file) else { return };
    if copy.migrate().is_err() {
        return;
    }
    let Ok(index) = DatabaseIndex::new(copy) else { return };
    let index = Arc::new(index);
    Arc::clone(&index).packages().take(100).for_each(drop);
    Arc::clone(&index).bundles().take(100).for_each(drop);
    let api = ApiType { group: "foo.test".into(), version: "v1".into(), kind: "Thing".into() };
    for rows in [
        Arc::clone(&index).providers(&api),
        Arc::clone(&index).latest_providers(&api),
        Arc::clone(&index).replacements("foo.v1.0.0"),
    ] {
        rows.into_iter().for_each(|rows| rows.take(100).for_each(drop));
    }
    let _ = (index.package("foo"), index.head("foo", "stable"), index.default_provider(&api));
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        let name = format!("foo.v{version}");
        let _ = (index.bundle("foo", "stable", &name), index.replacement(&name, "foo", "stable"));
    }
}

fn change(file: &Path) {
    let rows = |file: &Path| dump(file);
    let before = rows(file);
    let image = "registry.test/foo:v1.1.0".to_owned();
    let changes: [&dyn Fn(&Database) -> bool; 5] = [
        &|database| database.add(new_bundle(), &options(AddMode::SkipPatch)).is_ok(),
        &|database| database.deprecate(std::slice::from_ref(&image), false, Strictness::Strict).is_ok(),
        &|database| database.remove_packages(&["foo".into()], Strictness::Strict).is_ok(),
        &|database| database.prune(&["foo".into()]).is_ok(),
        &|database| database.prune_stranded().is_ok(),
    ];
    for change in changes {
        let Ok(database) = Database::write(file) else { return };
        if change(&database) {
            return;
        }
        drop(database);
        assert!(rows(file) == before, "a rejected change changed rows");
    }
}

/// Returns every row of a database that can be read.
fn dump(file: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let Ok(connection) = Connection::open(file) else { return out };
    let names = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    for name in names().unwrap_or_default() {
        let Ok(mut statement) = connection.prepare(&format!("SELECT * FROM \"{}\"", name.replace('"', "\"\""))) else {
            continue;
        };
        let columns = statement.column_count();
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            let cells: Vec<String> = (0..columns).map(|i| format!("{:?}", row.get_ref(i))).collect();
            out.push(format!("{name}: {}", cells.join("|")));
        }
    }
    out
}

/// Writes a valid database and changes its cells. A zero byte ends each change: a column, a row, a type, and a value.
fn change_cells(file: &Path, changes: &[u8]) {
    fs::write(file, valid_database()).expect("scratch file");
    let connection = Connection::open(file).expect("a database");
    connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF; BEGIN").expect("a database");
    for change in changes.split(|byte| *byte == 0).take(8) {
        let [which, row, kind, value @ ..] = change else { continue };
        let (table, column) = CELLS[usize::from(*which) % CELLS.len()];
        let text = || String::from_utf8_lossy(value).into_owned();
        let value = match kind % 5 {
            0 => Value::Text(text()),
            1 => Value::Blob(value.to_vec()),
            2 => Value::Integer(text().parse().unwrap_or(i64::MAX)),
            3 => Value::Null,
            _ => Value::Real(text().parse().unwrap_or(0.5)),
        };
        let sql = format!(
            "UPDATE OR IGNORE {table} SET {column} = ?1
             WHERE rowid = (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET ?2)"
        );
        let _ = connection.execute(&sql, rusqlite::params![value, row]);
    }
    connection.execute_batch("COMMIT").expect("a database");
}

fn options(mode: AddMode) -> AddOptions {
    AddOptions {
        mode,
        strictness: Strictness::Strict,
        overwrite_latest: false,
        enable_alpha: true,
        heads_only: false,
        older_moves_default: false,
        modes: Default::default(),
        limits: Limits::default(),
    }
}

/// Returns a database with a package of three bundles.
fn valid_database() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let file = scratch.path().join("index.db");
        let bundles: Vec<BundleToAdd> =
            ["1.0.0", "1.1.0", "2.0.0"].iter().map(|version| bundle(scratch.path(), version)).collect();
        Database::write(&file).expect("a database").add(&bundles, &options(AddMode::Semver)).expect("bundles");
        let connection = Connection::open(&file).expect("a database");
        connection
            .execute_batch("INSERT INTO deprecated VALUES ('foo.v1.0.0'); PRAGMA page_size = 1024; VACUUM")
            .expect("a database");
        drop(connection);
        fs::read(&file).expect("the file")
    })
}

/// Returns a bundle that is not in the database.
fn new_bundle() -> &'static [BundleToAdd] {
    static BUNDLE: OnceLock<Vec<BundleToAdd>> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let scratch = tempfile::tempdir().expect("scratch directory").keep();
        vec![bundle(&scratch, "1.1.1")]
    })
}

fn bundle(root: &Path, version: &str) -> BundleToAdd {
    let directory: PathBuf = root.join(version);
    fs::create_dir_all(directory.join("manifests")).expect("scratch directory");
    fs::create_dir_all(directory.join("metadata")).expect("scratch directory");
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v{version}\n\
         spec:\n  version: {version}\n  relatedImages: [{{name: x, image: 'r.test/x:1'}}]\n  \
         customresourcedefinitions:\n    owned: [{{name: foos.foo.test, version: v1, kind: Thing}}]\n    \
         required: [{{name: bars.bar.test, version: v1, kind: Bar}}]\n"
    );
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: foos.foo.test\n\
        spec:\n  group: foo.test\n  names: {kind: Thing, plural: foos}\n  scope: Namespaced\n  \
        versions: [{name: v1, served: true, storage: true}]\n";
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
        operators.operatorframework.io.bundle.channels.v1: stable,alpha\n  \
        operators.operatorframework.io.bundle.channel.default.v1: stable\n";
    for (name, text) in
        [("manifests/csv.yaml", &*csv), ("manifests/crd.yaml", crd), ("metadata/annotations.yaml", annotations)]
    {
        fs::write(directory.join(name), text).expect("scratch file");
    }
    BundleToAdd { image: format!("registry.test/foo:v{version}"), directory }
}
