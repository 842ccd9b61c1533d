//! Copies between registries, layouts and archives.

use std::fs;
use std::time::{Duration, Instant};

use image::{
    CopyPlan, Descriptor, Digest, ErrorKind, ImageIndex, ImageManifest, Location, Reference, Store, media_type,
};
use serde_json::json;
use testkit::{DockerRegistry, FakeRegistry, FakeResponse, RegistryPlan, ResponseFault};

use crate::kit::{Kit, image, noise, tar};

fn location(text: &str) -> Location {
    Location::parse(text).unwrap()
}

fn size(store: &Store, digest: &Digest) -> u64 {
    fs::metadata(store.path_of(digest)).unwrap().len()
}

/// Stores an index with images for two platforms.
fn index(store: &Store) -> Digest {
    let manifests = ["linux/amd64", "linux/s390x"].map(|platform| {
        let digest = image(store, &[&tar("shared", &noise(5, 50_000)), &tar("platform", platform.as_bytes())]);
        Descriptor {
            platform: platform.parse().ok(),
            ..Descriptor::new(media_type::OCI_MANIFEST, digest, size(store, &digest))
        }
    });
    let index = ImageIndex {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: manifests.to_vec(),
        annotations: Default::default(),
        other: Default::default(),
    };
    store.put(&serde_json::to_vec(&index).unwrap()).unwrap()
}

/// Stores a manifest that refers to an image, as a signature does.
fn referrer(store: &Store, subject: &Digest, content: &[u8]) -> Digest {
    store.put(b"{}").unwrap();
    store.put(content).unwrap();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "artifactType": "application/x.test",
        "config": Descriptor::of("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": [Descriptor::of("text/plain", content)],
        "subject": Descriptor::new(media_type::OCI_INDEX, *subject, size(store, subject)),
    });
    store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap()
}

/// Pushes an index with all kinds of signatures to a registry.
fn push_signed_index(registry: &DockerRegistry, repository: &str) -> (Digest, Digest, Digest) {
    let kit = Kit::plain();
    let host = registry.host();
    let digest = index(kit.store());
    kit.client.push(&digest, &location(&format!("{host}/{repository}:v1"))).unwrap();
    // Registries without the referrers API use a tag instead.
    let listed = referrer(kit.store(), &digest, b"listed");
    kit.client.push(&listed, &location(&format!("{host}/{repository}@{listed}"))).unwrap();
    let list = ImageIndex {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: vec![Descriptor::new(media_type::OCI_MANIFEST, listed, size(kit.store(), &listed))],
        annotations: Default::default(),
        other: Default::default(),
    };
    let list = kit.store().put(&serde_json::to_vec(&list).unwrap()).unwrap();
    kit.client.push(&list, &location(&format!("{host}/{repository}:sha256-{}", digest.hex()))).unwrap();
    // cosign attaches signatures by tag.
    let signature = image(kit.store(), &[b"signature"]);
    kit.client.push(&signature, &location(&format!("{host}/{repository}:sha256-{}.sig", digest.hex()))).unwrap();
    (digest, listed, signature)
}

fn head(kit: &Kit, reference: &str) -> Option<Digest> {
    kit.client.head(&Reference::parse(reference).unwrap()).ok()
}

#[test]
fn an_image_is_copied_between_registries_with_its_signatures() {
    let (Some(first), Some(second)) =
        (DockerRegistry::start(RegistryPlan::default()), DockerRegistry::start(RegistryPlan::default()))
    else {
        return;
    };
    let (digest, listed, signature) = push_signed_index(&first, "a/b");
    let (from, to) = (format!("{}/a/b:v1", first.host()), format!("{}/c:v2", second.host()));
    let kit = Kit::plain();
    let copied = kit.client.copy(&location(&from), &location(&to), CopyPlan::default()).unwrap();
    assert_eq!((copied.digest, copied.documents, copied.referrers, copied.left_out), (digest, 3, 2, 0));
    let name = format!("{}/c", second.host());
    let other = Kit::plain();
    assert_eq!(head(&other, &to), Some(digest));
    assert_eq!(head(&other, &format!("{name}:sha256-{}.sig", digest.hex())), Some(signature));
    other.pull(&format!("{name}@{listed}")).unwrap();
    let list = other.client.head(&Reference::parse(&format!("{name}:sha256-{}", digest.hex())).unwrap());
    assert!(list.is_ok(), "the copy lists its referrers");
    // A second copy has nothing to send.
    let second_copy = Kit::plain().client.copy(&location(&from), &location(&to), CopyPlan::default()).unwrap();
    assert_eq!((second_copy.sent, second_copy.bytes), (0, 0));
    // A copy within a registry sends nothing either.
    let inside = format!("{}/elsewhere:v1", first.host());
    let within = Kit::plain().client.copy(&location(&from), &location(&inside), CopyPlan::default()).unwrap();
    assert_eq!((within.digest, within.sent), (digest, 0));
    assert_eq!(head(&other, &inside), Some(digest));
}

