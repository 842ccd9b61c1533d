//! The manifests of OLM's package server for catalogs of `opm serve`, and how OLM follows an image.

use std::process::Stdio;

use cluster::ResourceKind;
use serde_json::{Value, json};
use testkit::{Olm, static_program};

use crate::env::Stopped;
use crate::operator::Operator;
use crate::stage::{Stage, until};

/// Returns a version of an operator with all fields that a package manifest shows.
fn operator(stage: &Stage, version: &str) -> Operator {
    let mut operator = stage.operator("foo", version);
    operator.more = json!({
        "description": "Long.", "keywords": ["a", "b"], "minKubeVersion": "1.20.0",
        "provider": {"name": "Tests", "url": "https://example.com"},
        "maintainers": [{"name": "x", "email": "x@example.com"}],
        "links": [{"name": "l", "url": "https://example.com/l"}],
        "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
        "relatedImages": [{"name": "r", "image": "registry.example.com/r:v1"}],
        "nativeAPIs": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
    });
    operator
}

const HEAD: &str = "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\n\
    name: stable\nentries:\n- name: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n---\nschema: olm.channel\n\
    package: foo\nname: fast\nentries:\n- name: foo.v1.1.0\n---\nschema: olm.deprecations\npackage: foo\nentries:\n\
    - reference: {schema: olm.bundle, name: foo.v1.0.0}\n  message: this version is old\n\
    - reference: {schema: olm.channel, name: fast}\n  message: fast is old\n\
    - reference: {schema: olm.package}\n  message: foo is old\n";

/// Returns the description of a channel head in a package manifest, by its CSV.
fn described(operator: &Operator, related: &[&str]) -> Value {
    let csv = operator.csv();
    let spec = &csv["spec"];
    let mut owned = spec["customresourcedefinitions"]["owned"].clone();
    for one in owned.as_array_mut().expect("a list") {
        let known = ["name", "version", "kind", "displayName", "description"];
        one.as_object_mut().expect("an object").retain(|key, _| known.contains(&key.as_str()));
    }
    json!({
        "displayName": spec["displayName"], "version": spec["version"], "provider": spec["provider"],
        "annotations": csv["metadata"]["annotations"], "keywords": spec["keywords"], "links": spec["links"],
        "maintainers": spec["maintainers"], "maturity": spec["maturity"], "description": spec["description"],
        "installModes": spec["installModes"], "customresourcedefinitions": {"owned": owned},
        "apiservicedefinitions": {}, "nativeApis": spec["nativeAPIs"], "minKubeVersion": spec["minKubeVersion"],
        "relatedImages": related,
    })
}

