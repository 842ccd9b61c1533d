//! `run bundle`, `run bundle-upgrade` and `cleanup` with the real OLM v1.

use std::path::Path;

use cluster::ResourceKind;
use serde_json::{Value, json};

use crate::operator::Operator;
use crate::stage::{Running, Stage, until};
use crate::stage_v1::{CATALOG, EXTENSION, StageV1, condition};

impl StageV1 {
    /// Returns the reference prefix to which runs push their catalog.
    fn registry(&self) -> String {
        format!("{}/try:v1", self.stage.registry.host())
    }

    /// Runs `run bundle --olm v1` with additional arguments.
    async fn run(&self, operator: &Operator, more: &[&str]) -> String {
        let (bundle, registry) = (self.stage.bundle(operator), self.registry());
        let mut arguments = vec!["run", "bundle", &bundle, "--olm", "v1", "--registry", &registry];
        arguments.extend(more);
        self.stage.opm(&arguments).await
    }

    async fn upgrade(&self, operator: &Operator, more: &[&str]) -> String {
        let bundle = self.stage.bundle(operator);
        let mut arguments = vec!["run", "bundle-upgrade", &bundle, "--olm", "v1"];
        arguments.extend(more);
        self.stage.opm(&arguments).await
    }

    async fn status(&self, operator: &Operator) -> Value {
        self.stage.get(EXTENSION, &operator.package).await.expect("a ClusterExtension")["status"].clone()
    }
}

