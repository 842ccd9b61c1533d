//! M-24: artifacts of images are mirrored byte for byte.

use std::fs;
use std::process::Command;

use image::{Descriptor, Digest, media_type};
use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::{Kit, mirror};
use crate::proxy::forward;

const BETA: &str = "    - name: beta\n";

#[test]
fn m24_signatures_attestations_and_sboms_arrive_unchanged() {
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

/// A policy applies only on request, which is reported once.
#[test]
fn m24_a_policy_that_is_not_enforced_is_reported_once() {
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
fn m24_a_registry_with_the_referrers_api_is_queried_and_missing_artifacts_are_reported() {
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
            return (ResponseFault::None, Some(response));
        }
        if breaks.load(std::sync::atomic::Ordering::SeqCst) && request.path.ends_with(&format!("/manifests/{artifact}"))
        {
            return (ResponseFault::Status(code.load(std::sync::atomic::Ordering::SeqCst)), None);
        }
        (ResponseFault::None, Some(forward(&host, request)))
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

/// Signs an image as cosign does, with a new key, and returns the public key.
fn sign(kit: &Kit, name: &str, digest: Digest, key: &str) -> String {
    let openssl = |words: &str| {
        let output = Command::new("openssl").current_dir(kit.path("")).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(&format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {key}"));
    openssl(&format!("pkey -in {key} -pubout -out {key}.pub"));
    let payload = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{}/{name}"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#,
        kit.host
    );
    fs::write(kit.path("payload"), &payload).unwrap();
    openssl(&format!("dgst -sha256 -sign {key} -out signature payload"));
    openssl("base64 -A -in signature -out signature.b64");
    let mut layer = Descriptor::of("application/vnd.dev.cosign.simplesigning.v1+json", payload.as_bytes());
    layer.annotations.insert("dev.cosignproject.cosign/signature".into(), kit.read("signature.b64"));
    kit.artifact(&format!("{name}:sha256-{}.sig", digest.hex()), layer, payload.as_bytes());
    kit.path(&format!("{key}.pub")).display().to_string()
}

#[test]
fn m24_a_policy_is_enforced_wherever_a_set_is_moved() {
    let Some(kit) = Kit::new() else { return };
    if !testkit::installed("openssl") {
        return;
    }
    let file = kit.set("set.yaml", BETA);
    let beta = kit.digest_of("ns/beta:v1").unwrap();
    let containers = kit.path("home/.config/containers");
    fs::create_dir_all(containers.join("registries.d")).unwrap();
    fs::write(containers.join("registries.d/a.yaml"), "default-docker:\n  use-sigstore-attachments: true\n").unwrap();
    let policy = |key: &str| {
        let text = format!(
            r#"{{"default": [{{"type": "insecureAcceptAnything"}}], "transports": {{"docker": {{"{}/ns/beta":
            [{{"type": "sigstoreSigned", "keyPath": "{key}",
            "signedIdentity": {{"type": "matchRepository"}}}}]}}}}}}"#,
            kit.host
        );
        fs::write(containers.join("policy.json"), text).unwrap();
    };
    let pull = |set: &str, more: &[&str]| kit.run(&mirror(&[&["pull", &file, set], more].concat()));
    let push = |set: &str, to: &str, more: &[&str]| {
        let output = kit.run(&mirror(&[&["push", set, &format!("{}/{to}", kit.closed.host())], more].concat()));
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A policy cannot be enforced and ignored.
    let mut both = kit.command(&mirror(&["pull", &file, "out", "--enforce-policy"]));
    assert!(!both.env("OPM_INSECURE_POLICY", "true").status().unwrap().success());
    assert!(pull("out", &["--volumes", "1MiB", "--to", "unsigned"]).status.success());
    let key = sign(&kit, "ns/shared", kit.digest_of("ns/shared:v1").unwrap(), "key");
    policy(&key);
    // The set was pulled before there was a policy: neither another pull nor a push accepts it.
    let again = pull("out", &["--enforce-policy"]);
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && error.contains("to be sigstoreSigned, and"), "{error}");
    for set in ["out", "unsigned"] {
        let (done, error) = push(set, "m", &["--enforce-policy"]);
        assert!(!done && error.contains("to be sigstoreSigned, and") && error.contains("nothing was sent"), "{error}");
    }
    assert_eq!(kit.closed_digest("m/ns/beta:v1"), None);
    assert!(!push("unsigned", "m", &["--enforce-policy", "--part"]).0);
    // A push that ignores the policy reports that.
    let (done, messages) = push("out", "ignored", &[]);
    assert!(done && messages.matches("which are ignored").count() == 1, "{messages}");
    // With its signature, the set passes: as a directory and as volumes.
    policy(&sign(&kit, "ns/beta", beta, "other"));
    let pulled = pull("signed", &["--enforce-policy", "--volumes", "1MiB", "--to", "volumes"]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    for set in ["signed", "volumes"] {
        let (done, messages) = push(set, set, &["--enforce-policy"]);
        assert!(done && messages.contains("--expect checks the whole set"), "{messages}");
    }
    assert!(kit.closed_digest("volumes/ns/index:v1").is_some() && kit.closed_digest("m/ns/index:v1").is_none());
    policy(&key);
    let (done, error) = push("signed", "m", &["--enforce-policy"]);
    assert!(!done && error.contains("nothing was sent"), "{error}");
}
