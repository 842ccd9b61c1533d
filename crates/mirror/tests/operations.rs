//! A set through all operations, without a process: planned, pulled, packed, pushed, verified, pruned.

use std::path::Path;
use std::sync::Arc;

use fbc::fault::Fault;
use image::{
    CatalogImages, Client, ClientOptions, ConfigFile, Descriptor, Environment, ImageManifest, Location, Platform,
    Programs, Store, media_type,
};
use mirror::destination::{MirrorDestination, PathLayout};
use mirror::known_blobs::KnownBlobs;
use mirror::prune::find_unneeded;
use mirror::pull::{PullOptions, VolumePlan, pull};
use mirror::push::{MirrorSet, PushOptions, SetPlace, push};
use mirror::report::{MissingImage, OnMissing};
use mirror::request::{MirrorRequest, MirrorRequestError, SelectionOptions};
use mirror::session::{MirrorProgress, MirrorSession};
use mirror::set::SetDir;
use mirror::verify::{verify_registry, verify_set};
use source::{Images, NoProgress, PullSettings, RunningStage};
use testkit::{DockerRegistry, RegistryPlan};

/// Hears nothing.
struct Deaf;

impl MirrorProgress for Deaf {
    fn note(&self, _: &str) {}

    fn warn(&self, _: &str) {}

    fn missing(&self, _: &[MissingImage]) {}

    fn transfer(&self, _: &'static str, _: u64) -> Box<dyn RunningStage> {
        Box::new(NoProgress)
    }
}

/// A set without catalogs builds no images.
struct NoCatalogs;

impl CatalogImages for NoCatalogs {
    fn build(&self, directory: &Path, _: &Store, _: &Programs) -> Result<Descriptor, Box<dyn Fault>> {
        panic!("{}: unexpected catalog", directory.display())
    }
}

/// Moves images between the registries of a test.
fn images(root: &Path, store: Store) -> Images {
    let settings = PullSettings { use_http: true, ..PullSettings::new(Environment::isolated(root, &[])) };
    Images::in_store(settings, Arc::new(NoProgress), store, |_| {}).unwrap()
}

/// Pushes an image with one layer.
fn publish(root: &Path, name: &str) {
    let mut options = ClientOptions::new(Store::open(&root.join("published")).unwrap());
    options.use_http = true;
    options.environment = Environment::isolated(root, &[]);
    let client = Client::new(options).unwrap();
    let store = &client.options().store;
    let Platform { os, architecture, .. } = Platform::host();
    let config = serde_json::to_vec(&ConfigFile { os, architecture, ..ConfigFile::default() }).unwrap();
    for blob in [&config[..], name.as_bytes()] {
        store.put(blob).unwrap();
    }
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_MANIFEST.into()),
        config: Descriptor::of(media_type::OCI_CONFIG, &config),
        layers: vec![Descriptor::of(media_type::OCI_LAYER, name.as_bytes())],
        annotations: Default::default(),
        other: Default::default(),
    };
    let digest = store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap();
    client.push(&digest, &Location::parse(name).unwrap()).unwrap();
}

fn options() -> SelectionOptions {
    SelectionOptions {
        missing: OnMissing::Fail,
        with_dependencies: false,
        choose_default: false,
        ignore_unknown: false,
        bridge: false,
        layout: PathLayout::Path,
        base: "".into(),
        skip: Vec::new(),
        referrers: true,
        program: None,
        keep_original: false,
        binaries: Vec::new(),
        running: "/bin/opm".into(),
        takes_binary: true,
    }
}

fn set_of(images: &[String]) -> String {
    let items: String = images.iter().map(|image| format!("  - name: {image}\n")).collect();
    format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  additionalImages:\n{items}"
    )
}

