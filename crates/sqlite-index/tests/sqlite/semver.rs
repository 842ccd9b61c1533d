//! Graphs by version: the same whatever is added first, and as the design of these modes says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::subsequence;
use sqlite_index::Mode;

use crate::harness::{Made, Place, add, entries, options, rows};

const VERSIONS: &[&str] =
    &["0.1.0", "0.1.1", "0.1.2-rc.1", "0.1.2", "0.2.0", "0.2.1", "1.0.0-alpha", "1.0.0", "1.0.1", "1.1.0", "2.0.0"];

/// What a channel is to be: what each version replaces, and what it skips.
type Model = BTreeMap<String, (Option<String>, Vec<String>)>;

/// Each version replaces the one before.
fn semver_model(versions: &[&str]) -> Model {
    let mut model = Model::new();
    let mut before = None;
    for version in versions {
        model.insert(name(version), (before.replace(name(version)), Vec::new()));
    }
    model
}

/// The last patch of each minor version replaces the last patch of the minor version before, and skips its own.
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

/// Reads a channel as the model has it.
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

fn build(mode: Mode, versions: &[&str], at_once: bool) -> (Model, Vec<String>) {
    let place = Place::new();
    let database = place.path("index.db");
    let make = |version: &&str| {
        // What bundles say themselves does not matter in these modes.
        let made =
            Made { package: "foo", version, channels: "stable", spec: "  replaces: foo.v9.9.9\n", ..Made::default() };
        place.bundle(&made)
    };
    let bundles: Vec<_> = versions.iter().map(make).collect();
    if at_once {
        add(&database, &bundles, mode).unwrap();
    } else {
        bundles.iter().for_each(|bundle| drop(add(&database, std::slice::from_ref(bundle), mode).unwrap()));
    }
    let kept = rows(&database, "SELECT name FROM operatorbundle WHERE csv IS NOT NULL");
    assert_eq!(kept, rows(&database, "SELECT head_operatorbundle_name FROM channel"), "heads keep their manifests");
    (read(&database), entries(&database, "stable"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_adding_does_not_matter(
        versions in subsequence(VERSIONS.to_vec(), 1..=8).prop_shuffle(),
        at_once: bool,
        skip: bool,
    ) {
        let mut sorted = versions.clone();
        sorted.sort_by_key(|version| VERSIONS.iter().position(|other| other == version));
        let (mode, model) = match skip {
            true => (Mode::SkipPatch, skip_patch_model(&sorted)),
            false => (Mode::Semver, semver_model(&sorted)),
        };
        prop_assert_eq!(build(mode, &versions, at_once).0, model);
    }
}

/// Returns all orders of five things.
fn orders(rest: &[&'static str]) -> Vec<Vec<&'static str>> {
    if rest.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in rest.iter().enumerate() {
        let left: Vec<&str> = rest.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, one)| *one).collect();
        for mut order in orders(&left) {
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
    // Every fifth of the 120 orders one by one, which takes its time, and all at once.
    for (i, order) in orders(&["0.1.0", "0.1.1", "0.1.2", "0.2.0", "0.2.1"]).iter().enumerate() {
        let (_, table) = build(Mode::SkipPatch, order, i % 5 != 0);
        assert_eq!(table, expected, "added in the order {order:?}");
    }
}

#[test]
fn a_version_in_the_middle_is_replaced_by_the_next_and_replaces_the_one_before() {
    let (_, table) = build(Mode::Semver, &["0.1.0", "0.1.2", "0.2.0", "0.1.1"], false);
    assert_eq!(
        table,
        ["foo.v0.2.0|foo.v0.1.2|0", "foo.v0.1.2|foo.v0.1.1|1", "foo.v0.1.1|foo.v0.1.0|2", "foo.v0.1.0||3"]
    );
}

#[test]
fn the_same_version_is_refused_and_changes_nothing() {
    let place = Place::new();
    let database = place.path("index.db");
    let made = Made { package: "foo", version: "1.0.0", channels: "stable", ..Made::default() };
    add(&database, &[place.bundle(&made)], Mode::Semver).unwrap();
    let before = crate::harness::content(&database);
    let again = Made { version: "1.0.0+1", ..made };
    let error = add(&database, &[place.bundle(&again)], Mode::Semver).unwrap_err();
    assert_eq!(error.to_string(), "Bundle version 1.0.0+1 already added to index");
    assert_eq!(crate::harness::content(&database), before);
}

fn etcd<'a>(version: &'a str, channels: &'a str, default: &'a str) -> Made<'a> {
    Made { package: "etcd", version, channels, default, ..Made::default() }
}

fn default_channel(database: &std::path::Path) -> Vec<String> {
    rows(database, "SELECT default_channel FROM package")
}

#[test]
fn a_default_channel_may_come_with_any_of_the_bundles() {
    let made = [
        etcd("0.6.1", "alpha", "stable"),
        etcd("0.9.0", "alpha,stable", "stable"),
        etcd("0.9.2", "alpha,stable", "stable"),
    ];
    for mode in [Mode::Semver, Mode::SkipPatch] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let place = Place::new();
            let database = place.path("index.db");
            add(&database, &order.map(|i| place.bundle(&made[i])), mode).unwrap();
            assert_eq!(default_channel(&database), ["stable"]);
            assert_eq!(rows(&database, "SELECT name FROM operatorbundle").len(), 3);
        }
    }
}

