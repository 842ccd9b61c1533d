//! Missing images and damaged content.

use std::fs;

use crate::kit::{Bundle, Kit, names};

/// A bundle in the middle refers to an image that does not exist.
const INCOMPLETE: &[Bundle] = &[
    ("alpha", "1.0.0", "", &["ns/alpha:v1"]),
    ("alpha", "1.1.0", "1.0.0", &["ns/alpha:v2"]),
    ("alpha", "2.0.0", "1.1.0", &["ns/alpha:v3"]),
    ("beta", "0.1.0", "", &["ns/beta:v1"]),
];

const ALL: &str = "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n";

fn incomplete(kit: &Kit, image: &str) -> String {
    // The catalog refers to it by digest; the image is removed afterwards.
    let digest = kit.digest_of(image).unwrap();
    let hex = digest.hex();
    let registry = kit.source.as_ref().unwrap();
    fs::remove_file(registry.blob_file(&hex)).unwrap();
    kit.set("set.yaml", ALL)
}

#[test]
fn m18_missing_images_are_reported_by_package_and_bundle() {
    let Some(kit) = Kit::with(INCOMPLETE) else { return };
    let file = incomplete(&kit, "ns/alpha:v2");
    let error = kit.mirror_fails(&["pull", &file, "out"]);
    assert!(error.contains("package alpha\n  bundle alpha.v1.1.0\n    "), "{error}");
    assert!(error.contains("the set is incomplete"), "{error}");
    assert_eq!(names(&kit.path("out/mirror")), ["report.json"]);
    assert!(kit.read("out/mirror/report.json").contains("alpha/alpha.v1.1.0"));
    assert!(kit.mirror_fails(&["push", "out", &kit.to()]).contains("the set is incomplete"));
    // Everything else was fetched: once the source is complete, only the missing image is.
    kit.image("ns/alpha:v2", &[b"a layer that all share", &crate::kit::noise("ns/alpha:v2", 400_000)]);
    kit.mirror(&["pull", &file, "out"]);
    assert!(!names(&kit.path("out/mirror")).contains(&"report.json".to_owned()));
}

#[test]
fn m18_bundles_without_an_image_are_omitted_or_kept_on_request() {
    let Some(kit) = Kit::with(INCOMPLETE) else { return };
    let file = incomplete(&kit, "ns/alpha:v2");
    kit.mirror(&["pull", &file, "dropped", "--missing", "drop"]);
    let lock = kit.read("dropped/mirror/lock.json");
    assert!(lock.contains("\"leftOut\"") && !lock.contains("\"alpha.v1.1.0\""), "{lock}");
    let catalog = kit.read("dropped/mirror/catalogs/index-v1/alpha/catalog.json");
    // The next bundle takes over its edges.
    assert!(catalog.contains("\"replaces\": \"alpha.v1.0.0\""), "{catalog}");
    kit.stdout(&["validate", "dropped/mirror/catalogs/index-v1"]);
    kit.mirror(&["pull", &file, "kept", "--missing", "keep"]);
    assert!(kit.read("kept/mirror/catalogs/index-v1/alpha/catalog.json").contains("alpha.v1.1.0"));
    // A package is omitted if the image of its only bundle is missing.
    let digest = kit.digest_of("ns/beta:v1").unwrap();
    fs::remove_file(kit.source.as_ref().unwrap().blob_file(&digest.hex())).unwrap();
    kit.mirror(&["pull", &file, "both", "--missing", "drop"]);
    assert_eq!(names(&kit.path("both/mirror/catalogs/index-v1")), ["alpha"]);
    // An additional image is omitted.
    let more = format!("  additionalImages: [{{name: '{}/ns/nobody:v1'}}]\n", kit.host);
    let file = kit.set_of("more.yaml", "v1", "    - name: alpha\n", &more);
    let error = kit.mirror_fails(&["pull", &file, "more"]);
    assert!(error.contains("ns/nobody:v1, an additional image"), "{error}");
    kit.mirror(&["pull", &file, "more", "--missing", "drop"]);
}