#[test]
fn a_set_is_pulled_packed_pushed_verified_and_pruned() {
    let (plan_source, plan_closed) = (RegistryPlan::default(), RegistryPlan::default());
    let (Some(source), Some(closed)) = (DockerRegistry::start(plan_source), DockerRegistry::start(plan_closed)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, limits) = (dir.path(), fbc::Limits::default());
    let name = |name: &str| format!("{}/ns/{name}:v1", source.host());
    publish(root, &name("one"));
    let (selection, have) = (options(), KnownBlobs::read(&[]).unwrap());
    let volumes = VolumePlan { size: 1 << 20, directory: root.join("volumes"), drain: false };
    let set = SetDir::open(&root.join("set")).unwrap();
    let pull_set = |text: &str| {
        let images = images(root, set.store().unwrap());
        let session = MirrorSession::new(&images, &limits, &Deaf).unwrap();
        let how = PullOptions { selection: &selection, have: &have, volumes: Some(&volumes), enforce_policy: false };
        let request = MirrorRequest::parse(text.as_bytes(), &selection).unwrap();
        let (report, pulled) = pull(&set, request, text.as_bytes(), &how, &NoCatalogs, &session).unwrap();
        (report, pulled.map(|pulled| pulled.write_volumes(&set, &volumes, &have).unwrap()))
    };
    // What is missing is part of the report, and the lock is not written.
    let text = set_of(&[name("one"), name("two")]);
    let (report, packed) = pull_set(&text);
    assert!(report.lock.is_none() && packed.is_none() && set.lock().is_err());
    assert_eq!(report.missing.iter().map(|one| one.image.clone()).collect::<Vec<_>>(), [name("two")]);
    publish(root, &name("two"));
    let (report, packed) = pull_set(&text);
    let lock = set.lock().unwrap();
    assert_eq!((report.lock, report.images, report.missing), (Some(lock.digest().to_string()), 2, Vec::new()));
    // Another run gives the same volumes, from the lock.
    let (again, packed_again) = pull_set(&text);
    assert_eq!((again.blobs, packed_again), (report.blobs, packed));
    let target = MirrorDestination::parse(&format!("{}/m", closed.host()), None).unwrap();
    let place = SetPlace::open(&[root.join("volumes")]).unwrap();
    let near = images(root, place.store(&root.join("near")).unwrap());
    let session = MirrorSession::new(&near, &limits, &Deaf).unwrap();
    let there = MirrorSet::read(place, &session).unwrap();
    assert!(verify_set(&there, None, &session).unwrap().is_complete());
    let expected = lock.digest().to_string();
    let other = verify_set(&there, Some("sha256:0"), &session).unwrap_err();
    assert_eq!(other.to_string(), format!("the lock has digest {expected}, expected sha256:0"));
    let how = PushOptions { expected: Some(&expected), enforce_policy: false };
    let pushed = push(&there, &target, &how, &session).unwrap();
    assert!(pushed.complete && pushed.missing.is_empty());
    assert!(verify_registry(&lock, &target, None, true, &session).unwrap().is_complete());
    assert!(find_unneeded(&target, None, std::slice::from_ref(&lock), &session).unwrap().images().is_empty());
    let pruned = find_unneeded(&target, None, &[], &session).unwrap().prune(&target, true, &session);
    assert_eq!((pruned.images.len(), pruned.failed.len()), (2, 0));
    // Each image lacks its manifest and its tag.
    assert_eq!(verify_registry(&lock, &target, None, false, &session).unwrap().missing.len(), 4);
}

#[test]
fn a_file_is_a_lock_or_an_image_set() {
    let parse = |text: &str| MirrorRequest::parse(text.as_bytes(), &options());
    assert!(matches!(parse("{\"version\": 9}"), Err(MirrorRequestError::Lock(_))));
    assert!(matches!(parse(" { \"catalogs\": []"), Err(MirrorRequestError::Lock(_))));
    let json = "{\"kind\": \"ImageSetConfiguration\", \"mirror\": {}}";
    assert!(matches!(parse(json), Ok(MirrorRequest::Set(_))));
    let Err(MirrorRequestError::Set(problems)) = parse("kind: ImageSetConfiguration\nmirror:\n  helm: {a: [b]}\n")
    else {
        panic!("helm is not supported")
    };
    assert_eq!((problems[0].line, problems[0].message.as_str()), (3, "helm is not supported"));
    assert_eq!(problems[0].help.as_deref(), Some("--skip helm ignores it; mirror it with another tool"));
}
