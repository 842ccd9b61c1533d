//! Upgrading operators to a newer bundle.

use cluster::run::names;
use cluster::{Access, Cluster, ResourceKind};
use serde_json::{Value, json};

use super::stage::{CONFIGS, DATABASE, KINDS, Running, Stage, create, list, set_status, steps, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_replaces_the_previous_one() {
    let stage = Stage::new().await;
    let bundles = [stage.bundle("1.0.0"), stage.bundle("1.1.0"), stage.bundle("1.2.0")];
    let _emulation = stage.emulate(&["1.0.0", "1.1.0", "1.2.0"]);
    let printed = stage.opm(&["run", "bundle", &bundles[0]]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    insta::assert_snapshot!("upgrade_output", steps(&stage.opm(&["run", "bundle-upgrade", &bundles[1]])));
    insta::assert_snapshot!("upgrade_objects", stage.objects(&KINDS[..6]).await);
    let printed = stage.opm(&["run", "bundle-upgrade", &bundles[2]]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let catalog = String::from_utf8(stage.catalog().await.concat()).unwrap();
    insta::assert_snapshot!("upgrade_catalog", stage.hide(&catalog));
    let printed = stage.opm(&["run", "bundle-upgrade", &bundles[2]]);
    assert!(printed.contains("bundle \"foo.v1.2.0\" already exists in the Index Image"), "{printed}");
}

const INDEX: &str = "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: beta\n\
    entries: [{name: foo.v0.9.0}]\n---\nschema: olm.channel\npackage: foo\nname: stable\nentries:\n- name: foo.v0.8.0\n- name: foo.v0.9.0\n  \
    replaces: foo.v0.8.0\n---\nschema: olm.bundle\npackage: foo\nname: foo.v0.8.0\nimage: example.com/foo:v0.8.0\nproperties:\n\
    - type: olm.package\n  value: {packageName: foo, version: 0.8.0}\n---\nschema: olm.bundle\npackage: foo\nname: foo.v0.9.0\n\
    image: example.com/foo:v0.9.0\nproperties:\n- type: olm.package\n  value: {packageName: foo, version: 0.9.0}\n---\n\
    schema: example.com/other # kept\nx: 1\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_an_index_image_keeps_the_rest_of_the_index() {
    let stage = Stage::new().await;
    let bundles = [stage.bundle("1.0.0"), stage.bundle("1.1.0")];
    let index = stage.push("index:v1", &[("/configs/a.yaml", INDEX.as_bytes())], &[(CONFIGS, "/configs")]);
    let _emulation = stage.emulate(&["1.0.0", "1.1.0"]);
    let printed = stage.opm(&["run", "bundle", &bundles[0], "--index-image", &index]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let printed = stage.opm(&["run", "bundle-upgrade", &bundles[1]]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let catalog = String::from_utf8(stage.catalog().await.concat()).unwrap();
    for document in INDEX.split("---\n") {
        assert!(catalog.contains(document), "{document}\n{catalog}");
    }
    assert!(catalog.contains("name: operator-sdk-run-bundle"), "{catalog}");
    assert!(catalog.contains("- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n"), "{catalog}");
}

/// Installs an operator from a catalog image, like OLM.
async fn from_image(stage: &Stage, index: &str) {
    from_image_in(stage, index, &stage.kit.cluster).await;
}

/// Like [`from_image`], from a catalog in another namespace.
async fn from_image_in(stage: &Stage, index: &str, home: &Cluster) {
    let cluster = &stage.kit.cluster;
    let mut source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "shared"}, "spec": {"sourceType": "grpc", "publisher": "somebody"}});
    if !index.is_empty() {
        source["spec"]["image"] = json!(index);
    }
    create(home, ResourceKind::CATALOG_SOURCE, &source).await;
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "foo"}, "spec": {"name": "foo", "channel": "stable", "source": "shared",
        "sourceNamespace": home.namespace}});
    create(cluster, ResourceKind::SUBSCRIPTION, &subscription).await;
    set_status(
        cluster,
        ResourceKind::SUBSCRIPTION,
        "foo",
        json!({"installPlanRef": {"name": "before"}, "installedCSV": "foo.v0.9.0"}),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_any_catalog_can_be_upgraded() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let index = stage.push("index:v1", &[("/configs/a.yaml", INDEX.as_bytes())], &[(CONFIGS, "/configs")]);
    from_image(&stage, &index).await;
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle, "--pull-secret-name", "pull"]);
    assert!(printed.starts_with("exit 0") && printed.contains("Successfully upgraded to \"foo.v1.0.0\""), "{printed}");
    let catalog = String::from_utf8(stage.catalog().await.concat()).unwrap();
    assert!(catalog.contains(r#"{"name":"foo.v1.0.0","replaces":"foo.v0.9.0"}"#), "{catalog}");
    assert!(catalog.contains("schema: example.com/other # kept\nx: 1\n"), "{catalog}");
    let source = stage.get(ResourceKind::CATALOG_SOURCE, "shared").await.unwrap();
    assert_eq!(
        source["spec"],
        json!({"sourceType": "grpc", "publisher": "somebody", "address": "10.0.0.9:50051", "secrets": ["pull"]})
    );
    let printed = stage.opm(&["cleanup", "foo"]);
    assert!(
        printed.starts_with("exit 1") && printed.contains("package \"foo\" was not installed by 'run bundle'"),
        "{printed}"
    );
    let printed = stage.opm(&["cleanup", "foo", "--force"]);
    assert!(
        printed.contains("CatalogSource [NAMESPACE]/shared was not created by 'run bundle' and is kept"),
        "{printed}"
    );
    assert!(stage.get(ResourceKind::CATALOG_SOURCE, "shared").await.is_some());
}

/// Creates another namespace of the same cluster.
async fn other_namespace(stage: &Stage) -> Cluster {
    let namespace = Some(stage.kit.api.namespace().await);
    let access = Access { kubeconfig: Some(stage.kit.api.kubeconfig()), context: None, namespace };
    access.connect().await.expect("a cluster")
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_checked_in_the_namespace_of_the_catalog() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let home = other_namespace(&stage).await;
    let index = stage.push("index:v1", &[("/configs/a.yaml", INDEX.as_bytes())], &[(CONFIGS, "/configs")]);
    from_image_in(&stage, &index, &home).await;
    // The user may do everything in the namespace of the operator, and read catalogs in the namespace of the catalog.
    let name = format!("some-{}", stage.kit.cluster.namespace);
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let user = stage.kit.api.user_with_role(&name, &stage.kit.cluster.namespace, all).await;
    let some =
        json!([{"apiGroups": ["operators.coreos.com"], "resources": ["catalogsources"], "verbs": ["get", "list"]}]);
    stage.kit.api.user_with_role(&name, &home.namespace, some).await;
    let mut command = stage.kit.env.command();
    command.args(["run", "bundle-upgrade", &bundle, "--use-http", "-n", &stage.kit.cluster.namespace]);
    let printed = stage.shown(command.arg("--kubeconfig").arg(&user.kubeconfig).output().unwrap());
    let place = home.namespace.replace(&stage.kit.cluster.namespace, "[NAMESPACE]");
    let expected = format!(
        "not allowed in namespace {place:?}: update catalogsources.operators.coreos.com, create configmaps, list configmaps, \
         delete configmaps, create pods, get pods, delete pods; nothing was created"
    );
    assert!(printed.starts_with("exit 1") && printed.contains(&expected), "{expected}\n{printed}");
    assert!(list(&home, ResourceKind::POD).await.is_empty() && list(&home, ResourceKind::CONFIG_MAP).await.is_empty());
    let source = list(&home, ResourceKind::CATALOG_SOURCE).await.remove(0);
    assert_eq!(source["spec"]["image"], json!(index), "the catalog source changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_others_use_is_not_changed() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let index = stage.push("index:v1", &[("/configs/a.yaml", INDEX.as_bytes())], &[(CONFIGS, "/configs")]);
    from_image(&stage, &index).await;
    let home = other_namespace(&stage).await;
    let other = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "bar"},
        "spec": {"name": "bar", "source": "shared", "sourceNamespace": stage.kit.cluster.namespace}});
    create(&home, ResourceKind::SUBSCRIPTION, &other).await;
    let before = snapshot(&stage).await;
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle]);
    let user = format!("Subscription {}/bar", home.namespace.replace(&stage.kit.cluster.namespace, "[NAMESPACE]"));
    let expected = format!(
        "CatalogSource [NAMESPACE]/shared was not created by 'run bundle', and others use it: {user}; nothing was changed\n\
         --shared-catalog serves all of them from the pod of this run"
    );
    assert!(printed.starts_with("exit 1") && printed.contains(&expected), "{expected}\n{printed}");
    assert_eq!(snapshot(&stage).await, before);
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle, "--shared-catalog", "--dry-run"]);
    assert!(printed.starts_with("exit 0") && printed.contains(&format!(", also for {user}")), "{printed}");
    assert_eq!(snapshot(&stage).await, before);
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle, "--shared-catalog"]);
    assert!(printed.starts_with("exit 0"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_fails_before_approval_is_rolled_back() {
    let stage = Stage::new().await;
    let bundles = [stage.bundle("1.0.0"), stage.bundle("1.1.0")];
    {
        let _emulation = stage.emulate(&["1.0.0"]);
        let printed = stage.opm(&["run", "bundle", &bundles[0]]);
        assert!(printed.starts_with("exit 0"), "{printed}");
    }
    let before = snapshot(&stage).await;
    let _kubelet = stage.kubelet();
    let mut command = stage.kit.command(&["run", "bundle-upgrade", &bundles[1], "--use-http", "--timeout", "15s"]);
    let running = Running::start(&mut command);
    until(|| async {
        stage.get(ResourceKind::CATALOG_SOURCE, "foo-catalog").await.filter(|one| one.to_string().contains("v1-1-0"))
    })
    .await;
    let printed = stage.shown(running.end());
    assert!(printed.contains("install plan is not available for the subscription foo-v1-0-0-sub"), "{printed}");
    assert!(printed.contains("all created objects were rolled back"), "{printed}");
    assert_eq!(snapshot(&stage).await, before, "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_fails_after_approval_is_not_rolled_back() {
    let stage = Stage::new().await;
    let bundles = [stage.bundle("1.0.0"), stage.bundle("1.1.0")];
    {
        let _emulation = stage.emulate(&["1.0.0"]);
        let printed = stage.opm(&["run", "bundle", &bundles[0]]);
        assert!(printed.starts_with("exit 0"), "{printed}");
    }
    let failing = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "failing"}, "spec": {"approved": false, "clusterServiceVersionNames": ["foo.v1.1.0", "bar.v1"]}});
    create(&stage.kit.cluster, ResourceKind::INSTALL_PLAN, &failing).await;
    let status = json!({"phase": "Failed", "conditions": [{"type": "Installed", "status": "False",
        "reason": "InstallComponentFailed", "message": "error validating existing CRs against new CRD's schema"}]});
    stage.kit.set_status(ResourceKind::INSTALL_PLAN, "failing", status).await;
    let _kubelet = stage.kubelet();
    let running = Running::start(&mut stage.command(&["run", "bundle-upgrade", &bundles[1]]));
    until(|| async {
        stage.get(ResourceKind::CATALOG_SOURCE, "foo-catalog").await.filter(|one| one.to_string().contains("v1-1-0"))
    })
    .await;
    stage
        .kit
        .set_status(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", json!({"installPlanRef": {"name": "failing"}}))
        .await;
    let printed = stage.shown(running.end());
    assert!(printed.contains("warning: InstallPlan failing also installs or upgrades: bar.v1\n"), "{printed}");
    assert!(
        printed.ends_with(
            "error waiting for CSV to install: install plan failed: InstallComponentFailed: error validating existing \
             CRs against new CRD's schema\nthe upgrade was approved and is not rolled back\n"
        ),
        "{printed}"
    );
    let source = stage.get(ResourceKind::CATALOG_SOURCE, "foo-catalog").await.unwrap();
    assert!(source.to_string().contains("v1-1-0"), "{source}");
}

/// Returns all objects without the fields that record changes.
async fn snapshot(stage: &Stage) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in KINDS {
        for mut object in stage.list(kind).await {
            let metadata = object["metadata"].as_object_mut().unwrap();
            for key in ["resourceVersion", "managedFields", "generation"] {
                metadata.remove(key);
            }
            all.push(object);
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_requires_an_installed_operator() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.1.0");
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle]);
    assert!(
        printed.contains("Failed to run bundle upgrade: no existing operator found in the cluster to upgrade"),
        "{printed}"
    );
    let other = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "bar"}, "spec": {"name": "bar", "source": "x"}});
    create(&stage.kit.cluster, ResourceKind::SUBSCRIPTION, &other).await;
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle]);
    assert!(printed.contains("subscription for package \"foo\" not found"), "{printed}");
    from_image(&stage, "").await;
    let printed = stage.opm(&["run", "bundle-upgrade", &bundle]);
    assert!(
        printed.contains("cannot upgrade: no catalog image reference exists in catalog source spec or annotations"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bundles_are_added_to_a_database_index_again() {
    let stage = Stage::new().await;
    let old = stage.bundle("0.9.0");
    let (first, second) = (stage.bundle("1.0.0"), stage.bundle("1.1.0"));
    let env = &stage.kit.env;
    env.stdout(&["registry", "add", "-d", "index.db", "-b", &old, "--use-http"]);
    let content = std::fs::read(env.path("index.db")).unwrap();
    let index = stage.push("database:v1", &[("/db/index.db", &content)], &[(DATABASE, "/db/index.db")]);
    let _emulation = stage.emulate(&["1.0.0", "1.1.0"]);
    let printed = stage.opm(&["run", "bundle", &first, "--index-image", &index]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let printed = stage.opm(&["run", "bundle-upgrade", &second, "--mode", "semver"]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let pod = &stage.list(ResourceKind::POD).await[0];
    let script = stage.hide(pod["spec"]["containers"][0]["command"][2].as_str().unwrap());
    let adds: Vec<&str> = script.lines().filter(|line| line.starts_with("opm registry add")).collect();
    assert_eq!(
        adds,
        [
            "opm registry add -d /tmp/tmp.db -b [REGISTRY]/foo-bundle:v1.0.0 --mode=replaces --skip-tls-verify=false --use-http=true && \\",
            "opm registry add -d /tmp/tmp.db -b [REGISTRY]/foo-bundle:v1.1.0 --mode=semver --skip-tls-verify=false --use-http=true && \\",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_index_stays_migrated() {
    let stage = Stage::new().await;
    let old = stage.bundle("0.9.0");
    let (first, second) = (stage.bundle("1.0.0"), stage.bundle("1.1.0"));
    let env = &stage.kit.env;
    env.stdout(&["registry", "add", "-d", "index.db", "-b", &old, "--use-http"]);
    let content = std::fs::read(env.path("index.db")).unwrap();
    // Without the label the database has its default path.
    let index = stage.push("database:v1", &[("/database/index.db", &content)], &[]);
    let _emulation = stage.emulate(&["1.0.0", "1.1.0"]);
    let printed = stage.opm(&["run", "bundle", &first, "--index-image", &index, "--sqlite", "migrate"]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let printed = stage.opm(&["run", "bundle-upgrade", &second]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let catalog = String::from_utf8(stage.catalog().await.concat()).unwrap();
    assert!(catalog.contains("name: foo.v0.9.0"), "{catalog}");
    assert!(catalog.contains("- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n"), "{catalog}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_pushed_again_gets_a_new_pod() {
    let stage = Stage::new().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": names::pod(&format!("{}/foo-bundle:v1.0.0", stage.registry.host()))},
        "spec": {"containers": [{"name": "x", "image": "x"}]}});
    create(&stage.kit.cluster, ResourceKind::POD, &pod).await;
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&["run", "bundle", &bundle]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let pods = stage.list(ResourceKind::POD).await;
    let names: Vec<&str> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names[1].starts_with(names[0]) && names[1].len() == names[0].len() + 7, "{names:?}");
}
