//! A real registry, and other tools that use it.

use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use image::{Digest, ErrorKind, ImageIndex, Location, Reference, TransferEvent, TransferProgress, media_type};
use testkit::{DockerRegistry, RegistryPlan, installed};

use crate::kit::{Kit, content, image, noise, tar, write};

const CREDENTIALS: &str = "dXNlcjpzZWNyZXQ=";

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn push(kit: &Kit, digest: &Digest, to: &str) -> Result<(), image::Error> {
    kit.client.push(digest, &Location::parse(to).unwrap())
}

#[test]
fn a_pushed_image_is_pulled_by_opm_and_by_other_tools() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let host = registry.host();
    let kit = Kit::plain();
    let (one, two) = (tar("one", &noise(1, 300_000)), tar("two", b"second"));
    let digest = image(kit.store(), &[&one, &two]);
    push(&kit, &digest, &format!("{host}/a/b:v1")).unwrap();

    let other = Kit::plain();
    let pulled = other.pull(&format!("{host}/a/b:v1")).unwrap();
    assert_eq!(pulled.manifest_digest, digest);
    assert_eq!(pulled.labels().get("is").map(String::as_str), Some("a test"));
    let contents: Vec<Vec<u8>> = pulled.layers.iter().map(|(_, blob)| content(blob)).collect();
    assert_eq!(contents, [one, two]);
    let reference = Reference::parse(&format!("{host}/a/b:v1")).unwrap();
    assert_eq!(other.client.head(&reference).unwrap(), digest);
    assert_eq!(other.pull(&format!("{host}/a/b@{digest}")).unwrap().digest, digest);

    if installed("skopeo") {
        let name = format!("docker://{host}/a/b:v1");
        let about = run("skopeo", &["inspect", "--tls-verify=false", &name]);
        assert!(about.contains(&digest.to_string()), "{about}");
    }
}

/// Records how far the largest blob got.
#[derive(Default)]
struct Steps(Mutex<Vec<u64>>);

impl TransferProgress for Steps {
    fn on(&self, event: &TransferEvent<'_>) {
        if let TransferEvent::Advanced { blob, received } = event
            && blob.size > 1 << 20
        {
            self.0.lock().unwrap().push(*received);
        }
    }
}

#[test]
fn an_upload_advances_while_a_blob_is_sent() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let steps = Arc::new(Steps::default());
    let kit = Kit::new(|options| {
        options.use_http = true;
        options.progress = Arc::clone(&steps) as Arc<dyn TransferProgress>;
    });
    let digest = image(kit.store(), &[&tar("one", &noise(1, 2 << 20))]);
    push(&kit, &digest, &format!("{}/a/b:v1", registry.host())).unwrap();
    let steps = steps.0.lock().unwrap();
    assert!(steps.len() > 4 && steps.is_sorted(), "{steps:?}");
    assert!(steps.iter().all(|step| *step < 3 << 20), "{steps:?}");
}

