//! What commands do with databases, without a process.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use legacy::index_image::{IndexDockerfile, Staged};
use legacy::{AddMode, AddOptions, Database, DatabaseTarget, IfMissing, OperationError, PackageInfo, Strictness};

use crate::harness::{BundleSpec, Images, NoImage, Scratch, add, content, options, rows};

fn foo(version: &str) -> BundleSpec<'_> {
    BundleSpec { package: "foo", version, channels: "stable", ..BundleSpec::default() }
}

/// Returns the images of the bundles in a directory.
fn images(scratch: &Scratch) -> Images<impl Fn(&str) -> Result<PathBuf, NoImage>> {
    Images(|image: &str| {
        let directory = scratch.path(&image.replace("registry.test/", "").replace(':', "."));
        if directory.exists() { Ok(directory) } else { Err(NoImage(format!("{image} not found"))) }
    })
}

fn names(database: &Path) -> Vec<String> {
    rows(database, "SELECT name FROM operatorbundle ORDER BY name")
}

#[test]
fn a_failed_pull_adds_nothing_and_leaves_what_scripts_open() {
    let scratch = Scratch::new();
    scratch.bundle(&foo("1.0.0"));
    let references = ["registry.test/foo:v1.0.0".to_owned(), "registry.test/none:v1".to_owned()];
    let strict = options(AddMode::Replaces);
    for (missing, left) in [(IfMissing::Create, false), (IfMissing::CreateAnyway, true), (IfMissing::Reject, false)] {
        let path = scratch.path("index.db");
        let target = DatabaseTarget::in_place(&path, missing);
        let failed = target.change(|database| database.add_images(&references, &strict, &images(&scratch)));
        let error = failed.unwrap_err().to_string();
        let expected = if missing == IfMissing::Reject { "No such file" } else { "registry.test/none:v1 not found" };
        assert!(error.contains(expected), "{error}");
        assert_eq!(path.exists(), left, "{missing:?}");
        if left {
            assert_eq!(content(&path), Vec::<String>::new());
            fs::remove_file(&path).unwrap();
        }
    }
    let path = scratch.path("forgiving.db");
    let forgiving = AddOptions { strictness: Strictness::Permissive, ..strict };
    let target = DatabaseTarget::in_place(&path, IfMissing::Create);
    let changed = target.change(|database| database.add_images(&references, &forgiving, &images(&scratch))).unwrap();
    assert_eq!(changed.skipped, ["registry.test/none:v1 not found"]);
    assert_eq!(names(&path), Vec::<String>::new());
}

#[test]
fn a_database_is_free_for_other_writers_while_new_bundles_are_pulled() {
    let scratch = Scratch::new();
    let path = scratch.path("index.db");
    add(&path, &[scratch.bundle(&foo("1.0.0"))], AddMode::Replaces).unwrap();
    scratch.bundle(&BundleSpec { package: "bar", version: "1.0.0", channels: "stable", ..BundleSpec::default() });
    let pulled = RefCell::new(0);
    let busy = Images(|image: &str| {
        *pulled.borrow_mut() += 1;
        let other = rusqlite::Connection::open(&path).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(|error| NoImage(error.to_string()))?;
        Ok(scratch.path(&image.replace("registry.test/", "").replace(':', ".")))
    });
    let target = DatabaseTarget::in_place(&path, IfMissing::Reject);
    let references = ["registry.test/bar:v1.0.0".to_owned()];
    target.change(|database| database.add_images(&references, &options(AddMode::Replaces), &busy)).unwrap();
    assert_eq!((pulled.into_inner(), names(&path)), (1, vec!["bar.v1.0.0".into(), "foo.v1.0.0".into()]));
}

#[test]
fn an_image_that_exists_has_a_recorded_exit_code() {
    let scratch = Scratch::new();
    let path = scratch.path("index.db");
    add(&path, &[scratch.bundle(&foo("1.0.0"))], AddMode::Replaces).unwrap();
    let target = DatabaseTarget::in_place(&path, IfMissing::Create);
    let again = ["registry.test/foo:v1.0.0".to_owned()];
    let added = target.change(|database| database.add_images(&again, &options(AddMode::Replaces), &images(&scratch)));
    assert_eq!(added.unwrap_err().exit_code(), Some(2));
    assert_eq!(OperationError::UnknownPackage("foo".into()).exit_code(), None);
}

