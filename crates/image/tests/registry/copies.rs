//! Copies between places.

use std::fs;
use std::time::{Duration, Instant};

use image::{CopyPlan, Descriptor, Digest, ErrorKind, Index, Location, Manifest, Reference, Store, media_type};
use serde_json::json;
use testkit::{DockerRegistry, FakeRegistry, FakeResponse, Fault, RegistryPlan};

use crate::kit::{Kit, image, noise, tar};

fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

fn size(store: &Store, digest: &Digest) -> u64 {
    fs::metadata(store.path_of(digest)).unwrap().len()
}

/// An index with images for two platforms.
fn index(store: &Store) -> Digest {
    let manifests = ["linux/amd64", "linux/s390x"].map(|platform| {
        let digest = image(store, &[&tar("shared", &noise(5, 50_000)), &tar("platform", platform.as_bytes())]);
        Descriptor {
            platform: platform.parse().ok(),
            ..Descriptor::new(media_type::OCI_MANIFEST, digest, size(store, &digest))
        }
    });
    let index = Index {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: manifests.to_vec(),
        annotations: Default::default(),
        other: Default::default(),
    };
    store.put(&serde_json::to_vec(&index).unwrap()).unwrap()
}

/// Something that was made for an image: a signature, say.
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

/// Brings an index with all kinds of signatures to a registry.
fn furnish(registry: &DockerRegistry, repository: &str) -> (Digest, Digest, Digest) {
    let kit = Kit::plain();
    let host = registry.host();
    let digest = index(kit.store());
    kit.client.push(&digest, &at(&format!("{host}/{repository}:v1"))).unwrap();
    // By the tag that registries of that time have in place of an API.
    let listed = referrer(kit.store(), &digest, b"listed");
    kit.client.push(&listed, &at(&format!("{host}/{repository}@{listed}"))).unwrap();
    let list = Index {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: vec![Descriptor::new(media_type::OCI_MANIFEST, listed, size(kit.store(), &listed))],
        annotations: Default::default(),
        other: Default::default(),
    };
    let list = kit.store().put(&serde_json::to_vec(&list).unwrap()).unwrap();
    kit.client.push(&list, &at(&format!("{host}/{repository}:sha256-{}", digest.hex()))).unwrap();
    // As cosign does it.
    let signature = image(kit.store(), &[b"signature"]);
    kit.client.push(&signature, &at(&format!("{host}/{repository}:sha256-{}.sig", digest.hex()))).unwrap();
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
    let (digest, listed, signature) = furnish(&first, "a/b");
    let (from, to) = (format!("{}/a/b:v1", first.host()), format!("{}/c:v2", second.host()));
    let kit = Kit::plain();
    let copied = kit.client.copy(&at(&from), &at(&to), CopyPlan::default()).unwrap();
    assert_eq!((copied.digest, copied.documents, copied.referrers, copied.left_out), (digest, 3, 2, 0));
    let name = format!("{}/c", second.host());
    let other = Kit::plain();
    assert_eq!(head(&other, &to), Some(digest));
    assert_eq!(head(&other, &format!("{name}:sha256-{}.sig", digest.hex())), Some(signature));
    other.pull(&format!("{name}@{listed}")).unwrap();
    let list = other.client.head(&Reference::parse(&format!("{name}:sha256-{}", digest.hex())).unwrap());
    assert!(list.is_ok(), "it is listed for what it was made");
    // A second time there is nothing to do.
    let again = Kit::plain().client.copy(&at(&from), &at(&to), CopyPlan::default()).unwrap();
    assert_eq!((again.sent, again.bytes), (0, 0));
    // Inside a registry nothing is sent either.
    let inside = format!("{}/elsewhere:v1", first.host());
    let within = Kit::plain().client.copy(&at(&from), &at(&inside), CopyPlan::default()).unwrap();
    assert_eq!((within.digest, within.sent), (digest, 0));
    assert_eq!(head(&other, &inside), Some(digest));
}