#[test]
fn labels_are_read_without_the_layers() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let kit = Kit::plain();
    let layer = tar("one", &noise(1, 300_000));
    let digest = image(kit.store(), &[&layer]);
    let name = format!("{}/a/b:v1", registry.host());
    push(&kit, &digest, &name).unwrap();
    let other = Kit::plain();
    let labels = other.client.config(&Location::parse(&name).unwrap()).unwrap().labels();
    assert_eq!(labels.get("is").map(String::as_str), Some("a test"));
    assert!(other.store().blob(&Digest::of(&layer)).unwrap().is_none());
    let missing = Location::parse(&format!("{}/a/c:v1", registry.host())).unwrap();
    assert_eq!(other.client.config(&missing).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_index_is_pushed_completely_and_one_platform_is_pulled() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let host = registry.host();
    let kit = Kit::plain();
    let images = ["linux/amd64", "linux/s390x"].map(|platform| {
        let digest = image(kit.store(), &[&tar("platform", platform.as_bytes())]);
        let size = fs::metadata(kit.store().path_of(&digest)).unwrap().len();
        image::Descriptor {
            platform: platform.parse().ok(),
            ..image::Descriptor::new(media_type::OCI_MANIFEST, digest, size)
        }
    });
    let index = ImageIndex {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: images.to_vec(),
        annotations: Default::default(),
        other: Default::default(),
    };
    let digest = kit.store().put(&serde_json::to_vec(&index).unwrap()).unwrap();
    push(&kit, &digest, &format!("{host}/multi:v1")).unwrap();

    for (platform, expected) in [("linux/amd64", 0), ("linux/s390x", 1)] {
        let other = Kit::new(|options| {
            options.use_http = true;
            options.platform = platform.parse().ok();
        });
        let pulled = other.pull(&format!("{host}/multi:v1")).unwrap();
        assert_eq!((pulled.digest, pulled.manifest_digest), (digest, images[expected].digest));
        assert!(other.store().blob(&images[1 - expected].digest).unwrap().is_none(), "another platform was fetched");
    }
    let other = Kit::new(|options| {
        options.use_http = true;
        options.platform = "linux/mips".parse().ok();
    });
    let error = other.pull(&format!("{host}/multi:v1")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("no image found in manifest list for architecture \"mips\", variant \"\", OS \"linux\""),
        "{error}"
    );
    assert_eq!(error.help(), Some("it has images for linux/amd64, linux/s390x"));
}

#[test]
fn passwords_are_used_and_never_shown() {
    let Some(registry) = DockerRegistry::start(RegistryPlan { password: true, ..RegistryPlan::default() }) else {
        return;
    };
    let host = registry.host();
    let with = |secret: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "auth.json", format!(r#"{{"auths": {{"{host}/a": {{"auth": "{secret}"}}}}}}"#));
        Kit::in_dir(dir, &[("REGISTRY_AUTH_FILE", "{}/auth.json")], |options| options.use_http = true)
    };
    let kit = with(CREDENTIALS);
    let digest = image(kit.store(), &[&tar("one", b"first")]);
    push(&kit, &digest, &format!("{host}/a/b:v1")).unwrap();
    assert_eq!(kit.pull(&format!("{host}/a/b:v1")).unwrap().digest, digest);

    let wrong = with("dXNlcjp3cm9uZw==").pull(&format!("{host}/a/b:v1")).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Unauthorized);
    let shown = format!("{wrong} {wrong:?} {}", wrong.help().unwrap());
    assert!(shown.contains("auth.json") && !shown.contains("wrong") && !shown.contains("dXNl"), "{shown}");

    let none = Kit::plain().pull(&format!("{host}/a/b:v1")).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unauthorized);
    assert!(none.help().unwrap().starts_with("no credentials for"), "{none:?}");
}

#[test]
fn certificates_are_verified() {
    let Some(registry) = DockerRegistry::start(RegistryPlan { tls: true, ..RegistryPlan::default() }) else { return };
    let host = registry.host();
    let authority = registry.authority();
    let trusting = Kit::new(|options| options.ca_files.push(authority.clone()));
    let digest = image(trusting.store(), &[&tar("one", b"first")]);
    let name = format!("{host}/a:v1");
    push(&trusting, &digest, &name).unwrap();

    let refused = Kit::new(|_| {}).pull(&name).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Certificate);
    assert!(refused.to_string().ends_with("x509: certificate signed by unknown authority"), "{refused}");
    assert_eq!(Kit::new(|options| options.skip_tls_verify = true).pull(&name).unwrap().digest, digest);
    assert_eq!(Kit::plain().pull(&name).unwrap().digest, digest);
    let by_variable = Kit::with(&[("SSL_CERT_FILE", authority.to_str().unwrap())], |_| {});
    assert_eq!(by_variable.pull(&name).unwrap().digest, digest);
    for folder in ["etc/containers/certs.d", "etc/docker/certs.d", "home/.config/containers/certs.d"] {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, &format!("{folder}/{host}/ca.crt"), fs::read(&authority).unwrap());
        let kit = Kit::in_dir(dir, &[("HOME", "{}/home")], |_| {});
        assert_eq!(kit.pull(&name).unwrap().digest, digest, "{folder}");
    }
    let bare = Kit::with(&[("SSL_CERT_FILE", "{}/nothing")], |_| {}).pull(&name).unwrap_err();
    assert!(bare.help().unwrap().starts_with("this system has no root certificates"), "{bare:?}");
    // The host name must match, too.
    let (_, port) = host.split_once(':').unwrap();
    assert_eq!(trusting.pull(&format!("localhost:{port}/a:v1")).unwrap().digest, digest);
    let by_another_name = trusting.pull(&format!("127.0.0.2:{port}/a:v1")).unwrap_err();
    assert_ne!(by_another_name.kind(), ErrorKind::NotFound);
}

