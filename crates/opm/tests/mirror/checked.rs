//! Preflight checks of a registry: mounts, and limits for the depth and length of paths.

use testkit::FakeRegistry;

use crate::kit::{Kit, mirror};
use crate::sparse::accepting;

const ALL: &str = "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n";

/// Returns the number of received bytes in blobs.
fn received(registry: &FakeRegistry) -> usize {
    let uploads =
        registry.log().into_iter().filter(|request| request.method == "PUT" && request.path.contains("/blobs/"));
    uploads.map(|request| request.body.len()).sum()
}

#[test]
fn a_registry_without_mounts_is_reported_before_blobs_are_sent_repeatedly() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALL);
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]);
    let messages = |to: &str| {
        let output = kit.run(&mirror(&["push", "out", to]));
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        messages
    };
    // A registry with mounts is not mentioned.
    assert!(!messages(&kit.to()).contains("mount blobs across repositories"));
    let registry = accepting(|_| true);
    let note = messages(&format!("{}/m", registry.host()));
    assert!(note.contains("note: ") && note.contains("does not mount blobs across repositories: "), "{note}");
    // Only the test blob is sent before the note: the mount is tried first.
    let log = registry.log();
    let tried = log.iter().position(|request| request.method == "POST" && request.path.contains("?mount=")).unwrap();
    let before = log[..tried].iter().filter(|request| request.method == "PUT").map(|request| request.body.len());
    assert_eq!(before.sum::<usize>(), 2);
    // Content that is sent without tags could not be used there.
    let other = accepting(|_| true);
    let error = kit.mirror_fails(&["push", "volumes", &format!("{}/m", other.host()), "--part"]);
    assert!(error.contains("which --part requires") && error.contains("help: pass all volumes to one"), "{error}");
    assert_eq!(received(&other), 2);
}

#[test]
fn paths_that_are_too_deep_or_too_long_are_reported_before_anything_is_sent() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALL);
    kit.mirror(&["pull", &file, "out"]);
    // Some registries accept only an organization and a name.
    let registry = accepting(|path| {
        let name = path.trim_start_matches("/v2/").split("/blobs/").next().unwrap_or_default();
        name.split("/manifests/").next().unwrap_or_default().split('/').count() <= 2
    });
    let to = format!("{}/m", registry.host());
    let error = kit.mirror_fails(&["push", "out", &to]);
    assert!(error.contains("the registry accepts no paths with more than 2 components"), "{error}");
    assert!(error.contains("help: --max-nested-paths 2 joins") && error.contains("/m/ns/"), "{error}");
    assert_eq!(received(&registry), 0);
    kit.mirror(&["push", "out", &to, "--max-nested-paths", "2"]);
    assert!(received(&registry) > 1_000_000);
    // Every path that is too long is reported, without a request.
    let long = format!("{}/{}", kit.closed.host(), "long/".repeat(46) + "path");
    for words in [&["push", "out", &long][..], &["plan", &file, "--to", &long]] {
        let error = kit.mirror_fails(words);
        assert!(error.contains("invalid repositories:"), "{error}");
        for name in ["ns/alpha-bundle", "ns/beta-bundle", "ns/shared"] {
            assert!(error.contains(&format!("path/{name}\": repository name must not be more than")), "{error}");
        }
    }
}