#[test]
fn an_image_survives_all_forms() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let (digest, listed, _) = furnish(&registry, "a/b");
    let kit = Kit::plain();
    let root = kit.path().display();
    let mut from = format!("{}/a/b:v1", registry.host());
    for to in [
        format!("oci:{root}/layout:v1"),
        format!("oci-archive:{root}/layout.tar:v1"),
        format!("oci:{root}/second:v1"),
        format!("{}/again:v1", registry.host()),
    ] {
        let copied = Kit::plain().client.copy(&at(&from), &at(&to), CopyPlan::default());
        let copied = copied.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
        assert_eq!((copied.digest, copied.documents, copied.referrers), (digest, 3, 2), "{to}");
        from = to;
    }
    Kit::plain().pull(&format!("{}/again@{listed}", registry.host())).unwrap();
    // This form has one image, and no place for more.
    let docker = format!("docker-archive:{root}/docker.tar:reg.test/a:v1");
    let copied = Kit::plain().client.copy(&at(&from), &at(&docker), CopyPlan::default()).unwrap();
    assert_eq!((copied.documents, copied.referrers), (1, 0));
    let plan = CopyPlan { one_platform: true, referrers: false };
    let one = Kit::new(|options| {
        options.use_http = true;
        options.platform = "linux/s390x".parse().ok();
    });
    let copied = one.client.copy(&at(&from), &at(&format!("oci:{root}/one:v1")), plan).unwrap();
    assert_ne!(copied.digest, digest);
    let content = fs::read(kit.path().join("one/index.json")).unwrap();
    let listed: Index = serde_json::from_slice(&content).unwrap();
    assert_eq!(listed.manifests.len(), 1);
}

#[test]
fn a_registry_with_the_api_is_asked_by_it() {
    let store = Kit::new(|_| {});
    let subject = image(store.store(), &[b"layer"]);
    let made = referrer(store.store(), &subject, b"made for it");
    let list = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_INDEX,
        "manifests": [Descriptor::new(media_type::OCI_MANIFEST, made, size(store.store(), &made))],
    });
    let empty = json!({"schemaVersion": 2, "mediaType": media_type::OCI_INDEX, "manifests": []}).to_string();
    let first = format!("/v2/a/referrers/{subject}");
    let source = FakeRegistry::start(move |asked| {
        if asked.path == first {
            let next = FakeResponse::status(200).header("Link", "</page2>; rel=\"next\"").body(empty.clone());
            return (Fault::None, Some(next));
        }
        (Fault::None, None)
    });
    source.put("/page2", media_type::OCI_INDEX, list.to_string().as_bytes());
    for (digest, version) in [(subject, "v1".to_owned()), (made, made.to_string())] {
        let content = fs::read(store.store().path_of(&digest)).unwrap();
        source.put(&format!("/v2/a/manifests/{version}"), media_type::OCI_MANIFEST, &content);
        let manifest: Manifest = serde_json::from_slice(&content).unwrap();
        for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
            let content = fs::read(store.store().path_of(&blob.digest)).unwrap();
            source.put(&format!("/v2/a/blobs/{}", blob.digest), "application/octet-stream", &content);
        }
    }
    let kit = Kit::plain();
    let to = format!("oci:{}/layout:v1", kit.path().display());
    let copied = kit.client.copy(&at(&format!("{}/a:v1", source.host())), &at(&to), CopyPlan::default()).unwrap();
    assert_eq!(copied.referrers, 1);
}

/// Writes a layout whose indexes name each other again and again, and returns its place.
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
fn an_index_that_names_the_same_again_and_again_is_followed_once() {
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
    // One more level is too many.
    let from = nested(source.store().root(), source.store(), &digest, 2000, 4);
    let error = Kit::plain().client.copy(
        &from,
        &Location::parse(&format!("oci:{}", to.display())).unwrap(),
        CopyPlan::default(),
    );
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn the_same_holds_for_an_index_of_a_registry() {
    let source = Kit::plain();
    let digest = image(source.store(), &[&tar("one", b"first")]);
    nested(source.store().root(), source.store(), &digest, 500, 3);
    let registry = FakeRegistry::start(|_| (Fault::None, None));
    for entry in fs::read_dir(source.store().root().join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let content = fs::read(entry.path()).unwrap();
        let digest = Digest::of(&content);
        registry.put(&format!("/v2/a/manifests/{digest}"), "application/json", &content);
        registry.put(&format!("/v2/a/blobs/{digest}"), "application/octet-stream", &content);
    }
    let list: Index = serde_json::from_slice(&fs::read(source.store().root().join("index.json")).unwrap()).unwrap();
    let from = Location::parse(&format!("{}/a@{}", registry.host(), list.manifests[0].digest)).unwrap();
    let to = Location::parse(&format!("oci:{}", source.path().join("copy").display())).unwrap();
    let copied = Kit::plain().client.copy(&from, &to, CopyPlan::default()).unwrap();
    assert_eq!(copied.documents, 4);
    let asked = registry.log().iter().filter(|asked| asked.path.contains("/manifests/sha256:")).count();
    assert_eq!(asked, 4);
}

#[test]
fn an_image_is_bounded_as_a_whole() {
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