#[test]
fn a_client_presents_its_certificate() {
    let plan = RegistryPlan { tls: true, client_certificate: true, ..RegistryPlan::default() };
    let Some(registry) = DockerRegistry::start(plan) else { return };
    let host = registry.host();
    let without = Kit::new(|options| options.ca_files.push(registry.authority()));
    assert!(without.pull(&format!("{host}/a:v1")).unwrap_err().kind() != ErrorKind::NotFound);
    let careless = Kit::new(|options| options.skip_tls_verify = true).pull(&format!("{host}/a:v1")).unwrap_err();
    assert!(careless.to_string().contains("Get \"https://"), "{careless}");
    let dir = tempfile::tempdir().unwrap();
    let folder = format!("etc/containers/certs.d/{host}");
    let (certificate, key) = registry.client_certificate();
    for (name, file) in [("ca.crt", registry.authority()), ("me.cert", certificate), ("me.key", key)] {
        write(&dir, &format!("{folder}/{name}"), fs::read(file).unwrap());
    }
    let kit = Kit::in_dir(dir, &[], |_| {});
    let error = kit.pull(&format!("{host}/a:v1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn large_blobs_are_pushed_in_chunks() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let kit = Kit::plain();
    let layer = tar("large", &noise(7, (64 << 20) + 12_345));
    let digest = image(kit.store(), &[&layer]);
    let name = format!("{}/large:v1", registry.host());
    push(&kit, &digest, &name).unwrap();
    let pulled = Kit::plain().pull(&name).unwrap();
    assert_eq!(pulled.layers[0].0.size, layer.len() as u64);
}

#[test]
fn an_interrupted_pull_resumes() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let kit = Kit::plain();
    let layer = tar("one", &noise(3, 200_000));
    let digest = image(kit.store(), &[&layer]);
    let name = format!("{}/a:v1", registry.host());
    push(&kit, &digest, &name).unwrap();
    let other = Kit::plain();
    let blob = Digest::of(&layer);
    let partial = other.path().join("store/partial");
    fs::create_dir_all(&partial).unwrap();
    // An earlier attempt may have left this partial blob.
    fs::write(partial.join(blob.hex()), &layer[..150_000]).unwrap();
    other.pull(&name).unwrap();
    assert_eq!(fs::read(other.store().path_of(&blob)).unwrap(), layer);
    // A damaged partial blob does no harm.
    let third = Kit::plain();
    let partial = third.path().join("store/partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join(blob.hex()), noise(9, 150_000)).unwrap();
    third.pull(&name).unwrap();
    assert_eq!(fs::read(third.store().path_of(&blob)).unwrap(), layer);
    assert_eq!(fs::read_dir(partial).unwrap().count(), 0);
}

#[test]
fn damaged_content_is_rejected() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let kit = Kit::plain();
    let layer = tar("one", b"first");
    let digest = image(kit.store(), &[&layer]);
    let name = format!("{}/a:v1", registry.host());
    push(&kit, &digest, &name).unwrap();
    let file = registry.blob_file(&Digest::of(&layer).hex());
    let mut content = fs::read(&file).unwrap();
    content[600] ^= 1;
    fs::write(&file, content).unwrap();
    let other = Kit::plain();
    let error = other.pull(&name).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Digest, "{error}");
    assert!(other.store().blob(&Digest::of(&layer)).unwrap().is_none());
}

