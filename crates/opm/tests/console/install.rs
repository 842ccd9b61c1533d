//! Obstacles to an installation, on the page with the install instructions.

use serde_json::{Value, json};

use crate::harness::{Workspace, text_of};

/// Writes a package of one version with these properties and install modes.
fn package(workspace: &Workspace, name: &str, properties: &[Value], modes: &[(&str, bool)]) {
    let own = format!("{name}.v1.0.0");
    let modes: Vec<Value> =
        modes.iter().map(|(mode, supported)| json!({"type": mode, "supported": supported})).collect();
    let mut all = vec![
        json!({"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}}),
        json!({"type": "olm.csv.metadata", "value": {"displayName": name, "installModes": modes}}),
    ];
    all.extend_from_slice(properties);
    let blobs = [
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": [{"name": own}]}),
        json!({"schema": "olm.bundle", "package": name, "name": own, "image": "registry.test/x:1", "properties": all}),
    ];
    workspace.write(&format!("catalog/{name}.json"), &blobs.iter().map(|blob| format!("{blob}\n")).collect::<String>());
}

/// The page shows what blocks an installation, or may, on a server and in an export; and nothing otherwise.
#[test]
fn c_82_obstacles_to_an_installation_are_shown() {
    let workspace = Workspace::new();
    let lamp = json!({"type": "olm.gvk", "value": {"group": "light.test", "version": "v1", "kind": "Lamp"}});
    let wide = [("AllNamespaces", true), ("OwnNamespace", true)];
    package(&workspace, "one", std::slice::from_ref(&lamp), &wide);
    package(&workspace, "two", &[lamp], &wide);
    let absent = json!({"type": "olm.package.required", "value": {"packageName": "absent", "versionRange": ">=1.0.0"}});
    package(&workspace, "needy", &[absent], &wide);
    package(&workspace, "narrow", &[], &[("AllNamespaces", false), ("OwnNamespace", true)]);
    package(&workspace, "nowhere", &[], &[("AllNamespaces", false)]);
    package(&workspace, "plain", &[], &wide);
    workspace.run(&["site", "build", "catalog", "-o", "site", "--name", "test"]);
    let server = workspace.serve(&[]);
    let page = |name: &str| {
        let served = text_of(&server.get(&format!("/p/{name}/install")).body);
        let written = std::fs::read_to_string(workspace.path(&format!("site/p/{name}/install.html"))).unwrap();
        (served, text_of(&written))
    };
    let says = |name: &str, words: &str, wanted: bool| {
        let (served, written) = page(name);
        assert_eq!(served.contains(words), wanted, "{name}, {words}: {served}");
        assert_eq!(written.contains(words), wanted, "{name}, {words}: {written}");
    };
    let all = [
        ("Other packages offer the same kinds.", &["one", "two"][..]),
        ("cannot be installed from this catalog", &["needy"]),
        ("OLM v1 refuses it: it requires", &["needy"]),
        ("does not support the mode AllNamespaces: in a namespace", &["narrow"]),
        ("It supports no install mode.", &["nowhere"]),
        ("OLM v1 refuses it, unless the feature gate", &["narrow"]),
    ];
    for (words, who) in all {
        for name in ["one", "two", "needy", "narrow", "nowhere", "plain"] {
            says(name, words, who.contains(&name));
        }
    }
    says("one", "Lamp light.test/v1 two", true);
    says("needy", "absent", true);
}
