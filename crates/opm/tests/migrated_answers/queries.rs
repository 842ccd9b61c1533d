//! A database and its migrated catalog give the same answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use catalog::query::ApiType;
use catalog::query::Query;
use fbc::json::{JsonLayout, Raw, write_canonical};
use fbc::{Fbc, Format, Limits};
use legacy::{AddMode, AddOptions, BundleToAdd, Database, DatabaseIndex, ManifestConversion, Strictness};
use serve::cache::store::{Integrity, prepare};
use serve::load::{Empty, OnInvalid, ServedDirectory};

/// The fields of a message by number; all are strings or messages.
type Fields = BTreeMap<u64, Vec<Vec<u8>>>;

fn fields(mut bytes: &[u8]) -> Fields {
    fn number(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut fields = Fields::new();
    while !bytes.is_empty() {
        let field = number(&mut bytes) >> 3;
        let length = number(&mut bytes) as usize;
        fields.entry(field).or_default().push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    fields
}

fn text(fields: &Fields, field: u64) -> String {
    let bytes = fields.get(&field).and_then(|values| values.first()).cloned().unwrap_or_default();
    String::from_utf8(bytes).unwrap()
}

/// Returns the messages of a field as sets of texts, with canonical JSON.
fn set(of: &Fields, field: u64, parts: &[u64]) -> BTreeSet<Vec<String>> {
    let values = of.get(&field).into_iter().flatten();
    values.map(|value| parts.iter().map(|part| canonical(&text(&fields(value), *part))).collect()).collect()
}

fn strings(of: &Fields, field: u64) -> BTreeSet<String> {
    of.get(&field).into_iter().flatten().map(|value| canonical(&String::from_utf8_lossy(value))).collect()
}

fn canonical(text: &str) -> String {
    match Raw::parse(text, 100) {
        Ok(json) => {
            let mut out = Vec::new();
            write_canonical(json, JsonLayout::Compact, &mut out);
            String::from_utf8(out).unwrap()
        }
        Err(_) => text.to_owned(),
    }
}

fn write_bundle(root: &Path, package: &str, version: &str, channels: &str, spec: &str) -> BundleToAdd {
    let directory = root.join(format!("{package}.{version}"));
    fs::create_dir_all(directory.join("manifests")).unwrap();
    fs::create_dir_all(directory.join("metadata")).unwrap();
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {package}.v{version}\n  \
         annotations: {{olm.skipRange: '<{version}'}}\nspec:\n  version: {version}\n  displayName: {package}\n{spec}"
    );
    fs::write(directory.join("manifests/csv.yaml"), csv).unwrap();
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.{package}.test}}\n\
         spec:\n  group: {package}.test\n  names: {{kind: Thing, plural: things}}\n  versions: [{{name: v1}}]\n"
    );
    fs::write(directory.join("manifests/crd.yaml"), crd).unwrap();
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  \
         operators.operatorframework.io.bundle.channels.v1: {channels}\n  \
         operators.operatorframework.io.bundle.channel.default.v1: stable\n"
    );
    fs::write(directory.join("metadata/annotations.yaml"), annotations).unwrap();
    let dependencies = "dependencies:\n- {type: olm.package, value: {packageName: bar, version: '>=0.1.0'}}\n\
        - {type: olm.label, value: {label: shiny}}\n";
    fs::write(directory.join("metadata/dependencies.yaml"), dependencies).unwrap();
    BundleToAdd { image: format!("registry.test/{package}:v{version}"), directory }
}

