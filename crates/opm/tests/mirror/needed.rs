//! T-26: what a mirror has to have so that clusters install and upgrade from it alone.

use std::fs;

use crate::kit::{Bundle, Kit};

/// One package needs another.
const NEEDY: &[Bundle] = &[
    ("alpha", "1.0.0", "", &["ns/alpha:v1"]),
    ("alpha", "1.1.0", "1.0.0", &["ns/alpha:v2"]),
    ("alpha", "2.0.0", "1.1.0", &["ns/alpha:v3"]),
    ("beta", "0.1.0", "", &["ns/beta:v1"]),
    ("gamma", "9.0.0", "", &["ns/gamma:v1"]),
];

#[test]
fn t26_with_dependencies_everything_installs_from_the_mirror_alone() {
    let Some(mut kit) = Kit::with(NEEDY) else { return };
    let file = kit.set("set.yaml", "    - name: gamma\n");
    let to = kit.to();
    let copied = kit.run(&crate::kit::mirror(&["copy", &file, &to]));
    let said = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(said.contains("note: beta: others need beta.v0.1.0, which is not kept"), "{said}");
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

#[test]
fn t26_for_a_cluster_every_step_of_its_upgrade_is_there_and_nothing_else() {
    let Some(kit) = Kit::with(NEEDY) else { return };
    let state = r#"{"kind": "List", "items": [{
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": "alpha", "namespace": "team"},
        "spec": {"name": "alpha", "channel": "stable", "source": "index", "sourceNamespace": "olm"},
        "status": {"installedCSV": "alpha.v1.1.0"}
    }]}"#;
    fs::write(kit.path("state.json"), state).unwrap();
    let text = kit.read(&kit.set("set.yaml", "")).replace("    packages:\n", "");
    fs::write(kit.path("set.yaml"), text).unwrap();
    let shown = kit.mirror(&["plan", "set.yaml", "--installed", "state.json"]);
    assert!(shown.contains("alpha    stable (default)  alpha.v1.1.0 alpha.v2.0.0\n"), "{shown}");
    assert!(!shown.contains("beta") && !shown.contains("gamma"), "{shown}");
    // Those who run something else are reported.
    let planned = kit.run(&crate::kit::mirror(&["plan", "set.yaml"]));
    let said = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert!(said.contains("note: alpha: clusters that run alpha.v1.0.0 find no upgrade"), "{said}");
    kit.mirror(&["copy", "set.yaml", &kit.to(), "--installed", "state.json"]);
    let index = format!("{}/ns/index:v1", kit.to());
    let path = kit.stdout(&["upgrade-path", "--use-http", &index, "alpha", "--from", "1.1.0"]);
    assert!(path.contains("alpha.v2.0.0 is the newest"), "{path}");
}
