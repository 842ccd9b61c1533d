//! Removing bundles and packages.

use std::cell::RefCell;

use legacy::{AddMode, AddOptions, Changed, Database, IndexSources, Shrink, Strictness};

use crate::harness::{BundleSpec, Images, NoImage, Scratch, add, content, entries, options, rows};

fn etcd<'a>(version: &'a str, channels: &'a str) -> BundleSpec<'a> {
    BundleSpec { package: "etcd", version, channels, default: "stable", ..BundleSpec::default() }
}

fn shrink(
    database: &std::path::Path,
    work: impl FnOnce(&Database, &Shrink<'_>) -> Result<Changed, legacy::Error>,
    scratch: &Scratch,
) -> Result<Changed, legacy::Error> {
    let images = Images(|image: &str| {
        let version = image.rsplit(":v").next().unwrap_or_default();
        let directory = scratch.path(&format!("etcd.v{version}"));
        if directory.exists() { Ok(directory) } else { Err(NoImage("not found".to_owned())) }
    });
    let how = Shrink { strictness: Strictness::Strict, images: &images, limits: fbc::Limits::default() };
    work(&Database::write(database).unwrap(), &how)
}

#[test]
fn removing_a_bundle_reconnects_the_upgrade_graph() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundles = [etcd("0.6.1", "alpha"), etcd("0.9.0", "alpha,stable"), etcd("0.9.2", "alpha,stable")]
        .map(|spec| scratch.bundle(&spec));
    // The first bundle names a default channel that exists only with the second.
    add(&database, &bundles[1..], AddMode::Semver).unwrap();
    add(&database, &bundles[..1], AddMode::Semver).unwrap();
    assert_eq!(entries(&database, "stable").len(), 2);
    let image = bundles[1].image.as_str();
    shrink(&database, |database, how| database.remove_image(image, AddMode::Semver, how), &scratch).unwrap();
    assert_eq!(entries(&database, "alpha"), ["etcd.v0.9.2|etcd.v0.6.1|0", "etcd.v0.6.1||1"]);
    assert_eq!(entries(&database, "stable"), ["etcd.v0.9.2||0"]);
    let providers =
        "SELECT operatorbundle_name FROM api_provider JOIN api USING (group_name, version, kind) ORDER BY 1";
    assert_eq!(rows(&database, providers), ["etcd.v0.6.1", "etcd.v0.9.2"], "other bundles lost their APIs");
    let error =
        shrink(&database, |database, how| database.remove_image("x", AddMode::Semver, how), &scratch).unwrap_err();
    assert_eq!(error.to_string(), "bundle image x not in index");
}

#[test]
fn the_latest_bundle_can_be_deleted_until_the_package_is_empty() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundles =
        [etcd("0.6.1", "stable"), etcd("0.9.0", "stable"), etcd("0.9.2", "stable")].map(|spec| scratch.bundle(&spec));
    add(&database, &bundles, AddMode::Semver).unwrap();
    let delete = || shrink(&database, |database, how| database.delete_latest("etcd", how), &scratch);
    delete().unwrap();
    assert_eq!(entries(&database, "stable"), ["etcd.v0.9.0|etcd.v0.6.1|0", "etcd.v0.6.1||1"]);
    let manifests = "SELECT name FROM operatorbundle WHERE csv IS NOT NULL AND bundle IS NOT NULL";
    assert_eq!(rows(&database, manifests), ["etcd.v0.9.0"], "the new head has no manifests");
    // A head whose bundle is unavailable leaves everything unchanged.
    let hidden = scratch.path("hidden");
    std::fs::rename(scratch.path("etcd.v0.6.1"), &hidden).unwrap();
    let before = content(&database);
    let error = delete().unwrap_err();
    let expected = "cannot load new channel head etcd.v0.6.1 (registry.test/etcd:v0.6.1): not found";
    assert_eq!(error.to_string(), expected);
    assert_eq!(content(&database), before);
    std::fs::rename(&hidden, scratch.path("etcd.v0.6.1")).unwrap();
    delete().unwrap();
    delete().unwrap();
    assert_eq!(rows(&database, "SELECT count(*) FROM operatorbundle"), ["0"]);
    assert_eq!(rows(&database, "SELECT count(*) FROM package"), ["0"]);
    assert_eq!(delete().unwrap_err().to_string(), "no package found for packagename etcd");
}