#[test]
fn an_image_is_the_same_in_all_formats() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let (digest, listed, _) = push_signed_index(&registry, "a/b");
    let kit = Kit::plain();
    let root = kit.path().display();
    let mut from = format!("{}/a/b:v1", registry.host());
    for to in [
        format!("oci:{root}/layout:v1"),
        format!("oci-archive:{root}/layout.tar:v1"),
        format!("oci:{root}/second:v1"),
        format!("{}/again:v1", registry.host()),
    ] {
        let copied = Kit::plain().client.copy(&location(&from), &location(&to), CopyPlan::default());
        let copied = copied.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
        assert_eq!((copied.digest, copied.documents, copied.referrers), (digest, 3, 2), "{to}");
        from = to;
    }
    Kit::plain().pull(&format!("{}/again@{listed}", registry.host())).unwrap();
    // A docker-archive has one image, and no room for referrers.
    let docker = format!("docker-archive:{root}/docker.tar:reg.test/a:v1");
    let copied = Kit::plain().client.copy(&location(&from), &location(&docker), CopyPlan::default()).unwrap();
    assert_eq!((copied.documents, copied.referrers), (1, 0));
    let plan = CopyPlan { one_platform: true, referrers: false };
    let one = Kit::new(|options| {
        options.use_http = true;
        options.platform = "linux/s390x".parse().ok();
    });
    let copied = one.client.copy(&location(&from), &location(&format!("oci:{root}/one:v1")), plan).unwrap();
    assert_ne!(copied.digest, digest);
    let content = fs::read(kit.path().join("one/index.json")).unwrap();
    let listed: ImageIndex = serde_json::from_slice(&content).unwrap();
    assert_eq!(listed.manifests.len(), 1);
}

#[test]
fn the_referrers_api_is_used_where_it_exists() {
    let store = Kit::new(|_| {});
    let subject = image(store.store(), &[b"layer"]);
    let requests = referrer(store.store(), &subject, b"made for it");
    let list = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_INDEX,
        "manifests": [Descriptor::new(media_type::OCI_MANIFEST, requests, size(store.store(), &requests))],
    });
    let empty = json!({"schemaVersion": 2, "mediaType": media_type::OCI_INDEX, "manifests": []}).to_string();
    let first = format!("/v2/a/referrers/{subject}");
    let source = FakeRegistry::start(move |request| {
        if request.path == first {
            let next = FakeResponse::status(200).header("Link", "</page2>; rel=\"next\"").body(empty.clone());
            return (ResponseFault::None, Some(next));
        }
        (ResponseFault::None, None)
    });
    source.put("/page2", media_type::OCI_INDEX, list.to_string().as_bytes());
    for (digest, version) in [(subject, "v1".to_owned()), (requests, requests.to_string())] {
        let content = fs::read(store.store().path_of(&digest)).unwrap();
        source.put(&format!("/v2/a/manifests/{version}"), media_type::OCI_MANIFEST, &content);
        let manifest: ImageManifest = serde_json::from_slice(&content).unwrap();
        for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
            let content = fs::read(store.store().path_of(&blob.digest)).unwrap();
            source.put(&format!("/v2/a/blobs/{}", blob.digest), "application/octet-stream", &content);
        }
    }
    let kit = Kit::plain();
    let to = format!("oci:{}/layout:v1", kit.path().display());
    let copied =
        kit.client.copy(&location(&format!("{}/a:v1", source.host())), &location(&to), CopyPlan::default()).unwrap();
    assert_eq!(copied.referrers, 1);
}

