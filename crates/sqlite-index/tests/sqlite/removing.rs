//! Taking bundles and packages out.

use sqlite_index::{AddOptions, Changed, Database, Manifest, Mode, Shrink, Strictness};

use crate::harness::{Made, Place, add, content, entries, options, rows};

fn etcd<'a>(version: &'a str, channels: &'a str) -> Made<'a> {
    Made { package: "etcd", version, channels, default: "stable", ..Made::default() }
}

fn shrink(
    database: &std::path::Path,
    work: impl FnOnce(&Database, &mut Shrink<'_>) -> Result<Changed, sqlite_index::Error>,
    place: &Place,
) -> Result<Changed, sqlite_index::Error> {
    let mut unpack = |image: &str| {
        let version = image.rsplit(":v").next().unwrap_or_default();
        let directory = place.path(&format!("etcd.v{version}"));
        if directory.exists() { Ok(directory) } else { Err("not found".to_owned()) }
    };
    let mut how = Shrink { strictness: Strictness::Strict, unpack: &mut unpack, limits: fbc::Limits::default() };
    work(&Database::write(database).unwrap(), &mut how)
}

#[test]
fn removing_a_bundle_stitches_the_others_together() {
    let place = Place::new();
    let database = place.path("index.db");
    let bundles = [etcd("0.6.1", "alpha"), etcd("0.9.0", "alpha,stable"), etcd("0.9.2", "alpha,stable")]
        .map(|made| place.bundle(&made));
    // The first bundle names a default channel that is only there with the second.
    add(&database, &bundles[1..], Mode::Semver).unwrap();
    add(&database, &bundles[..1], Mode::Semver).unwrap();
    assert_eq!(entries(&database, "stable").len(), 2);
    let image = bundles[1].image.as_str();
    shrink(&database, |database, how| database.remove_image(image, Mode::Semver, how), &place).unwrap();
    assert_eq!(entries(&database, "alpha"), ["etcd.v0.9.2|etcd.v0.6.1|0", "etcd.v0.6.1||1"]);
    assert_eq!(entries(&database, "stable"), ["etcd.v0.9.2||0"]);
    let providers =
        "SELECT operatorbundle_name FROM api_provider JOIN api USING (group_name, version, kind) ORDER BY 1";
    assert_eq!(rows(&database, providers), ["etcd.v0.6.1", "etcd.v0.9.2"], "the others keep their APIs");
    let error = shrink(&database, |database, how| database.remove_image("x", Mode::Semver, how), &place).unwrap_err();
    assert_eq!(error.to_string(), "bundle image x not in index");
}

#[test]
fn the_latest_can_be_deleted_until_nothing_is_left() {
    let place = Place::new();
    let database = place.path("index.db");
    let bundles =
        [etcd("0.6.1", "stable"), etcd("0.9.0", "stable"), etcd("0.9.2", "stable")].map(|made| place.bundle(&made));
    add(&database, &bundles, Mode::Semver).unwrap();
    let delete = || shrink(&database, |database, how| database.delete_latest("etcd", how), &place);
    delete().unwrap();
    assert_eq!(entries(&database, "stable"), ["etcd.v0.9.0|etcd.v0.6.1|0", "etcd.v0.6.1||1"]);
    let manifests = "SELECT name FROM operatorbundle WHERE csv IS NOT NULL AND bundle IS NOT NULL";
    assert_eq!(rows(&database, manifests), ["etcd.v0.9.0"], "the new head got its manifests back");
    // A head that cannot be had keeps everything as it is.
    let hidden = place.path("hidden");
    std::fs::rename(place.path("etcd.v0.6.1"), &hidden).unwrap();
    let before = content(&database);
    let error = delete().unwrap_err();
    let expected = "cannot load new channel head etcd.v0.6.1 (registry.test/etcd:v0.6.1): not found";
    assert_eq!(error.to_string(), expected);
    assert_eq!(content(&database), before);
    std::fs::rename(&hidden, place.path("etcd.v0.6.1")).unwrap();
    delete().unwrap();
    delete().unwrap();
    assert_eq!(rows(&database, "SELECT count(*) FROM operatorbundle"), ["0"]);
    assert_eq!(rows(&database, "SELECT count(*) FROM package"), ["0"]);
    assert_eq!(delete().unwrap_err().to_string(), "no package found for packagename etcd");
}

#[test]
fn a_default_channel_that_would_go_is_told() {
    let place = Place::new();
    let database = place.path("index.db");
    for made in [etcd("0.1.0", "alpha"), etcd("0.2.0", "beta"), etcd("0.3.0", "stable")] {
        let made = Made { default: made.channels, ..made };
        add(&database, &[place.bundle(&made)], Mode::Semver).unwrap();
    }
    let before = content(&database);
    let error = shrink(&database, |database, how| database.delete_latest("etcd", how), &place).unwrap_err();
    let expected = "cannot delete latest bundle etcd.v0.3.0 of package etcd: default channel \"stable\" would be removed, \
        channels left: alpha, beta";
    assert_eq!(error.to_string(), expected);
    assert_eq!(content(&database), before);
}

#[test]
fn the_manifest_of_an_index_builds_it_again() {
    let place = Place::new();
    let (first, second) = (place.path("first.db"), place.path("second.db"));
    let made: Vec<_> = (0..5)
        .map(|minor| {
            let (version, replaces) = (format!("0.{minor}.0"), format!("  replaces: etcd.v0.{}.0\n", minor - 1));
            let spec = if minor == 0 { "" } else { &replaces };
            place.bundle(&Made { spec, ..etcd(&version, if minor < 3 { "alpha,stable" } else { "alpha" }) })
        })
        .collect();
    let heads_only = AddOptions { heads_only: true, ..options(Mode::Replaces) };
    for bundle in &made {
        Database::write(&first).unwrap().add(std::slice::from_ref(bundle), &heads_only).unwrap();
    }
    let Manifest { images, without_image } = Database::read(&first).unwrap().manifest().unwrap();
    assert_eq!(images.first(), Some(&made[0].image));
    assert!(without_image.is_empty());
    let again: Vec<_> =
        images.iter().map(|image| made.iter().find(|bundle| bundle.image == *image).unwrap().clone()).collect();
    Database::write(&second).unwrap().add(&again, &heads_only).unwrap();
    assert_eq!(content(&second), content(&first));
}

#[test]
fn removing_a_package_leaves_no_trace_of_it() {
    let place = Place::new();
    let database = place.path("index.db");
    add(&database, &[place.bundle(&etcd("1.0.0", "stable"))], Mode::Replaces).unwrap();
    let before = content(&database);
    let other = Made { package: "other", ..etcd("1.0.0", "stable") };
    add(&database, &[place.bundle(&other)], Mode::Replaces).unwrap();
    let open = Database::write(&database).unwrap();
    let removed = open.remove_packages(&["other".into(), "none".into()], Strictness::Permissive).unwrap();
    assert_eq!(removed.skipped.len(), 1);
    assert_eq!(content(&database), before);
}
