//! M-22: a set keeps the catalog that it was planned with, even if the tag moves.

use std::process::{Command, Stdio};
use std::sync::Once;

use serde_json::Value;
use testkit::FakeRegistry;

use crate::broken::through;
use crate::kit::{BUNDLES, Kit};
use crate::proxy::forward;

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.1.0\n";

#[test]
fn m22_the_lock_pins_a_catalog_that_moves() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["plan", &file, "--lock", "lock.json"]);
    kit.publish(&BUNDLES[..2], "v1");
    kit.mirror(&["pull", "lock.json", "out"]);
    let lock = kit.read("out/mirror/lock.json");
    assert!(lock.contains("alpha.v2.0.0"), "{lock}");
    // A pull by the file uses the current catalog.
    kit.mirror(&["pull", &file, "out"]);
    assert!(!kit.read("out/mirror/lock.json").contains("alpha.v2.0.0"));
    assert!(kit.mirror(&["verify", "out"]).starts_with("sha256:"));
}

#[test]
fn m22_a_tag_that_moves_during_a_plan_or_a_pull_changes_nothing() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    // The other catalog, and the current one, to restore the tag.
    kit.publish(&BUNDLES[..2], "less");
    kit.publish(BUNDLES, "all");
    let name = format!("{}/ns/index:v1", kit.host);
    let words = |catalog: &str| {
        let catalog = kit.path(catalog).display().to_string();
        ["build", &catalog, "--data-only", "-t", &name, "--push", "--use-http"].map(str::to_owned).to_vec()
    };
    let first = kit.digest_of("ns/index:v1").unwrap();
    // The tag moves at the first request for a manifest of an image, and at the first request for a blob.
    for (moment, command) in [("/ns/alpha/manifests/", "plan"), ("/ns/alpha/blobs/", "pull")] {
        let host = kit.source.as_ref().unwrap().host().to_owned();
        let (build, moved) = (words("catalog-less"), Once::new());
        let fake = FakeRegistry::start(move |request| {
            if request.path.contains(moment) {
                moved.call_once(|| {
                    let mut program = Command::new(env!("CARGO_BIN_EXE_opm"));
                    let built = program.args(&build).stdout(Stdio::null()).stderr(Stdio::null()).status();
                    assert!(built.is_ok_and(|status| status.success()));
                });
            }
            (testkit::ResponseFault::None, Some(forward(&host, request)))
        });
        let out: &[&str] = if command == "plan" { &["--lock", "lock.json"] } else { &["out"] };
        let output = through(&kit, &fake, &[&[command, file.as_str()][..], out].concat());
        assert!(output.status.success(), "{output:?}");
        assert_ne!(kit.digest_of("ns/index:v1"), Some(first), "{command}: the tag has not moved");
        let lock = kit.read(if command == "plan" { "lock.json" } else { "out/mirror/lock.json" });
        let read: Value = serde_json::from_str(&lock).unwrap();
        assert_eq!(read["catalogs"][0]["digest"], first.to_string());
        assert!(lock.contains("alpha.v2.0.0"), "{lock}");
        let again = words("catalog-all");
        kit.stdout(&again.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(kit.digest_of("ns/index:v1"), Some(first));
    }
}
