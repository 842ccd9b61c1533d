//! M-26: the content that a mirror needs so that clusters install and upgrade from it alone.

use std::fs;

use crate::kit::{Bundle, Kit, mirror};

/// One package requires another.
const NEEDY: &[Bundle] = &[
    ("alpha", "1.0.0", "", &["ns/alpha:v1"]),
    ("alpha", "1.1.0", "1.0.0", &["ns/alpha:v2"]),
    ("alpha", "2.0.0", "1.1.0", &["ns/alpha:v3"]),
    ("beta", "0.1.0", "", &["ns/beta:v1"]),
    ("gamma", "9.0.0", "", &["ns/gamma:v1"]),
];

#[test]
fn m26_with_dependencies_everything_installs_from_the_mirror_alone() {
    let Some(mut kit) = Kit::with(NEEDY) else { return };
    let file = kit.set("set.yaml", "    - name: gamma\n");
    let to = kit.to();
    let copied = kit.run(&crate::kit::mirror(&["copy", &file, &to]));
    let messages = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(messages.contains("note: beta: other packages need beta.v0.1.0, which is not kept"), "{messages}");
    let index = format!("{to}/ns/index:v1");
    let error = kit.stderr(&["resolve", "--use-http", &index, "--install", "gamma"]);
    assert!(error.contains("beta") || error.is_empty(), "{error}");
    kit.mirror(&["copy", &file, &to, "--with-dependencies"]);
    drop(kit.source.take());
    let resolved = kit.stdout(&["resolve", "--use-http", &index, "--install", "gamma"]);
    assert!(resolved.contains("gamma.v9.0.0") && resolved.contains("beta.v0.1.0"), "{resolved}");
    assert!(kit.closed_digest("m/ns/beta-bundle:v0.1.0").is_some());
    assert!(kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_none());
}

/// Writes the state of a cluster that runs one operator.
fn cluster_runs(kit: &Kit, package: &str, csv: &str) {
    let state = serde_json::json!({"kind": "List", "items": [{
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": package, "namespace": "team"},
        "spec": {"name": package, "channel": "stable", "source": "index", "sourceNamespace": "olm"},
        "status": {"installedCSV": csv},
    }]});
    fs::write(kit.path("state.json"), state.to_string()).unwrap();
}

#[test]
fn m26_a_mirror_for_a_cluster_has_every_step_of_its_upgrade_and_nothing_else() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    cluster_runs(&kit, "alpha", "alpha.v1.1.0");
    let text = kit.read(&kit.set("set.yaml", "")).replace("    packages:\n", "");
    fs::write(kit.path("set.yaml"), text).unwrap();
    let shown = kit.mirror(&["plan", "set.yaml", "--installed", "state.json"]);
    assert!(shown.contains("alpha    stable (default)  alpha.v1.1.0 alpha.v2.0.0\n"), "{shown}");
    assert!(!shown.contains("beta") && !shown.contains("gamma"), "{shown}");
    // Clusters that run other versions are reported.
    let planned = kit.run(&crate::kit::mirror(&["plan", "set.yaml"]));
    let messages = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert!(messages.contains("note: alpha: clusters that run alpha.v1.0.0 find no upgrade"), "{messages}");
    kit.mirror(&["copy", "set.yaml", &kit.to(), "--installed", "state.json"]);
    let index = format!("{}/ns/index:v1", kit.to());
    let path = kit.stdout(&["upgrade-path", "--use-http", &index, "alpha", "--from", "1.1.0"]);
    assert!(path.contains("alpha.v2.0.0 is the newest"), "{path}");
}

#[test]
fn m26_the_path_to_the_head_is_mirrored_although_one_step_cannot_be_installed() {
    // The bundle in between requires a package that the catalog does not have.
    const STUCK: &[Bundle] = &[
        ("gamma", "8.0.0", "", &["ns/gamma:v1"]),
        ("gamma", "10.0.0", "9.0.0", &["ns/gamma:v3"]),
        ("gamma", "9.0.0", "8.0.0", &["ns/gamma:v2"]),
    ];
    let Some(kit) = Kit::with(STUCK) else { return };
    cluster_runs(&kit, "gamma", "gamma.v8.0.0");
    let file = kit.set("set.yaml", "    - name: gamma\n");
    let planned = kit.run(&crate::kit::mirror(&["plan", &file, "--installed", "state.json"]));
    let (shown, messages) = (String::from_utf8_lossy(&planned.stdout), String::from_utf8_lossy(&planned.stderr));
    for bundle in ["gamma.v8.0.0", "gamma.v9.0.0", "gamma.v10.0.0"] {
        assert!(shown.contains(bundle), "{bundle}: {shown}{messages}");
    }
    let note = "note: gamma: a cluster with gamma.v8.0.0 stops at gamma.v8.0.0, because it cannot meet the dependencies of newer";
    assert!(
        messages.contains(note) && messages.contains("the bundles up to gamma.v10.0.0 are mirrored too"),
        "{messages}"
    );
}

#[test]
fn m26_bundles_that_lose_a_dependency_to_a_missing_image_are_reported() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let digest = kit.digest_of("ns/beta:v1").unwrap();
    fs::remove_file(kit.source.as_ref().unwrap().blob_file(&digest.hex())).unwrap();
    let file = kit.set("set.yaml", "    - name: gamma\n");
    let words = ["pull", &file, "out", "--with-dependencies", "--missing", "drop"];
    let pulled = kit.run(&crate::kit::mirror(&words));
    let messages = String::from_utf8_lossy(&pulled.stderr).into_owned();
    assert!(
        pulled.status.success() && messages.contains("package \"beta\" is dropped: images of all its bundles"),
        "{messages}"
    );
    let named = messages.lines().any(|line| {
        line.contains("note: gamma: \"gamma.v9.0.0\" needs ") && line.contains("no bundle of the catalog provides")
    });
    assert!(named, "{messages}");
}

