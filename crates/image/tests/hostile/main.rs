//! Malicious or broken archives: each is rejected or harmless, which the file system shows.

mod archive;
mod contents;
mod paths;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use Outcome::{Harmless, Rejected};
use archive::{Archive, gzip};
use image::{Digest, LayerFile, StoredBlob, UnpackLimits, unpack, unpack_only};

/// The content of every file that no archive may read or change.
const CANARY: &str = "CANARY";

/// Returns limits that small archives exceed.
fn limits() -> UnpackLimits {
    UnpackLimits {
        total_size: 8 << 20,
        file_size: 1 << 20,
        entries: 2_000,
        path_length: 1024,
        depth: 40,
        ratio: 100,
        ratio_from: 1 << 20,
    }
}

enum Outcome {
    /// The archive is rejected with an error that contains this text.
    Rejected(&'static str),
    /// The archive is unpacked to these entries: directories with a slash, files with content, links with an arrow.
    Harmless(&'static [&'static str]),
}

struct Row {
    name: &'static str,
    layers: Vec<Vec<u8>>,
    outcome: Outcome,
}

fn row(name: &'static str, layer: Vec<u8>, outcome: Outcome) -> Row {
    Row { name, layers: vec![layer], outcome }
}

fn layered(name: &'static str, layers: &[Archive], outcome: Outcome) -> Row {
    Row { name, layers: layers.iter().map(|layer| layer.clone().end()).collect(), outcome }
}

/// A directory with a target to unpack to, and files around it that must not change.
struct Playground {
    scratch: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Playground {
    fn new() -> Playground {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("outside/sub")).unwrap();
        fs::create_dir(root.join("work")).unwrap();
        for file in ["secret", "outside/secret", "outside/sub/secret", "work/beside"] {
            fs::write(root.join(file), CANARY).unwrap();
        }
        symlink("secret", root.join("outside/link")).unwrap();
        let before = snapshot(root);
        Playground { scratch, before }
    }

    fn target(&self) -> PathBuf {
        self.scratch.path().join("work/target")
    }

    fn layers(&self, layers: &[Vec<u8>]) -> (tempfile::TempDir, Vec<LayerFile>) {
        let directory = tempfile::tempdir().unwrap();
        let files = layers.iter().enumerate().map(|(number, bytes)| {
            let path = directory.path().join(number.to_string());
            fs::write(&path, bytes).unwrap();
            LayerFile {
                blob: StoredBlob::file(Digest::of(bytes), &path, bytes.len() as u64),
                media_type: image::media_type::OCI_LAYER.into(),
            }
        });
        let files = files.collect();
        (directory, files)
    }

    /// Returns how the files around the target changed, if they did.
    fn damage(&self) -> Option<String> {
        let target = self.target();
        let mut after = snapshot(self.scratch.path());
        after.retain(|path, _| !path.starts_with(&target));
        (after != self.before).then(|| format!("{:?} became {after:?}", self.before))
    }
}

/// Returns everything below a directory, without following links: kind, mode and content.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let kind = metadata.file_type();
            let description = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                pending.push(path.clone());
                format!("directory {:o}", metadata.permissions().mode())
            } else {
                assert!(kind.is_file(), "{} is neither file nor directory nor link", path.display());
                let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                format!("file {:o} {content}", metadata.permissions().mode())
            };
            found.insert(path, description);
        }
    }
    found
}

/// Returns the unpacked entries, after checking modes, and that neither links nor content lead outside.
fn listing(target: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, description) in snapshot(target) {
        let name = String::from_utf8_lossy(path.strip_prefix(target).unwrap().as_os_str().as_bytes()).into_owned();
        lines.push(if let Some(link) = description.strip_prefix("-> ") {
            if let Ok(real) = path.canonicalize() {
                assert!(real.starts_with(target.canonicalize().unwrap()), "{name} leads to {}", real.display());
            }
            format!("{name} -> {link}")
        } else if let Some(mode) = description.strip_prefix("directory ") {
            assert_eq!(mode, "40700", "{name}");
            format!("{name}/")
        } else {
            let content = description.strip_prefix("file 100600 ").unwrap_or_else(|| panic!("{name}: {description}"));
            assert!(!content.contains(CANARY), "{name} has content from outside");
            let short: String = content.chars().take(20).collect();
            format!("{name} = {short}")
        });
    }
    lines
}

fn check(row: &Row) -> Result<(), String> {
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&row.layers);
    let target = playground.target();
    let outcome = unpack(&layers, &target, &limits(), &|_| {});
    if let Some(damage) = playground.damage() {
        return Err(format!("a file outside changed: {damage}"));
    }
    match (&row.outcome, outcome) {
        (Rejected(text), Err(error)) if error.to_string().contains(text) => {
            if target.symlink_metadata().is_ok() {
                Err("the target exists".into())
            } else {
                Ok(())
            }
        }
        (Rejected(text), Err(error)) => Err(format!("the error does not say {text:?}: {error}")),
        (Rejected(_), Ok(_)) => Err(format!("it was unpacked: {:?}", listing(&target))),
        (Harmless(_), Err(error)) => Err(format!("it was rejected: {error}")),
        (Harmless(expected), Ok(_)) => {
            let found = listing(&target);
            if found == *expected { Ok(()) } else { Err(format!("unpacked to {found:#?}")) }
        }
    }
}