#[test]
fn only_the_latest_version_moves_the_default_channel() {
    let place = Place::new();
    let database = place.path("index.db");
    let add_one = |made: Made<'_>| add(&database, &[place.bundle(&made)], Mode::Semver).unwrap();
    add_one(etcd("0.9.0", "alpha,stable", "stable"));
    add_one(etcd("0.6.1", "alpha", "alpha"));
    assert_eq!(default_channel(&database), ["stable"], "an older version");
    // Not even one that names a channel that is not there: it does not matter.
    add_one(etcd("0.6.0", "alpha", "gone"));
    assert_eq!(default_channel(&database), ["stable"]);
    add_one(etcd("0.9.2", "alpha", ""));
    assert_eq!(default_channel(&database), ["stable"], "one that names none");
    add_one(etcd("1.0.0", "alpha", "alpha"));
    assert_eq!(default_channel(&database), ["alpha"], "the latest");
    // Of several the latest decides.
    let several = [etcd("1.2.0", "beta", "beta"), etcd("1.1.0", "stable", "stable")].map(|made| place.bundle(&made));
    add(&database, &several, Mode::Semver).unwrap();
    assert_eq!(default_channel(&database), ["beta"]);
}

#[test]
fn an_older_version_moves_the_default_channel_where_that_is_wanted() {
    let place = Place::new();
    let database = place.path("index.db");
    let wanted = sqlite_index::AddOptions { older_moves_default: true, ..options(Mode::Semver) };
    for made in [etcd("0.9.0", "alpha,stable", "stable"), etcd("0.6.1", "alpha", "alpha")] {
        sqlite_index::Database::write(&database).unwrap().add(&[place.bundle(&made)], &wanted).unwrap();
    }
    assert_eq!(default_channel(&database), ["alpha"]);
}

#[test]
fn a_default_channel_that_is_nowhere_is_refused() {
    let place = Place::new();
    let database = place.path("index.db");
    let made = [etcd("0.9.0", "alpha", ""), etcd("1.0.0", "alpha", "gone")].map(|made| place.bundle(&made));
    let error = add(&database, &made, Mode::Semver).unwrap_err();
    assert_eq!(error.to_string(), "default channel gone of package etcd is not one of its channels: alpha");
    let forgiving =
        sqlite_index::AddOptions { strictness: sqlite_index::Strictness::Permissive, ..options(Mode::Semver) };
    let added = sqlite_index::Database::write(&database).unwrap().add(&made, &forgiving).unwrap();
    assert_eq!(added.skipped, ["default channel gone of package etcd is not one of its channels: alpha"]);
    assert_eq!(rows(&database, "SELECT name FROM operatorbundle"), ["etcd.v0.9.0"]);
    assert_eq!(default_channel(&database), ["alpha"]);
}