#[test]
fn an_output_leaves_the_database_as_it_was() {
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("index.db"), scratch.path("out.db"));
    add(&path, &[scratch.bundle(&foo("1.0.0"))], AddMode::Replaces).unwrap();
    let before = fs::read(&path).unwrap();
    let target = DatabaseTarget { output: Some(output.clone()), ..DatabaseTarget::in_place(&path, IfMissing::Reject) };
    let unknown = target.change(|database| database.remove_packages(&["bar".to_owned()], Strictness::Strict));
    assert!(unknown.is_err() && !output.exists());
    target.change(|database| database.remove_packages(&["foo".to_owned()], Strictness::Strict)).unwrap();
    assert_eq!((names(&path), names(&output)), (vec!["foo.v1.0.0".to_owned()], Vec::new()));
    assert_eq!(fs::read(&path).unwrap(), before);
    let same = DatabaseTarget { output: Some(scratch.path("./index.db")), ..target };
    same.change(|database| database.prune(&[])).unwrap();
    assert_eq!(names(&path), Vec::<String>::new());
}

#[test]
fn packages_are_exported_as_directories() {
    let scratch = Scratch::new();
    let path = scratch.path("index.db");
    let next = BundleSpec { spec: "  replaces: foo.v1.0.0\n", ..foo("1.1.0") };
    let bundles = [scratch.bundle(&foo("1.0.0")), scratch.bundle(&next)];
    add(&path, &bundles, AddMode::Replaces).unwrap();
    let database = Database::read(&path).unwrap();
    let unknown = database.select_packages(&["bar".to_owned()]).unwrap_err();
    assert_eq!(unknown.to_string(), "package \"bar\" not found in index");
    let packages = database.select_packages(&[]).unwrap();
    let root = scratch.path("out");
    database.export(&packages, &images(&scratch), &root).unwrap();
    let text = fs::read_to_string(root.join("foo/package.yaml")).unwrap();
    assert_eq!(
        text,
        "packageName: foo\nchannels:\n    - name: stable\n      currentCSV: foo.v1.1.0\ndefaultChannel: stable\n"
    );
    assert!(root.join("foo/1.0.0/csv.yaml").exists() && root.join("foo/1.1.0/crd.yaml").exists());
    fs::remove_dir_all(&bundles[0].directory).unwrap();
    let failed = database.export(&packages, &images(&scratch), &scratch.path("again")).unwrap_err().to_string();
    let cause = "registry.test/foo:v1.0.0 not found";
    assert_eq!(failed, format!("[exporting bundle image:registry.test/foo:v1.0.0 failed with {cause}]"));
    let hostile = PackageInfo { name: "../foo".into(), ..packages[0].clone() };
    let failed = database.export(&[hostile], &images(&scratch), &root).unwrap_err().to_string();
    assert_eq!(failed, "\"../foo\" is not a valid directory name");
}

#[test]
fn a_package_is_described_with_everything_below_and_above() {
    let scratch = Scratch::new();
    let path = scratch.path("index.db");
    let bundles = ["1.0.0", "1.1.0", "1.2.0"].map(|version| scratch.bundle(&foo(version)));
    add(&path, &bundles, AddMode::Semver).unwrap();
    let packages = Database::read(&path).unwrap().packages().unwrap();
    assert_eq!(packages[0].summary().channels, ["stable"]);
    let details = packages[0].details();
    let middle = &details.channels[0].bundles[1];
    let names = |list: &Option<Vec<legacy::inspect::NamedVersion>>| -> Vec<String> {
        list.iter().flatten().map(|bundle| bundle.csv.clone()).collect()
    };
    assert_eq!(middle.csv, "foo.v1.1.0");
    assert_eq!(
        (names(&middle.replaces), names(&middle.replacements)),
        (vec!["foo.v1.0.0".into()], vec!["foo.v1.2.0".into()])
    );
    assert_eq!(details.channels[0].bundles[0].replaces, None);
}

#[test]
fn an_index_image_is_staged_from_its_database_or_without_one() {
    let scratch = Scratch::new();
    let path = scratch.path("index.db");
    add(&path, &[scratch.bundle(&foo("1.0.0"))], AddMode::Replaces).unwrap();
    let found = Images(|image: &str| match image {
        "registry.test/index:v1" => Ok(path.clone()),
        _ => Err(NoImage(format!("{image} not found"))),
    });
    let staged = Staged::new(Some("registry.test/index:v1"), &found).unwrap();
    assert_eq!(names(staged.database()), ["foo.v1.0.0"]);
    let dockerfile = staged.write_dockerfile(&IndexDockerfile { binary: "scratch", path: None }).unwrap();
    let text = fs::read_to_string(&dockerfile).unwrap();
    assert!(text.starts_with("FROM scratch\n") && text.contains("ADD index_build_tmp"), "{text}");
    let folder = staged.database().parent().and_then(Path::parent).unwrap().to_owned();
    drop(staged);
    assert!(!folder.exists());
    assert!(Staged::new(Some("registry.test/none:v1"), &found).is_err());
    let empty = Staged::new(None, &found).unwrap();
    assert_eq!(fs::metadata(empty.database()).unwrap().len(), 0);
}