fn long(letter: &str, length: usize) -> Vec<u8> {
    letter.repeat(length).into_bytes()
}

#[test]
fn every_archive_is_rejected_or_harmless() {
    let rows: Vec<Row> =
        [paths::names(), paths::links(), paths::whiteouts(), contents::kinds(), contents::sizes(), contents::streams()]
            .into_iter()
            .flatten()
            .collect();
    assert!(rows.len() >= 100, "{} rows", rows.len());
    let wrong: Vec<String> =
        rows.iter().filter_map(|row| check(row).err().map(|error| format!("{}: {error}", row.name))).collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_hundred_thousand_entries_are_unpacked() {
    let archive = (0..100_000).fold(
        Archive::new(),
        |archive, number| // Few names, each used often: the file system takes most of the time.
        archive.symlink(format!("d{}/{}", number % 300, number % 5_000), "../d1/f"),
    );
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&[gzip(&archive.end())]);
    let unpacked = unpack(&layers, &playground.target(), &UnpackLimits::default(), &|_| {}).unwrap();
    assert_eq!(unpacked.made, 15_300);
    assert_eq!(playground.damage(), None);
}

#[test]
fn encrypted_layers_are_rejected() {
    let playground = Playground::new();
    let (_files, mut layers) = playground.layers(&[Archive::new().end()]);
    layers[0].media_type += "+encrypted";
    let error = unpack(&layers, &playground.target(), &limits(), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "layer 1: the layer is encrypted");
}

#[test]
fn existing_directories_are_never_changed() {
    let playground = Playground::new();
    let (_files, layers) = playground.layers(&[Archive::new().file("f", "x").end()]);
    let target = playground.target();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("mine"), "mine").unwrap();
    let error = unpack(&layers, &target, &limits(), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("not an empty directory"), "{error}");
    fs::remove_file(target.join("mine")).unwrap();
    unpack(&layers, &target, &limits(), &|_| {}).unwrap();
    assert_eq!(listing(&target), ["f = x"]);
    for path in [target.join("f"), target.join("none/target")] {
        unpack(&layers, &path, &limits(), &|_| {}).unwrap_err();
    }
    symlink("../outside", target.join("link")).unwrap();
    unpack(&layers, &target.join("link"), &limits(), &|_| {}).unwrap_err();
    fs::remove_file(target.join("link")).unwrap();
    assert_eq!(playground.damage(), None);
}

fn only(paths: &[&str], layers: &[Archive]) -> Vec<String> {
    let playground = Playground::new();
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(&layer.clone().end())).collect();
    let (_files, layers) = playground.layers(&layers);
    let paths: Vec<&Path> = paths.iter().map(|path| Path::new(OsStr::new(path))).collect();
    unpack_only(&paths, &layers, &playground.target(), &limits(), &|_| {}).unwrap();
    assert_eq!(playground.damage(), None);
    listing(&playground.target())
}

#[test]
fn selected_paths_are_unpacked_with_the_targets_of_their_links() {
    let image = || Archive::new().file("configs/a", "x").file("data/b", "y").file("other/c", "z").file("top", "t");
    assert_eq!(only(&["/configs"], &[image()]), ["configs/", "configs/a = x"]);
    assert_eq!(only(&["configs/", "./top"], &[image()]), ["configs/", "configs/a = x", "top = t"]);
    assert_eq!(only(&["/none", "/configs/none"], &[image()]), ["configs/"]);
    let linked = image().symlink("link", "/data").symlink("deep/er", "../link/.");
    assert_eq!(only(&["/link"], std::slice::from_ref(&linked)), ["data/", "data/b = y", "link -> data"]);
    assert_eq!(only(&["deep/er/b"], &[linked]), ["data/", "data/b = y", "deep/", "deep/er -> ../data", "link -> data"],);
    let inside = Archive::new().symlink("configs/l", "../data/b").symlink("configs/m", "../../etc/passwd");
    assert_eq!(
        only(&["configs"], &[image(), inside]),
        ["configs/", "configs/a = x", "configs/l -> ../data/b", "configs/m -> ../etc", "data/", "data/b = y"],
    );
    let hard = Archive::new().hardlink("configs/h", "data/b").file("configs/.wh.a", "");
    assert_eq!(only(&["configs"], &[image(), hard]), ["configs/", "configs/h = y"]);
    assert_eq!(only(&["l"], &[Archive::new().symlink("l", "l").file("f", "x")]), ["l -> l"]);
}
