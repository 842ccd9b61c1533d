//! Written layers, read back by opm and by tar.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use image::{Layer, LayerFile, LayerModes, Store, UnpackLimits, media_type, unpack};

fn long(letter: &str) -> String {
    letter.repeat(120)
}

/// Creates a directory with names of all kinds.
fn sample(root: &Path) {
    for directory in ["sub/deep", "empty", &long("d")] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("b.yaml"), "b").unwrap();
    fs::write(root.join("a.yaml"), vec![b'a'; 100_000]).unwrap();
    fs::write(root.join("a-b"), "").unwrap();
    fs::write(root.join("sub/deep/f\u{fc}r"), "x").unwrap();
    fs::write(root.join(long("d")).join(long("f")), "long").unwrap();
}

fn layer_of(root: &Path) -> Layer {
    let mut layer = Layer::new();
    layer.tree("/configs", root, LayerModes::default()).unwrap();
    layer.symlink("/bin/probe", "opm");
    layer.file("bin/opm", &root.join("b.yaml"), 0o755).unwrap();
    layer.directory("tmp", 0o1777);
    layer
}

#[test]
fn a_written_layer_unpacks_to_the_same_files() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("catalog");
    sample(&root);
    let store = Store::open(&scratch.path().join("store")).unwrap();
    let built = layer_of(&root).write(&store, 0, &|_| {}).unwrap();
    let path = store.path_of(&built.descriptor.digest);
    assert_eq!(path.metadata().unwrap().len(), built.descriptor.size);
    assert_eq!(built.descriptor.media_type, media_type::OCI_LAYER_GZIP);

    let target = scratch.path().join("target");
    let blob = store.find(&built.descriptor).unwrap().unwrap();
    let file = LayerFile { blob, media_type: built.descriptor.media_type.clone() };
    unpack(&[file], &target, &UnpackLimits::default(), &|_| {}).unwrap();
    let diff = |a: &Path, b: &Path| Command::new("diff").arg("-r").args([a, b]).output().unwrap();
    let differences = diff(&root, &target.join("configs"));
    assert!(differences.status.success(), "{}", String::from_utf8_lossy(&differences.stdout));
    assert_eq!(fs::read_link(target.join("bin/probe")).unwrap(), Path::new("opm"));

    // tar lists the same names, modes, owners and times.
    let listing = Command::new("tar").args(["--numeric-owner", "--utc", "-tvzf"]).arg(&path).output().unwrap();
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.contains(" 0/0 ") && line.contains("1970-01-01 00:00")), "{text}");
    for expected in [
        "drwxr-xr-x 0/0 0 1970-01-01 00:00 configs/",
        "-rw-r--r-- 0/0 100000 1970-01-01 00:00 configs/a.yaml",
        "-rwxr-xr-x 0/0 1 1970-01-01 00:00 bin/opm",
        "lrwxrwxrwx 0/0 0 1970-01-01 00:00 bin/probe -> opm",
        "drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/",
        &format!("-rw-r--r-- 0/0 4 1970-01-01 00:00 configs/{}/{}", long("d"), long("f")),
    ] {
        let found = lines.iter().any(|line| line.split_whitespace().eq(expected.split_whitespace()));
        assert!(found, "{expected} is not in\n{text}");
    }
}

#[test]
fn a_layer_depends_on_content_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(&scratch.path().join("store")).unwrap();
    let (one, other) = (scratch.path().join("one"), scratch.path().join("elsewhere/other"));
    sample(&one);
    // The same content, created in another order, at another time, with other modes.
    fs::create_dir_all(other.join("empty")).unwrap();
    sample(&other);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(other.join("a.yaml"), mode).unwrap();
    fs::File::open(other.join("b.yaml")).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let write = |root: &Path, time| layer_of(root).write(&store, time, &|_| {}).unwrap();
    assert_eq!(write(&one, 0), write(&other, 0));
    assert_ne!(write(&one, 0), write(&one, 1));
    fs::write(other.join("b.yaml"), "c").unwrap();
    assert_ne!(write(&one, 0), write(&other, 0));
}

#[test]
fn links_and_devices_are_rejected() {
    for target in ["/etc", "/etc/hostname", "..", "none", "file"] {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        symlink(target, scratch.path().join("link")).unwrap();
        let error = Layer::new().tree("/configs", scratch.path(), LayerModes::default()).unwrap_err();
        assert!(error.to_string().ends_with("link: neither a file nor a directory"), "{error}");
    }
    let error = Layer::new().tree("/configs", Path::new("/dev"), LayerModes::default()).unwrap_err();
    assert!(error.to_string().contains("/dev/"), "{error}");
}

#[test]
fn files_that_change_are_detected() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(&scratch.path().join("store")).unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "before").unwrap();
    let mut layer = Layer::new();
    layer.file("f", &file, 0o644).unwrap();
    for text in ["longer than before", "short"] {
        fs::write(&file, text).unwrap();
        let error = layer.write(&store, 0, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("changed while it was read"), "{error}");
    }
    assert_eq!(fs::read_dir(store.root().join("blobs/sha256")).unwrap().count(), 0);
}
