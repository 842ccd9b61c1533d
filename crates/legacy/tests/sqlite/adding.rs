//! Adding bundles that declare what they replace.

use std::fs;

use legacy::{AddMode, AddOptions, Database, Strictness};

use crate::harness::{BundleSpec, Scratch, add, content, entries, options, rows};

fn foo<'a>(version: &'a str, spec: &'a str) -> BundleSpec<'a> {
    BundleSpec { package: "foo", version, channels: "stable", default: "stable", spec, ..BundleSpec::default() }
}

#[test]
fn skips_and_replaces_become_entries() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundles = [
        scratch.bundle(&foo("0.1.0", "")),
        scratch.bundle(&foo("0.2.0", "  replaces: foo.v0.1.0\n")),
        scratch.bundle(&foo("0.3.0", "  replaces: foo.v0.2.0\n  skips: [foo.v0.2.5, foo.v0.1.0]\n")),
    ];
    add(&database, &bundles, AddMode::Replaces).unwrap();
    let expected = [
        "foo.v0.3.0|foo.v0.2.0|0",
        "foo.v0.2.5||1",
        "foo.v0.3.0|foo.v0.2.5|1",
        "foo.v0.1.0||2",
        "foo.v0.3.0|foo.v0.1.0|2",
        "foo.v0.2.0|foo.v0.1.0|3",
        "foo.v0.1.0||4",
    ];
    assert_eq!(entries(&database, "stable"), expected);
}

#[test]
fn adding_one_by_one_gives_the_same_as_adding_together() {
    let scratch = Scratch::new();
    let bundles: Vec<_> = (0..6)
        .map(|minor| {
            let version = format!("0.{minor}.0");
            let replaces = if minor == 0 { String::new() } else { format!("  replaces: foo.v0.{}.0\n", minor - 1) };
            scratch.bundle(&foo(&version, &replaces))
        })
        .collect();
    let (once, many) = (scratch.path("once.db"), scratch.path("many.db"));
    add(&once, &bundles, AddMode::Replaces).unwrap();
    bundles.iter().for_each(|bundle| drop(add(&many, std::slice::from_ref(bundle), AddMode::Replaces).unwrap()));
    assert_eq!(content(&once), content(&many));
    let properties = "SELECT count(*) FROM properties WHERE type = 'olm.package'";
    assert_eq!(rows(&many, properties), ["6"], "properties are duplicated");
}

#[test]
fn exit_codes_distinguish_existing_images_from_existing_bundles() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundle = scratch.bundle(&foo("1.0.0", ""));
    add(&database, std::slice::from_ref(&bundle), AddMode::Replaces).unwrap();
    let before = content(&database);
    let error = add(&database, std::slice::from_ref(&bundle), AddMode::Replaces).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(error.refusals.len(), 2, "{error}");
    let mut other = bundle;
    other.image = "registry.test/other:v1".into();
    let error = add(&database, &[other], AddMode::Replaces).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    assert_eq!(content(&database), before);
}

#[test]
fn a_failed_add_changes_nothing_in_any_mode() {
    for mode in [AddMode::Replaces, AddMode::Semver, AddMode::SkipPatch] {
        let scratch = Scratch::new();
        let database = scratch.path("index.db");
        add(&database, &[scratch.bundle(&foo("1.0.0", ""))], mode).unwrap();
        let before = content(&database);
        let good = BundleSpec { package: "bar", ..foo("1.0.0", "") };
        let bad = BundleSpec { package: "baz", ..foo("not-a-version", "") };
        let error = add(&database, &[scratch.bundle(&good), scratch.bundle(&bad)], mode).unwrap_err();
        assert!(error.to_string().contains("not-a-version"), "{error}");
        assert_eq!(content(&database), before, "{mode:?}");
    }
}

#[test]
fn permissive_adds_skip_invalid_bundles() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let good = BundleSpec { package: "bar", ..foo("1.0.0", "") };
    let bad = foo("1.0.0", "  replaces: foo.v0.9.0\n");
    let forgiving = AddOptions { strictness: Strictness::Permissive, ..options(AddMode::Replaces) };
    let bundles = [scratch.bundle(&good), scratch.bundle(&bad)];
    let added = Database::write(&database).unwrap().add(&bundles, &forgiving).unwrap();
    assert_eq!(added.skipped, ["Invalid bundle foo.v1.0.0, replaces nonexistent bundle foo.v0.9.0"]);
    assert_eq!(rows(&database, "SELECT name FROM operatorbundle"), ["bar.v1.0.0"]);
}

