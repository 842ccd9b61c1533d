//! Volumes, deltas and pruning.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::disks::files_below;
use crate::kit::{BUNDLES, Bundle, Kit, names};

/// The catalog a month later.
const LATER: &[Bundle] = &[
    ("alpha", "1.0.0", "", &["ns/alpha:v1"]),
    ("alpha", "1.1.0", "1.0.0", &["ns/alpha:v2", "ns/shared:v1"]),
    ("alpha", "2.0.0", "1.1.0", &["ns/alpha:v3", "ns/shared:v1"]),
    ("alpha", "3.0.0", "2.0.0", &["ns/alpha:v4", "ns/shared:v1"]),
    ("beta", "0.1.0", "", &["ns/beta:v1", "ns/shared:v1"]),
];

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.1.0\n";

fn volumes(kit: &Kit, directory: &str) -> Vec<String> {
    let tars = names(&kit.path(directory)).into_iter().filter(|name| name.ends_with(".tar"));
    tars.map(|name| format!("{directory}/{name}")).collect()
}

#[test]
fn m17_a_delta_has_new_content_only_and_requires_its_base() {
    let Some(kit) = Kit::new() else { return };
    let to = kit.to();
    let first = kit.set("first.yaml", ALPHA);
    kit.mirror(&["pull", &first, "first", "--volumes", "1MiB", "--to", "one"]);
    kit.publish(LATER, "v2");
    let second = kit.set_of("second.yaml", "v2", ALPHA, "");
    kit.mirror(&["pull", &second, "second", "--volumes", "1MiB", "--to", "two", "--have", "first"]);
    let size = |directory: &str| -> u64 {
        volumes(&kit, directory).iter().map(|name| kit.path(name).metadata().unwrap().len()).sum()
    };
    // One image of 400 kB is new, and the catalog.
    assert!((400_000..460_000).contains(&size("two")), "{} compared with {}", size("two"), size("one"));
    // Without its base nothing is sent.
    let delta = volumes(&kit, "two");
    let push = |from: &[String]| {
        let mut words = vec!["push"];
        words.extend(from.iter().map(String::as_str));
        words.push(&to);
        words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let words = |list: &[String]| list.to_vec();
    let run = |list: Vec<String>| {
        let words: Vec<&str> = list.iter().map(String::as_str).collect();
        kit.run(&crate::kit::mirror(&words))
    };
    let refused = run(push(&words(&delta)));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        error.contains("is neither available locally nor in the registry") && error.contains("bundle alpha.v1.1.0"),
        "{error}"
    );
    assert_eq!(kit.closed_digest("m/ns/index:v2"), None);
    // In order it works, with volumes in any order.
    let mut base = volumes(&kit, "one");
    base.reverse();
    assert!(run(push(&base)).status.success());
    let done = run(push(&delta));
    assert!(done.status.success(), "{done:?}");
    kit.mirror(&["verify", &to, "--lock", "second/mirror/lock.json", "--deep"]);
    // The content of the registry can be listed, and is the base of another delta.
    kit.mirror(&["verify", &to, "--lock", "first/mirror/lock.json", "--have", "there.txt"]);
    kit.mirror(&["pull", &second, "second", "--volumes", "1MiB", "--to", "again", "--have", "there.txt"]);
    // That delta has no lock of a base set.
    assert!(size("two").abs_diff(size("again")) <= 1024, "{} compared with {}", size("again"), size("two"));
    kit.mirror(&["verify", "again"]);
}

/// Returns the catalog with this many additional bundles of `alpha`, each with its own image.
fn with_more(count: usize) -> Vec<Bundle> {
    // Names of bundles are static elsewhere, so these few are leaked.
    let text = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let mut bundles = BUNDLES.to_vec();
    for number in 0..count {
        let replaces = text(format!("{}.0.0", number + 2));
        let image = text(format!("ns/alpha:more-{number}"));
        let related: &'static [&'static str] = Box::leak(Box::new([image, "ns/shared:v1"]));
        bundles.insert(3 + number, ("alpha", text(format!("{}.0.0", number + 3)), replaces, related));
    }
    bundles
}

/// The number of bundles that each step adds.
const STEP: usize = 10;

