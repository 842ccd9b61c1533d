//! The cache file of a server: arbitrary bytes, or changes to a valid cache.
//!
//! Checksums would hide the tables from damage, so fuzz builds treat all checksums as equal.

use std::fs;
use std::sync::{Arc, OnceLock};

use catalog::query::ApiType;
use catalog::query::Query;
use fbc::Limits;
use serve::cache::Cache;
use serve::cache::store::{Integrity, file_in, prepare};
use serve::load::{Empty, OnInvalid, ServedDirectory};

/// Maximum number of rows that are read of each reply.
const ROWS: usize = 100;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let file = scratch.path().join("cache");
    match bytes.strip_prefix(b"patch") {
        Some(patches) => fs::write(&file, patched(patches)).expect("scratch file"),
        None => fs::write(&file, bytes).expect("scratch file"),
    }
    if let Ok(cache) = Cache::open(&file) {
        query_all(&Arc::new(cache));
    }
}

/// Sends every query, for names in the cache and for others.
fn query_all(cache: &Arc<Cache>) {
    let _ = cache.counts();
    Arc::clone(cache).packages().take(ROWS).for_each(drop);
    Arc::clone(cache).bundles().take(ROWS).for_each(drop);
    Arc::clone(cache).custom("custom", "").take(ROWS).for_each(drop);
    for package in ["foo", "bar", ""] {
        let _ = (cache.package(package), cache.head(package, "stable"));
        for version in ["1.0.0", "1.1.0", "9.9.9"] {
            let name = format!("{package}.v{version}");
            let _ = (cache.bundle(package, "stable", &name), cache.replacement(&name, package, "stable"));
            Arc::clone(cache).replacements(&name).into_iter().for_each(|rows| rows.take(ROWS).for_each(drop));
        }
    }
    for kind in ["Foo", "Bar"] {
        let api = ApiType { group: "example.com".into(), version: "v1".into(), kind: kind.into() };
        let rows = [Arc::clone(cache).providers(&api), Arc::clone(cache).latest_providers(&api)];
        rows.into_iter().flatten().for_each(|rows| rows.take(ROWS).for_each(drop));
        let _ = cache.default_provider(&api);
    }
}

/// Returns a valid cache with changes applied: an offset in four bytes, a count, and as many bytes each.
fn patched(mut patches: &[u8]) -> Vec<u8> {
    let mut bytes = valid_cache().to_vec();
    for _ in 0..16 {
        let Some(([a, b, c, d, count], rest)) = patches.split_first_chunk::<5>() else { break };
        let count = usize::from(count % 16).min(rest.len());
        let offset = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
        let length = count.min(bytes.len() - offset);
        bytes[offset..offset + length].copy_from_slice(&rest[..length]);
        patches = &rest[count..];
    }
    bytes
}

/// Returns the cache of a small catalog.
fn valid_cache() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let root = scratch.path().join("catalog");
        fs::create_dir(&root).expect("scratch directory");
        fs::write(root.join("catalog.yaml"), CATALOG).expect("scratch file");
        let directory = ServedDirectory {
            root,
            limits: Limits::default(),
            on_invalid: OnInvalid::Fail,
            empty: Empty::Accepted,
            summarize: false,
        };
        let cache_dir = scratch.path().join("cache");
        prepare(&directory, Some(&cache_dir), Integrity::Rebuild).map_err(|_| ()).expect("a valid catalog");
        fs::read(file_in(&cache_dir)).expect("a cache")
    })
}

const CATALOG: &str = "\
schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
- name: foo.v1.1.0
  replaces: foo.v1.0.0
  skips: [foo.v1.0.1]
  skipRange: <1.1.0
---
schema: olm.bundle
package: foo
name: foo.v1.0.0
image: r.test/foo:v1.0.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.0.0}}
- {type: olm.gvk, value: {group: example.com, version: v1, kind: Foo}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQSJ9}}
---
schema: olm.bundle
package: foo
name: foo.v1.1.0
image: r.test/foo:v1.1.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.1.0}}
- {type: olm.gvk, value: {group: example.com, version: v1, kind: Foo}}
- {type: olm.gvk.required, value: {group: example.com, version: v1, kind: Bar}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQiJ9}}
---
schema: custom
package: foo
name: note
text: anything
---
schema: olm.deprecations
package: foo
entries:
- reference: {schema: olm.bundle, name: foo.v1.0.0}
  message: old
";