#[test]
fn a_bundle_of_another_package_cannot_be_replaced() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    add(&database, &[scratch.bundle(&foo("1.0.0", ""))], AddMode::Replaces).unwrap();
    let thief = BundleSpec { package: "thief", ..foo("1.0.0", "  replaces: foo.v1.0.0\n") };
    let error = add(&database, &[scratch.bundle(&thief)], AddMode::Replaces).unwrap_err();
    let expected = "bundle foo.v1.0.0 belongs to package foo on index, cannot be added as an edge for package thief";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_substitute_replaces_the_build_of_a_version() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let alpha = AddOptions { enable_alpha: true, ..options(AddMode::Replaces) };
    let substitute = BundleSpec {
        annotations: "    olm.substitutesFor: foo.v0.3.0\n",
        ..foo("0.3.0+1", "  replaces: foo.v0.2.0\n")
    };
    for spec in [
        foo("0.2.0", ""),
        foo("0.3.0", "  replaces: foo.v0.2.0\n"),
        substitute,
        foo("0.4.0", "  replaces: foo.v0.3.0\n"),
    ] {
        Database::write(&database).unwrap().add(&[scratch.bundle(&spec)], &alpha).unwrap();
    }
    let edges = "SELECT name, replaces, skips FROM operatorbundle ORDER BY name";
    assert_eq!(
        rows(&database, edges),
        ["foo.v0.2.0||", "foo.v0.3.0|foo.v0.2.0|", "foo.v0.3.0+1|foo.v0.2.0|foo.v0.3.0", "foo.v0.4.0|foo.v0.3.0+1|",]
    );
}

#[test]
fn a_directory_of_packages_can_be_loaded() {
    let scratch = Scratch::new();
    let root = scratch.path("packages");
    for spec in [foo("0.1.0", ""), foo("0.2.0", "  replaces: foo.v0.1.0\n")] {
        let bundle = scratch.bundle(&spec);
        let target = root.join("foo").join(spec.version);
        fs::create_dir_all(&target).unwrap();
        for file in fs::read_dir(bundle.directory.join("manifests")).unwrap().flatten() {
            fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
    }
    let package = "packageName: foo\nchannels:\n- name: stable\n  currentCSV: foo.v0.2.0\n";
    fs::write(root.join("foo/foo.package.yaml"), package).unwrap();
    fs::write(root.join("ci.yaml"), "updateGraph: replaces-mode\n").unwrap();
    let database = scratch.path("index.db");
    let loaded = Database::write(&database).unwrap();
    loaded.load_directories(std::slice::from_ref(&root), &fbc::Limits::default(), Strictness::Strict).unwrap();
    assert_eq!(entries(&database, "stable"), ["foo.v0.2.0|foo.v0.1.0|0", "foo.v0.1.0||1"]);
    assert_eq!(rows(&database, "SELECT name, default_channel FROM package"), ["foo|stable"]);
    fs::write(root.join("broken.yaml"), "a: [").unwrap();
    let other = Database::write(&scratch.path("other.db")).unwrap();
    let error =
        other.load_directories(std::slice::from_ref(&root), &fbc::Limits::default(), Strictness::Strict).unwrap_err();
    assert!(error.to_string().contains("broken.yaml into package"), "{error}");
}

#[test]
fn a_config_map_can_be_loaded() {
    let scratch = Scratch::new();
    let bundle = scratch.bundle(&foo(
        "0.1.0",
        "  customresourcedefinitions:\n    owned:\n    - {name: foos.foo.test, version: v1, kind: Thing}\n",
    ));
    let list = |file: &str| {
        let text = fs::read_to_string(bundle.directory.join("manifests").join(file)).unwrap();
        let indented: Vec<String> = text.lines().map(|line| format!("      {line}")).collect();
        format!("    -\n{}\n", indented.join("\n"))
    };
    let text = format!(
        "data:\n  customResourceDefinitions: |\n{}  clusterServiceVersions: |\n{}  packages: |\n    - packageName: foo\n      \
         channels:\n      - {{name: stable, currentCSV: foo.v0.1.0}}\n",
        list("crd.yaml"),
        list("csv.yaml")
    );
    let database = scratch.path("index.db");
    let loaded = Database::write(&database).unwrap();
    loaded.load_config_map(text.as_bytes(), &fbc::Limits::default(), Strictness::Strict).unwrap();
    assert_eq!(entries(&database, "stable"), ["foo.v0.1.0||0"]);
    assert_eq!(rows(&database, "SELECT group_name, kind FROM api_provider"), ["foo.test|Thing"]);
    let error = loaded.load_config_map(b"data: {}", &fbc::Limits::default(), Strictness::Strict).unwrap_err();
    assert_eq!(error.to_string(), "couldn't find expected key customResourceDefinitions in configmap");
}
