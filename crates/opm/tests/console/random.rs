//! A catalog of random packages: chains, skips, ranges, dependencies. The same number gives the same catalog.

use serde_json::{Value, json};

use crate::harness::{Workspace, packed};

/// Pseudo-random numbers, the same on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The number of packages.
pub(crate) const PACKAGES: usize = 12;
/// The number of versions of each package.
pub(crate) const VERSIONS: usize = 20;

/// Returns the name of a package.
pub(crate) fn package(number: usize) -> String {
    format!("made-{number}")
}

/// Returns the name of a version's bundle.
pub(crate) fn bundle(package: usize, version: usize) -> String {
    format!("made-{package}.v1.{version}.0")
}

/// Writes the catalog to a directory, with the first `versions` of every package.
pub(crate) fn write(workspace: &Workspace, directory: &str, versions: usize) {
    write_packages(workspace, directory, &(0..PACKAGES).collect::<Vec<usize>>(), versions);
}

/// Writes some packages to a directory.
pub(crate) fn write_packages(workspace: &Workspace, directory: &str, packages: &[usize], versions: usize) {
    for &number in packages {
        let text: String = blobs(number, versions).iter().map(|blob| format!("{blob}\n")).collect();
        workspace.write(&format!("{directory}/made-{number}.json"), &text);
    }
}

/// Returns the dice of one object, independent of all others.
fn dice(package: usize, version: usize, salt: u64) -> Dice {
    let mut dice = Dice(package as u64 * 7919 + version as u64 * 104_729 + salt * 1_299_709);
    dice.below(2);
    dice
}

fn blobs(number: usize, versions: usize) -> Vec<Value> {
    let name = package(number);
    let mut all =
        vec![json!({"schema": "olm.package", "name": name, "defaultChannel": "stable", "description": "Made up"})];
    for (salt, channel) in ["stable", "fast"].into_iter().enumerate() {
        let last = if channel == "fast" { versions } else { versions - number % 4 };
        all.push(json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries(number, last, salt as u64)}));
    }
    if versions < VERSIONS {
        // This channel is removed later.
        all.push(
            json!({"schema": "olm.channel", "package": name, "name": "old", "entries": entries(number, versions, 0)}),
        );
    }
    all.extend((0..versions).map(|version| version_blob(number, version)));
    if number.is_multiple_of(3) {
        let deprecated = bundle(number, versions / 2);
        all.push(json!({"schema": "olm.deprecations", "package": name, "entries": [
            {"reference": {"schema": "olm.bundle", "name": deprecated}, "message": "Do not use it."}]}));
    }
    all
}

/// Returns a chain in which every second entry replaces the previous one, and is skipped by the next.
fn entries(number: usize, last: usize, salt: u64) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    let (mut before, mut aside): (Option<String>, Vec<String>) = (None, Vec::new());
    for version in 0..last {
        let (own, mut dice) = (bundle(number, version), dice(number, version, salt));
        let on_chain = version == 0 || version + 1 == last || dice.chance(60);
        let mut entry = json!({"name": own});
        if let Some(before) = &before {
            entry["replaces"] = json!(before);
        }
        if !on_chain {
            aside.push(own);
            entries.push(entry);
            continue;
        }
        let skips = std::mem::take(&mut aside);
        if !skips.is_empty() {
            entry["skips"] = json!(skips);
        }
        if dice.chance(15) {
            entry["skipRange"] = json!(format!(">=1.{}.0 <1.{version}.0", dice.below(version.max(1))));
        }
        entries.push(entry);
        before = Some(own);
    }
    entries
}

fn version_blob(number: usize, version: usize) -> Value {
    let mut dice = dice(number, version, 9);
    let (name, own) = (package(number), bundle(number, version));
    let verbs = ["get", "list", "watch", "create", "delete", "*"];
    let resources = ["pods", "secrets", "configmaps", "nodes/proxy", "*"];
    let rules: Vec<Value> = (0..1 + dice.below(3))
        .map(|_| json!({"apiGroups": [""], "resources": [dice.pick(&resources)], "verbs": [dice.pick(&verbs), dice.pick(&verbs)]}))
        .collect();
    let field = |kind: &str| json!({"type": kind});
    let kind = *dice.pick(&["integer", "string"]);
    let mut fields = json!({"size": field(kind), "mode": {"type": "string", "enum": (0..1 + dice.below(3)).map(|n| format!("m{n}")).collect::<Vec<_>>()}});
    if dice.chance(50) {
        fields["extra"] = field("boolean");
    }
    let required: Vec<&str> = if dice.chance(30) { vec!["size"] } else { Vec::new() };
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": own, "annotations": {"createdAt": format!("20{:02}-01-01", 15 + dice.below(10)), "categories": *dice.pick(&["Database", "Storage", "Networking"]),
            "capabilities": *dice.pick(&["Basic Install", "Auto Pilot"])}},
        "spec": {"displayName": format!("Made {number}"), "version": format!("1.{version}.0"), "description": format!("Made up, number {number}.\n\nLine {}.", dice.below(3)),
            "provider": {"name": if number.is_multiple_of(2) { "One, Inc." } else { "Two GmbH" }}, "minKubeVersion": format!("1.{}.0", 20 + dice.below(8)),
            "installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": dice.chance(50)}],
            "customresourcedefinitions": {"owned": [{"name": format!("things.made{number}.test"), "version": "v1", "kind": "Thing"}]},
            "install": {"strategy": "deployment", "spec": {"clusterPermissions": [{"serviceAccountName": "a", "rules": rules}], "deployments": [{"name": "a", "spec": {}}]}}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.made{number}.test")},
        "spec": {"group": format!("made{number}.test"), "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "required": required, "properties": fields}}}}}]}});
    let mut properties = vec![
        json!({"type": "olm.package", "value": {"packageName": name, "version": format!("1.{version}.0")}}),
        json!({"type": "olm.gvk", "value": {"group": format!("made{number}.test"), "version": "v1", "kind": "Thing"}}),
    ];
    if number >= 6 && dice.chance(25) {
        let least = dice.below(VERSIONS + 3);
        properties.push(json!({"type": "olm.package.required", "value": {"packageName": package(number - 6), "versionRange": format!(">=1.{least}.0")}}));
    }
    properties.push(json!({"type": "olm.bundle.object", "value": {"data": packed(&csv)}}));
    properties.push(json!({"type": "olm.bundle.object", "value": {"data": packed(&crd)}}));
    json!({"schema": "olm.bundle", "package": name, "name": own, "image": format!("registry.test/{name}-bundle:{version}"),
        "relatedImages": [{"name": "operator", "image": format!("registry.test/{name}:{}", dice.below(version + 1))}], "properties": properties})
}
