//! Volumes of a set, split at each `0xff 0xfe 0xff`; a `volume.json` alone gets a header.

use std::fs;

use image::{Digest, Store};
use mirror::volume::Volumes;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let mut paths = Vec::new();
    let mut rest = bytes;
    while paths.len() < 4 {
        let end = rest.windows(3).position(|window| window == [0xff, 0xfe, 0xff]);
        let (part, next) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 3..]));
        let path = scratch.path().join(format!("mirror-{}.tar", paths.len()));
        fs::write(&path, as_volume(part)).expect("scratch file");
        paths.push(path);
        if end.is_none() {
            break;
        }
        rest = next;
    }
    let Ok(volumes) = Volumes::open(&paths) else { return };
    for name in volumes.names().map(str::to_owned).collect::<Vec<_>>() {
        assert!(!name.starts_with('/') && !name.contains(".."), "{name}");
        let _ = volumes.read(&name);
    }
    let damaged = volumes.check();
    let store = Store::open(&scratch.path().join("store")).expect("a store");
    let all: Vec<Digest> = volumes.blobs().keys().copied().collect();
    // Imported content matches its digest, whatever the volumes claim.
    if volumes.import(all.iter().copied(), 1 << 20, &store).is_ok() {
        for digest in &all {
            if let Ok(content) = fs::read(store.path_of(digest)) {
                assert_eq!(Digest::of(&content), *digest);
                assert!(damaged.iter().all(|(other, _)| other != digest));
            }
        }
    }
    // Only the files of this test and the store exist.
    let names: Vec<_> = fs::read_dir(scratch.path()).expect("scratch directory").flatten().collect();
    assert!(names.len() <= paths.len() + 1, "{names:?}");
}

/// Returns a volume: adds the header to a list without one, and pads its content.
fn as_volume(part: &[u8]) -> Vec<u8> {
    if !part.starts_with(b"{") {
        return part.to_vec();
    }
    let end = part.iter().rposition(|byte| *byte == b'}').map_or(part.len(), |end| end + 1);
    let (list, content) = part.split_at(end);
    let mut bytes = image::tar::file_header("volume.json", list.len() as u64).to_vec();
    bytes.extend(list);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    bytes
}
