//! The cache file: when opm trusts, rebuilds and rejects it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use catalog::query::ApiType;
use catalog::query::Query;
use serve::cache::Cache;
use serve::cache::store::{Integrity, PrepareError, build_portable, file_in, prepare};
use serve::load::OnInvalid;

use crate::catalogs::{directory, write_catalog, write_package};

/// Sends every query; an unreadable reply becomes an error.
fn query_everything(catalog: &Arc<impl Query>) -> Vec<Result<Vec<u8>, String>> {
    let mut replies: Vec<Result<Vec<u8>, String>> = Vec::new();
    let text = |error: catalog::query::QueryError| error.to_string();
    let mut rows = |rows: catalog::query::Rows| rows.take(10_000).for_each(|row| replies.push(row.map_err(text)));
    rows(Arc::clone(catalog).packages());
    rows(Arc::clone(catalog).bundles());
    for package in ["alpha", "beta", "gamma"] {
        rows(Arc::clone(catalog).custom("custom.note", package));
        let api = ApiType { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        for found in [Arc::clone(catalog).providers(&api), Arc::clone(catalog).latest_providers(&api)] {
            found.into_iter().for_each(&mut rows);
        }
        Arc::clone(catalog).replacements(&format!("{package}.v0.0.0")).into_iter().for_each(&mut rows);
    }
    for package in ["alpha", "beta", "gamma"] {
        let api = ApiType { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        replies.push(catalog.package(package).map_err(text));
        replies.push(catalog.head(package, "stable").map_err(text));
        replies.push(catalog.default_provider(&api).map_err(text));
        for version in 0..20 {
            replies.push(catalog.bundle(package, "stable", &format!("{package}.v{version}.0.0")).map_err(text));
        }
    }
    replies
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

fn rejection(root: &Path, cache: &Path, integrity: Integrity) -> String {
    match prepare(&directory(root), Some(cache), integrity) {
        Err(error) => error.to_string(),
        Ok(_) => "accepted".into(),
    }
}

#[test]
fn a_flipped_bit_is_detected_or_harmless() {
    let (_scratch, root, cache) = scratch();
    let prepared = prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let expected = query_everything(&prepared.cache);
    assert!(expected.iter().filter(|reply| reply.is_ok()).count() > 80);
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
                let replies = query_everything(&Arc::new(cache));
                let is_reported =
                    |reply: &Result<Vec<u8>, String>| reply.as_ref().is_err_and(|text| text.contains("damaged"));
                assert!(replies.len() <= expected.len());
                // A damaged stream ends early, so this searches for replies instead of counting them.
                assert!(replies.iter().all(|reply| is_reported(reply) || expected.contains(reply)), "a wrong reply");
                at_use += usize::from(replies.iter().any(is_reported));
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
        let text = rejection(&root, &cache, Integrity::Implied);
        assert!(text.contains("truncated"), "{length}: {text}");
    }
    fs::write(&file, "something else entirely").unwrap();
    insta::assert_snapshot!(rejection(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: the file is not an opm cache");
    let mut other = bytes.clone();
    other[8] = 9;
    fs::write(&file, &other).unwrap();
    insta::assert_snapshot!(rejection(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: the cache has format version 9, this opm reads version 3");
    fs::remove_file(&file).unwrap();
    insta::assert_snapshot!(rejection(&root, &cache, Integrity::Implied).split(" (").next().unwrap(), @"integrity check failed: there is no cache");
    // Each of them is rebuilt if that is allowed.
    fs::write(&file, &bytes[..100]).unwrap();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    assert!(!prepare(&directory(&root), Some(&cache), Integrity::Enforced).unwrap().built);
}

#[test]
fn damaged_data_is_detected_at_the_start_only_with_enforced_integrity() {
    let (_scratch, root, cache) = scratch();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let file = file_in(&cache);
    let mut bytes = fs::read(&file).unwrap();
    bytes[600] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Implied).is_ok());
    insta::assert_snapshot!(rejection(&root, &cache, Integrity::Enforced).split(" (").next().unwrap(), @"integrity check failed: the cache is damaged: the checksum of the data is wrong");
}

#[test]
fn equivalent_files_need_no_new_cache() {
    let (_scratch, root, cache) = scratch();
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    // A comment, and a file that is not loaded.
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
    assert_eq!(catalog::query::Query::counts(&*filtered.cache).packages, 2);
    assert!(rejection(&root, &cache, Integrity::Enforced).contains("cache requires rebuild"));
    write_package(&root, "alpha", 3, "two");
    assert!(rejection(&root, &cache, Integrity::Implied).contains("cache reports digest as"));
    // A rebuild reuses unchanged packages, and produces the same bytes as a new build.
    write_package(&root, "beta", 20, "one");
    let rebuilt = prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    let new = prepare(&directory(&root), None, Integrity::Rebuild).unwrap();
    assert!(rebuilt.built);
    assert_eq!(query_everything(&rebuilt.cache), query_everything(&new.cache));
    assert!(!prepare(&directory(&root), Some(&cache), Integrity::Enforced).unwrap().built);
}

#[test]
fn a_directory_with_other_files_is_not_changed() {
    let (_scratch, root, cache) = scratch();
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("my-file"), "mine").unwrap();
    insta::assert_snapshot!(rejection(&root, &cache, Integrity::Rebuild), @"cache directory has unexpected contents: my-file");
    fs::remove_file(cache.join("my-file")).unwrap();
    // A cache of other tools is not ours.
    fs::create_dir(cache.join("pogreb.v1")).unwrap();
    assert!(rejection(&root, &cache, Integrity::Enforced).contains("pogreb.v1"));
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Implied).unwrap().built);
    assert!(!cache.join("opm.v1").exists());
    assert!(prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap().built);
    assert!(cache.join("pogreb.v1").exists() && file_in(&cache).exists());
}

#[test]
fn abandoned_builds_are_removed() {
    let (_scratch, root, cache) = scratch();
    let ours = cache.join("opm.v1");
    fs::create_dir_all(&ours).unwrap();
    fs::write(ours.join(".building-xyz"), "half").unwrap();
    prepare(&directory(&root), Some(&cache), Integrity::Rebuild).unwrap();
    assert_eq!(fs::read_dir(&ours).unwrap().count(), 1);
}

#[test]
fn a_broken_package_is_rejected_or_quarantined() {
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
    assert_eq!(catalog::query::Query::counts(&*prepared.cache).packages, 2);
    // A file that is not YAML breaks all packages in it.
    fs::write(&broken, format!("{text}---\n\t: [\n")).unwrap();
    let prepared = prepare(&quarantine, None, Integrity::Rebuild).unwrap();
    assert_eq!(
        prepared.quarantined.iter().map(|quarantined| quarantined.package.as_str()).collect::<Vec<_>>(),
        ["beta"]
    );
}

#[test]
fn a_portable_cache_depends_on_content_alone() {
    let (scratch, root, cache) = scratch();
    let elsewhere = scratch.path().join("else/where");
    fs::create_dir_all(&elsewhere).unwrap();
    write_catalog(&elsewhere, "one");
    let file = fs::File::open(elsewhere.join("alpha/catalog.yaml")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let other = scratch.path().join("other-cache");
    build_portable(&directory(&root), &cache).unwrap();
    build_portable(&directory(&elsewhere), &other).unwrap();
    assert!(fs::read(file_in(&cache)).unwrap() == fs::read(file_in(&other)).unwrap());
    // The cache matches both catalogs, and no other.
    for integrity in [Integrity::Enforced, Integrity::Implied] {
        assert!(!prepare(&directory(&elsewhere), Some(&cache), integrity).unwrap().built);
    }
    write_catalog(&elsewhere, "two");
    assert!(rejection(&elsewhere, &cache, Integrity::Enforced).contains("cache requires rebuild"));
}
