//! Reports as JSON: what a command did, and what is missing.

use serde_json::Value;

use crate::kit::{Kit, mirror};

const ALL: &str = "    - name: alpha\n    - name: beta\n";

/// Runs a command that must print one JSON document, in the form of its schema.
fn report(kit: &Kit, arguments: &[&str]) -> Value {
    let printed = kit.mirror(&[arguments, &["-o", "json"]].concat());
    let name = if arguments[0] == "copy" { "push" } else { arguments[0] };
    testkit::assert_report(&format!("mirror-{name}"), printed.as_bytes());
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn every_command_reports_as_json() {
    let Some(kit) = Kit::new() else { return };
    let (file, to) = (kit.set("set.yaml", ALL), kit.to());
    let pulled = report(&kit, &["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]);
    let lock = kit.mirror(&["verify", "out"]).trim().to_owned();
    assert_eq!(pulled["lock"], lock);
    assert_eq!(pulled["missing"], Value::Array(Vec::new()));
    assert!(pulled["images"].as_u64() > Some(0) && pulled["bytes"].as_u64() > Some(0), "{pulled}");
    let volumes = std::fs::read_dir(kit.path("volumes")).unwrap().count() - 1;
    assert_eq!(pulled["volumes"]["files"].as_array().map(Vec::len), Some(volumes));
    let part = report(&kit, &["push", "volumes", &format!("{}/part", kit.closed.host()), "--part"]);
    assert!(part["complete"] == false && part["sent"]["blobs"].as_u64() > Some(0), "{part}");
    let pushed = report(&kit, &["push", "out", &to]);
    assert!(pushed["lock"] == lock && pushed["complete"] == true, "{pushed}");
    assert!(pushed["sent"]["bytes"].as_u64() > Some(0), "{pushed}");
    let copied = report(&kit, &["copy", &file, &to]);
    assert!(copied["lock"] == lock && copied["complete"] == true && copied["sent"]["blobs"] == 0, "{copied}");
    // The digest is the only line of text.
    assert_eq!(kit.mirror(&["push", "out", &to]).trim(), lock);
    report(&kit, &["plan", &file]);
    let verified = report(&kit, &["verify", "out"]);
    assert!(verified["lock"] == lock && verified["damage"] == Value::Array(Vec::new()), "{verified}");
    let other = kit.set("other.yaml", "    - name: beta\n");
    kit.mirror(&["pull", &other, "other"]);
    let prune = ["prune", &to, "--keep", "other/mirror/lock.json"];
    let found = report(&kit, &prune);
    assert!(found["removed"] == false && found["sets"]["known"] == 1 && found["sets"]["unneeded"] == 1, "{found}");
    let names: Vec<String> = kit.mirror(&prune).lines().map(str::to_owned).collect();
    let images: Vec<&String> = found["images"].as_object().unwrap().keys().collect();
    assert_eq!(images, names.iter().collect::<Vec<_>>());
    let pruned = report(&kit, &[&prune[..], &["--yes"]].concat());
    assert!(pruned["removed"] == true && pruned["failed"].as_object().is_some_and(|it| it.is_empty()), "{pruned}");
}

#[test]
fn missing_images_are_part_of_a_report() {
    let Some(kit) = Kit::with(&[("alpha", "1.0.0", "", &["ns/gone:v1"])]) else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    let digest = kit.digest_of("ns/gone:v1").unwrap();
    std::fs::remove_file(kit.source.as_ref().unwrap().blob_file(&digest.hex())).unwrap();
    for arguments in [vec!["pull", &file, "out"], vec!["copy", &file, &kit.to()]] {
        let output = kit.run(&mirror(&[&arguments[..], &["-o", "json"]].concat()));
        assert_eq!(output.status.code(), Some(1));
        let name = if arguments[0] == "pull" { "mirror-pull" } else { "mirror-push" };
        testkit::assert_report(name, &output.stdout);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["lock"], Value::Null);
        assert!(report["missing"][0]["image"].as_str().unwrap().contains("ns/gone"), "{report}");
        assert_eq!(report["missing"][0]["usedBy"][0], "alpha/alpha.v1.0.0");
    }
}