/// Creates a database, and serves it and its migrated catalog.
fn both(root: &Path) -> (Arc<dyn Query>, Arc<dyn Query>) {
    let needs = "  customresourcedefinitions:\n    required: [{name: things.bar.test, version: v1, kind: Thing}]\n";
    let release = |version: &str, channels: &str, spec: &str| write_bundle(root, "foo", version, channels, spec);
    let bundles = [
        release("1.0.0", "alpha,stable", ""),
        release("1.1.0", "alpha,stable", &format!("{needs}  replaces: foo.v1.0.0\n")),
        release("1.2.0", "alpha", "  replaces: foo.v1.1.0\n  skips: [foo.v1.1.5, foo.v1.0.0]\n"),
        write_bundle(root, "bar", "0.1.0", "stable", ""),
    ];
    let file = root.join("index.db");
    let options = AddOptions {
        mode: AddMode::Replaces,
        strictness: Strictness::Strict,
        overwrite_latest: false,
        enable_alpha: false,
        heads_only: false,
        older_moves_default: false,
        modes: Default::default(),
        limits: Limits::default(),
    };
    let database = Database::write(&file).unwrap();
    database.add(&bundles, &options).unwrap();
    let patches = ["2.0.0", "2.0.1", "2.1.0"].map(|version| write_bundle(root, "baz", version, "stable", ""));
    database.add(&patches, &AddOptions { mode: AddMode::SkipPatch, ..options }).unwrap();
    let mut fbc = Fbc::default();
    let warnings =
        Database::read(&file).unwrap().convert(&mut fbc, ManifestConversion::Objects, &Limits::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let catalog = root.join("catalog");
    fs::create_dir(&catalog).unwrap();
    let mut out = fs::File::create(catalog.join("catalog.json")).unwrap();
    fbc.write(&fbc.in_order(), Format::Json, &mut out).unwrap();
    let directory = ServedDirectory {
        root: catalog,
        limits: Limits::default(),
        on_invalid: OnInvalid::Fail,
        empty: Empty::Accepted,
        summarize: false,
    };
    let cache = prepare(&directory, None, Integrity::Rebuild).unwrap().cache;
    (Arc::new(DatabaseIndex::new(Database::copy(&file).unwrap()).unwrap()), cache)
}

fn all(rows: catalog::query::Rows) -> Vec<Fields> {
    rows.map(|row| fields(&row.unwrap())).collect()
}

#[test]
fn a_database_and_its_migrated_catalog_give_the_same_replies() {
    let root = tempfile::tempdir().unwrap();
    let (database, files) = both(root.path());
    assert_eq!(all(Arc::clone(&database).packages()), all(Arc::clone(&files).packages()));
    for package in ["foo", "bar", "baz"] {
        assert_eq!(database.package(package), files.package(package));
    }

    let (ours, theirs) = (all(Arc::clone(&database).bundles()), all(Arc::clone(&files).bundles()));
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours.len(), 9);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let what = format!("{} in {}", text(ours, 1), text(ours, 3));
        for field in [1, 2, 3, 4, 6, 9, 10, 13] {
            assert_eq!(text(ours, field), text(theirs, field), "field {field} of {what}");
        }
        for field in [5, 14] {
            assert_eq!(strings(ours, field), strings(theirs, field), "field {field} of {what}");
        }
        for field in [7, 8] {
            assert_eq!(set(ours, field, &[1, 2, 3]), set(theirs, field, &[1, 2, 3]), "field {field} of {what}");
        }
        // A database returns all dependencies, a catalog also those that are not properties.
        let (dependencies, returned) = (set(ours, 11, &[1, 2]), set(theirs, 11, &[1, 2]));
        assert!(returned.is_subset(&dependencies), "{what}: {returned:?}, {dependencies:?}");
        let (properties, returned) = (set(ours, 12, &[1, 2]), set(theirs, 12, &[1, 2]));
        assert!(properties.is_subset(&returned), "{what}: {properties:?}, {returned:?}");
        let left: BTreeSet<_> = dependencies.difference(&set(theirs, 11, &[1, 2])).cloned().collect();
        assert!(left.is_subset(&returned), "{what}: lost {left:?}");
        compare_single(&*database, &*files, ours, &what);
    }
    compare_edges(&database, &files);
    compare_providers(&database, &files);
}

