//! Bundles are installed: every object as the API server receives it.

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::stage::{CONFIGS, DATABASE, KINDS, Stage, create, steps, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_installed_from_its_own_catalog() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    insta::assert_snapshot!("default_output", steps(&stage.opm(&["run", "bundle", &bundle])));
    insta::assert_snapshot!("default_objects", stage.objects(&KINDS[..6]).await);
    let catalog = stage.catalog().await;
    assert_eq!(catalog.len(), 1);
    insta::assert_snapshot!("default_catalog", stage.hide(&String::from_utf8_lossy(&catalog[0])));

    let again = stage.opm(&["run", "bundle", &bundle]);
    assert!(
        again.contains("already exists: 'opm cleanup foo -n [NAMESPACE]' removes the objects of an earlier run"),
        "{again}"
    );
    assert_eq!(stage.left().await.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_name_what_runs_installed_and_upgraded() {
    let stage = Stage::new().await;
    let (first, second) = (stage.bundle("1.0.0"), stage.bundle("1.1.0"));
    let _emulation = stage.emulate(&["1.0.0", "1.1.0"]);
    insta::assert_snapshot!(stage.report(&["run", "bundle", &first, "--install-mode", "OwnNamespace"]), @r#"
    {
      "olm": "v0",
      "package": "foo",
      "version": "1.0.0",
      "csv": "foo.v1.0.0",
      "namespace": "[NAMESPACE]",
      "installMode": "OwnNamespace",
      "catalog": "CatalogSource [NAMESPACE]/foo-catalog",
      "upgraded": false,
      "created": [
        "CatalogSource [NAMESPACE]/foo-catalog",
        "ConfigMap [NAMESPACE]/foo-catalog-configmap-partition-1",
        "Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-0-0",
        "OperatorGroup [NAMESPACE]/operator-sdk-og",
        "Subscription [NAMESPACE]/foo-v1-0-0-sub"
      ],
      "changed": [],
      "deleted": [],
      "createdByOlm": [
        "ClusterServiceVersion [NAMESPACE]/foo.v1.0.0",
        "CustomResourceDefinition foos.example.com"
      ]
    }
    "#);
    insta::assert_snapshot!(stage.report(&["run", "bundle-upgrade", &second]), @r#"
    {
      "olm": "v0",
      "package": "foo",
      "version": "1.1.0",
      "csv": "foo.v1.1.0",
      "namespace": "[NAMESPACE]",
      "catalog": "CatalogSource [NAMESPACE]/foo-catalog",
      "upgraded": true,
      "previous": "foo.v1.0.0",
      "created": [
        "Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-1-0"
      ],
      "changed": [
        "ConfigMap [NAMESPACE]/foo-catalog-configmap-partition-1",
        "CatalogSource [NAMESPACE]/foo-catalog"
      ],
      "deleted": [
        "Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-0-0"
      ],
      "createdByOlm": [
        "ClusterServiceVersion [NAMESPACE]/foo.v1.1.0"
      ]
    }
    "#);
    let both = stage.opm(&["run", "bundle", &first, "--dry-run", "-o", "json"]);
    assert!(both.contains("cannot be used with '--output <FORMAT>'"), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_runs_as_operator_sdk_too() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    let link = stage.kit.env.path("operator-sdk");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), &link).unwrap();
    let namespace = stage.kit.cluster.namespace.clone();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(&link);
        command.args(words).arg("--kubeconfig").arg(stage.kit.api.kubeconfig()).args(["-n", &namespace]);
        stage.shown(command.output().unwrap())
    };
    let printed = run(&["run", "bundle", &bundle, "--skip-tls", "--install-mode", "OwnNamespace"]);
    assert!(
        printed.starts_with("exit 0") && printed.contains("OLM has successfully installed \"foo.v1.0.0\""),
        "{printed}"
    );
    let group = stage.get(ResourceKind::OPERATOR_GROUP, "operator-sdk-og").await.unwrap();
    assert_eq!(group["spec"], json!({"targetNamespaces": [namespace]}));
    drop(_emulation);
    let printed = run(&["cleanup", "foo"]);
    assert!(printed.contains("Operator \"foo\" uninstalled"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_reach_the_pod() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&[
        "run",
        "bundle",
        &bundle,
        "--service-account",
        "me",
        "--pull-secret-name",
        "pull",
        "--image-pull-policy",
        "IfNotPresent",
        "--security-context-config",
        "restricted",
        "--run-as-user",
        "1001",
        "--decompression-image",
        "example.com/gzip:v1",
    ]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    insta::assert_snapshot!(stage.objects(&[ResourceKind::CATALOG_SOURCE, ResourceKind::POD]).await);
}

const INDEX_YAML: &str = "# A comment.\nschema: olm.package\nname: foo\ndefaultChannel: stable\nunknown: kept\n---\n\
    schema: olm.channel # another\npackage: foo\nname: stable\nentries:\n  - name: foo.v0.9.0\n    extra: 0x10\n---\n\
    schema: olm.deprecations\npackage: foo\nentries:\n- reference: {schema: olm.bundle, name: foo.v0.9.0}\n  message: |+\n    old\n\n";
const INDEX_JSON: &str = "{ \"schema\": \"olm.bundle\",\t\"package\": \"foo\", \"name\": \"foo.v0.9.0\", \"image\": \"example.com/foo:v0.9.0\",\n  \
    \"properties\": [{\"type\": \"olm.package\", \"value\": {\"packageName\": \"foo\", \"version\": \"0.9.0\"}}], \"x\": 1.10 }\n\
    {\"schema\": \"example.com/custom\", \"text\": \"\\ud83d\\ude00 \\/\", \"number\": 12345678901234567890123}";

#[tokio::test(flavor = "multi_thread")]
async fn an_index_keeps_every_blob_as_it_is_written() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let files = [("/configs/foo/a.yaml", INDEX_YAML.as_bytes()), ("/configs/foo/b.json", INDEX_JSON.as_bytes())];
    let index = stage.push("index:v1", &files, &[(CONFIGS, "/configs")]);
    let _emulation = stage.emulate(&["1.0.0"]);
    insta::assert_snapshot!("index_output", steps(&stage.opm(&["run", "bundle", &bundle, "--index-image", &index])));
    let catalog = stage.catalog().await;
    let texts: Vec<String> = catalog.iter().map(|part| String::from_utf8(part.clone()).unwrap()).collect();
    assert_eq!(texts.len(), 2, "YAML and JSON");
    for document in INDEX_YAML.split("---\n") {
        assert!(texts[0].contains(document), "{document}\n{}", texts[0]);
    }
    assert_eq!(texts[1], INDEX_JSON);
    assert_eq!(texts[0].matches("schema: olm.package\n").count(), 1, "{}", texts[0]);
    insta::assert_snapshot!("index_objects", stage.objects(&KINDS[..6]).await);
    let pod = &stage.list(ResourceKind::POD).await[0];
    // The index image contains data, and no program that could serve it.
    let image = stage.hide(pod["spec"]["containers"][0]["image"].as_str().unwrap());
    assert_eq!(image, "quay.io/operator-framework/opm@sha256:[DIGEST]");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_with_the_same_bundle_is_rejected() {
    let stage = Stage::new().await;
    let (bundle, other) = (stage.bundle("0.9.0"), stage.bundle("1.0.0"));
    let files = [("/configs/a.yaml", INDEX_YAML.as_bytes()), ("/configs/b.json", INDEX_JSON.as_bytes())];
    let index = stage.push("index:v1", &files, &[(CONFIGS, "/configs")]);
    let printed = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(
        printed.contains("error generating File-Based Catalog with bundle \"foo.v0.9.0\": error adding bundle image \"[REGISTRY]/foo-bundle:v0.9.0\" to index image \"[REGISTRY]/index:v1\": bundle \"foo.v0.9.0\" already exists in the index image: [REGISTRY]/index:v1"),
        "{printed}"
    );
    let channel = INDEX_YAML
        .replace("name: stable", "name: operator-sdk-run-bundle")
        .replace("nel: stable", "nel: operator-sdk-run-bundle");
    let files = [("/configs/a.yaml", channel.as_bytes()), ("/configs/b.json", INDEX_JSON.as_bytes())];
    let index = stage.push("index:v2", &files, &[(CONFIGS, "/configs")]);
    let printed = stage.opm(&["run", "bundle", &other, "--index-image", &index]);
    assert!(printed.contains("channel \"operator-sdk-run-bundle\" already exists in the index image"), "{printed}");
    let printed = stage.opm(&["run", "bundle", &other, "--index-image", &index, "--mode", "semver"]);
    assert!(printed.contains("specifying the bundle add mode is not supported for File-Based Catalog"), "{printed}");
    let broken = stage.push(
        "index:v3",
        &[("/configs/a.yaml", b"schema: olm.channel\npackage: bar\nname: x\nentries: [{name: a}]\n")],
        &[(CONFIGS, "/configs")],
    );
    let printed = stage.opm(&["run", "bundle", &other, "--index-image", &broken]);
    assert!(
        printed.contains("error validating and converting the declarative config object")
            && printed.contains("unknown package \"bar\""),
        "{printed}"
    );
    assert!(stage.left().await.is_empty());
}

/// Pushes an index image with a database that has version 0.9.0.
fn database_index(stage: &Stage) -> String {
    let old = stage.bundle("0.9.0");
    let env = &stage.kit.env;
    env.stdout(&["registry", "add", "-d", "index.db", "-b", &old, "--use-http"]);
    let content = std::fs::read(env.path("index.db")).unwrap();
    stage.push("database:v1", &[("/db/index.db", &content)], &[(DATABASE, "/db/index.db")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_index_gets_the_bundle_in_the_pod() {
    let stage = Stage::new().await;
    let (index, bundle) = (database_index(&stage), stage.bundle("1.0.0"));
    let _emulation = stage.emulate(&["1.0.0"]);
    insta::assert_snapshot!(
        "database_output",
        steps(&stage.opm(&[
            "run",
            "bundle",
            &bundle,
            "--index-image",
            &index,
            "--ca-secret-name",
            "ca",
            "--pull-secret-name",
            "pull"
        ]))
    );
    insta::assert_snapshot!("database_objects", stage.objects(&KINDS[..6]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_index_without_a_shell_is_refused_before_anything_is_created() {
    let stage = Stage::new().await;
    let (old, bundle) = (stage.bundle("0.9.0"), stage.bundle("1.0.0"));
    let index = format!("{}/scratch:v1", stage.registry.host());
    let add = ["index", "add", "-b", &old, "--container-tool", "none", "--binary-image", "scratch"];
    stage.kit.env.stdout(&[&add[..], &["-t", &index, "--push", "--use-http"]].concat());
    let refused = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(refused.starts_with("exit 1") && refused.contains("has no shell"), "{refused}");
    assert!(refused.contains("help: use --sqlite migrate"), "{refused}");
    assert!(stage.left().await.is_empty());
    let printed = stage.opm(&["run", "bundle", &bundle, "--index-image", &index, "--sqlite", "migrate", "--dry-run"]);
    assert!(printed.starts_with("exit 0"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_index_can_be_migrated_to_a_catalog() {
    let stage = Stage::new().await;
    let (index, bundle) = (database_index(&stage), stage.bundle("1.0.0"));
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&["run", "bundle", &bundle, "--index-image", &index, "--sqlite", "migrate"]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let catalog = String::from_utf8(stage.catalog().await.concat()).unwrap();
    let rendered = stage.kit.env.stdout(&["render", "index.db", "-o", "yaml"]);
    for document in rendered.split("---\n") {
        assert!(catalog.contains(document), "{document}\n{catalog}");
    }
    insta::assert_snapshot!("migrated_objects", stage.objects(&KINDS[..6]).await);
    let pod = &stage.list(ResourceKind::POD).await[0];
    let image = stage.hide(pod["spec"]["containers"][0]["image"].as_str().unwrap());
    assert_eq!(image, "quay.io/operator-framework/opm@sha256:[DIGEST]");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_serving_image_is_pinned_if_its_digest_is_available() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let printed = stage.opm(&["run", "bundle", &bundle, "--dry-run"]);
    let pinned = "quay.io/operator-framework/opm@sha256:[DIGEST]";
    assert!(printed.contains(&format!("image: {pinned}\n")), "{printed}");
    assert!(
        printed.contains(&format!(
            "quay.io/operator-framework/opm:latest resolves to {pinned}, which serves the catalog\n"
        )),
        "{printed}"
    );
    let printed = stage.opm(&["run", "bundle", &bundle, "--dry-run", "--pin=false"]);
    assert!(
        printed.contains("image: quay.io/operator-framework/opm:latest\n") && !printed.contains("serves the catalog"),
        "{printed}"
    );
    // An unreachable registry does not fail the run.
    let settings = "[[registry]]\nprefix = \"quay.io/operator-framework/opm\"\nlocation = \"127.0.0.1:1/opm\"\n";
    stage.kit.env.file("home/.config/containers/registries.conf", settings);
    let printed = stage.opm(&["run", "bundle", &bundle, "--dry-run"]);
    assert!(
        printed.starts_with("exit 0") && printed.contains("image: quay.io/operator-framework/opm:latest\n"),
        "{printed}"
    );
    assert!(
        printed.contains("warning: cannot pin quay.io/operator-framework/opm:latest; the cluster serves the catalog with the version it pulls: "),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_can_be_pushed_to_a_registry_instead() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let base = stage.push("base:v1", &[("/etc/base", b"x")], &[]);
    let catalog = format!("{}/catalog:v1", stage.registry.host());
    // The program under test needs libraries. The advice names flags of this command.
    let refused = stage.opm(&["run", "bundle", &bundle, "--registry", &catalog]);
    assert!(refused.starts_with("exit 1") && refused.contains("is dynamically linked"), "{refused}");
    assert!(refused.contains("--registry-base REF") && !refused.contains("--data-only"), "{refused}");
    let _emulation = stage.emulate(&["1.0.0"]);
    let printed = stage.opm(&[
        "run",
        "bundle",
        &bundle,
        "--registry",
        &catalog,
        "--registry-base",
        &base,
        "--pull-secret-name",
        "s",
    ]);
    assert!(printed.starts_with("exit 0"), "{printed}");
    assert!(stage.catalog().await.is_empty());
    let pod = &stage.list(ResourceKind::POD).await[0];
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
    assert!(image.contains("@sha256:"), "{image}");
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
    let rendered = stage.kit.env.stdout(&["render", image, "--use-http"]);
    assert!(rendered.contains("foo.v1.0.0"), "{rendered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_groups_determine_the_install_mode() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let group = |name: &str| {
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": name}, "spec": {"targetNamespaces": ["elsewhere"]}})
    };
    create(&stage.kit.cluster, ResourceKind::OPERATOR_GROUP, &group("mine")).await;
    let printed = stage.opm(&["run", "bundle", &bundle, "--install-mode", "OwnNamespace"]);
    assert!(
        printed.contains("existing operatorgroup \"mine\" is not compatible with install mode \"OwnNamespace\""),
        "{printed}"
    );
    create(&stage.kit.cluster, ResourceKind::OPERATOR_GROUP, &group("other")).await;
    let printed = stage.opm(&["run", "bundle", &bundle]);
    assert!(printed.contains("more than one operator group in namespace [NAMESPACE]: [mine other]"), "{printed}");
    let printed = stage.opm(&["run", "bundle", &bundle, "--install-mode", "MultiNamespace=a"]);
    assert!(printed.contains("install mode type \"MultiNamespace\" not supported in CSV \"foo.v1.0.0\""), "{printed}");
    assert_eq!(stage.left().await, ["OperatorGroup mine", "OperatorGroup other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_objects_are_handled() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    let running = super::stage::Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    let source = until(|| stage.get(ResourceKind::CATALOG_SOURCE, "foo-catalog")).await;
    assert!(source["metadata"]["uid"].is_string());
    // Another client changes each object between read and update, until the run ends.
    let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
    for round in 0..200 {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"round": round.to_string()}}}));
        let _ = sources.patch("foo-catalog", &PatchParams::default(), &patch).await;
        if stage.list(ResourceKind::CSV).await.iter().any(|csv| csv["status"]["phase"] == "Succeeded") {
            break;
        }
    }
    let printed = stage.shown(running.end());
    assert!(printed.starts_with("exit 0"), "{printed}");
    let source = stage.get(ResourceKind::CATALOG_SOURCE, "foo-catalog").await.unwrap();
    assert_eq!(source["spec"]["address"], "10.0.0.9:50051");
    assert!(source["metadata"]["annotations"]["round"].is_string());
}

#[test]
fn values_of_flags_are_checked() {
    let env = crate::env::TestEnv::new();
    let printed = env.opm(&["run", "bundle", "--help"]);
    assert!(printed.contains("--index-image") && printed.contains("InstallModeValue"), "{printed}");
    let printed = env.opm(&["run", "bundle", "example.com/x:v1", "--security-context-config", "none"]);
    assert!(printed.contains("[possible values: legacy, restricted]"), "{printed}");
    let digest = format!("r.test/a@sha256:{}", "0".repeat(64));
    for command in ["bundle", "bundle-upgrade"] {
        let printed = env.opm(&["run", command, "example.com/x:v1", "--dry-run", "--registry", &digest]);
        let expected = "--registry cannot contain a digest before the image is built: use REPOSITORY:TAG";
        assert!(printed.starts_with("exit 1") && printed.contains(expected), "{printed}");
    }
    let printed = env.opm(&["run", "bundle", "example.com/x:v1", "--mode", "none", "--dry-run"]);
    assert!(
        printed.contains("bundle add mode \"none\" does not exist, must be one of: [\"semver\" \"replaces\"]"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_creates_nothing() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let printed = stage.kit.env.stdout(&["run", "bundle", &bundle, "--use-http", "--dry-run", "-n", "ns"]);
    let kinds: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["CatalogSource", "ConfigMap", "Pod", "OperatorGroup", "Subscription"]);
    assert!(stage.left().await.is_empty());
}