/// A delta has the size of its new blobs plus 1 %, and the documents.
fn check_delta(kit: &Kit, delta: &str, set: &str, before: &str) {
    let blobs = |set: &str| -> BTreeMap<String, u64> {
        let list = kit.read(&format!("{set}/mirror/blobs.txt"));
        let lines = list.lines().map(|line| line.split_once(' ').unwrap());
        lines.map(|(digest, size)| (digest.to_owned(), size.parse().unwrap())).collect()
    };
    let (all, had) = (blobs(set), blobs(before));
    let new: u64 = all.iter().filter(|(digest, _)| !had.contains_key(*digest)).map(|(_, size)| size).sum();
    let size = |path: &Path| path.metadata().unwrap().len();
    // A file has a header, is padded to whole blocks, and has a line in the list.
    let packed = |bytes: u64| 512 + bytes.next_multiple_of(512) + 320;
    let small: u64 = all.values().filter(|size| **size < 4096).map(|size| packed(*size)).sum();
    let own: u64 = files_below(&kit.path(set).join("mirror")).iter().map(|path| packed(size(path))).sum();
    let documents = small + own + packed(size(&kit.path(set).join("index.json"))) + 4096;
    let written: u64 = volumes(kit, delta).iter().map(|name| size(&kit.path(name))).sum();
    assert!(new > STEP as u64 * 400_000 && written > new, "{written} for {new}");
    assert!(written <= new + new / 100 + documents, "{written} for {new} and documents of {documents}");
}

#[test]
fn m17_a_missing_or_pruned_delta_is_reported_and_another_pull_repairs_it() {
    let Some(mut kit) = Kit::new() else { return };
    let to = kit.to();
    let first = kit.set("first.yaml", ALPHA);
    kit.mirror(&["pull", &first, "first", "--volumes", "1MiB", "--to", "one"]);
    kit.publish(&with_more(STEP), "v2");
    let second = kit.set_of("second.yaml", "v2", ALPHA, "");
    // A lock lists existing content like a blob list.
    let lock = "first/mirror/lock.json";
    kit.mirror(&["pull", &second, "second", "--volumes", "1MiB", "--to", "two", "--have", lock]);
    check_delta(&kit, "two", "second", "first");
    kit.publish(&with_more(2 * STEP), "v3");
    let third = kit.set_of("third.yaml", "v3", ALPHA, "");
    kit.mirror(&["pull", &third, "third", "--volumes", "1MiB", "--to", "three", "--have", "second"]);
    check_delta(&kit, "three", "third", "second");
    let named = |error: &str| -> Vec<usize> {
        let all = 1..=2 * STEP + 2;
        all.filter(|number| error.contains(&format!("  bundle alpha.v{number}.0.0\n"))).collect()
    };
    // The third set first: content of the first two is reported as missing.
    let error = kit.mirror_fails(&["push", "three", &to]);
    assert!(error.contains("so nothing was sent"), "{error}");
    // All bundles share an image of the first set.
    assert_eq!(named(&error), (2..=2 * STEP + 2).collect::<Vec<_>>(), "{error}");
    assert_eq!(kit.closed_digest("m/ns/index:v3"), None);
    // Then without the second, whose ten bundles are reported.
    kit.mirror(&["push", "one", &to]);
    let error = kit.mirror_fails(&["push", "three", &to]);
    assert!(error.contains("is neither available locally nor in the registry"), "{error}");
    assert_eq!(named(&error), (3..3 + STEP).collect::<Vec<_>>(), "{error}");
    assert_eq!(kit.closed_digest("m/ns/index:v3"), None);
    // The set that has the missing content is named.
    let had = kit.mirror(&["verify", "second"]);
    assert!(error.contains(&format!("are a delta to lock {had}")), "{error}");
    // The blob list of the registry is the base of another pull, which has the rest.
    kit.mirror_fails(&["verify", &to, "--lock", "third/mirror/lock.json", "--have", "there.txt"]);
    kit.mirror(&["pull", &third, "third", "--volumes", "1MiB", "--to", "repair", "--have", "there.txt"]);
    check_delta(&kit, "repair", "third", "first");
    kit.mirror(&["push", "repair", &to]);
    kit.mirror(&["verify", &to, "--lock", "third/mirror/lock.json", "--deep"]);
    // Pruned content is missing, whatever the list contains.
    kit.mirror(&["pull", &third, "third", "--volumes", "1MiB", "--to", "nothing", "--have", "third"]);
    kit.mirror(&["push", "nothing", &to]);
    kit.mirror(&["prune", &to, "--keep", lock, "--yes"]);
    kit.closed.collect_garbage();
    let error = kit.mirror_fails(&["push", "nothing", &to]);
    assert!(error.contains("so nothing was sent"), "{error}");
    assert_eq!(named(&error), (3..=2 * STEP + 2).collect::<Vec<_>>(), "{error}");
    kit.mirror(&["verify", &to, "--lock", lock]);
    kit.mirror(&["push", "repair", &to]);
    kit.mirror(&["verify", &to, "--lock", "third/mirror/lock.json", "--deep"]);
}

