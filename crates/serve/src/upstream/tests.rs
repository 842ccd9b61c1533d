//! A catalog with a known cache, and one that the existing tool wrote.

use std::collections::BTreeMap;

use super::*;
use crate::cache::store::build_portable;
use crate::load::{Empty, OnInvalid};

/// Builds the cache of a catalog, and returns its files.
fn built(root: &Path) -> Result<BTreeMap<String, String>, UpstreamError> {
    let directory = ServedDirectory {
        root: root.into(),
        limits: fbc::Limits::default(),
        on_invalid: OnInvalid::Fail,
        empty: Empty::Accepted,
        summarize: false,
    };
    let scratch = tempfile::tempdir().unwrap();
    let ours = build_portable(&directory, &scratch.path().join("ours")).unwrap();
    let target = scratch.path().join("theirs");
    fs::create_dir(&target).unwrap();
    build(&directory, &*ours.cache, &target)?;
    Ok(files(&target))
}

fn files(root: &Path) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(place) = waiting.pop() {
        for entry in fs::read_dir(&place).unwrap().flatten() {
            if entry.path().is_dir() {
                waiting.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(root).unwrap().display().to_string();
                out.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    out
}

const CATALOG: &str = r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable","description":"a <b> & c","icon":{"base64data":"aGk=","mediatype":"image/png"}}
{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1.0.0"},{"name":"foo.v1.1.0","replaces":"foo.v1.0.0","skips":["foo.v1.0.1"]}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1.0.0","image":"registry.test/foo:v1.0.0","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1.1.0","image":"registry.test/foo:v1.1.0","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.1.0"}},{"type":"olm.gvk.required","value":{"group":"g.test","kind":"K","version":"v1"}}]}
{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.package"},"message":"gone"},{"reference":{"schema":"olm.channel","name":"stable"},"message":"old"}]}
{"schema":"test.note","package":"foo","z":1,"a":"<"}
"#;

#[test]
fn the_cache_has_a_file_for_each_bundle_and_one_for_all_packages() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("catalog.json"), CATALOG).unwrap();
    let files = built(scratch.path()).unwrap();
    let shown: Vec<String> = files.iter().map(|(name, text)| format!("{name}: {}", text.trim_end())).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn names_that_are_no_file_names_are_rejected() {
    for (from, to, reason) in [
        ("test.note", "../note", "schema \"../note\" cannot be a directory name"),
        ("\"stable\"", "\"a/b\"", "channel \"a/b\" cannot be a file name"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("catalog.json"), CATALOG.replace(from, to)).unwrap();
        let error = built(scratch.path()).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn two_bundles_with_the_same_file_name_are_rejected() {
    let scratch = tempfile::tempdir().unwrap();
    let bundle = |name: &str, version: &str| {
        format!(
            r#"{{"schema":"olm.bundle","package":"foo","name":"{name}","image":"r.test/{name}","properties":[
               {{"type":"olm.package","value":{{"packageName":"foo","version":"{version}"}}}}]}}"#
        )
    };
    let channel = |name: &str, entry: &str| {
        format!(r#"{{"schema":"olm.channel","package":"foo","name":"{name}","entries":[{{"name":"{entry}"}}]}}"#)
    };
    let package = r#"{"schema":"olm.package","name":"foo","defaultChannel":"a"}"#;
    let catalog =
        [package, &channel("a", "b_c"), &channel("a_b", "c"), &bundle("b_c", "1.0.0"), &bundle("c", "2.0.0")].concat();
    fs::write(scratch.path().join("catalog.json"), catalog).unwrap();
    let error = built(scratch.path()).unwrap_err().to_string();
    assert!(error.starts_with("two bundles would have the file name foo_a_b_c.json"), "{error}");
}

/// Computed by an independent implementation of the rules of Go's `archive/tar`.
#[test]
fn paths_of_every_form_give_the_archive_of_go() {
    let of = |path: &str, content: &[u8]| {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        let mut digest = Fnv::default();
        digest::tree(scratch.path(), CATALOG_MODES, &mut digest).unwrap();
        format!("{:x}", digest.value())
    };
    let (parts, long) = (["d".repeat(60), "e".repeat(60), "f".repeat(40)].join("/"), "l".repeat(120));
    assert_eq!(of("a", b"hello"), "7ec9b68b2014d7a4");
    assert_eq!(of(&parts, b""), "a884b39f5071cf73", "in two parts");
    assert_eq!(of("\u{e4}/b", b"x"), "c990740b47a5fa78", "in a separate record");
    assert_eq!(of(&long, b""), "e937857a80c90942", "too long for two parts");
}

/// The cache that the existing tool wrote, if available: a directory with `catalog` and `cache`.
#[test]
fn the_cache_matches_the_existing_tool() {
    let given = std::env::var_os("OPM_TEST_JSON_CACHE").map(PathBuf::from);
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/json-cache");
    let Some(recorded) = given.or_else(|| near.is_dir().then_some(near)) else { return };
    assert_eq!(built(&recorded.join("catalog")).unwrap(), files(&recorded.join("cache")));
}