/// Returns the files of a bundle whose CRD has another schema.
fn with_field(operator: &Operator, field: Value) -> Vec<(String, Vec<u8>)> {
    let mut crd = operator.crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": field}}}});
    let mut files = operator.files();
    files.retain(|(path, _)| !path.ends_with("crd.json"));
    files.push(("/manifests/crd.json".into(), crd.to_string().into_bytes()));
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_installed_upgraded_and_removed_by_olm_v1() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let (first, second) = (stage.operator("1.0.0"), stage.operator("1.1.0"));
    let shown = stage.run(&first, &["--dry-run"]).await;
    assert!(shown.contains("kind: ClusterExtension") && shown.contains("kind: ClusterRoleBinding"), "{shown}");
    stage.wait_until_only(&before).await;

    let shown = stage.run(&first, &["-o", "json"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}\n{}", stage.v1.log("operator-controller"));
    let report = Stage::report(&shown);
    let names = |parts: [&str; 3]| parts.map(|name| name.replace(stage.stage.namespace(), "[NAMESPACE]"));
    let [package, csv, catalog] = names([&first.package, &first.csv_name(), &format!("{}-catalog", first.package)]);
    assert_eq!(
        (&report["olm"], &report["csv"], &report["version"]),
        (&"v1".into(), &csv.as_str().into(), &"1.0.0".into())
    );
    assert_eq!(report["catalog"], format!("ClusterCatalog {catalog}"));
    let created = report["created"].as_array().expect("a list");
    assert!(created.contains(&format!("ClusterExtension {package}").into()), "{report:#}");
    let status = stage.status(&first).await;
    assert_eq!(status["install"]["bundle"], json!({"name": first.csv_name(), "version": "1.0.0"}));
    assert_eq!(condition(&status, "Installed")["status"], "True");
    // The role has exactly the permissions that the bundle needs.
    let role =
        stage.stage.get(ResourceKind::CLUSTER_ROLE, &format!("{}-installer", first.package)).await.expect("a role");
    assert!(!role["rules"].to_string().contains(r#""*""#), "{role:#}");
    let again = stage.run(&first, &[]).await;
    assert!(
        again.contains(
            &format!("ClusterExtension {} of package", first.package).replace(stage.stage.namespace(), "[NAMESPACE]")
        ),
        "{again}"
    );

    let shown = stage.upgrade(&second, &["--dry-run"]).await;
    assert!(shown.contains("version: 1.1.0"), "{shown}");
    assert_eq!(stage.status(&first).await["install"]["bundle"]["version"], "1.0.0");
    let shown = stage.upgrade(&second, &["-o", "json"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}\n{}", stage.v1.log("operator-controller"));
    let report = Stage::report(&shown);
    assert_eq!((&report["upgraded"], &report["previous"]), (&true.into(), &csv.as_str().into()));
    assert_eq!(stage.status(&second).await["install"]["bundle"]["version"], "1.1.0");

    // The CRD is removed with the extension, and its objects with it.
    stage
        .stage
        .resources(&first)
        .create(&Default::default(), &stage.stage.resource(&first, "thing"))
        .await
        .expect("made");
    let refused = stage.stage.opm(&["cleanup", &first.package, "--olm", "v1", "--delete-all=false"]).await;
    assert!(refused.starts_with("exit 1"), "{refused}");
    let shown = stage.stage.opm(&["cleanup", &first.package, "--olm", "v1"]).await;
    assert!(
        shown.starts_with("exit 0") && shown.contains("also deletes its definitions and all their objects"),
        "{shown}"
    );
    stage.wait_until_only(&before).await;
    let shown = stage.stage.opm(&["cleanup", &first.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0") && shown.contains("not found"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bundles_that_olm_v1_would_refuse_are_rejected_before_anything_is_created() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let operator = stage.operator("1.0.0");
    let refused = |shown: &str, words: &str| {
        assert!(shown.starts_with("exit 1") && shown.contains(words), "expected {words:?}\n{shown}");
    };
    // No registry to push to.
    let bundle = stage.stage.bundle(&operator);
    refused(&stage.stage.opm(&["run", "bundle", &bundle, "--olm", "v1"]).await, "--olm v1 requires --registry REF");
    // Flags of OLM v0.
    refused(&stage.run(&operator, &["--pull-secret-name", "s"]).await, "--pull-secret-name requires --olm v0");
    refused(&stage.stage.opm(&["run", "bundle", &bundle, "--adopt-crds"]).await, "--adopt-crds requires --olm v1");
    refused(&stage.stage.opm(&["run", "bundle", &bundle, "--olm", "auto"]).await, "add --olm v0 or --olm v1");
    // An operator that does not watch all namespaces.
    let mut own = operator.clone();
    own.more = json!({});
    refused(&stage.run(&own, &[]).await, "bundle does not support AllNamespaces install mode");
    refused(
        &stage.run(&operator, &["--install-mode", "MultiNamespace=a,b"]).await,
        "--olm v1 does not support --install-mode",
    );
    // An operator with dependencies.
    let mut dependent = operator.clone();
    dependent.dependencies = Some(
        "dependencies:\n- type: olm.package\n  value:\n    packageName: bar\n    version: \">=2.0.0\"\n".to_owned(),
    );
    let shown = stage.run(&dependent, &[]).await;
    refused(&shown, "which is currently not supported");
    assert!(shown.contains("--ignore-dependencies"), "{shown}");
    // A kind that the cluster does not have.
    let mut hooked = operator.clone();
    hooked.more = json!({
        "installModes": [{"type": "AllNamespaces", "supported": true}],
        "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "generateName": "v.example.com",
            "deploymentName": format!("{}-controller", operator.package), "containerPort": 443, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": []}],
    });
    refused(&stage.run(&hooked, &[]).await, "this cluster does not know cert-manager.io/v1 Certificate");
    // A namespace that does not exist.
    let mut command = stage.stage.env.command();
    command.args(["run", "bundle", &bundle, "--olm", "v1", "--use-http", "-n", "nowhere-at-all"]);
    command.args(["--registry", &stage.registry(), "--kubeconfig"]).arg(stage.stage.olm.api.kubeconfig());
    let shown = stage.stage.shown(command.output().expect("opm runs"));
    refused(&shown, "namespace \"nowhere-at-all\" does not exist");
    // A CRD that exists already.
    let mut crd: cluster::ClusterObject = serde_json::from_value(operator.crd()).expect("an object");
    crd.metadata.labels = None;
    stage.stage.cluster.objects(ResourceKind::CRD).create(&Default::default(), &crd).await.expect("created");
    let shown = stage.run(&operator, &[]).await;
    refused(&shown, "already exist; nothing was created");
    assert!(shown.contains("--adopt-crds"), "{shown}");
    stage
        .stage
        .cluster
        .objects(ResourceKind::CRD)
        .delete(&operator.crd_name(), &Default::default())
        .await
        .expect("deleted");
    // Missing permissions.
    let namespace = stage.stage.namespace();
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["get", "list"]}]);
    let user = stage.stage.olm.api.user_with_role(&format!("some-{namespace}"), namespace, rules).await;
    let mut command = stage.stage.env.command();
    command.args(["run", "bundle", &bundle, "--olm", "v1", "--use-http", "-n", namespace]);
    command.args(["--registry", &stage.registry(), "--kubeconfig"]).arg(&user.kubeconfig);
    let shown = stage.stage.shown(command.output().expect("opm runs"));
    refused(&shown, "not allowed: create clustercatalogs.olm.operatorframework.io");
    assert!(shown.contains("delete clusterextensions.olm.operatorframework.io"), "{shown}");
    // The test itself created the binding of that role.
    let left: Vec<String> = stage.everything().await;
    let more: Vec<&String> = left.iter().filter(|name| !before.contains(name) && !name.contains("some-")).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_runs_under_one_olm_only() {
    let Some(stage) = StageV1::shared().await else { return };
    let operator = stage.operator("1.0.0");
    // OLM v0 runs it.
    let spec = json!({"name": operator.package, "channel": "stable", "source": "none",
        "sourceNamespace": stage.stage.namespace()});
    stage.stage.create(ResourceKind::SUBSCRIPTION, &json!({"metadata": {"name": "old"}, "spec": spec})).await;
    let before = stage.everything().await;
    let shown = stage.run(&operator, &[]).await;
    assert!(shown.contains("runs under OLM v0 already: Subscription [NAMESPACE]/old"), "{shown}");
    stage.wait_until_only(&before).await;
    stage.stage.cluster.objects(ResourceKind::SUBSCRIPTION).delete("old", &Default::default()).await.expect("deleted");
    // OLM v1 runs it.
    let object = json!({"metadata": {"name": operator.package}, "spec": {
        "namespace": stage.stage.namespace(), "serviceAccount": {"name": "nobody"},
        "source": {"sourceType": "Catalog", "catalog": {"packageName": operator.package}},
    }});
    stage.stage.create(EXTENSION, &object).await;
    let shown = stage.stage.opm(&["run", "bundle", &stage.stage.bundle(&operator)]).await;
    assert!(shown.contains("runs under OLM v1 already: ClusterExtension"), "{shown}");
    // Objects that no run created are not changed, unless forced.
    let shown = stage.upgrade(&stage.operator("1.1.0"), &[]).await;
    assert!(shown.contains("was not made by 'run bundle --olm v1'; nothing was changed"), "{shown}");
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 1") && shown.contains("was not installed by 'run bundle --olm v1'"), "{shown}");
    assert!(stage.stage.get(EXTENSION, &operator.package).await.is_some());
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1", "--force"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(stage.stage.get(EXTENSION, &operator.package).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_operator_controller_is_rolled_back() {
    let Some(stage) = StageV1::shared().await else { return };
    let operator = stage.operator("1.0.0");
    // An account of that name has another owner, and Helm does not take it over.
    let name = format!("{}-controller", operator.package);
    stage.stage.create(ResourceKind::SERVICE_ACCOUNT, &json!({"metadata": {"name": name}})).await;
    let before = stage.everything().await;
    let shown = stage.run(&operator, &["--timeout", "30s"]).await;
    assert!(
        shown.starts_with("exit 1")
            && shown.contains("already exists in namespace '[NAMESPACE]' and cannot be managed by operator-controller"),
        "{shown}"
    );
    assert!(shown.ends_with("all created objects were rolled back\n"), "{shown}");
    stage.wait_until_only(&before).await;
    assert!(stage.stage.get(ResourceKind::SERVICE_ACCOUNT, &name).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_does_not_start_is_rolled_back_with_the_reason() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let mut operator = stage.operator("1.0.0");
    operator.image = format!("{}/missing:v1", stage.stage.registry.host());
    let shown = stage.run(&operator, &["--timeout", "40s", "--installer", "cluster-admin"]).await;
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(shown.contains("image [REGISTRY]/missing:v1 cannot be pulled (ImagePullBackOff)"), "{shown}");
    assert!(shown.ends_with("all created objects were rolled back\n"), "{shown}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_nothing_behind() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let operator = stage.operator("1.0.0");
    let (bundle, registry) = (stage.stage.bundle(&operator), stage.registry());
    let arguments = ["run", "bundle", &bundle, "--olm", "v1", "--registry", &registry];
    let running = Running::start(&mut stage.stage.command(&arguments));
    until("a catalog is made", || async { stage.stage.get(CATALOG, &format!("{}-catalog", operator.package)).await })
        .await;
    // OLM v1 installs an operator within half a second of its catalog.
    running.signal("-INT");
    let shown = stage.stage.shown(tokio::task::spawn_blocking(move || running.end()).await.expect("no panic"));
    assert!(shown.starts_with("exit 130"), "{shown}");
    stage.wait_until_only(&before).await;
    // Objects of a killed run are found by cleanup.
    let running = Running::start(&mut stage.stage.command(&arguments));
    until("an extension is made", || async { stage.stage.get(EXTENSION, &operator.package).await }).await;
    running.signal("-KILL");
    tokio::task::spawn_blocking(move || running.end()).await.expect("no panic");
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_removes_objects_of_a_run_that_ended_before_its_catalog() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let operator = stage.operator("1.0.0");
    let name = format!("{}-installer", operator.package);
    let labelled = json!({"metadata": {"name": name, "labels": {"opm.run/id": "0123456789abcdef"}}, "rules": []});
    stage.stage.create(ResourceKind::SERVICE_ACCOUNT, &json!({"metadata": labelled["metadata"]})).await;
    stage.stage.create(ResourceKind::CLUSTER_ROLE, &labelled).await;
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0") && shown.contains("ClusterRole"), "{shown}");
    stage.wait_until_only(&before).await;
    // An account of that name that no run created is kept.
    stage.stage.create(ResourceKind::SERVICE_ACCOUNT, &json!({"metadata": {"name": name}})).await;
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.contains("not found"), "{shown}");
    assert!(stage.stage.get(ResourceKind::SERVICE_ACCOUNT, &name).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_created_and_removed_with_the_operator() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let operator = stage.operator("1.0.0");
    let place = stage.name("new");
    let _node = stage.stage.olm.node(&place, Path::new(env!("CARGO_BIN_EXE_opm"))).await;
    let mut command = stage.stage.env.command();
    let (bundle, registry) = (stage.stage.bundle(&operator), stage.registry());
    command.args([
        "run",
        "bundle",
        &bundle,
        "--olm",
        "v1",
        "--registry",
        &registry,
        "--use-http",
        "--create-namespace",
    ]);
    command.args(["--name", &stage.name("other"), "-n", &place, "--kubeconfig"]).arg(stage.stage.olm.api.kubeconfig());
    let shown = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("opm runs");
    let shown = stage.stage.shown(shown);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(stage.stage.get(EXTENSION, &stage.name("other")).await.is_some());
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_breaks_a_crd_is_rejected_unless_ignored() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let (first, second) = (stage.operator("1.0.0"), stage.operator("2.0.0"));
    let push = |operator: &Operator, field: Value| {
        let name = format!("{}-bundle:v{}", operator.package, operator.version);
        stage.stage.push(&name, &with_field(operator, field), &operator.labels())
    };
    let (one, two) = (push(&first, json!({"type": "string"})), push(&second, json!({"type": "integer"})));
    let registry = stage.registry();
    let shown = stage.stage.opm(&["run", "bundle", &one, "--olm", "v1", "--registry", &registry]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    let upgrade = ["run", "bundle-upgrade", &two, "--olm", "v1"];
    let shown = stage.stage.opm(&upgrade).await;
    assert!(shown.starts_with("exit 1") && shown.contains("validating upgrade for CRD"), "{shown}");
    assert_eq!(stage.status(&first).await["install"]["bundle"]["version"], "1.0.0");
    let catalog = stage.stage.get(CATALOG, &format!("{}-catalog", first.package)).await.expect("a catalog");
    let shown = stage.stage.opm(&[&upgrade[..], &["--ignore-crd-safety"]].concat()).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert_eq!(stage.status(&first).await["install"]["bundle"]["version"], "2.0.0");
    let later = stage.stage.get(CATALOG, &format!("{}-catalog", first.package)).await.expect("a catalog");
    assert_ne!(catalog["spec"], later["spec"]);
    let shown = stage.stage.opm(&["cleanup", &first.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    stage.wait_until_only(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_crd_becomes_part_of_the_installation_on_request() {
    let Some(stage) = StageV1::shared().await else { return };
    let before = stage.everything().await;
    let mut operator = stage.operator("1.0.0");
    operator.dependencies = Some(
        "dependencies:\n- type: olm.package\n  value:\n    packageName: bar\n    version: \">=2.0.0\"\n".to_owned(),
    );
    let crd: cluster::ClusterObject = serde_json::from_value(operator.crd()).expect("an object");
    stage.stage.cluster.objects(ResourceKind::CRD).create(&Default::default(), &crd).await.expect("created");
    let shown = stage.run(&operator, &["--adopt-crds", "--ignore-dependencies"]).await;
    assert!(shown.starts_with("exit 0") && shown.contains("become part of the installation"), "{shown}");
    assert!(shown.contains("without its dependencies (olm.package.required)"), "{shown}");
    let shown = stage.stage.opm(&["cleanup", &operator.package, "--olm", "v1"]).await;
    assert!(shown.starts_with("exit 0"), "{shown}");
    stage.wait_until_only(&before).await;
}