#[test]
fn a_database_is_free_for_other_writers_while_images_are_pulled() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    let bundles = ["0.6.1", "0.9.0", "0.9.2"].map(|version| scratch.bundle(&etcd(version, "stable")));
    add(&database, &bundles, AddMode::Semver).unwrap();
    let pulled = RefCell::new(Vec::new());
    let images = Images(|image: &str| {
        pulled.borrow_mut().push(image.to_owned());
        // Another process deletes the bundle that is to become the head.
        if pulled.borrow().len() == 1 {
            let other = rusqlite::Connection::open(&database).unwrap();
            other.busy_timeout(std::time::Duration::ZERO).unwrap();
            let delete = "UPDATE channel_entry SET replaces = (SELECT entry_id FROM channel_entry
                    WHERE operatorbundle_name = 'etcd.v0.6.1') WHERE operatorbundle_name = 'etcd.v0.9.2';
                DELETE FROM channel_entry WHERE operatorbundle_name = 'etcd.v0.9.0';
                DELETE FROM operatorbundle WHERE name = 'etcd.v0.9.0';";
            other
                .execute_batch(&format!("BEGIN IMMEDIATE; {delete} COMMIT;"))
                .map_err(|error| NoImage(error.to_string()))?;
        }
        Ok(scratch.path(&image.replace("registry.test/", "").replace(':', ".")))
    });
    let how = Shrink { strictness: Strictness::Strict, images: &images, limits: fbc::Limits::default() };
    Database::write(&database).unwrap().delete_latest("etcd", &how).unwrap();
    assert_eq!(pulled.into_inner(), ["registry.test/etcd:v0.9.0", "registry.test/etcd:v0.6.1"]);
    assert_eq!(entries(&database, "stable"), ["etcd.v0.6.1||0"]);
    let manifests = "SELECT name FROM operatorbundle WHERE csv IS NOT NULL AND bundle IS NOT NULL";
    assert_eq!(rows(&database, manifests), ["etcd.v0.6.1"]);
}

#[test]
fn removing_the_default_channel_is_reported() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    for spec in [etcd("0.1.0", "alpha"), etcd("0.2.0", "beta"), etcd("0.3.0", "stable")] {
        let spec = BundleSpec { default: spec.channels, ..spec };
        add(&database, &[scratch.bundle(&spec)], AddMode::Semver).unwrap();
    }
    let before = content(&database);
    let error = shrink(&database, |database, how| database.delete_latest("etcd", how), &scratch).unwrap_err();
    let expected = "cannot delete latest bundle etcd.v0.3.0 of package etcd: default channel \"stable\" would be removed, \
        channels left: alpha, beta";
    assert_eq!(error.to_string(), expected);
    assert_eq!(content(&database), before);
}

#[test]
fn the_manifest_of_an_index_rebuilds_it() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.path("first.db"), scratch.path("second.db"));
    let bundles: Vec<_> = (0..5)
        .map(|minor| {
            let (version, replaces) = (format!("0.{minor}.0"), format!("  replaces: etcd.v0.{}.0\n", minor - 1));
            let spec = if minor == 0 { "" } else { &replaces };
            scratch.bundle(&BundleSpec { spec, ..etcd(&version, if minor < 3 { "alpha,stable" } else { "alpha" }) })
        })
        .collect();
    let heads_only = AddOptions { heads_only: true, ..options(AddMode::Replaces) };
    for bundle in &bundles {
        Database::write(&first).unwrap().add(std::slice::from_ref(bundle), &heads_only).unwrap();
    }
    let IndexSources { images, without_image, .. } = Database::read(&first).unwrap().manifest().unwrap();
    assert_eq!(images.first(), Some(&bundles[0].image));
    assert!(without_image.is_empty());
    let again: Vec<_> =
        images.iter().map(|image| bundles.iter().find(|bundle| bundle.image == *image).unwrap().clone()).collect();
    Database::write(&second).unwrap().add(&again, &heads_only).unwrap();
    assert_eq!(content(&second), content(&first));
}

#[test]
fn removing_a_package_removes_all_its_rows() {
    let scratch = Scratch::new();
    let database = scratch.path("index.db");
    add(&database, &[scratch.bundle(&etcd("1.0.0", "stable"))], AddMode::Replaces).unwrap();
    let before = content(&database);
    let other = BundleSpec { package: "other", ..etcd("1.0.0", "stable") };
    add(&database, &[scratch.bundle(&other)], AddMode::Replaces).unwrap();
    let open = Database::write(&database).unwrap();
    let removed = open.remove_packages(&["other".into(), "none".into()], Strictness::Permissive).unwrap();
    assert_eq!(removed.skipped.len(), 1);
    assert_eq!(content(&database), before);
}
