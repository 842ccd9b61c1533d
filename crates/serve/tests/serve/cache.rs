//! The cache file: what opm trusts, rebuilds and refuses.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use registry_api::Api;
use registry_api::Query;
use serve::cache::Cache;
use serve::cache::store::{Integrity, PrepareError, build_portable, file_in, prepare};
use serve::load::OnInvalid;

use crate::catalogs::{directory, write_catalog, write_package};

/// Sends every query; an answer that cannot be read is returned as an error.
fn ask_everything(catalog: &Arc<impl Query>) -> Vec<Result<Vec<u8>, String>> {
    let mut answers: Vec<Result<Vec<u8>, String>> = Vec::new();
    let text = |error: registry_api::QueryError| error.to_string();
    let mut rows = |rows: registry_api::Rows| rows.take(10_000).for_each(|row| answers.push(row.map_err(text)));
    rows(Arc::clone(catalog).packages());
    rows(Arc::clone(catalog).bundles());
    for package in ["alpha", "beta", "gamma"] {
        rows(Arc::clone(catalog).custom("custom.note", package));
        let api = Api { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        for found in [Arc::clone(catalog).providers(&api), Arc::clone(catalog).latest_providers(&api)] {
            found.into_iter().for_each(&mut rows);
        }
        Arc::clone(catalog).replacements(&format!("{package}.v0.0.0")).into_iter().for_each(&mut rows);
    }
    for package in ["alpha", "beta", "gamma"] {
        let api = Api { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        answers.push(catalog.package(package).map_err(text));
        answers.push(catalog.head(package, "stable").map_err(text));
        answers.push(catalog.default_provider(&api).map_err(text));
        for version in 0..20 {
            answers.push(catalog.bundle(package, "stable", &format!("{package}.v{version}.0.0")).map_err(text));
        }
    }
    answers
}

/// Pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }
}

fn scratch() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let (root, cache) = (scratch.path().join("catalog"), scratch.path().join("cache"));
    fs::create_dir(&root).unwrap();
    write_catalog(&root, "one");
    (scratch, root, cache)
}

fn refused(root: &Path, cache: &Path, integrity: Integrity) -> String {
    match prepare(&directory(root), Some(cache), integrity) {
        Err(error) => error.to_string(),
        Ok(_) => "accepted".into(),
    }
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    let (_scratch, root, cache) = scratch();
    let prepared = prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let right = ask_everything(&prepared.cache);
    assert!(right.iter().filter(|answer| answer.is_ok()).count() > 80);
    let file = file_in(&cache);
    let bytes = fs::read(&file).unwrap();
    let damaged = file.with_file_name("damaged");
    let mut numbers = Numbers(1);
    let (mut at_open, mut at_use) = (0, 0);
    for _ in 0..1000 {
        let mut copy = bytes.clone();
        copy[numbers.next(bytes.len())] ^= 1 << numbers.next(8);
        fs::write(&damaged, &copy).unwrap();
        match Cache::open(&damaged) {
            Err(_) => at_open += 1,
            Ok(cache) => {
                let answers = ask_everything(&Arc::new(cache));
                let is_reported =
                    |answer: &Result<Vec<u8>, String>| answer.as_ref().is_err_and(|text| text.contains("damaged"));
                assert!(answers.len() <= right.len());
                // A stream ends where it cannot be read, so answers are searched for, not counted.
                assert!(answers.iter().all(|answer| is_reported(answer) || right.contains(answer)), "a wrong answer");
                at_use += usize::from(answers.iter().any(is_reported));
            }
        }
    }
    assert!(at_open > 100 && at_use > 100, "{at_open} at open, {at_use} at use");
}

