//! Manifests that a catalog does not contain.

use serde_json::json;

use crate::harness::{Workspace, text_of};

/// Without manifests a page shows the bundle image and the command that prints them; `--with-bundles` reads the
/// images for the export, and reports those that it cannot read.
#[test]
fn c_7_manifests_come_from_bundle_images_on_request() {
    let registry =
        testkit::DockerRegistry::start(testkit::RegistryPlan::default()).expect("docker-registry is installed");
    let workspace = Workspace::new();
    workspace.write(
        "made/manifests/csv.yaml",
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1.0.0}\n\
         spec:\n  version: 1.0.0\n  install: {strategy: deployment, spec: {clusterPermissions: [{serviceAccountName: foo, rules: [\
         {apiGroups: [''], resources: [secrets], verbs: [get]}]}], deployments: []}}\n",
    );
    let (image, absent) = (format!("{}/foo:v1.0.0", registry.host()), format!("{}/absent:v2.0.0", registry.host()));
    let build =
        ["alpha", "bundle", "build", "--directory", "made/manifests", "--package", "foo", "--channels", "stable"];
    workspace.run(&[&build[..], &["--tag", &image, "-b", "none", "--push", "--use-http"]].concat());
    let bundle = |name: &str, version: &str, image: &str| {
        json!({"schema": "olm.bundle", "package": "foo", "name": name, "image": image, "properties": [
            {"type": "olm.package", "value": {"packageName": "foo", "version": version}},
            {"type": "olm.csv.metadata", "value": {"displayName": "Foo"}}]})
    };
    let blobs = [
        json!({"schema": "olm.package", "name": "foo", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "foo", "name": "stable", "entries": [
            {"name": "foo.v1.0.0"}, {"name": "foo.v2.0.0", "replaces": "foo.v1.0.0"}]}),
        bundle("foo.v1.0.0", "1.0.0", &image),
        bundle("foo.v2.0.0", "2.0.0", &absent),
    ];
    workspace.write("catalog/foo.json", &blobs.iter().map(|blob| format!("{blob}\n")).collect::<String>());
    let page = |site: &str, name: &str| {
        text_of(&std::fs::read_to_string(workspace.path(&format!("{site}/p/foo/v/{name}.html"))).unwrap())
    };
    workspace.run(&["site", "build", "catalog", "-o", "without"]);
    let without = page("without", "foo.v1.0.0");
    assert!(without.contains("the catalog does not carry the manifests"), "{without}");
    assert!(without.contains(&format!("opm render {image} --output yaml")), "{without}");
    let report = workspace.run(&["site", "build", "catalog", "-o", "with", "--with-bundles", "--use-http"]);
    let with = page("with", "foo.v1.0.0");
    assert!(with.contains("In the whole cluster, as foo") && with.contains("secrets"), "{with}");
    assert!(page("with", "foo.v2.0.0").contains("the catalog does not carry the manifests"));
    assert!(report.contains("page without manifests: foo.v2.0.0") && report.contains("absent"), "{report}");
}
