//! `opm catalog`: catalogs of a cluster.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kit::Kit;

#[test]
fn objects_are_printed_without_a_cluster() {
    let env = crate::env::TestEnv::new();
    let apply = ["catalog", "apply", "my-catalog", "--image", "127.0.0.1:1/catalog:latest", "--dry-run"];
    insta::assert_snapshot!(env.opm(&[&apply[..], &["-n", "olm", "--poll", "10m", "-o", "yaml"]].concat()), @r#"
    exit 0
    --- stdout
    apiVersion: operators.coreos.com/v1alpha1
    kind: CatalogSource
    metadata:
      name: my-catalog
      namespace: olm
    spec:
      image: 127.0.0.1:1/catalog:latest
      sourceType: grpc
      updateStrategy:
        registryPoll:
          interval: 10m
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    "#);
    insta::assert_snapshot!(env.opm(&[&apply[..], &["--priority", "-5", "--secret", "s", "-o", "json"]].concat()), @r#"
    exit 0
    --- stdout
    {
      "apiVersion": "operators.coreos.com/v1alpha1",
      "kind": "CatalogSource",
      "metadata": {
        "name": "my-catalog",
        "namespace": "default"
      },
      "spec": {
        "sourceType": "grpc",
        "image": "127.0.0.1:1/catalog:latest",
        "priority": -5,
        "secrets": [
          "s"
        ]
      }
    }
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    "#);
    insta::assert_snapshot!(env.opm(&[&apply[..], &["--poll", "often"]].concat()), @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'often' for '--poll <DURATION>': expected a duration like 10m, 1h or 1h30m

    For more information, try '--help'.
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_program_is_extracted() {
    let Some(registry) = testkit::DockerRegistry::start(testkit::RegistryPlan::default()) else { return };
    let env = crate::env::TestEnv::new();
    env.file("catalog/c.yaml", crate::env::SMALL);
    let (data_only, serving) = (format!("{}/data-only:v1", registry.host()), format!("{}/serving:v1", registry.host()));
    env.stdout(&["build", "catalog", "--data-only", "-t", &data_only, "--push", "--use-http"]);
    env.file("program", testkit::static_program());
    let program = ["--platform", "linux/amd64", "--binary", "linux/amd64=program"];
    env.stdout(&[&["build", "catalog", "-t", &serving, "--push", "--use-http"][..], &program].concat());
    let shown = |image: &str, more: &[&str]| {
        let apply = ["catalog", "apply", "cat", "--image", image, "--dry-run", "--use-http", "-n", "olm"];
        env.opm(&[&apply[..], more].concat())
    };
    let extracted = |directory: &str| {
        format!("spec:\n  grpcPodConfig:\n    extractContent:\n      catalogDir: {directory}\n  image: ")
    };
    let printed = shown(&data_only, &[]);
    assert!(printed.contains(&extracted("/configs")) && printed.ends_with("--- stderr\n"), "{printed}");
    let printed = shown(&serving, &[]);
    assert!(!printed.contains("extractContent") && printed.ends_with("--- stderr\n"), "{printed}");
    // The flag decides without the registry, and overrides a file.
    let printed = shown("127.0.0.1:1/c:v1", &["--extract-content"]);
    assert!(printed.contains(&extracted("/configs")) && printed.ends_with("--- stderr\n"), "{printed}");
    let object = "kind: CatalogSource\nspec: {grpcPodConfig: {extractContent: {catalogDir: /a}}}\n";
    env.file("cs.yaml", object);
    let printed = shown(&serving, &["-f", "cs.yaml"]);
    assert!(printed.contains("catalogDir: /a\n"), "{printed}");
    let printed = shown(&serving, &["-f", "cs.yaml", "--extract-content=/b"]);
    assert!(printed.contains("catalogDir: /b\n"), "{printed}");
    assert!(shown(&serving, &["--extract-content=b"]).contains("expected an absolute path"));
    let printed = env.opm(&["catalog", "apply", "cat", "--image", &serving, "--olm", "v1", "--extract-content"]);
    assert!(printed.contains("--extract-content cannot be used with --olm v1"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_created_and_updated() {
    let kit = Kit::new().await;
    let apply = |more: &[&str]| {
        kit.opm(&[&["catalog", "apply", "cat", "--image", "127.0.0.1:1/catalog:latest"], more].concat())
    };
    insta::assert_snapshot!(apply(&["--poll", "10m", "--display-name", "My Catalog", "--publisher", "Me"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    catalog [NAMESPACE]/cat applied
    "#);
    let created = kit.get(ResourceKind::CATALOG_SOURCE, "cat").await;
    let spec = json!({
        "sourceType": "grpc", "image": "127.0.0.1:1/catalog:latest", "displayName": "My Catalog", "publisher": "Me",
        "updateStrategy": {"registryPoll": {"interval": "10m"}},
    });
    assert_eq!(created.data["spec"], spec);
    // Fields of others stay; fields that are no longer requested are removed.
    let patch = Patch::Merge(json!({"spec": {"description": "by another"}}));
    let catalogs = kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
    catalogs.patch("cat", &PatchParams::default(), &patch).await.unwrap();
    assert!(apply(&["--display-name", "Renamed"]).starts_with("exit 0"));
    let changed = kit.get(ResourceKind::CATALOG_SOURCE, "cat").await;
    assert_eq!(
        changed.data["spec"],
        json!({
            "sourceType": "grpc", "image": "127.0.0.1:1/catalog:latest", "displayName": "Renamed", "description": "by another",
        })
    );
    // A field that another manager has changed is not taken over without `--force-conflicts`.
    let patch = Patch::Merge(json!({"spec": {"displayName": "Theirs"}}));
    catalogs.patch("cat", &PatchParams::default(), &patch).await.unwrap();
    insta::assert_snapshot!(apply(&["--display-name", "Ours"]), @r#"
    exit 1
    --- stdout
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    error: CatalogSource [NAMESPACE]/cat: Apply failed with 1 conflict: conflict with "unknown" using operators.coreos.com/v1alpha1: .spec.displayName; --force-conflicts takes over what others have set
    "#);
    assert!(apply(&["--display-name", "Ours", "--force-conflicts"]).starts_with("exit 0"));
    assert_eq!(kit.get(ResourceKind::CATALOG_SOURCE, "cat").await.data["spec"]["displayName"], "Ours");
    // The width of columns depends on the name of the namespace.
    let listed = kit.opm(&["catalog", "list"]);
    kit.report("catalog-list", &["catalog", "list"]);
    kit.report("catalog-list", &["catalog", "list", "--olm", "v0"]);
    // Catalogs of OLM v1 are cluster-scoped, and other tests have some.
    let listed: String =
        listed.lines().filter(|line| !line.starts_with("ClusterCatalog")).collect::<Vec<_>>().join("\n");
    let words: Vec<&str> = listed.split_whitespace().skip(4).collect();
    let headings = ["KIND", "NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY", "NAME"];
    let row = ["CatalogSource", "[NAMESPACE]", "cat", "unknown", "127.0.0.1:1/catalog:latest", "Ours", "---", "stderr"];
    assert_eq!(words, [&headings[..], &row].concat());
    insta::assert_snapshot!(kit.opm(&["catalog", "delete", "cat"]), @r#"
    exit 0
    --- stdout
    --- stderr
    catalog [NAMESPACE]/cat deleted
    "#);
    insta::assert_snapshot!(kit.opm(&["catalog", "delete", "cat"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: CatalogSource [NAMESPACE]/cat: catalogsources.operators.coreos.com "cat" not found
    "#);
    assert!(kit.opm(&["catalog", "delete", "cat", "--ignore-not-found"]).starts_with("exit 0"));
}

/// Creates a pod like the controller that serves the catalog.
async fn pod(kit: &Kit, name: &str, status: serde_json::Value) {
    let labels = json!({"olm.catalogSource": "cat", "olm.managed": "true"});
    let spec = json!({"containers": [{"name": "registry-server", "image": "127.0.0.1:1/catalog:latest"}]});
    kit.create(ResourceKind::POD, json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await;
    kit.set_status(ResourceKind::POD, name, status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_when_the_catalog_serves_or_with_the_reason_why_it_does_not() {
    let kit = Kit::new().await;
    let wait = |name: &str, timeout: &str| {
        let apply = ["catalog", "apply", name, "--image", "127.0.0.1:1/catalog:latest", "--wait", "--timeout", timeout];
        kit.command(&apply).stderr(Stdio::piped()).spawn().unwrap()
    };
    let shown = |output| kit.env.show(output).replace(&kit.cluster.namespace, "[NAMESPACE]");
    let pulling = json!({"reason": "ImagePullBackOff", "message": "manifest unknown"});
    let container = json!({"name": "registry-server", "image": "127.0.0.1:1/catalog:latest", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": pulling}});
    pod(&kit, "cat-1", json!({"phase": "Pending", "containerStatuses": [container]})).await;
    // Long enough for a slow machine to read the state once.
    let (alone, failing) = (wait("alone", "15s"), wait("cat", "15s"));
    insta::assert_snapshot!(shown(alone.wait_with_output().unwrap()), @r#"
    exit 3
    --- stdout
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    catalog [NAMESPACE]/alone applied
    error: catalog alone does not answer after 15s: nobody has started a pod for it: no controller of catalogs runs
    "#);
    insta::assert_snapshot!(shown(failing.wait_with_output().unwrap()), @r#"
    exit 3
    --- stdout
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    catalog [NAMESPACE]/cat applied
    error: catalog cat does not answer after 15s: pod cat-1: container registry-server: image 127.0.0.1:1/catalog:latest cannot be pulled (ImagePullBackOff): manifest unknown
    "#);
    insta::assert_snapshot!(kit.opm(&["catalog", "status", "cat"]), @r#"
    exit 0
    --- stdout
    Name          [NAMESPACE]/cat
    State         unknown
    Address       unknown
    Image         127.0.0.1:1/catalog:latest
    Image in use  unknown
    Poll          off
    Last poll     never

    POD    ROLE     STATE
    cat-1  serving  container registry-server: image 127.0.0.1:1/catalog:latest cannot be pulled (ImagePullBackOff): manifest unknown
    --- stderr
    "#);
    let mut waiting = wait("cat", "5m");
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    let applied: Vec<String> = lines.by_ref().take(2).collect();
    let namespace = &kit.cluster.namespace;
    assert_eq!(applied[1], format!("catalog {namespace}/cat applied"));
    let container = json!({"name": "registry-server", "image": "127.0.0.1:1/catalog:latest", "ready": true, "restartCount": 0,
        "imageID": "docker-pullable://r.test/catalog@sha256:0123"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    kit.set_status(
        ResourceKind::POD,
        "cat-1",
        json!({"phase": "Running", "conditions": ready, "containerStatuses": [container]}),
    )
    .await;
    let connection = json!({"address": "cat.ns.svc:50051", "lastObservedState": "READY"});
    let status = json!({"connectionState": connection, "latestImageRegistryPoll": "2026-01-02T03:04:05Z"});
    kit.set_status(ResourceKind::CATALOG_SOURCE, "cat", status).await;
    let served = format!("catalog {namespace}/cat is served from r.test/catalog@sha256:0123");
    assert_eq!(lines.collect::<Vec<_>>(), [served]);
    assert!(waiting.wait().unwrap().success());
    insta::assert_snapshot!(kit.opm(&["catalog", "status", "cat"]), @r#"
    exit 0
    --- stdout
    Name          [NAMESPACE]/cat
    State         READY
    Address       cat.ns.svc:50051
    Image         127.0.0.1:1/catalog:latest
    Image in use  r.test/catalog@sha256:0123
    Poll          off
    Last poll     2026-01-02T03:04:05Z

    POD    ROLE     STATE
    cat-1  serving  ready
    --- stderr
    "#);
    kit.report("catalog-status", &["catalog", "status", "cat"]);
    insta::assert_snapshot!(kit.opm(&["catalog", "status", "cat", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "name": "cat",
      "namespace": "[NAMESPACE]",
      "sourceType": "grpc",
      "priority": 0,
      "state": "READY",
      "address": "cat.ns.svc:50051",
      "image": "127.0.0.1:1/catalog:latest",
      "imageInUse": "r.test/catalog@sha256:0123",
      "lastPoll": "2026-01-02T03:04:05Z",
      "pods": [
        {
          "name": "cat-1",
          "role": "serving",
          "ready": true,
          "imageId": "r.test/catalog@sha256:0123"
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(kit.opm(&["catalog", "status", "other"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: CatalogSource [NAMESPACE]/other: catalogsources.operators.coreos.com "other" not found
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_can_be_interrupted() {
    let kit = Kit::new().await;
    let mut command = kit.command(&["catalog", "apply", "cat", "--image", "127.0.0.1:1/catalog:latest", "--wait"]);
    let waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while kit.cluster.get(ResourceKind::CATALOG_SOURCE, "cat").await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pid = waiting.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let shown = kit.env.show(waiting.wait_with_output().unwrap()).replace(&kit.cluster.namespace, "[NAMESPACE]");
    insta::assert_snapshot!(shown, @r#"
    exit 130
    --- stdout
    --- stderr
    warning: cannot check whether the image has a program: initializing source docker://127.0.0.1:1/catalog:latest: pinging container registry 127.0.0.1:1: Get "https://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: Connection refused (os error 111); if it has none, add --extract-content
    catalog [NAMESPACE]/cat applied
    error: interrupted: the catalog may already have changed; check 'opm catalog status'
    "#);
}