#[test]
fn an_offline_client_sends_no_request() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let kit = Kit::plain();
    let digest = image(kit.store(), &[&tar("one", b"first")]);
    let name = format!("{}/a:v1", registry.host());
    push(&kit, &digest, &name).unwrap();
    let other = Kit::plain();
    other.pull(&name).unwrap();
    drop(registry);
    let offline = Kit::in_dir(other.dir, &[], |options| options.offline = true);
    assert_eq!(offline.pull(&name).unwrap().digest, digest);
    let error = offline.pull("127.0.0.1:1/b:v1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
}

#[test]
fn layouts_and_archives_are_read_by_opm_and_by_other_tools() {
    let kit = Kit::new(|_| {});
    let layers = [tar("one", &noise(1, 100_000)), tar("two", b"second")];
    let digest = image(kit.store(), &[&layers[0], &layers[1]]);
    let root = kit.path().display();
    for (location, again) in [
        (format!("oci:{root}/layout:v1"), format!("oci:{root}/by-skopeo-1:v1")),
        (format!("oci-archive:{root}/layout.tar:v1"), format!("oci-archive:{root}/by-skopeo.tar:v1")),
        (
            format!("docker-archive:{root}/docker.tar:reg.test/a/b:v1"),
            format!("docker-archive:{root}/by.tar:reg.test/a/b:v1"),
        ),
    ] {
        push(&kit, &digest, &location).unwrap();
        let other = Kit::new(|_| {});
        let check = |location: &str| {
            let read = other.pull(location).unwrap_or_else(|error| panic!("{location}: {error}"));
            let contents: Vec<Vec<u8>> = read.layers.iter().map(|(_, blob)| content(blob)).collect();
            assert_eq!(contents.len(), 2, "{location}");
            if location.contains("docker-archive") || !location.contains("skopeo") {
                assert_eq!(contents, layers, "{location}");
            }
            assert_eq!(read.labels().get("is").map(String::as_str), Some("a test"));
        };
        check(&location);
        if installed("skopeo") {
            run("skopeo", &["inspect", &location]);
            run("skopeo", &["copy", "--insecure-policy", &location, &again]);
            check(&again);
        }
    }
    if installed("umoci") {
        let stat = run("umoci", &["stat", "--json", "--image", &format!("{root}/layout:v1")]);
        assert!(stat.contains("history"), "{stat}");
    }
    let before = fs::read(kit.path().join("layout.tar")).unwrap();
    push(&kit, &digest, &format!("oci-archive:{root}/layout.tar:v1")).unwrap();
    assert_eq!(fs::read(kit.path().join("layout.tar")).unwrap(), before, "the same image gives another file");
}

#[test]
fn a_layout_keeps_its_other_images() {
    let kit = Kit::new(|_| {});
    let root = kit.path().display();
    let one = image(kit.store(), &[&tar("one", b"first")]);
    let two = image(kit.store(), &[&tar("two", b"second")]);
    for (digest, tag) in [(one, "v1"), (two, "v2"), (two, "v1")] {
        push(&kit, &digest, &format!("oci:{root}/layout:{tag}")).unwrap();
    }
    let other = Kit::new(|_| {});
    assert_eq!(other.pull(&format!("oci:{root}/layout:v1")).unwrap().digest, two);
    assert_eq!(other.pull(&format!("oci:{root}/layout:v2")).unwrap().digest, two);
    let error = other.pull(&format!("oci:{root}/layout")).unwrap_err();
    assert!(error.to_string().contains("2 images"), "{error}");
    let error = other.pull(&format!("oci:{root}/layout:v3")).unwrap_err();
    assert_eq!(error.help(), Some("it has v2, v1"));
}
