//! M-4: a real API server accepts the objects that `push` writes for clusters, with strict validation.

use serde_json::{Value, json};
use testkit::{OlmV1, mirror_set_crds};

use crate::mirror_kit::Kit;

/// Reads all objects from the files of a push.
fn objects(kit: &Kit, directory: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for name in crate::mirror_kit::names(&kit.path(directory)) {
        let path = kit.path(directory).join(&name);
        if !name.ends_with(".yaml") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for document in text.split("---\n").filter(|document| !document.trim().is_empty()) {
            let mut json = Vec::new();
            let limits = fbc::yaml::YamlLimits { depth: 64, nodes: 1 << 16, bytes: 1 << 22 };
            fbc::yaml::to_json(document.as_bytes(), &limits, &mut json).unwrap();
            found.push(serde_json::from_slice(&json).unwrap());
        }
    }
    found
}

fn plural(object: &Value) -> &'static str {
    match object["kind"].as_str().unwrap() {
        "ImageDigestMirrorSet" => "imagedigestmirrorsets",
        "ImageTagMirrorSet" => "imagetagmirrorsets",
        "CatalogSource" => "catalogsources",
        "ClusterCatalog" => "clustercatalogs",
        other => panic!("unexpected kind {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_real_api_server_accepts_objects_of_a_push_without_a_warning() {
    let Some(olm) = tokio::task::block_in_place(OlmV1::shared) else { return };
    let Some(kit) = tokio::task::block_in_place(Kit::new) else { return };
    let api = &olm.olm.api;
    for crd in mirror_set_crds() {
        api.define(&crd).await;
    }
    let namespace = api.namespace().await;
    tokio::task::block_in_place(|| kit.image("tools/shell_box:v1", &[b"a shell"]));
    let template = "kind: CatalogSource\nmetadata:\n  labels: {team: sea}\nspec:\n  displayName: Mirrored\n  priority: -50\n  \
        secrets: [pull]\n  grpcPodConfig:\n    securityContextConfig: restricted\n    extractContent: {cacheDir: /tmp/cache, \
        catalogDir: /configs}\n  updateStrategy: {registryPoll: {interval: 30m}}\n";
    std::fs::write(kit.path("cs.yaml"), template).unwrap();
    let host = kit.host.clone();
    let more = format!(
        "    targetCatalogSourceTemplate: cs.yaml\n  - catalog: {host}/ns/index:v1\n    targetTag: other\n    packages:\n    - \
         name: beta\n  additionalImages:\n  - name: {host}/tools/shell_box:v1\n    targetRepo: boxes/shell__box\n"
    );
    let file = kit.set_of("set.yaml", "v1", "    - name: alpha\n", &more);
    // Four ways to write them, all of which clusters must accept.
    let (to, deep) = (kit.to(), format!("{}/a/b-c/d_e", kit.closed.host()));
    let mut kinds = std::collections::BTreeSet::new();
    for (number, words) in [
        &["copy", file.as_str(), to.as_str()][..],
        &["copy", &file, &to, "--no-fallback", "--one-object-per-file"],
        &["copy", &file, &deep, "--max-nested-paths", "2"],
        &["copy", &file, &to, "--layout", "host"],
    ]
    .into_iter()
    .enumerate()
    {
        let directory = format!("objects-{number}");
        let words = [words, &["--resources", &directory]].concat();
        tokio::task::block_in_place(|| kit.mirror(&words));
        let mut found = objects(&kit, &directory);
        assert!(found.len() >= 7, "{found:?}");
        for object in &mut found {
            if object["kind"] == "CatalogSource" {
                // OpenShift always has this namespace; here every test has its own.
                assert_eq!(object["metadata"]["namespace"], "openshift-marketplace");
                object["metadata"]["namespace"] = namespace.as_str().into();
            }
            let trial = api.try_apply(plural(object), object).await;
            assert!(matches!(trial.status, 200 | 201) && trial.warnings.is_empty(), "{object}\n{trial:?}");
            // The API server drops no field.
            let stored: Value = serde_json::from_str(&trial.body).unwrap();
            for (field, value) in object["spec"].as_object().unwrap() {
                let missing = || format!("{field} of {object}\nbecame {stored}");
                match value {
                    Value::Object(fields) => {
                        assert!(fields.iter().all(|(name, _)| !stored["spec"][field][name].is_null()), "{}", missing());
                    }
                    value => assert_eq!(&stored["spec"][field], value, "{}", missing()),
                }
            }
            kinds.insert(plural(object));
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    // The server validates: unknown fields and invalid mirrors are rejected.
    let mut object = objects(&kit, "objects-0").into_iter().find(|it| it["kind"] == "ImageDigestMirrorSet").unwrap();
    object["spec"]["unknown"] = json!(1);
    let trial = api.try_apply("imagedigestmirrorsets", &object).await;
    assert!(trial.status >= 400 && trial.body.contains("unknown"), "{trial:?}");
    object["spec"].as_object_mut().unwrap().remove("unknown");
    object["spec"]["imageDigestMirrors"][0]["mirrors"] = json!(["https://mirror.test/x"]);
    assert_eq!(api.try_apply("imagedigestmirrorsets", &object).await.status, 422);
}