#[test]
fn m10_an_unreachable_source_is_reported_immediately() {
    let Some(mut kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    drop(kit.source.take());
    let error = kit.mirror_fails(&["pull", &file, "out"]);
    assert!(error.contains("catalog ") && error.contains("pinging container registry"), "{error}");
    assert!(!kit.path("out/mirror/lock.json").exists());
}

#[test]
fn m18_a_bad_reference_belongs_to_its_bundle() {
    let Some(kit) = Kit::with(INCOMPLETE) else { return };
    // The list of the last bundle ends the file: each kind of invalid reference that valid catalogs can have.
    let untagged = format!("{}/ns/no-tag", kit.host);
    let bad = ["", &untagged, "pause", "ns/pause:v1"];
    let mut text = kit.read("catalog-v1/catalog.yaml");
    for image in bad {
        text += &format!("- {{name: bad, image: '{image}'}}\n");
    }
    fs::create_dir(kit.path("bad")).unwrap();
    fs::write(kit.path("bad/catalog.yaml"), text).unwrap();
    let name = format!("{}/ns/index:bad", kit.host);
    kit.stdout(&["build", "bad", "--data-only", "-t", &name, "--push", "--use-http"]);
    let file = kit.set_of("set.yaml", "bad", ALL, "");
    let error = kit.mirror_fails(&["pull", &file, "out"]);
    assert!(error.contains("package beta\n  bundle beta.v0.1.0\n") && !error.contains("package alpha"), "{error}");
    for image in ["(no name)", &untagged, "pause,", "ns/pause:v1,"] {
        assert!(error.contains(image), "{image}: {error}");
    }
    kit.mirror(&["pull", &file, "out", "--missing", "drop"]);
    assert_eq!(names(&kit.path("out/mirror/catalogs/index-bad")), ["alpha"]);
    kit.mirror(&["pull", &file, "kept", "--missing", "keep"]);
    assert_eq!(names(&kit.path("kept/mirror/catalogs/index-bad")), ["alpha", "beta"]);
}

#[test]
fn m18_a_head_without_its_image_is_replaced_by_the_previous_entry() {
    let Some(kit) = Kit::with(INCOMPLETE) else { return };
    let file = incomplete(&kit, "ns/alpha:v3");
    kit.mirror(&["pull", &file, "out", "--missing", "drop"]);
    kit.stdout(&["validate", "out/mirror/catalogs/index-v1"]);
    let listed = kit.stdout(&["list", "channels", "out/mirror/catalogs/index-v1", "alpha"]);
    assert!(listed.contains("alpha.v1.1.0") && !listed.contains("alpha.v2.0.0"), "{listed}");
}

#[test]
fn m15_a_damaged_directory_is_found_and_not_sent() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    kit.mirror(&["pull", &file, "out"]);
    let list = kit.read("out/mirror/blobs.txt");
    let largest = list.lines().max_by_key(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).unwrap();
    let hex = largest.split(' ').next().unwrap().trim_start_matches("sha256:").to_owned();
    let blob = kit.path("out/blobs/sha256").join(&hex);
    let mut bytes = fs::read(&blob).unwrap();
    bytes[100] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let error = kit.mirror_fails(&["verify", "out"]);
    assert!(error.contains("bundle alpha.v2.0.0") && error.contains(&format!("sha256:{hex} is damaged")), "{error}");
    let error = kit.mirror_fails(&["push", "out", &kit.to()]);
    assert!(error.contains("so the catalog tags stay unchanged"), "{error}");
    assert_eq!(kit.closed_digest("m/ns/index:v1"), None);
    // Another pull repairs it.
    kit.mirror(&["pull", &file, "out"]);
    kit.mirror(&["verify", "out"]);
    kit.mirror(&["push", "out", &kit.to()]);
    assert!(kit.closed_digest("m/ns/index:v1").is_some());
}

#[test]
fn m28_a_set_contains_no_password() {
    let Some(kit) = Kit::new() else { return };
    fs::create_dir_all(kit.path("home/.docker")).unwrap();
    let auth = format!("{{\"auths\": {{\"{}\": {{\"auth\": \"dXNlcjpodW50ZXIyMzQ1Ng==\"}}}}}}", kit.host);
    fs::write(kit.path("home/.docker/config.json"), auth).unwrap();
    let file = kit.set("set.yaml", "    - name: alpha\n");
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]);
    // Nor are passwords in messages and reports of failures.
    let more = format!("  additionalImages: [{{name: '{}/ns/nobody:v1'}}]\n", kit.host);
    let failing = kit.set_of("failing.yaml", "v1", "    - name: alpha\n", &more);
    let messages = kit.mirror_fails(&["pull", &failing, "failed", "--progress", "json"]);
    assert!(!messages.contains("hunter23456") && !messages.contains("dXNlcjpodW50ZXIyMzQ1Ng"), "{messages}");
    assert!(kit.path("failed/mirror/report.json").exists());
    let grep = std::process::Command::new("grep")
        .args(["-rlE", "hunter23456|dXNlcjpodW50ZXIyMzQ1Ng", "out", "volumes", "failed"])
        .current_dir(kit.path(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "");
}