#[test]
fn a_truncated_file_is_distinguished_from_a_foreign_one() {
    let (_scratch, root, cache) = scratch();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let file = file_in(&cache);
    let bytes = fs::read(&file).unwrap();
    let mut numbers = Numbers(2);
    for round in 0..200 {
        let length = if round < 20 { round } else { numbers.next(bytes.len()) };
        fs::write(&file, &bytes[..length]).unwrap();
        let text = refused(&root, &cache, Integrity::Implied);
        assert!(text.contains("truncated"), "{length}: {text}");
    }
    fs::write(&file, "something else entirely").unwrap();
    insta::assert_snapshot!(refused(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: the file is not an opm cache");
    let mut other = bytes.clone();
    other[8] = 9;
    fs::write(&file, &other).unwrap();
    insta::assert_snapshot!(refused(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: the cache has format version 9, this opm reads version 3");
    fs::remove_file(&file).unwrap();
    insta::assert_snapshot!(refused(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: there is no cache");
    // Each of them is rebuilt where that is allowed.
    fs::write(&file, &bytes[..100]).unwrap();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    assert!(!prepare(&directory(&root), Some(&cache), Integrity::Enforced).unwrap().built);
}

#[test]
fn only_damage_that_is_looked_for_is_found_at_the_start() {
    let (_scratch, root, cache) = scratch();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let file = file_in(&cache);
    let mut bytes = fs::read(&file).unwrap();
    bytes[600] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Implied).is_ok());
    insta::assert_snapshot!(refused(&root, &cache, Integrity::Enforced).split(" (").next().unwrap(), @"integrity check failed: the cache is damaged: the checksum of the data is wrong");
}

#[test]
fn what_means_the_same_needs_no_new_cache() {
    let (_scratch, root, cache) = scratch();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    // Touched, and a file that is not loaded.
    let file = root.join("alpha/catalog.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}# a comment\n")).unwrap();
    fs::write(root.join(".indexignore"), "*.md\n").unwrap();
    fs::write(root.join("README.md"), "words\n").unwrap();
    for integrity in [Integrity::Rebuild, Integrity::Implied, Integrity::Enforced] {
        assert!(!prepare(&directory(&root), Some(&cache), integrity).unwrap().built, "{integrity:?}");
    }
}

#[test]
fn a_changed_catalog_is_stale_and_a_filtered_one_is_not() {
    let (_scratch, root, cache) = scratch();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    fs::remove_dir_all(root.join("beta")).unwrap();
    let filtered = prepare(&directory(&root), Some(&cache), Integrity::Implied).unwrap();
    assert_eq!(registry_api::Query::counts(&*filtered.cache).packages, 2);
    assert!(refused(&root, &cache, Integrity::Enforced).contains("cache requires rebuild"));
    write_package(&root, "alpha", 3, "two");
    assert!(refused(&root, &cache, Integrity::Implied).contains("cache reports digest as"));
    // A rebuild reuses what did not change, and produces the same bytes as a new build.
    write_package(&root, "beta", 20, "one");
    let renewed = prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let new = prepare(&directory(&root), None, Integrity::Rebuild).unwrap();
    assert!(renewed.built);
    assert_eq!(ask_everything(&renewed.cache), ask_everything(&new.cache));
    assert!(!prepare(&directory(&root), Some(&cache), Integrity::Enforced).unwrap().built);
}

#[test]
fn a_directory_with_other_things_is_left_alone() {
    let (_scratch, root, cache) = scratch();
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("my-file"), "mine").unwrap();
    insta::assert_snapshot!(refused(&root, &cache, Integrity::Rebuild), @"cache directory has unexpected contents: my-file");
    fs::remove_file(cache.join("my-file")).unwrap();
    // A cache of other tools is not a cache of ours.
    fs::create_dir(cache.join("pogreb.v1")).unwrap();
    assert!(refused(&root, &cache, Integrity::Enforced).contains("pogreb.v1"));
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Implied).unwrap().built);
    assert!(!cache.join("opm.v1").exists());
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    assert!(cache.join("pogreb.v1").exists() && file_in(&cache).exists());
}

#[test]
fn abandoned_builds_are_cleared_away() {
    let (_scratch, root, cache) = scratch();
    let ours = cache.join("opm.v1");
    fs::create_dir_all(&ours).unwrap();
    fs::write(ours.join(".building-xyz"), "half").unwrap();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    assert_eq!(fs::read_dir(&ours).unwrap().count(), 1);
}

#[test]
fn a_broken_package_is_refused_or_left_out() {
    let (_scratch, root, _) = scratch();
    let broken = root.join("beta/catalog.yaml");
    let text = fs::read_to_string(&broken).unwrap();
    fs::write(&broken, text.replace("defaultChannel: stable", "defaultChannel: nothere")).unwrap();
    assert!(matches!(prepare(&directory(&root), None, Integrity::Rebuild), Err(PrepareError::Catalog(_))));
    let mut quarantine = directory(&root);
    quarantine.on_invalid = OnInvalid::Quarantine;
    let prepared = prepare(&quarantine, None, Integrity::Rebuild).unwrap();
    assert_eq!(prepared.quarantined.len(), 1);
    assert_eq!(prepared.quarantined[0].package, "beta");
    assert!(prepared.quarantined[0].reason.contains("nothere"), "{}", prepared.quarantined[0].reason);
    assert_eq!(registry_api::Query::counts(&*prepared.cache).packages, 2);
    // A file that is not YAML breaks all packages in it.
    fs::write(&broken, format!("{text}---\n\t: [\n")).unwrap();
    let prepared = prepare(&quarantine, None, Integrity::Rebuild).unwrap();
    assert_eq!(prepared.quarantined.iter().map(|one| one.package.as_str()).collect::<Vec<_>>(), ["beta"]);
}

#[test]
fn a_portable_cache_is_made_of_content_alone() {
    let (scratch, root, cache) = scratch();
    let elsewhere = scratch.path().join("else/where");
    fs::create_dir_all(&elsewhere).unwrap();
    write_catalog(&elsewhere, "one");
    let file = fs::read_dir(&elsewhere).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_file());
    if let Some(file) = file {
        fs::File::open(file).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let other = scratch.path().join("other-cache");
    build_portable(&directory(&root), &cache).unwrap();
    build_portable(&directory(&elsewhere), &other).unwrap();
    assert!(fs::read(file_in(&cache)).unwrap() == fs::read(file_in(&other)).unwrap());
    // It matches both, and no other.
    for integrity in [Integrity::Enforced, Integrity::Implied] {
        assert!(!prepare(&directory(&elsewhere), Some(&cache), integrity).unwrap().built);
    }
    write_catalog(&elsewhere, "two");
    assert!(refused(&elsewhere, &cache, Integrity::Enforced).contains("cache requires rebuild"));
}
