//! Large catalogs in ConfigMaps.

use cluster::ResourceKind;
use cluster::run::partition::{CatalogDocument, LIMIT, Language, partition};
use kube::api::PostParams;
use serde_json::{Value, json};

use super::stage::{CONFIGS, Stage, create};

/// Returns text that compresses to three quarters at best.
fn noise(length: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize])
    };
    (0..length).map(|_| next()).collect()
}

fn custom(length: usize, seed: u64) -> String {
    format!("{{\"schema\":\"example.com/noise\",\"name\":\"n{seed}\",\"noise\":\"{}\"}}\n", noise(length, seed))
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_megabytes_are_transferred_completely() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    // 30 MB when compressed, in blobs of nearly the maximum size.
    let content: String = (0..60).map(|seed| custom(250_000 + (seed as usize % 4) * 350_000, seed)).collect();
    let index = stage.push("index:v1", &[("/configs/c.json", content.as_bytes())], &[(CONFIGS, "/configs")]);
    let _emulation = stage.emulate(&["1.0.0"]);
    let shown = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let maps = stage.list(ResourceKind::CONFIG_MAP).await;
    let size = |map: &Value| fbc::base64::decode(map["binaryData"]["extraFBC"].as_str().unwrap_or("")).unwrap().len();
    assert!(maps.iter().map(size).sum::<usize>() > 30_000_000);
    assert!(maps.iter().all(|map| size(map) <= LIMIT));
    let catalog = stage.catalog().await;
    // The first part has the new blobs. A line break separates objects, which parts do not need.
    let carried = [&catalog[1..].join(&b'\n')[..], b"\n"].concat();
    assert!(carried == content.as_bytes(), "{} and {} bytes", carried.len(), content.len());
    let pod = &stage.list(ResourceKind::POD).await[0];
    assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), catalog.len() * 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_computes_sizes_like_opm() {
    let stage = Stage::new().await;
    let maps = stage.kit.cluster.objects(ResourceKind::CONFIG_MAP);
    let text =
        |length| CatalogDocument { name: "x".into(), language: Language::Json, text: noise(length, 7).into_bytes() };
    // The largest document that fits.
    let (mut fits, mut unfit) = (1_000_000, 2_000_000);
    while unfit - fits > 1 {
        let middle = (fits + unfit) / 2;
        match partition(&[text(middle)]) {
            Ok(_) => fits = middle,
            Err(_) => unfit = middle,
        }
    }
    let part = partition(&[text(fits)]).unwrap().remove(0);
    assert!(part.len() > LIMIT - 8 && part.len() <= LIMIT, "{}", part.len());
    for (name, length, accepted) in [("full", LIMIT, true), ("over", LIMIT + 1, false)] {
        let mut content = part.clone();
        content.resize(length, 0);
        let map = cluster::run::objects::config_map(&stage.kit.cluster.namespace, name, &content);
        let created = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await;
        assert_eq!(created.is_ok(), accepted, "{name}: {created:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_blob_is_rejected_before_anything_is_created() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let content = custom(1_500_000, 1);
    let index = stage.push("index:v1", &[("/configs/c.json", content.as_bytes())], &[(CONFIGS, "/configs")]);
    let shown = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(shown.contains("example.com/noise \"n1\" is too large: 1500053 bytes, 11"), "{shown}");
    assert!(shown.contains("nothing was created\n  help: use --registry REF to push the catalog instead"), "{shown}");
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_an_earlier_run_are_replaced_or_removed() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    for number in [1, 2, 17] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("foo-catalog-configmap-partition-{number}"), "annotations": {"mine": "yes"},
                "labels": {"opm.run/id": "0123456789abcdef"}},
            "data": {"old": "content"}});
        create(&stage.kit.cluster, ResourceKind::CONFIG_MAP, &map).await;
    }
    // These have no owner mark.
    for name in ["foo-catalog-configmap-partition-18", "foo-catalog-configmap-partition-x"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        create(&stage.kit.cluster, ResourceKind::CONFIG_MAP, &map).await;
    }
    let emulation = stage.emulate(&["1.0.0"]);
    let shown = stage.opm(&["run", "bundle", &bundle]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let maps = stage.list(ResourceKind::CONFIG_MAP).await;
    let names: Vec<&str> = maps.iter().map(|map| map["metadata"]["name"].as_str().unwrap()).collect();
    let expected = [
        "foo-catalog-configmap-partition-1",
        "foo-catalog-configmap-partition-18",
        "foo-catalog-configmap-partition-x",
    ];
    assert_eq!(names, expected);
    assert_eq!(maps[0].get("data"), None);
    assert_eq!(maps[0]["metadata"]["annotations"], json!({"mine": "yes"}));
    assert_eq!(maps[0]["metadata"]["ownerReferences"][0]["name"], "foo-catalog");
    drop(emulation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_restores_objects_of_an_earlier_run() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    for number in [1, 2] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("foo-catalog-configmap-partition-{number}")}, "data": {"old": "content"}});
        create(&stage.kit.cluster, ResourceKind::CONFIG_MAP, &map).await;
    }
    let shown = stage.opm(&["run", "bundle", &bundle, "--timeout", "10s"]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    let maps = stage.list(ResourceKind::CONFIG_MAP).await;
    assert_eq!(maps.len(), 2, "{shown}");
    assert!(maps.iter().all(|map| map["data"] == json!({"old": "content"}) && map["binaryData"].is_null()), "{maps:?}");
}
