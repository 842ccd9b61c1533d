//! Manifests, indexes and configs of an image, cut at each `0xff 0xfe 0xff`: the first is the `index.json` of a layout.
//!
//! `@1` to `@9` in one of them stands for the digest of another that comes later, `#1` to `#9` for its length. What is
//! read from the layout has the digests it is named by; what is copied is read as the same; what is refused leaves no image.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use image::{Client, CopyPlan, Digest, Environment, Limits, Location, Options, Store};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const CUT: &[u8] = b"\xff\xfe\xff";

struct Bench {
    dir: TempDir,
    client: Client,
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let dir = tempfile::tempdir().expect("scratch directory");
        let mut options = Options::new(Store::open(&dir.path().join("store")).expect("store"));
        options.environment = Environment::isolated(Path::new("/nonexistent"), &[]);
        options.offline = true;
        // Small enough that an input reaches them.
        options.limits = Limits { manifests: 6, image: 1 << 16, layers: 8, layer: 1 << 15, ..Limits::default() };
        Bench { client: Client::new(options).expect("client"), dir }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let bench = bench();
    let layout = bench.dir.path().join("layout");
    let copied = bench.dir.path().join("copied");
    for folder in [layout.join("blobs"), bench.dir.path().join("store/blobs"), copied.clone()] {
        // There is none the first time.
        drop(fs::remove_dir_all(folder));
    }
    for folder in [layout.join("blobs/sha256"), bench.dir.path().join("store/blobs/sha256")] {
        fs::create_dir_all(folder).expect("scratch directory");
    }
    write_layout(&layout, bytes);
    let from = Location::Layout { path: layout, tag: None };
    if let Ok(image) = bench.client.pull(&from) {
        assert_eq!(digest_at(&bench.client.options().store.path_of(&image.manifest_digest)), image.manifest_digest);
        for (layer, blob) in &image.layers {
            assert_eq!((digest_at(blob.path()), blob.size()), (layer.digest, layer.size));
        }
    }
    let to = Location::Layout { path: copied.clone(), tag: None };
    match bench.client.copy(&from, &to, CopyPlan { referrers: false, ..CopyPlan::default() }) {
        Ok(done) => {
            assert!(done.documents <= bench.client.options().limits.manifests);
            assert!(done.bytes <= bench.client.options().limits.image);
            let again = bench.client.copy(&to, &from, CopyPlan::default()).expect("a copy is whole");
            assert_eq!(again.digest, done.digest);
        }
        Err(_) => assert!(!copied.join("index.json").exists(), "a copy that failed has an image"),
    }
});

fn digest_at(path: &Path) -> Digest {
    Digest::of(&fs::read(path).expect("a blob"))
}

/// Writes the documents as blobs, the last first, so that those before can name it.
fn write_layout(layout: &Path, bytes: &[u8]) {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut rest = bytes;
    while parts.len() < 10 {
        let end = rest.windows(CUT.len()).position(|part| part == CUT).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        if end == rest.len() {
            break;
        }
        rest = &rest[end + CUT.len()..];
    }
    let mut known: Vec<Option<(Digest, usize)>> = vec![None; parts.len()];
    for number in (0..parts.len()).rev() {
        let document = filled(parts[number], &known);
        let digest = Digest::of(&document);
        known[number] = Some((digest, document.len()));
        let path: PathBuf = match number {
            0 => layout.join("index.json"),
            _ => layout.join("blobs/sha256").join(digest.hex()),
        };
        fs::write(path, document).expect("scratch file");
    }
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("scratch file");
}

/// Puts digests and lengths in place of `@1` and `#1`.
fn filled(part: &[u8], known: &[Option<(Digest, usize)>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < part.len() {
        let number = part.get(at + 1).filter(|digit| digit.is_ascii_digit()).map(|digit| usize::from(digit - b'0'));
        match (part[at], number.and_then(|number| *known.get(number)?)) {
            (b'@', Some((digest, _))) => out.extend_from_slice(digest.to_string().as_bytes()),
            (b'#', Some((_, length))) => out.extend_from_slice(length.to_string().as_bytes()),
            (byte, _) => {
                out.push(byte);
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    out
}