/// Changes a byte of the largest blob of a set, and returns its file.
fn damage(kit: &Kit, set: &str) -> std::path::PathBuf {
    let list = kit.read(&format!("{set}/mirror/blobs.txt"));
    let largest = list.lines().max_by_key(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).unwrap();
    let hex = largest.split(' ').next().unwrap().trim_start_matches("sha256:");
    let blob = kit.path(set).join("blobs/sha256").join(hex);
    let mut bytes = fs::read(&blob).unwrap();
    bytes[100] ^= 1;
    fs::write(&blob, bytes).unwrap();
    blob
}

#[test]
fn m15_a_damaged_blob_is_neither_packed_nor_drained() {
    let Some(mut kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    kit.mirror(&["pull", &file, "out"]);
    let blob = damage(&kit, "out");
    let packing = ["pull", "out/mirror/lock.json", "out", "--volumes", "1MiB", "--to", "volumes", "--drain"];
    // Without the source, the set is incomplete, and everything stays where it is.
    kit.source.as_mut().unwrap().stop();
    kit.proxy.disconnect();
    let error = kit.mirror_fails(&packing);
    assert!(error.contains("the set is incomplete"), "{error}");
    assert!(blob.exists() && names(&kit.path("volumes")).is_empty(), "{:?}", names(&kit.path("volumes")));
    // With it, the blob is fetched again.
    kit.source.as_mut().unwrap().restart();
    kit.proxy.restore();
    kit.mirror(&packing);
    kit.mirror(&["verify", "volumes"]);
}

#[test]
fn m15_a_volume_with_a_damaged_blob_is_not_trusted_by_its_checksum() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]);
    // A volume that was written from a damaged blob: its checksum is right.
    let largest = fs::read_dir(kit.path("volumes")).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, &bytes).unwrap();
    let name = largest.file_name().unwrap().to_string_lossy().into_owned();
    let sums = kit.read("volumes/SHA256SUMS");
    let line = format!("{}  {name}\n", image::Digest::of(&bytes).hex());
    let others = sums.lines().filter(|line| !line.ends_with(&name)).map(|line| format!("{line}\n"));
    fs::write(kit.path("volumes/SHA256SUMS"), others.chain([line]).collect::<String>()).unwrap();
    let before = names(&kit.path("out/blobs/sha256"));
    let error = kit.mirror_fails(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes", "--drain"]);
    assert!(error.contains("exists with other content"), "{error}");
    // The blobs of this volume stay; those of undamaged volumes before it may have been drained.
    let (left, volumes) = (names(&kit.path("out/blobs/sha256")), kit.mirror_fails(&["verify", "volumes"]));
    let damaged: Vec<&String> =
        before.iter().filter(|hex| volumes.contains(&format!("sha256:{hex} is damaged"))).collect();
    assert!(!damaged.is_empty() && damaged.iter().all(|hex| left.contains(hex)), "{damaged:?}: {volumes}");
}

#[test]
fn m18_an_unreachable_registry_drops_nothing_from_a_set() {
    let Some(kit) = Kit::with(INCOMPLETE) else { return };
    let dead = format!("127.0.0.1:{}", testkit::free_port());
    let mut text = kit.read("catalog-v1/catalog.yaml");
    for number in 0..9 {
        text += &format!("- {{name: away, image: '{dead}/ns/away:v{number}'}}\n");
    }
    fs::create_dir(kit.path("away")).unwrap();
    fs::write(kit.path("away/catalog.yaml"), text).unwrap();
    let name = format!("{}/ns/index:away", kit.host);
    kit.stdout(&["build", "away", "--data-only", "-t", &name, "--push", "--use-http"]);
    let file = kit.set_of("set.yaml", "away", ALL, "");
    for how in ["fail", "drop", "keep"] {
        let error = kit.mirror_fails(&["pull", &file, how, "--missing", how]);
        assert!(error.contains("the set is incomplete") && error.contains("failed images: 9\n"), "{error}");
        // One line names the cause and some of the images.
        assert_eq!(error.matches("Connection refused").count(), 1, "{error}");
        assert!(error.contains("9 images, such as "), "{error}");
        assert!(!kit.path(how).join("mirror/lock.json").exists());
        assert!(kit.read(&format!("{how}/mirror/report.json")).contains("\"failed\": true"));
    }
    let error = kit.mirror_fails(&["plan", &file, "--missing", "drop", "--lock", "lock.json"]);
    assert!(error.contains("could not be checked") && !kit.path("lock.json").exists(), "{error}");
}
