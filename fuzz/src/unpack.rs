//! Layers of an image, split at each `0xff 0xfe 0xff`.
//!
//! Nothing outside the target changes, links in it stay inside, and a rejected image leaves nothing.

use std::fs;
use std::path::Path;

use image::{Digest, LayerFile, StoredBlob, UnpackLimits, unpack, unpack_only};

const SEPARATOR: &[u8] = b"\xff\xfe\xff";

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let root = scratch.path();
    let mut layers = Vec::new();
    let mut rest = bytes;
    for name in ["0", "1", "2"] {
        let end = rest.windows(SEPARATOR.len()).position(|part| part == SEPARATOR).unwrap_or(rest.len());
        let mut layer = rest[..end].to_vec();
        fix_checksums(&mut layer);
        fs::write(root.join(name), &layer).expect("scratch file");
        let blob = StoredBlob::file(Digest::of(&layer), &root.join(name), layer.len() as u64);
        layers.push(LayerFile { blob, media_type: String::new() });
        rest = rest.get(end + SEPARATOR.len()..).unwrap_or_default();
    }
    let limits = UnpackLimits { total_size: 1 << 20, file_size: 1 << 18, entries: 200, ..UnpackLimits::default() };
    for part in [false, true] {
        let work = root.join("work");
        fs::create_dir(&work).expect("scratch directory");
        let target = work.join("target");
        let outcome = match part {
            false => unpack(&layers, &target, &limits, &|_| {}),
            true => unpack_only(&[Path::new("/a"), Path::new("b/c")], &layers, &target, &limits, &|_| {}),
        };
        let entries = fs::read_dir(&work).expect("scratch directory").count();
        assert_eq!(entries, usize::from(outcome.is_ok()), "a rejected image left files");
        if outcome.is_ok() {
            check(&target, &target.canonicalize().expect("the target"));
        }
        fs::remove_dir_all(&work).expect("scratch directory");
    }
    assert_eq!(fs::read_dir(root).expect("scratch directory").count(), 3, "a file was written outside the target");
}

/// Corrects the checksums of headers, which a fuzzer would not guess.
fn fix_checksums(layer: &mut [u8]) {
    for block in layer.chunks_exact_mut(512).filter(|block| block.starts_with(b"@") || block[257..].starts_with(b"us"))
    {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fn check(directory: &Path, root: &Path) {
    for entry in fs::read_dir(directory).expect("a directory that can be read") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("metadata").file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{path:?}");
        if let Ok(real) = path.canonicalize() {
            assert!(real.starts_with(root), "{path:?} leads to {real:?}");
        }
        if kind.is_dir() {
            check(&path, root);
        }
    }
}
