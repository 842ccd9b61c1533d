//! T-24: artifacts of images are mirrored byte for byte.

use std::fs;

use image::{Descriptor, media_type};
use testkit::{FakeRegistry, FakeResponse, Fault};

use crate::kit::{Kit, mirror};
use crate::proxy::forward;

const BETA: &str = "    - name: beta\n";

#[test]
fn t24_signatures_attestations_and_sboms_arrive_unchanged() {
    let Some(mut kit) = Kit::new() else { return };
    let (shared, beta) = (kit.digest_of("ns/shared:v1").unwrap(), kit.digest_of("ns/beta:v1").unwrap());
    let artifacts = [
        kit.attach("ns/shared", shared, "sig", &[b"a signature", b"a signature"]),
        kit.attach("ns/shared", shared, "att", &[b"an attestation"]),
        kit.attach("ns/shared", shared, "sbom", &[b"a list of parts"]),
    ];
    let listed = kit.sign("ns/beta", beta, false);
    // An artifact of a signature.
    let above = kit.attach("ns/shared", artifacts[0], "sig", &[b"a signature of a signature"]);
    let file = kit.set("set.yaml", BETA);
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "usb"]);
    drop(kit.source.take());
    kit.mirror(&["push", "usb", &kit.to()]);
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json", "--deep"]);
    for (kind, digest) in ["sig", "att", "sbom"].iter().zip(artifacts) {
        let name = format!("m/ns/shared:sha256-{}.{kind}", shared.hex());
        assert_eq!(kit.closed_digest(&name), Some(digest), "{name}");
    }
    assert_eq!(kit.closed_digest(&format!("m/ns/shared:sha256-{}.sig", artifacts[0].hex())), Some(above));
    // By subject: the manifest, and the tag that lists it in registries without the referrers API.
    assert_eq!(kit.closed_digest(&format!("m/ns/beta@{listed}")), Some(listed));
    assert!(kit.closed_digest(&format!("m/ns/beta:sha256-{}", beta.hex())).is_some());
    // On request, artifacts are not fetched.
    kit.mirror(&["verify", "out"]);
}

/// D-51: a policy applies only on request, which is reported once.
#[test]
fn t24_a_policy_that_is_not_enforced_is_reported_once() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: beta\n");
    let place = kit.path("home/.config/containers");
    std::fs::create_dir_all(&place).unwrap();
    for (policy, asks) in [("insecureAcceptAnything", false), ("reject", true)] {
        let text = format!(
            "{{\"default\": [{{\"type\": \"insecureAcceptAnything\"}}], \"transports\": {{\"docker\": \
            {{\"{}\": [{{\"type\": \"{policy}\"}}]}}}}}}",
            kit.host
        );
        std::fs::write(place.join("policy.json"), text).unwrap();
        let planned = kit.run(&crate::kit::mirror(&["plan", &file]));
        let messages = String::from_utf8_lossy(&planned.stderr).into_owned();
        assert!(planned.status.success(), "{messages}");
        assert_eq!(
            messages.matches("policy.json has requirements for these images").count(),
            usize::from(asks),
            "{messages}"
        );
    }
    assert!(kit.mirror_fails(&["plan", &file, "--enforce-policy"]).contains("is rejected by policy"));
}

#[test]
fn t24_a_registry_with_the_referrers_api_is_queried_and_missing_artifacts_are_reported() {
    let Some(kit) = Kit::new() else { return };
    let beta = kit.digest_of("ns/beta:v1").unwrap();
    let artifact = kit.image("ns/beta:made", &[b"an attestation"]);
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let (subject, size) = (beta.to_string(), 700);
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let status = std::sync::Arc::new(std::sync::atomic::AtomicU16::new(404));
    let (breaks, code) = (broken.clone(), status.clone());
    let fake = FakeRegistry::start(move |request| {
        if let Some((_, of)) = request.path.split_once("/referrers/") {
            let manifests: Vec<Descriptor> = (of == subject)
                .then(|| Descriptor::new(media_type::OCI_MANIFEST, artifact, size))
                .into_iter()
                .collect();
            let list = serde_json::json!({
                "schemaVersion": 2, "mediaType": media_type::OCI_INDEX, "manifests": manifests,
            });
            let response =
                FakeResponse::status(200).header("Content-Type", media_type::OCI_INDEX).body(list.to_string());
            return (Fault::None, Some(response));
        }
        if breaks.load(std::sync::atomic::Ordering::SeqCst) && request.path.ends_with(&format!("/manifests/{artifact}"))
        {
            return (Fault::Status(code.load(std::sync::atomic::Ordering::SeqCst)), None);
        }
        (Fault::None, Some(forward(&host, request)))
    });
    let conf = kit.path("registries.conf");
    let (from, to) = (&kit.host, fake.host());
    fs::write(&conf, format!("[[registry]]\nprefix = {from:?}\nlocation = {to:?}\ninsecure = true\n")).unwrap();
    let run = |words: &[&str]| kit.command(&mirror(words)).env("CONTAINERS_REGISTRIES_CONF", &conf).output().unwrap();
    let file = kit.set("set.yaml", BETA);
    let output = run(&["pull", &file, "out"]);
    assert!(output.status.success(), "{output:?}");
    assert!(kit.read("out/mirror/lock.json").contains(&artifact.to_string()));
    // A listed artifact that cannot be fetched makes its image incomplete, unless that is allowed.
    broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let output = run(&["pull", &file, "other"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("bundle beta.v0.1.0"), "{error}");
    // A failure is no statement about the artifact.
    status.store(500, std::sync::atomic::Ordering::SeqCst);
    let output = run(&["pull", &file, "other", "--missing", "keep"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("failed images: 1\n"), "{error}");
    status.store(404, std::sync::atomic::Ordering::SeqCst);
    let output = run(&["pull", &file, "other", "--missing", "keep"]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && messages.contains("is mirrored without its signatures and other referrers"),
        "{messages}"
    );
    let lock = kit.read("other/mirror/lock.json");
    assert!(lock.contains(&beta.to_string()) && !lock.contains(&artifact.to_string()), "{lock}");
}