/// Writes a layout whose indexes refer to each other repeatedly, and returns its location.
fn nested(dir: &std::path::Path, store: &Store, image: &Digest, repeats: usize, depth: usize) -> Location {
    let mut top = *image;
    let mut media = media_type::OCI_MANIFEST;
    for _ in 0..depth {
        let entry = format!(r#"{{"mediaType":"{media}","digest":"{top}","size":{}}}"#, size(store, &top));
        let index = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, vec![entry; repeats].join(","));
        top = store.put(index.as_bytes()).unwrap();
        media = media_type::OCI_INDEX;
    }
    let list = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{media}","digest":"{top}","size":{},
            "annotations":{{"org.opencontainers.image.ref.name":"v1"}}}}]}}"#,
        size(store, &top)
    );
    fs::write(store.root().join("index.json"), list).unwrap();
    Location::parse(&format!("oci:{}:v1", dir.display())).unwrap()
}

#[test]
fn an_index_that_repeats_a_manifest_is_followed_once() {
    let source = Kit::plain();
    let digest = image(source.store(), &[&tar("one", b"first")]);
    let from = nested(source.store().root(), source.store(), &digest, 2000, 3);
    let to = source.path().join("copy");
    let start = Instant::now();
    let copied = Kit::plain().client.copy(
        &from,
        &Location::parse(&format!("oci:{}", to.display())).unwrap(),
        CopyPlan::default(),
    );
    assert_eq!(copied.unwrap().documents, 4);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // One more level exceeds the limit.
    let from = nested(source.store().root(), source.store(), &digest, 2000, 4);
    let error = Kit::plain().client.copy(
        &from,
        &Location::parse(&format!("oci:{}", to.display())).unwrap(),
        CopyPlan::default(),
    );
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn an_index_of_a_registry_is_followed_once_too() {
    let source = Kit::plain();
    let digest = image(source.store(), &[&tar("one", b"first")]);
    nested(source.store().root(), source.store(), &digest, 500, 3);
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None));
    for entry in fs::read_dir(source.store().root().join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let content = fs::read(entry.path()).unwrap();
        let digest = Digest::of(&content);
        registry.put(&format!("/v2/a/manifests/{digest}"), "application/json", &content);
        registry.put(&format!("/v2/a/blobs/{digest}"), "application/octet-stream", &content);
    }
    let list: ImageIndex =
        serde_json::from_slice(&fs::read(source.store().root().join("index.json")).unwrap()).unwrap();
    let from = Location::parse(&format!("{}/a@{}", registry.host(), list.manifests[0].digest)).unwrap();
    let to = Location::parse(&format!("oci:{}", source.path().join("copy").display())).unwrap();
    let copied = Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
    assert_eq!(copied.documents, 4);
    let request = registry.log().iter().filter(|request| request.path.contains("/manifests/sha256:")).count();
    assert_eq!(request, 4);
}

#[test]
fn limits_apply_to_the_whole_image() {
    let source = Kit::plain();
    let layers: Vec<Vec<u8>> = (0..4).map(|seed| tar("file", &noise(seed, 1000))).collect();
    let digest = image(source.store(), &layers.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let from = nested(source.store().root(), source.store(), &digest, 1, 1);
    let to = Location::parse(&format!("oci:{}", source.path().join("copy").display())).unwrap();
    for (variable, value) in [
        ("OPM_MAX_IMAGE_SIZE", "5000"),
        ("OPM_MAX_IMAGE_LAYERS", "3"),
        ("OPM_MAX_LAYER_SIZE", "1000"),
        ("OPM_MAX_MANIFESTS", "1"),
        ("OPM_MAX_INDEX_DEPTH", "0"),
    ] {
        let error = Kit::with(&[(variable, value)], |_| {}).client.copy(&from, &to, CopyPlan::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{variable}: {error}");
        assert!(!source.path().join("copy").exists(), "{variable}");
    }
    Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
}
