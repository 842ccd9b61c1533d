//! M-15, M-16 and M-25: volumes have the requested size, and invalid ones are rejected.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use image::{Descriptor, Digest, Store, media_type, tar};

use super::*;
use crate::known_blobs::SetBase;
use crate::lock::{Lock, LockedImage, Role};
use crate::set::{Inventory, SetDir};

/// Deterministic noise.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..size).map(|_| next()).collect()
}

/// A set with images of these sizes.
fn set(root: &Path, sizes: &[usize]) -> (SetDir, Lock, Inventory) {
    let set = SetDir::open(root).unwrap();
    let store = Store::open(root).unwrap();
    let mut lock = Lock::new(Digest::of(b"request"));
    for (number, size) in sizes.iter().enumerate() {
        let layer = noise(number as u64 + 1, *size);
        store.put(&layer).unwrap();
        store.put(b"{}").unwrap();
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "config": Descriptor::of(media_type::OCI_CONFIG, b"{}"),
            "layers": [Descriptor::of(media_type::OCI_LAYER, &layer)],
        });
        let digest = store.put(manifest.to_string().as_bytes()).unwrap();
        lock.images.push(LockedImage {
            source: format!("quay.io/a/b{number}:v1"),
            digest: digest.to_string(),
            media_type: media_type::OCI_MANIFEST.into(),
            bytes: *size as u64,
            platforms: Vec::new(),
            referrers: Vec::new(),
            path: format!("a/b{number}"),
            tag: "v1".into(),
            role: Role::Additional,
            used_by: Vec::new(),
        });
    }
    let inventory = Inventory::of(&store, &lock.images, &image::ImageLimits::default()).unwrap();
    set.put("lock.json", lock.to_text().as_bytes()).unwrap();
    set.put_index(&lock, &inventory).unwrap();
    (set, lock, inventory)
}

fn write_to(root: &Path, set: &(SetDir, Lock, Inventory), have: &BTreeSet<Digest>) -> Vec<PathBuf> {
    let base = SetBase { blobs: have.clone(), ..SetBase::default() };
    let from = CompleteSet { set: &set.0, lock: &set.1, inventory: &set.2, base: &base };
    write(&from, SMALLEST, root, false).unwrap().files
}

#[test]
fn m25_volumes_keep_their_size_and_large_blobs_are_split() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(&dir.path().join("set"), &[3_000_000, 400_000, 700_000, 10]);
    let out = dir.path().join("out");
    let files = write_to(&out, &set, &BTreeSet::new());
    assert!(files.len() > 3, "{files:?}");
    assert!(files.iter().all(|file| file.metadata().unwrap().len() <= SMALLEST));
    // A second time, and in another directory: the same bytes.
    assert_eq!(write_to(&out, &set, &BTreeSet::new()), files);
    let other = write_to(&dir.path().join("other"), &set, &BTreeSet::new());
    for (one, two) in files.iter().zip(&other) {
        assert_eq!(fs::read(one).unwrap(), fs::read(two).unwrap());
    }
    // The first volume describes the images completely, except for their layers.
    let (list, _) = read::read_list(&files[0]).unwrap();
    let blobs: Vec<&str> = list.entries.iter().filter_map(|it| it.name.strip_prefix("blobs/sha256/")).collect();
    let config = Digest::of(b"{}");
    assert_eq!(blobs[..set.2.documents.len()], set.2.documents.keys().map(Digest::hex).collect::<Vec<_>>());
    assert_eq!(blobs[set.2.documents.len()], config.hex());
    // Other tools read the volumes, and the checksums match.
    let run = |program: &str, arguments: &[&str]| {
        std::process::Command::new(program).args(arguments).current_dir(&out).output().unwrap()
    };
    assert!(run("tar", &["-tf", files[0].to_str().unwrap()]).status.success());
    assert!(run("sha256sum", &["-c", "SHA256SUMS"]).status.success());
    let mut mixed = files.clone();
    mixed.reverse();
    let volumes = Volumes::open(&mixed).unwrap();
    assert!(volumes.absent.is_empty() && volumes.check().is_empty());
    assert_eq!(volumes.lock, set.1.digest());
    assert_eq!(volumes.blobs().len(), set.2.blobs.len() + set.2.documents.len());
    assert_eq!(Lock::read(&volumes.read("mirror/lock.json").unwrap()).unwrap(), set.1);
    // A delta has the new blobs and the documents.
    let have: BTreeSet<Digest> = set.2.blobs.keys().copied().collect();
    let delta = write_to(&dir.path().join("delta"), &set, &have);
    assert_eq!(delta.len(), 1);
    assert!(delta[0].metadata().unwrap().len() < 30_000);
}

