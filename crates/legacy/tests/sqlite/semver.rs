//! Graphs by version: independent of the order of adding, and as designed for these modes.

use std::collections::BTreeMap;

use legacy::AddMode;
use proptest::prelude::*;
use proptest::sample::subsequence;

use crate::harness::{BundleSpec, Scratch, add, entries, options, rows};

const VERSIONS: &[&str] =
    &["0.1.0", "0.1.1", "0.1.2-rc.1", "0.1.2", "0.2.0", "0.2.1", "1.0.0-alpha", "1.0.0", "1.0.1", "1.1.0", "2.0.0"];

/// The expected channel: what each version replaces, and what it skips.
type Model = BTreeMap<String, (Option<String>, Vec<String>)>;

/// Each version replaces the previous one.
fn semver_model(versions: &[&str]) -> Model {
    let mut model = Model::new();
    let mut before = None;
    for version in versions {
        model.insert(name(version), (before.replace(name(version)), Vec::new()));
    }
    model
}

/// The last patch of each minor version replaces the last patch of the previous minor version, and skips its own.
fn skip_patch_model(versions: &[&str]) -> Model {
    let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut model = Model::new();
    let mut before = None;
    for group in versions.chunk_by(|a, b| minor(a) == minor(b)) {
        let (last, skipped) = group.split_last().unwrap();
        let skipped: Vec<String> = skipped.iter().map(|version| name(version)).collect();
        model.extend(skipped.iter().map(|skipped| (skipped.clone(), (None, Vec::new()))));
        model.insert(name(last), (before.replace(name(last)), skipped));
    }
    model
}

fn name(version: &str) -> String {
    format!("foo.v{version}")
}

/// Reads a channel in the form of the model.
fn read(database: &std::path::Path) -> Model {
    let mut model = Model::new();
    let least = "SELECT operatorbundle_name FROM channel_entry WHERE depth = 0";
    assert_eq!(rows(database, least).len(), 1, "one head");
    let sql = "WITH RECURSIVE real(id) AS (
            SELECT entry_id FROM channel_entry WHERE depth = 0
            UNION SELECT entry.replaces FROM channel_entry AS entry JOIN real ON real.id = entry.entry_id)
        SELECT entry.operatorbundle_name, below.operatorbundle_name, entry.entry_id IN (SELECT id FROM real)
        FROM channel_entry AS entry LEFT JOIN channel_entry AS below ON below.entry_id = entry.replaces
        ORDER BY entry.entry_id";
    for row in rows(database, sql) {
        let parts: Vec<&str> = row.split('|').collect();
        let (replaces, skips) = model.entry(parts[0].to_owned()).or_default();
        match (parts[1], parts[2]) {
            ("", _) => {}
            (below, "1") => *replaces = Some(below.to_owned()),
            (below, _) => skips.push(below.to_owned()),
        }
    }
    model
}

fn build(mode: AddMode, versions: &[&str], together: bool) -> (Model, Vec<String>) {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let make = |version: &&str| {
        // These modes ignore what bundles declare themselves.
        let bundle_spec = BundleSpec {
            package: "foo",
            version,
            channels: "stable",
            spec: "  replaces: foo.v9.9.9\n",
            ..BundleSpec::default()
        };
        scratch.bundle(&bundle_spec)
    };
    let bundles: Vec<_> = versions.iter().map(make).collect();
    if together {
        add(&database, &bundles, mode).unwrap();
    } else {
        bundles.iter().for_each(|bundle| drop(add(&database, std::slice::from_ref(bundle), mode).unwrap()));
    }
    let with_manifests = rows(&database, "SELECT name FROM operatorbundle WHERE csv IS NOT NULL");
    assert_eq!(
        with_manifests,
        rows(&database, "SELECT head_operatorbundle_name FROM channel"),
        "only heads have manifests"
    );
    (read(&database), entries(&database, "stable"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_adding_does_not_matter(
        versions in subsequence(VERSIONS.to_vec(), 1..=8).prop_shuffle(),
        together: bool,
        skip: bool,
    ) {
        let mut sorted = versions.clone();
        sorted.sort_by_key(|version| VERSIONS.iter().position(|other| other == version));
        let (mode, model) = match skip {
            true => (AddMode::SkipPatch, skip_patch_model(&sorted)),
            false => (AddMode::Semver, semver_model(&sorted)),
        };
        prop_assert_eq!(build(mode, &versions, together).0, model);
    }
}

/// Returns all permutations of five items.
fn permutations(rest: &[&'static str]) -> Vec<Vec<&'static str>> {
    if rest.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in rest.iter().enumerate() {
        let left: Vec<&str> = rest.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, one)| *one).collect();
        for mut order in permutations(&left) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}

#[test]
fn patches_of_two_minor_versions_give_one_table_in_all_orders() {
    let expected = [
        "foo.v0.2.1|foo.v0.1.2|0",
        "foo.v0.2.0||1",
        "foo.v0.2.1|foo.v0.2.0|1",
        "foo.v0.1.2||1",
        "foo.v0.1.0||2",
        "foo.v0.1.2|foo.v0.1.0|2",
        "foo.v0.1.1||3",
        "foo.v0.1.2|foo.v0.1.1|3",
    ];
    // All 120 orders are added together; every fifth one is added one by one, which takes longer.
    for (i, order) in permutations(&["0.1.0", "0.1.1", "0.1.2", "0.2.0", "0.2.1"]).iter().enumerate() {
        let (_, table) = build(AddMode::SkipPatch, order, i % 5 != 0);
        assert_eq!(table, expected, "added in the order {order:?}");
    }
}

#[test]
fn a_version_in_the_middle_is_inserted_between_its_neighbors() {
    let (_, table) = build(AddMode::Semver, &["0.1.0", "0.1.2", "0.2.0", "0.1.1"], false);
    assert_eq!(
        table,
        ["foo.v0.2.0|foo.v0.1.2|0", "foo.v0.1.2|foo.v0.1.1|1", "foo.v0.1.1|foo.v0.1.0|2", "foo.v0.1.0||3"]
    );
}

#[test]
fn a_duplicate_version_is_rejected_and_changes_nothing() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundle_spec = BundleSpec { package: "foo", version: "1.0.0", channels: "stable", ..BundleSpec::default() };
    add(&database, &[scratch.bundle(&bundle_spec)], AddMode::Semver).unwrap();
    let before = crate::harness::content(&database);
    let again = BundleSpec { version: "1.0.0+1", ..bundle_spec };
    let error = add(&database, &[scratch.bundle(&again)], AddMode::Semver).unwrap_err();
    assert_eq!(error.to_string(), "Bundle version 1.0.0+1 already added to index");
    assert_eq!(crate::harness::content(&database), before);
}

fn etcd<'a>(version: &'a str, channels: &'a str, default: &'a str) -> BundleSpec<'a> {
    BundleSpec { package: "etcd", version, channels, default, ..BundleSpec::default() }
}