/// Returns the manifest of the package foo from a catalog.
async fn manifest(stage: &Stage, catalog: &str) -> Option<Value> {
    let all = stage.cluster.objects(ResourceKind::PACKAGE_MANIFEST).list(&Default::default()).await.ok()?;
    let all = all.items.into_iter().map(|one| serde_json::to_value(one).expect("JSON"));
    let mut found = all.into_iter().find(|one| one["status"]["catalogSource"] == catalog)?;
    for channel in found["status"]["channels"].as_array_mut().into_iter().flatten() {
        if let Some(images) = channel["currentCSVDesc"]["relatedImages"].as_array_mut() {
            images.sort_by_key(ToString::to_string);
        }
    }
    Some(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_package_server_shows_the_content_of_a_catalog() {
    let Some(olm) = tokio::task::block_in_place(Olm::shared_with_packages) else { return };
    let Some(stage) = Stage::with(olm).await else { return };
    let (old, new) = (operator(&stage, "1.0.0"), operator(&stage, "1.1.0"));
    let (first, second) = (stage.bundle(&old), stage.bundle(&new));
    let mut servers = Vec::new();
    // With whole manifests, and with the metadata that consoles show.
    for (name, level) in [("objects", "none"), ("metadata", "bundle-object-to-csv-metadata")] {
        let render = ["render", &first, &second, "--use-http", "-o", "yaml", "--migrate-level", level];
        stage.env.file(&format!("{name}/catalog.yaml"), format!("{HEAD}{}", stage.env.stdout(&render)));
        let (server, address) = stage.serve(name).await;
        servers.push(server);
        stage.source(name, &address, json!({"displayName": "Shown", "publisher": "Me"})).await;
    }
    for name in ["objects", "metadata"] {
        let found = until("the package is known", || manifest(&stage, name)).await;
        let mut related = vec![new.image.as_str(), "registry.example.com/r:v1"];
        if name == "metadata" {
            // The images of the blob replace those of the CSV, and include the bundle.
            related.push(&second);
        }
        related.sort_unstable();
        let head = described(&new, &related);
        let entry = |version: &str| json!({"name": format!("foo.v{version}"), "version": version});
        let mut deprecated = entry("1.0.0");
        deprecated["deprecation"] = json!({"message": "this version is old"});
        let expected = json!({
            "catalogSource": name, "catalogSourceDisplayName": "Shown", "catalogSourcePublisher": "Me",
            "catalogSourceNamespace": stage.namespace(), "provider": {"name": "Tests", "url": "https://example.com"},
            "packageName": "foo", "defaultChannel": "stable", "deprecation": {"message": "foo is old"},
            "channels": [
                {"name": "fast", "currentCSV": "foo.v1.1.0", "currentCSVDesc": head, "entries": [entry("1.1.0")],
                    "deprecation": {"message": "fast is old"}},
                {"name": "stable", "currentCSV": "foo.v1.1.0", "currentCSVDesc": head,
                    "entries": [entry("1.1.0"), deprecated]},
            ],
        });
        assert_eq!(found["status"], expected, "{name}");
        let labels = json!({
            "catalog": name, "catalog-namespace": stage.namespace(), "provider": "Tests",
            "provider-url": "https://example.com", "operatorframework.io/arch.amd64": "supported",
            "operatorframework.io/os.linux": "supported",
        });
        assert_eq!(found["metadata"]["labels"], labels, "{name}");
        assert_eq!(found["metadata"]["name"], "foo");
    }
}

/// Builds and pushes a catalog image with the program in it, with a moving tag.
fn build(stage: &Stage, version: &str) -> String {
    let bundle = stage.bundle(&stage.operator("foo", version));
    let rendered = stage.env.stdout(&["render", &bundle, "--use-http", "-o", "yaml"]);
    let text = format!(
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\n\
         entries:\n- name: foo.v{version}\n{rendered}"
    );
    stage.env.file("catalog/foo.yaml", text);
    stage.env.file("program", static_program());
    let index = format!("{}/catalog:latest", stage.registry.host());
    let build = ["build", "catalog", "-t", &index, "--push", "--use-http", "--binary", "linux/amd64=program"];
    stage.env.stdout(&build);
    index
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_follows_an_image_while_our_controller_runs_in_parallel() {
    let Some(olm) = tokio::task::block_in_place(Olm::start) else { return };
    let other = olm.api.namespace().await;
    let Some(stage) = Stage::with(olm).await else { return };
    // Our controller has its own namespace.
    let log = std::fs::File::create(stage.env.path("controller.log")).expect("a log");
    let mut command = stage.env.command();
    command.args(["controller", "-n", &other, "--kubeconfig"]).arg(stage.olm.api.kubeconfig());
    let _controller = Stopped(command.stderr(log).stdout(Stdio::null()).spawn().expect("opm runs"));
    let image = build(&stage, "1.0.0");
    let spec = json!({"sourceType": "grpc", "image": image, "grpcPodConfig": {"securityContextConfig": "restricted"},
        "updateStrategy": {"registryPoll": {"interval": "10s"}}});
    stage.create(ResourceKind::CATALOG_SOURCE, &json!({"metadata": {"name": "image"}, "spec": spec})).await;
    let offers = |version: &'static str| {
        let stage = &stage;
        move || async move {
            let found = manifest(stage, "image").await?;
            (found["status"]["channels"][0]["currentCSV"] == version).then_some(())
        }
    };
    until("the first version is offered", offers("foo.v1.0.0")).await;
    build(&stage, "1.1.0");
    until("the second version is offered", offers("foo.v1.1.0")).await;
    // The package server may know the new pod before OLM's own connection does.
    let ready = || async {
        let source = stage.get(ResourceKind::CATALOG_SOURCE, "image").await?;
        (source["status"]["connectionState"]["lastObservedState"] == "READY").then_some(source)
    };
    let source = until("OLM is connected to the second version", ready).await;
    // Our controller changed neither the status nor the pods.
    let mut all = stage.list(ResourceKind::POD).await;
    all.extend(stage.list(ResourceKind::SERVICE).await);
    all.push(source);
    for object in all {
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let ours = managers.iter().any(|one| one["manager"].as_str().is_some_and(|name| name.contains("opm")));
        assert!(!ours, "{object:#}");
    }
    assert!(stage.env.read("controller.log").contains("leading"), "{}", stage.env.read("controller.log"));
}