#[test]
fn a_damaged_blob_leaves_no_volume_with_a_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(&dir.path().join("set"), &[400_000, 3_000_000, 10]);
    let blobs = set.0.root().join("blobs/sha256");
    let wrong = blobs.join(Digest::of(&noise(2, 3_000_000)).hex());
    let out = dir.path().join("out");
    let base = SetBase::default();
    let from = CompleteSet { set: &set.0, lock: &set.1, inventory: &set.2, base: &base };
    // Only the last part differs, which the last of its volumes would have.
    let mut content = noise(2, 3_000_000);
    content[2_999_999] ^= 1;
    fs::write(&wrong, &content).unwrap();
    let error = write(&from, SMALLEST, &out, true).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("pull again"), "{error}");
    let kept = Volumes::open(std::slice::from_ref(&out)).unwrap();
    assert!(kept.absent.starts_with(&[2, 3, 4]), "{:?}", kept.absent);
    for digest in set.2.blobs.keys() {
        assert!(blobs.join(digest.hex()).exists() || kept.blobs().contains_key(digest), "{digest} was lost");
    }
    // Once it is undamaged, the rest is written, also after an interruption between its parts.
    content[2_999_999] ^= 1;
    fs::write(&wrong, &content).unwrap();
    let written = write(&from, SMALLEST, &out, false).unwrap().files;
    fs::remove_file(&written[2]).unwrap();
    assert_eq!(write(&from, SMALLEST, &out, true).unwrap().files, written);
    assert_eq!(Volumes::open(&[out]).unwrap().check(), []);
    assert!(!wrong.exists());
}

#[test]
fn m15_damage_is_detected_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(&dir.path().join("set"), &[3_000_000, 400_000]);
    let files = write_to(&dir.path().join("out"), &set, &BTreeSet::new());
    let good: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let flip = |file: usize, at: usize| {
        let mut bytes = good[file].clone();
        bytes[at] ^= 1;
        fs::write(&files[file], bytes).unwrap();
    };
    let restore = |file: usize| fs::write(&files[file], &good[file]).unwrap();
    // In the header, in the list.
    flip(0, 3);
    assert!(Volumes::open(&files).unwrap_err().to_string().contains("first header is damaged"));
    flip(0, 512);
    assert!(Volumes::open(&files).unwrap_err().to_string().contains("volume.json is damaged"));
    restore(0);
    // In a blob.
    let last = files.len() - 1;
    let at = good[last].len() - 3000;
    flip(last, at);
    let damaged = Volumes::open(&files).unwrap().check();
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].1.contains(files[last].to_str().unwrap()), "{damaged:?}");
    restore(last);
    // In a manifest, in the lock: each has its own digest.
    let find = |file: usize, words: &[u8]| good[file].windows(words.len()).position(|window| window == words);
    let at = find(0, b"\"schemaVersion\"").expect("a manifest");
    flip(0, at + 4);
    assert!(!Volumes::open(&files).unwrap().check().is_empty());
    restore(0);
    let at = find(0, b"\"request\"").expect("the lock");
    flip(0, at + 12);
    let volumes = Volumes::open(&files).unwrap();
    assert!(volumes.read("mirror/lock.json").unwrap_err().to_string().contains("damaged"), "{:?}", volumes.check());
    assert!(!volumes.check().is_empty());
    restore(0);
    // Parts of a split blob in the wrong order.
    let parts: Vec<usize> = (0..files.len()).filter(|file| find(*file, b"\"part\":[").is_some()).collect();
    let exchanged = |file: usize, from: &[u8], to: &[u8]| {
        let mut bytes = good[file].clone();
        let at = find(file, from).expect("a part");
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(&files[file], bytes).unwrap();
    };
    exchanged(parts[0], b"\"part\":[1,", b"\"part\":[2,");
    exchanged(parts[1], b"\"part\":[2,", b"\"part\":[1,");
    assert_eq!(Volumes::open(&files).unwrap().check().len(), 1);
    restore(parts[0]);
    restore(parts[1]);
    // In the padding at the end: harmless.
    flip(last, good[last].len() - 1);
    assert!(Volumes::open(&files).unwrap().check().is_empty());
    restore(last);
    // Truncated, empty, missing, of another set.
    fs::write(&files[last], &good[last][..good[last].len() / 2]).unwrap();
    assert!(Volumes::open(&files).unwrap_err().to_string().contains("truncated"));
    fs::write(&files[last], b"").unwrap();
    assert!(Volumes::open(&files).unwrap_err().to_string().contains("too short"));
    restore(last);
    let some = Volumes::open(&files[1..]).unwrap();
    assert_eq!(some.absent, [1]);
    assert!(some.read("mirror/lock.json").unwrap_err().to_string().contains("the first volume, which is missing"));
    let twice = dir.path().join("copy.tar");
    fs::copy(&files[0], &twice).unwrap();
    assert!(Volumes::open(&[&files[..], &[twice]].concat()).is_ok());
    let other = self::set(&dir.path().join("other"), &[500_000]);
    let foreign = write_to(&dir.path().join("foreign"), &other, &BTreeSet::new());
    assert!(
        Volumes::open(&[&files[..], &foreign].concat()).unwrap_err().to_string().contains("belong to different sets")
    );
}

