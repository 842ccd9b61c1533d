//! Bundles installed, upgraded and removed by the real OLM.

use std::time::Duration;

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::static_program;

use crate::operator::Operator;
use crate::stage::{Running, Stage, until};

/// The labels of an index image.
fn configs() -> Vec<(String, String)> {
    vec![("operators.operatorframework.io.index.configs.v1".to_owned(), "/configs".to_owned())]
}

async fn succeeded(stage: &Stage, csv: &str) -> bool {
    stage.get(ResourceKind::CSV, csv).await.is_some_and(|csv| csv["status"]["phase"] == "Succeeded")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_installed_upgraded_and_removed() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (first, second) = (stage.operator("foo", "1.0.0"), stage.operator("foo", "1.1.0"));
    let output = stage.opm(&["run", "bundle", &stage.bundle(&first), "-o", "json"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    let report = Stage::report(&output);
    assert_eq!((&report["csv"], &report["installMode"]), (&"foo.v1.0.0".into(), &"OwnNamespace".into()));
    let name = first.crd()["metadata"]["name"].as_str().expect("a name").replace(stage.namespace(), "[NAMESPACE]");
    let definition = format!("CustomResourceDefinition {name}");
    assert_eq!(report["createdByOlm"], json!(["ClusterServiceVersion [NAMESPACE]/foo.v1.0.0", definition]));
    assert!(succeeded(&stage, "foo.v1.0.0").await, "{output}");

    let output = stage.opm(&["run", "bundle-upgrade", &stage.bundle(&second), "--dry-run"]).await;
    assert!(output.contains("address: POD_IP:50051"), "{output}");
    let output = stage.opm(&["run", "bundle-upgrade", &stage.bundle(&second), "-o", "json"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    let report = Stage::report(&output);
    assert_eq!((&report["previous"], &report["upgraded"]), (&"foo.v1.0.0".into(), &true.into()));
    assert_eq!(report["createdByOlm"], json!(["ClusterServiceVersion [NAMESPACE]/foo.v1.1.0"]));
    let csv = stage.get(ResourceKind::CSV, "foo.v1.1.0").await.expect("a CSV");
    assert_eq!((&csv["status"]["phase"], &csv["spec"]["replaces"]), (&"Succeeded".into(), &"foo.v1.0.0".into()));

    // The CRD came with the first version, and is removed with its objects.
    stage.resources(&first).create(&Default::default(), &stage.resource(&first, "thing")).await.expect("an object");
    let output = stage.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    stage.wait_until_only(&before).await;
}

/// Returns a catalog of one operator, as text.
pub(crate) fn catalog_of(stage: &Stage, operator: &Operator) -> String {
    let image = stage.bundle(operator);
    let (package, csv) = (&operator.package, operator.csv_name());
    let rendered = stage.env.stdout(&["render", &image, "--use-http", "-o", "yaml"]);
    format!(
        "schema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: {package}\n\
         name: stable\nentries:\n- name: {csv}\n{rendered}"
    )
}

/// Returns an operator that depends on the package bar, and an index image with that package.
fn depending(stage: &Stage) -> (Operator, Operator, String) {
    let bar = stage.operator("bar", "2.0.0");
    let mut main = stage.operator("foo", "1.0.0");
    main.dependencies = Some(
        "dependencies:\n- type: olm.package\n  value:\n    packageName: bar\n    version: \">=2.0.0\"\n".to_owned(),
    );
    let files = [("/configs/bar.yaml".to_owned(), catalog_of(stage, &bar).into_bytes())];
    let index = stage.push("index:v1", &files, &configs());
    (main, bar, index)
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_are_installed_and_removed_with_an_operator() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (main, bar, index) = depending(&stage);
    let output = stage.opm(&["run", "bundle", &stage.bundle(&main), "--index-image", &index]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    assert!(
        output.contains("[REGISTRY]/index:v1 has no program; quay.io/operator-framework/opm:latest serves"),
        "{output}"
    );
    assert!(output.contains("also installs or upgrades: bar.v2.0.0"), "{output}");
    until("bar succeeds", || async { succeeded(&stage, &bar.csv_name()).await.then_some(()) }).await;
    let output = stage.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    stage.wait_until_only(&before).await;
}

/// Changes an InstallPlan while OLM executes it, so that OLM cannot store the result and executes the plan again. The
/// second execution reports the objects of the first one as `Present`. Returns the states of all steps.
async fn executed_twice(stage: &Stage) -> Vec<String> {
    let plans = stage.cluster.objects(ResourceKind::INSTALL_PLAN);
    let executed = || async {
        let all = stage.list(ResourceKind::INSTALL_PLAN).await;
        let plan = all.into_iter().find(|plan| plan["status"]["phase"] == "Installing")?;
        plan["metadata"]["name"].as_str().map(str::to_owned)
    };
    let plan = until("OLM executes a plan", executed).await;
    let mut number = 0;
    // Two CSVs show that OLM has executed it.
    while stage.list(ResourceKind::CSV).await.len() < 2 {
        number += 1;
        let change = json!({"metadata": {"annotations": {"example.com/number": number.to_string()}}});
        plans.patch(&plan, &PatchParams::default(), &Patch::Merge(change)).await.expect("a changed plan");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let complete = until("the plan is complete", || async {
        stage.list(ResourceKind::INSTALL_PLAN).await.into_iter().find(|plan| plan["status"]["phase"] == "Complete")
    });
    let steps = complete.await["status"]["plan"].as_array().cloned().unwrap_or_default();
    steps.iter().map(|step| step["status"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_removes_the_objects_of_a_plan_that_olm_executes_twice() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (main, _, index) = depending(&stage);
    let bundle = stage.bundle(&main);
    let run = ["run", "bundle", &bundle, "--index-image", &index];
    let (output, states) = tokio::join!(stage.opm(&run), executed_twice(&stage));
    assert!(output.starts_with("exit 0"), "{output}");
    assert!(states.contains(&"Present".to_owned()), "{states:?}");
    let output = stage.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    stage.wait_until_only(&before).await;
}

/// Makes an operator wait for an API that no cluster has. OLM polls a CSV whose pods do not start without pause, but
/// not this one.
fn never_succeeds(operator: &mut Operator) {
    operator.more = json!({"nativeAPIs": [{"group": "none.example.com", "version": "v1", "kind": "None"}]});
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_rolls_back_what_the_operator_depends_on() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (mut main, _, index) = depending(&stage);
    never_succeeds(&mut main);
    let bundle = stage.bundle(&main);
    // With other tests beside it, OLM needs most of a minute until it executes the plan.
    let run = ["run", "bundle", &bundle, "--index-image", &index, "--timeout", "90s"];
    let (output, states) = tokio::join!(stage.opm(&run), executed_twice(&stage));
    assert!(output.starts_with("exit 1"), "{output}");
    assert!(states.contains(&"Present".to_owned()), "{states:?}");
    assert!(output.contains("None v1.none.example.com: NotPresent, Native API does not exist"), "{output}");
    assert!(output.ends_with("all created objects were rolled back\n"), "{output}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_that_nobody_offers_is_reported() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (main, ..) = depending(&stage);
    let output = stage.opm(&["run", "bundle", &stage.bundle(&main), "--timeout", "60s"]).await;
    assert!(output.starts_with("exit 1"), "{output}");
    assert!(output.contains("ConstraintsNotSatisfiable: constraints not satisfiable: "), "{output}");
    assert!(
        output.contains("bundle foo.v1.0.0 requires an operator with package: bar and with version in range: >=2.0.0"),
        "{output}"
    );
    assert!(output.ends_with("all created objects were rolled back\n"), "{output}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_opm_built_is_an_index() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    stage.env.file("catalog/bar.yaml", catalog_of(&stage, &stage.operator("bar", "2.0.0")));
    // A static program without a shell; the node replaces it with the program under test.
    stage.env.file("program", static_program());
    let index = format!("{}/built:v1", stage.registry.host());
    let build = ["build", "catalog", "-t", &index, "--push", "--use-http", "--binary", "linux/amd64=program"];
    stage.env.stdout(&build);
    let (main, ..) = depending(&stage);
    let output = stage.opm(&["run", "bundle", &stage.bundle(&main), "--index-image", &index]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    let pods = stage.list(ResourceKind::POD).await;
    let command = pods.iter().find_map(|pod| {
        let container = &pod["spec"]["containers"][0];
        (container["name"] == "registry-grpc").then(|| container["command"].clone())
    });
    assert_eq!(command, Some(json!(["/bin/opm", "serve", "/foo-catalog-configs", "-p", "50051"])));
    let output = stage.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_index_is_split_into_several_parts() {
    let Some(stage) = Stage::shared().await else { return };
    let mut noise = catalog_of(&stage, &stage.operator("bar", "2.0.0"));
    let mut state = 1u64;
    for number in 0..6 {
        let mut text = String::new();
        for _ in 0..600_000 / 16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += &format!("{state:016x}");
        }
        noise += &format!("---\nschema: example.com/noise\nname: n{number}\nnoise: {text}\n");
    }
    let index = stage.push("large:v1", &[("/configs/c.yaml".to_owned(), noise.into_bytes())], &configs());
    let (main, ..) = depending(&stage);
    let output = stage.opm(&["run", "bundle", &stage.bundle(&main), "--index-image", &index]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    let maps = stage.list(ResourceKind::CONFIG_MAP).await;
    assert!(maps.iter().filter(|map| map["binaryData"]["extraFBC"].is_string()).count() > 1, "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_index_is_served_by_its_own_programs() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let bar = stage.bundle(&stage.operator("bar", "2.0.0"));
    stage.env.stdout(&["registry", "add", "-d", "index.db", "-b", &bar, "--use-http"]);
    let file = |path: &str, from: &str| (path.to_owned(), std::fs::read(from).expect("a program"));
    let files = [
        ("/database/index.db".to_owned(), std::fs::read(stage.env.path("index.db")).expect("a database")),
        ("/bin/opm".to_owned(), b"#!/bin/false\n".to_vec()),
        file("/bin/sh", "/bin/sh"),
        file("/bin/cp", "/bin/cp"),
    ];
    let label = ("operators.operatorframework.io.index.database.v1".to_owned(), "/database/index.db".to_owned());
    let index = stage.push("database:v1", &files, &[label]);
    let (mut main, ..) = depending(&stage);
    main.version = "1.0.1".into();
    let output = stage.opm(&["run", "bundle", &stage.bundle(&main), "--index-image", &index]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    until("bar succeeds", || async { succeeded(&stage, "bar.v2.0.0").await.then_some(()) }).await;
    let output = stage.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_that_others_need_are_kept() {
    let (Some(one), Some(other)) = (Stage::shared().await, Stage::shared().await) else { return };
    // Both operators own the same API.
    let main = one.operator("foo", "1.0.0");
    let mut broken = main.clone();
    never_succeeds(&mut broken);
    // The first one creates the CRD and cannot succeed; the second one succeeds and has an object.
    let bundle = one.bundle(&broken);
    let running = Running::start(&mut one.command(&["run", "bundle", &bundle, "--timeout", "90s"]));
    let definition = main.crd_name();
    until("the first has its definition", || one.get(ResourceKind::CRD, &definition)).await;
    let output = other.opm(&["run", "bundle", &other.bundle(&main)]).await;
    assert!(output.starts_with("exit 0"), "{output}");
    let created =
        other.resources(&main).create(&Default::default(), &other.resource(&main, "theirs")).await.expect("an object");
    running.signal("-INT");
    let output = one.shown(running.end());
    assert!(
        output.contains("all created objects were rolled back, except:\n  CustomResourceDefinition foos."),
        "{output}"
    );
    assert!(output.contains("it is kept, because ClusterServiceVersion "), "{output}");
    let remaining = other.resources(&main).get("theirs").await.expect("the object still exists");
    assert_eq!(remaining.metadata.uid, created.metadata.uid);
    assert!(succeeded(&other, "foo.v1.0.0").await);
    // The CRD existed before the second operator, so it is not its own.
    let output = other.opm(&["cleanup", "foo"]).await;
    assert!(output.starts_with("exit 0") && output.contains("Skipping CRD deletion"), "{output}");
    assert_eq!(
        other.resources(&main).get("theirs").await.expect("the object still exists").metadata.uid,
        created.metadata.uid
    );
    let definition = one.cluster.objects(ResourceKind::CRD);
    definition.delete(&main.crd_name(), &Default::default()).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_from_a_foreign_catalog_is_rejected() {
    let Some(stage) = Stage::shared().await else { return };
    let bar = stage.operator("bar", "2.0.0");
    stage.env.file("catalog/bar.yaml", catalog_of(&stage, &bar));
    let (_server, address) = stage.serve("catalog").await;
    stage.source("theirs", &address, json!({})).await;
    stage.group().await;
    stage.subscribe("bar", "theirs", json!({})).await;
    until("bar succeeds", || async { succeeded(&stage, "bar.v2.0.0").await.then_some(()) }).await;
    let before = stage.everything().await;
    let output = stage.opm(&["cleanup", "bar"]).await;
    assert!(output.starts_with("exit 1"), "{output}");
    assert!(
        output.contains("package \"bar\" was not installed by 'run bundle'; nothing was deleted\n--force deletes:\n  Subscription [NAMESPACE]/bar\n  ClusterServiceVersion [NAMESPACE]/bar.v2.0.0\n  CustomResourceDefinition bars.bar.[NAMESPACE].example.com, with all its objects"),
        "{output}"
    );
    assert_eq!(stage.everything().await, before);
    let output = stage.opm(&["cleanup", "bar", "--force"]).await;
    assert!(
        output.starts_with("exit 0") && output.contains("CatalogSource [NAMESPACE]/theirs was not created by"),
        "{output}"
    );
    assert!(stage.get(ResourceKind::CATALOG_SOURCE, "theirs").await.is_some());
    // OLM installs nothing again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left: Vec<Value> = stage.list(ResourceKind::CSV).await;
    assert!(left.is_empty(), "{left:?}");
}