#[test]
fn m26_dependencies_may_come_from_another_catalog() {
    let Some(kit) = Kit::with(&NEEDY[4..]) else { return };
    kit.publish(&NEEDY[..4], "v2");
    let host = &kit.host;
    let text = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  - catalog: \
         {host}/ns/index:v1\n    packages: [{{name: gamma}}]\n  - catalog: {host}/ns/index:v2\n    packages: [{{name: \
         alpha}}]\n"
    );
    fs::write(kit.path("set.yaml"), text).unwrap();
    // Without the other catalog, the missing dependency is reported.
    let planned = kit.run(&crate::kit::mirror(&["plan", "set.yaml"]));
    let messages = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert!(
        messages.contains("gamma: \"gamma.v9.0.0\" needs ") && messages.contains("no bundle of the catalog provides"),
        "{messages}"
    );
    let to = kit.to();
    let copied = kit.run(&crate::kit::mirror(&["copy", "set.yaml", &to, "--with-dependencies"]));
    let messages = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(copied.status.success() && !messages.contains("no bundle of the catalog provides"), "{messages}");
    assert!(messages.contains("package \"beta\" is kept: \"gamma.v9.0.0\" needs "), "{messages}");
    let (one, two) = (format!("one={to}/ns/index:v1"), format!("two={to}/ns/index:v2"));
    let resolved = kit.stdout(&["resolve", "--use-http", &one, &two, "--install", "gamma"]);
    assert!(resolved.contains("gamma.v9.0.0") && resolved.contains("beta.v0.1.0"), "{resolved}");
}

#[test]
fn m26_versions_whose_upgrade_lacks_a_dependency_are_reported() {
    const GROWN: &[Bundle] = &[
        ("beta", "0.1.0", "", &["ns/beta:v1"]),
        ("gamma", "8.0.0", "", &["ns/gamma:v1"]),
        ("gamma", "9.0.0", "8.0.0", &["ns/gamma:v2"]),
    ];
    let Some(kit) = Kit::with(GROWN) else { return };
    let file = kit.set("set.yaml", "    - name: gamma\n      minVersion: 8.0.0\n");
    let messages = |words: &[&str]| {
        let planned = kit.run(&crate::kit::mirror(&[&["plan", &file], words].concat()));
        assert!(planned.status.success());
        String::from_utf8_lossy(&planned.stderr).into_owned()
    };
    let note = "gamma: clusters that run gamma.v8.0.0 find no upgrade in channel";
    let alone = messages(&[]);
    assert!(alone.contains(note), "{alone}");
    let together = messages(&["--with-dependencies"]);
    assert!(!together.contains(note), "{together}");
}

#[test]
fn m26_all_stranded_versions_are_reported() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    for edges in ["keep", "bridge"] {
        let to = format!("{}/{edges}", kit.to());
        let copied = kit.run(&crate::kit::mirror(&["copy", &file, &to, "--edges", edges]));
        let messages = String::from_utf8_lossy(&copied.stderr).into_owned();
        assert!(
            copied.status.success() && messages.contains("clusters that run alpha.v1.0.0 find no upgrade"),
            "{messages}"
        );
        assert!(!messages.contains("alpha.v1.1.0"), "{messages}");
        let index = format!("{to}/ns/index:v1");
        kit.stdout(&["validate", "--use-http", &index]);
        let path = kit.stdout(&["upgrade-path", "--use-http", &index, "alpha", "--from", "1.1.0"]);
        assert!(path.contains("alpha.v2.0.0 is the newest"), "{path}");
    }
}

#[test]
fn content_of_the_previous_set_that_is_missing_now_is_reported() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n      minVersion: 1.0.0\n");
    kit.mirror(&["pull", &file, "out"]);
    let file = kit.set("set.yaml", "    - name: alpha\n");
    let pulled = kit.run(&crate::kit::mirror(&["pull", &file, "out"]));
    let messages = String::from_utf8_lossy(&pulled.stderr).into_owned();
    assert!(pulled.status.success() && messages.contains("of this set, and found one in the last"), "{messages}");
}

#[test]
fn the_original_catalog_is_mirrored_on_request() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let original = kit.digest_of("ns/index:v1").unwrap();
    let signature = kit.sign("ns/index", original, true);
    let file = kit.set("set.yaml", "    - name: beta\n");
    kit.mirror(&["pull", &file, "out", "--keep-original"]);
    kit.mirror(&["push", "out", &kit.to()]);
    let tag = format!("m/ns/index:sha256-{}", original.hex());
    assert_eq!(kit.closed_digest(&tag), Some(original));
    assert_eq!(kit.closed_digest(&format!("{tag}.sig")), Some(signature));
    assert_ne!(kit.closed_digest("m/ns/index:v1"), Some(original));
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json", "--deep"]);
}

#[test]
fn objects_can_be_printed_before_a_transfer() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let file = kit.set("set.yaml", "    - name: beta\n");
    let to = kit.to();
    kit.mirror(&["plan", &file, "--to", &to, "--resources", "planned"]);
    kit.mirror(&["copy", &file, &to, "--resources", "written"]);
    for name in ["cs-index-v1.yaml", "cc-index-v1.yaml", "idms-oc-mirror.yaml", "registries.conf.d/50-mirror.conf"] {
        assert_eq!(kit.read(&format!("planned/{name}")), kit.read(&format!("written/{name}")), "{name}");
    }
    let output = kit.run(&mirror(&["plan", &file, "--resources", "x"]));
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("--to"));
}