#[test]
fn m16_invalid_volumes_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let digest = Digest::of(b"content");
    let refused = |change: &dyn Fn(&mut List)| {
        let mut list = List {
            version: VERSION,
            lock: digest.to_string(),
            series: "x".into(),
            number: 1,
            count: 1,
            since: Vec::new(),
            entries: vec![VolumeEntry {
                name: "mirror/lock.json".into(),
                offset: 512,
                size: 7,
                digest: digest.to_string(),
                part: None,
            }],
        };
        change(&mut list);
        let text = serde_json::to_vec(&list).unwrap();
        let mut bytes = tar::file_header(LIST, text.len() as u64).to_vec();
        bytes.extend(&text);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes.extend(tar::file_header("mirror/lock.json", 7));
        bytes.extend(b"content");
        bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
        let path = dir.path().join("mirror-x.tar");
        fs::write(&path, bytes).unwrap();
        Volumes::open(&[path]).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(&|_| {}), "");
    for name in ["../x", "/etc/passwd", "mirror/../../x", "mirror//x", "blobs/sha256/../x", "blobs/sha256/00", "other"]
    {
        assert!(refused(&|list| list.entries[0].name = name.into()).contains("is not allowed in a volume"), "{name}");
    }
    assert!(refused(&|list| list.entries[0].size = u64::MAX).contains("invalid offset or size"));
    assert!(refused(&|list| list.entries[0].size = 1 << 40).contains("truncated"));
    assert!(refused(&|list| list.entries[0].offset = 0).contains("invalid offset or size"));
    assert!(refused(&|list| list.number = 2).contains("volume 2 of 1"));
    assert!(refused(&|list| list.entries[0].digest = "sha256:1".into()).contains("is not a digest"));
    // A blob under the name of another.
    let other = format!("blobs/sha256/{}", Digest::of(b"another").hex());
    assert!(refused(&|list| list.entries[0].name = other.clone()).contains("is not allowed in a volume"));
    let many = |list: &mut List| list.entries = vec![list.entries[0].clone(); ENTRIES + 1];
    assert!(refused(&many).contains("entries"));
    // Deeply nested lists.
    let deep = "[".repeat(1 << 20);
    let mut bytes = tar::file_header(LIST, deep.len() as u64).to_vec();
    bytes.extend(deep.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    let path = dir.path().join("mirror-x.tar");
    fs::write(&path, bytes).unwrap();
    assert!(Volumes::open(&[path]).unwrap_err().to_string().contains("volume.json is damaged"));
}

#[test]
fn sizes_are_parsed_with_units() {
    assert_eq!(parse_size("4G").unwrap(), 4_000_000_000);
    assert_eq!(parse_size("4GiB").unwrap(), 4 << 30);
    assert_eq!(parse_size("2000000").unwrap(), 2_000_000);
    for bad in ["", "4X", "1k", "G", "-4G", "99999999999999999999G", "18446744073709551615G"] {
        assert!(parse_size(bad).is_err(), "{bad}");
    }
}