fn default_channel(database: &std::path::Path) -> Vec<String> {
    rows(database, "SELECT default_channel FROM package")
}

#[test]
fn any_bundle_may_bring_the_default_channel() {
    let bundle_spec = [
        etcd("0.6.1", "alpha", "stable"),
        etcd("0.9.0", "alpha,stable", "stable"),
        etcd("0.9.2", "alpha,stable", "stable"),
    ];
    for mode in [AddMode::Semver, AddMode::SkipPatch] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let scratch = Scratch::new();
            let database = scratch.path("index.db");
            add(&database, &order.map(|i| scratch.bundle(&bundle_spec[i])), mode).unwrap();
            assert_eq!(default_channel(&database), ["stable"]);
            assert_eq!(rows(&database, "SELECT name FROM operatorbundle").len(), 3);
        }
    }
}

#[test]
fn only_the_latest_version_moves_the_default_channel() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let add_one =
        |bundle_spec: BundleSpec<'_>| add(&database, &[scratch.bundle(&bundle_spec)], AddMode::Semver).unwrap();
    add_one(etcd("0.9.0", "alpha,stable", "stable"));
    add_one(etcd("0.6.1", "alpha", "alpha"));
    assert_eq!(default_channel(&database), ["stable"], "an older version");
    // A missing channel does not matter either.
    add_one(etcd("0.6.0", "alpha", "gone"));
    assert_eq!(default_channel(&database), ["stable"]);
    add_one(etcd("0.9.2", "alpha", ""));
    assert_eq!(default_channel(&database), ["stable"], "one that names none");
    add_one(etcd("1.0.0", "alpha", "alpha"));
    assert_eq!(default_channel(&database), ["alpha"], "the latest");
    // Among several bundles the latest decides.
    let several = [etcd("1.2.0", "beta", "beta"), etcd("1.1.0", "stable", "stable")]
        .map(|bundle_spec| scratch.bundle(&bundle_spec));
    add(&database, &several, AddMode::Semver).unwrap();
    assert_eq!(default_channel(&database), ["beta"]);
}

#[test]
fn an_older_version_moves_the_default_channel_on_request() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let wanted = legacy::AddOptions { older_moves_default: true, ..options(AddMode::Semver) };
    for bundle_spec in [etcd("0.9.0", "alpha,stable", "stable"), etcd("0.6.1", "alpha", "alpha")] {
        legacy::Database::write(&database).unwrap().add(&[scratch.bundle(&bundle_spec)], &wanted).unwrap();
    }
    assert_eq!(default_channel(&database), ["alpha"]);
}

#[test]
fn a_missing_default_channel_is_rejected() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundle_spec =
        [etcd("0.9.0", "alpha", ""), etcd("1.0.0", "alpha", "gone")].map(|bundle_spec| scratch.bundle(&bundle_spec));
    let error = add(&database, &bundle_spec, AddMode::Semver).unwrap_err();
    assert_eq!(error.to_string(), "default channel gone of package etcd is not one of its channels: alpha");
    let permissive = legacy::AddOptions { strictness: legacy::Strictness::Permissive, ..options(AddMode::Semver) };
    let added = legacy::Database::write(&database).unwrap().add(&bundle_spec, &permissive).unwrap();
    assert_eq!(added.skipped, ["default channel gone of package etcd is not one of its channels: alpha"]);
    assert_eq!(rows(&database, "SELECT name FROM operatorbundle"), ["etcd.v0.9.0"]);
    assert_eq!(default_channel(&database), ["alpha"]);
}