#[test]
fn m15_a_missing_volume_is_reported_with_its_number() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "v", "--drain"]);
    // The blobs are only in the volumes.
    let left: u64 =
        fs::read_dir(kit.path("out/blobs/sha256")).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
    assert!(left < 100_000, "{left}");
    assert!(kit.mirror(&["verify", "v"]).starts_with("sha256:"));
    let all = volumes(&kit, "v");
    if let [first, _, ..] = all.as_slice() {
        let error = kit.mirror_fails(&["verify", first]);
        assert!(error.contains("volumes [2") && error.contains("bundle alpha.v"), "{error}");
        let error = kit.mirror_fails(&["push", first, &kit.to()]);
        assert!(error.contains("so nothing was sent"), "{error}");
        // Volumes one by one: blobs are sent first, and the rest is checked with the last.
        for volume in &all[1..] {
            kit.mirror(&["push", volume, &kit.to(), "--part"]);
        }
        kit.mirror(&["push", first, &kit.to()]);
    } else {
        panic!("too few volumes: {all:?}");
    }
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json", "--deep"]);
}

#[test]
fn m12_blobs_in_volumes_are_not_fetched_again() {
    let Some(mut kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let pull = ["pull", &file, "out", "--volumes", "1MiB", "--to", "v", "--drain"];
    let digest = kit.mirror(&pull);
    let all = volumes(&kit, "v");
    let read = |kit: &Kit| all.iter().map(|name| fs::read(kit.path(name)).unwrap()).collect::<Vec<_>>();
    let before = (read(&kit), kit.read("v/SHA256SUMS"), kit.proxy.count());
    // A second run: only the tag of the catalog is resolved.
    assert_eq!(kit.mirror(&pull), digest);
    assert!(kit.proxy.count() - before.2 < 10_000, "{}", kit.proxy.count() - before.2);
    assert!(read(&kit) == before.0 && kit.read("v/SHA256SUMS") == before.1);
    // An interrupted run: the last volume is not written yet.
    let last = all.last().unwrap();
    kit.mirror(&["pull", "out/mirror/lock.json", "out", "--volumes", "1MiB", "--to", "v", "--drain"]);
    fs::remove_file(kit.path(last)).unwrap();
    let before_repair = kit.proxy.count();
    assert_eq!(kit.mirror(&pull), digest);
    let fetched = kit.proxy.count() - before_repair;
    let size = kit.path(last).metadata().unwrap().len();
    assert!(fetched < size + 150_000, "{fetched} for a volume of {size}");
    assert!(read(&kit) == before.0 && kit.read("v/SHA256SUMS") == before.1);
    // Another set next to it keeps the checksums of both.
    let beta = kit.set("beta.yaml", "    - name: beta\n");
    kit.mirror(&["pull", &beta, "beta", "--volumes", "1MiB", "--to", "v"]);
    assert!(kit.read("v/SHA256SUMS").lines().count() > all.len());
    // With the lock and all blobs in volumes, no request is sent.
    drop(kit.source.take());
    kit.proxy.disconnect();
    assert_eq!(
        kit.mirror(&["pull", "out/mirror/lock.json", "out", "--volumes", "1MiB", "--to", "v", "--drain"]),
        digest
    );
}

#[test]
fn m23_prune_removes_only_content_that_no_kept_set_needs() {
    let Some(kit) = Kit::new() else { return };
    let to = kit.to();
    let (alpha, beta) =
        (kit.set("alpha.yaml", "    - name: alpha\n"), kit.set_of("beta.yaml", "v1", "    - name: beta\n", ""));
    let beta_file = kit.read(&beta).replace("    packages:", "    targetTag: beta\n    packages:");
    fs::write(kit.path(&beta), beta_file).unwrap();
    kit.mirror(&["pull", &alpha, "alpha"]);
    kit.mirror(&["pull", &beta, "beta"]);
    kit.mirror(&["push", "alpha", &to]);
    kit.mirror(&["push", "beta", &to]);
    kit.closed_copy("m/ns/alpha-bundle:v2.0.0", "m/ns/alpha-bundle:mine");
    kit.closed_copy("m/ns/alpha-bundle:v2.0.0", "other/thing:v1");
    let keep = ["prune", &to, "--keep", "beta/mirror/lock.json"];
    let listed = kit.mirror(&keep);
    assert!(listed.contains("/m/ns/alpha@sha256:") && listed.contains("/m/ns/index@sha256:"), "{listed}");
    assert!(
        !listed.contains("ns/shared") && !listed.contains("ns/beta") && !listed.contains("alpha-bundle"),
        "{listed}"
    );
    kit.mirror(&["verify", &to, "--lock", "alpha/mirror/lock.json"]);
    kit.mirror(&[&keep[..], &["--yes"]].concat());
    assert!(kit.mirror_fails(&["verify", &to, "--lock", "alpha/mirror/lock.json"]).contains("package alpha"));
    kit.mirror(&["verify", &to, "--lock", "beta/mirror/lock.json", "--deep"]);
    assert!(kit.closed_digest("m/ns/alpha-bundle:mine").is_some() && kit.closed_digest("other/thing:v1").is_some());
    // A second prune has nothing to remove.
    assert_eq!(kit.mirror(&keep), "");
}

#[test]
fn m23_prune_keeps_the_images_of_indexes_that_stay() {
    let Some(kit) = Kit::new() else { return };
    let to = kit.to();
    let index = kit.index("ns/tool:v1", &["amd64", "arm64"]);
    let child = |architecture: &str| kit.index_child(index, architecture);
    let (amd, arm) = (child("amd64"), child("arm64"));
    let additional = |name: &str, images: &[String]| {
        let images: String = images.iter().map(|image| format!("  - name: {image}\n")).collect();
        let text = kit.set_of(name, "v1", "    - name: beta\n", &format!("  additionalImages:\n{images}"));
        fs::write(
            kit.path(&text),
            kit.read(&text).replace("    packages:", &format!("    targetTag: {name}\n    packages:")),
        )
        .unwrap();
        text
    };
    let one = |digest: &image::Digest| format!("{}/ns/tool@{digest}", kit.host);
    let whole = additional("whole.yaml", &[format!("{}/ns/tool:v1", kit.host)]);
    let parts = additional("parts.yaml", &[one(&amd), one(&arm)]);
    kit.mirror(&["copy", &whole, &to, "--lock", "whole.json"]);
    kit.mirror(&["copy", &parts, &to, "--lock", "parts.json"]);
    // The kept set needs both images through its index.
    let listed = kit.mirror(&["prune", &to, "--keep", "whole.json", "--yes"]);
    assert!(!listed.contains("ns/tool"), "{listed}");
    kit.mirror(&["verify", &to, "--lock", "whole.json", "--deep"]);
    // So does the tag of someone else, also if the mirror created a tag of this name for another image.
    kit.mirror(&["copy", &parts, &to, "--lock", "parts.json"]);
    let moved = format!("m/ns/tool:sha256-{}", arm.hex());
    assert_eq!(kit.closed_digest(&moved), Some(arm));
    kit.closed_copy("m/ns/tool:v1", &moved);
    let other = kit.set("other.yaml", "    - name: alpha\n");
    kit.mirror(&["copy", &other, &to, "--lock", "other.json"]);
    kit.mirror(&["prune", &to, "--keep", "other.json", "--yes"]);
    kit.stdout(&["copy", &format!("{}/{moved}", kit.closed.host()), "oci:copied:v1", "--use-http"]);
}
