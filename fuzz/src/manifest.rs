//! Manifests, indexes and configs, split at each `0xff 0xfe 0xff`; the first is the `index.json` of a layout.
//!
//! `@1` to `@9` in a document is replaced by the digest of a later document, `#1` to `#9` by its length. Blobs from the
//! layout match their digests, a copy is read as the same image, and a rejected layout leaves no image.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use image::{Client, ClientOptions, CopyPlan, Digest, Environment, ImageLimits, Location, Store};
use tempfile::TempDir;

const SEPARATOR: &[u8] = b"\xff\xfe\xff";

struct Workspace {
    dir: TempDir,
    client: Client,
}

fn workspace() -> &'static Workspace {
    static WORKSPACE: OnceLock<Workspace> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("scratch directory");
        let mut options = ClientOptions::new(Store::open(&dir.path().join("store")).expect("store"));
        options.environment = Environment::isolated(Path::new("/nonexistent"), &[]);
        options.offline = true;
        // A small input exceeds these limits.
        options.limits =
            ImageLimits { manifests: 6, image: 1 << 16, layers: 8, layer: 1 << 15, ..ImageLimits::default() };
        Workspace { client: Client::new(options).expect("client"), dir }
    })
}

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let workspace = workspace();
    let layout = workspace.dir.path().join("layout");
    let copied = workspace.dir.path().join("copied");
    for folder in [layout.join("blobs"), workspace.dir.path().join("store/blobs"), copied.clone()] {
        // The first input finds no such directory.
        drop(fs::remove_dir_all(folder));
    }
    for folder in [layout.join("blobs/sha256"), workspace.dir.path().join("store/blobs/sha256")] {
        fs::create_dir_all(folder).expect("scratch directory");
    }
    write_layout(&layout, bytes);
    let from = Location::Layout { path: layout, tag: None };
    if let Ok(image) = workspace.client.pull(&from) {
        assert_eq!(digest_at(&workspace.client.options().store.path_of(&image.manifest_digest)), image.manifest_digest);
        for (layer, blob) in &image.layers {
            blob.open().finish().expect("a pulled layer is undamaged");
            assert_eq!((blob.digest(), blob.size()), (layer.digest, layer.size));
        }
    }
    let to = Location::Layout { path: copied.clone(), tag: None };
    match workspace.client.copy(&from, &to, CopyPlan { referrers: false, ..CopyPlan::default() }) {
        Ok(copy) => {
            assert!(copy.documents <= workspace.client.options().limits.manifests);
            assert!(copy.bytes <= workspace.client.options().limits.image);
            let copied_back = workspace.client.copy(&to, &from, CopyPlan::default()).expect("a copy is complete");
            assert_eq!(copied_back.digest, copy.digest);
        }
        Err(_) => assert!(!copied.join("index.json").exists(), "a failed copy left an image"),
    }
}

fn digest_at(path: &Path) -> Digest {
    Digest::of(&fs::read(path).expect("a blob"))
}

/// Writes the documents as blobs, the last one first, so that earlier ones can refer to it.
fn write_layout(layout: &Path, bytes: &[u8]) {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut rest = bytes;
    while parts.len() < 10 {
        let end = rest.windows(SEPARATOR.len()).position(|part| part == SEPARATOR).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        if end == rest.len() {
            break;
        }
        rest = &rest[end + SEPARATOR.len()..];
    }
    let mut known: Vec<Option<(Digest, usize)>> = vec![None; parts.len()];
    for number in (0..parts.len()).rev() {
        let document = with_references(parts[number], &known);
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

/// Replaces `@1` and `#1` with digests and lengths.
fn with_references(part: &[u8], known: &[Option<(Digest, usize)>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut position = 0;
    while position < part.len() {
        let number =
            part.get(position + 1).filter(|digit| digit.is_ascii_digit()).map(|digit| usize::from(digit - b'0'));
        match (part[position], number.and_then(|number| *known.get(number)?)) {
            (b'@', Some((digest, _))) => out.extend_from_slice(digest.to_string().as_bytes()),
            (b'#', Some((_, length))) => out.extend_from_slice(length.to_string().as_bytes()),
            (byte, _) => {
                out.push(byte);
                position += 1;
                continue;
            }
        }
        position += 2;
    }
    out
}