/// Compares the replies for a single bundle.
fn compare_single(database: &dyn Query, files: &dyn Query, listed: &Fields, what: &str) {
    let (name, package, channel) = (text(listed, 1), text(listed, 2), text(listed, 3));
    let ours = fields(&database.bundle(&package, &channel, &name).unwrap());
    let theirs = fields(&files.bundle(&package, &channel, &name).unwrap());
    for field in [1, 2, 3, 6, 9, 10, 13] {
        assert_eq!(text(&ours, field), text(&theirs, field), "field {field} of {what}");
    }
    assert_eq!(canonical(&text(&ours, 4)), canonical(&text(&theirs, 4)), "CSV of {what}");
    assert_eq!(strings(&ours, 5), strings(&theirs, 5), "objects of {what}");
    assert_eq!(set(&ours, 7, &[1, 2, 3]), set(&theirs, 7, &[1, 2, 3]), "APIs of {what}");
    let head = fields(&database.head(&package, &channel).unwrap());
    assert_eq!(text(&head, 1), text(&fields(&files.head(&package, &channel).unwrap()), 1), "head of {channel}");
}

fn rows(rows: Result<catalog::query::Rows, catalog::query::QueryError>, parts: &[u64]) -> BTreeSet<Vec<String>> {
    let rows = rows.map(all).unwrap_or_default();
    rows.iter().map(|row| parts.iter().map(|part| text(row, *part)).collect()).collect()
}

fn compare_edges(database: &Arc<dyn Query>, files: &Arc<dyn Query>) {
    // A file-based catalog accepts an empty name; a database does not.
    assert!(database.replacement("", "foo", "stable").is_err());
    for name in ["foo.v1.0.0", "foo.v1.1.0", "foo.v1.1.5", "foo.v1.2.0", "baz.v2.0.0", "baz.v2.0.1", "none"] {
        // `replaces` of a row is the requested name in one, and the actual value in the other.
        let ours = rows(Arc::clone(database).replacements(name), &[1, 2, 3]);
        assert_eq!(ours, rows(Arc::clone(files).replacements(name), &[1, 2, 3]), "what replaces {name}");
        for (package, channel) in [("foo", "alpha"), ("foo", "stable"), ("baz", "stable")] {
            let ours = database.replacement(name, package, channel).map(|found| text(&fields(&found), 1));
            let theirs = files.replacement(name, package, channel).map(|found| text(&fields(&found), 1));
            assert_eq!(ours.ok(), theirs.ok(), "what replaces {name} in {package}, {channel}");
        }
    }
}

fn compare_providers(database: &Arc<dyn Query>, files: &Arc<dyn Query>) {
    for group in ["foo.test", "bar.test", "baz.test", "none.test"] {
        let api = ApiType { group: group.into(), version: "v1".into(), kind: "Thing".into() };
        let ours = rows(Arc::clone(database).providers(&api), &[1, 2, 3, 4]);
        let theirs = rows(Arc::clone(files).providers(&api), &[1, 2, 3, 4]);
        // In a database, a bundle that is both skipped and replaced has a separate entry for that.
        let surplus: Vec<_> = ours.difference(&theirs).filter(|row| !row[3].is_empty()).collect();
        assert!(theirs.is_subset(&ours) && surplus.is_empty(), "{group}: {ours:?}, {theirs:?}");
        let ours = rows(Arc::clone(database).latest_providers(&api), &[1, 2, 3]);
        assert_eq!(ours, rows(Arc::clone(files).latest_providers(&api), &[1, 2, 3]), "latest that provide {group}");
        let ours = database.default_provider(&api).map(|found| text(&fields(&found), 1));
        let theirs = files.default_provider(&api).map(|found| text(&fields(&found), 1));
        assert_eq!(ours.ok(), theirs.ok(), "default provider of {group}");
    }
}
