//! A cluster that depends on a mirror: catalogs, bundles and images come from the closed side, and the source is off.

use std::fmt::Write as _;
use std::sync::Arc;

use cluster::ResourceKind;
use serde_json::json;
use testkit::{DockerRegistry, Olm, RegistryPlan};

use crate::operator::Operator;
use crate::stage::{Stage, until};

/// Five packages, each with its dependency.
const PACKAGES: [(&str, &str); 5] =
    [("anchor", "buoy"), ("buoy", "chain"), ("chain", ""), ("deck", ""), ("ensign", "deck")];

/// Pushes an operator, its image and its bundle to the source.
fn publish(stage: &Stage, package: &str, needs: &str) -> Operator {
    let mut operator = stage.operator(package, "1.0.0");
    let content = [(format!("/{package}"), package.as_bytes().to_vec())];
    operator.image = stage.push(&format!("images/{package}:v1"), &content, &[]);
    if !needs.is_empty() {
        operator.dependencies = Some(format!(
            "dependencies:\n- type: olm.package\n  value:\n    packageName: {needs}\n    version: \">=1.0.0\"\n"
        ));
    }
    operator
}

#[tokio::test(flavor = "multi_thread")]
async fn five_packages_are_mirrored_and_a_cluster_installs_them_from_the_closed_side() {
    let Some(olm) = tokio::task::block_in_place(Olm::start) else { return };
    let Some(mut stage) = Stage::with(olm).await else { return };
    let closed = DockerRegistry::start(RegistryPlan::default()).expect("a registry");
    let mut catalog = String::new();
    let mut bundles = Vec::new();
    for (package, needs) in PACKAGES {
        bundles.push(stage.bundle(&publish(&stage, package, needs)));
        let _ = write!(
            catalog,
            "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: \
             {package}\nname: stable\nentries:\n- name: {package}.v1.0.0\n"
        );
    }
    let render: Vec<&str> =
        ["render", "--use-http", "-o", "yaml"].into_iter().chain(bundles.iter().map(String::as_str)).collect();
    catalog += &stage.env.stdout(&render);
    stage.env.file("catalog/catalog.yaml", catalog);
    let source = stage.registry.host().to_owned();
    let index = format!("{source}/index:v1");
    stage.env.stdout(&["build", "catalog", "--data-only", "-t", &index, "--push", "--use-http"]);
    let wanted = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  - catalog: \
         {index}\n    packages: [{{name: anchor}}, {{name: ensign}}]\n"
    );
    stage.env.file("imageset.yaml", wanted);
    let pull = ["mirror", "pull", "imageset.yaml", "set", "--volumes", "4M", "--to", "usb", "--with-dependencies"];
    stage.env.stdout(&[&pull[..], &["--use-http"]].concat());
    // The source is removed.
    let registry = std::mem::replace(&mut stage.registry, Arc::new(closed));
    drop(registry);
    let to = format!("{}/m", stage.registry.host());
    stage.env.stdout(&["mirror", "push", "--use-http", "usb", &to]);
    let mirrored = format!("{to}/index:v1");
    let resolved =
        stage.env.stdout(&["resolve", "--use-http", &mirrored, "--install", "anchor", "--install", "ensign"]);
    for (package, _) in PACKAGES {
        assert!(resolved.contains(&format!("{package}.v1.0.0")), "{resolved}");
    }
    // Nodes use the settings of the push, which redirect source names to the mirror.
    let settings = stage.env.path("cluster-resources/registries.conf.d/50-mirror.conf");
    stage.node.as_ref().expect("a node").set_registries_conf(settings);
    let applied = stage.opm(&["catalog", "apply", "-f", "cluster-resources/cs-index-v1.yaml", "--wait"]).await;
    assert!(applied.starts_with("exit 0") && applied.contains("is served"), "{applied}");
    let catalog_source = stage.get(ResourceKind::CATALOG_SOURCE, "cs-index-v1").await.expect("a catalog");
    assert_eq!(catalog_source["spec"]["image"], mirrored.as_str());
    // The catalog has no program: OLM extracts it and serves it with its own.
    assert_eq!(catalog_source["spec"]["grpcPodConfig"]["extractContent"], json!({"catalogDir": "/configs"}));
    let servers = stage.list(ResourceKind::POD).await;
    let server = servers.iter().find(|pod| pod["spec"]["containers"][0]["name"] == "registry-server").expect("a pod");
    assert_eq!(server["spec"]["initContainers"][1]["image"], mirrored.as_str());
    assert_ne!(server["spec"]["containers"][0]["image"], mirrored.as_str());
    stage.group().await;
    for package in ["anchor", "ensign"] {
        stage.subscribe(package, "cs-index-v1", json!({})).await;
    }
    for (package, _) in PACKAGES {
        let csv = format!("{package}.v1.0.0");
        until(&format!("{csv} succeeds"), || async {
            let csv = stage.get(ResourceKind::CSV, &csv).await?;
            (csv["status"]["phase"] == "Succeeded").then_some(())
        })
        .await;
    }
    // The running images come from the mirror, pulled by their source names.
    let pods = stage.list(ResourceKind::POD).await;
    let images: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str())
        .filter(|image| image.starts_with(&source))
        .collect();
    assert_eq!(images.iter().filter(|image| image.contains("/images/")).count(), PACKAGES.len(), "{images:?}");
}
