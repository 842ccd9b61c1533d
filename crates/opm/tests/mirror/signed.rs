//! T-24: what was made for images goes along, byte for byte.

use std::fs;

use image::{Descriptor, media_type};
use testkit::{FakeRegistry, FakeResponse, Fault};

use crate::kit::{Kit, mirror};
use crate::proxy::forward;

const BETA: &str = "    - name: beta\n";

#[test]
fn t24_signatures_attestations_and_lists_of_parts_arrive_as_they_are() {
    let Some(mut kit) = Kit::new() else { return };
    let (shared, beta) = (kit.digest_of("ns/shared:v1").unwrap(), kit.digest_of("ns/beta:v1").unwrap());
    let made = [
        kit.attach("ns/shared", shared, "sig", &[b"a signature", b"a signature"]),
        kit.attach("ns/shared", shared, "att", &[b"an attestation"]),
        kit.attach("ns/shared", shared, "sbom", &[b"a list of parts"]),
    ];
    let listed = kit.sign("ns/beta", beta, false);
    // What was made for a signature, in turn.
    let above = kit.attach("ns/shared", made[0], "sig", &[b"a signature of a signature"]);
    let file = kit.set("set.yaml", BETA);
    kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "usb"]);
    drop(kit.source.take());
    kit.mirror(&["push", "usb", &kit.to()]);
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json", "--deep"]);
    for (kind, digest) in ["sig", "att", "sbom"].iter().zip(made) {
        let name = format!("m/ns/shared:sha256-{}.{kind}", shared.hex());
        assert_eq!(kit.closed_digest(&name), Some(digest), "{name}");
    }
    assert_eq!(kit.closed_digest(&format!("m/ns/shared:sha256-{}.sig", made[0].hex())), Some(above));
    // By its subject: the manifest, and the tag that lists it where a registry has no list of its own.
    assert_eq!(kit.closed_digest(&format!("m/ns/beta@{listed}")), Some(listed));
    assert!(kit.closed_digest(&format!("m/ns/beta:sha256-{}", beta.hex())).is_some());
    // Without them, none is asked for.
    kit.mirror(&["verify", "out"]);
}

/// D-51: a policy does not count unless somebody says so, which is reported once.
#[test]
fn t24_a_policy_that_does_not_count_is_named_once() {
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
        let said = String::from_utf8_lossy(&planned.stderr).into_owned();
        assert!(planned.status.success(), "{said}");
        assert_eq!(said.matches("policy.json has requirements for these images").count(), usize::from(asks), "{said}");
    }
    assert!(kit.mirror_fails(&["plan", &file, "--enforce-policy"]).contains("is rejected by policy"));
}

#[test]
fn t24_a_registry_that_lists_them_is_asked_and_a_missing_one_is_reported() {
    let Some(kit) = Kit::new() else { return };
    let beta = kit.digest_of("ns/beta:v1").unwrap();
    let made = kit.image("ns/beta:made", &[b"an attestation"]);
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let (subject, size) = (beta.to_string(), 700);
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let breaks = broken.clone();
    let fake = FakeRegistry::start(move |asked| {
        if let Some((_, of)) = asked.path.split_once("/referrers/") {
            let manifests: Vec<Descriptor> =
                (of == subject).then(|| Descriptor::new(media_type::OCI_MANIFEST, made, size)).into_iter().collect();
            let list = serde_json::json!({
                "schemaVersion": 2, "mediaType": media_type::OCI_INDEX, "manifests": manifests,
            });
            let answer = FakeResponse::status(200).header("Content-Type", media_type::OCI_INDEX).body(list.to_string());
            return (Fault::None, Some(answer));
        }
        if breaks.load(std::sync::atomic::Ordering::SeqCst) && asked.path.ends_with(&format!("/manifests/{made}")) {
            return (Fault::Status(500), None);
        }
        (Fault::None, Some(forward(&host, asked)))
    });
    let conf = kit.path("registries.conf");
    let (from, to) = (&kit.host, fake.host());
    fs::write(&conf, format!("[[registry]]\nprefix = {from:?}\nlocation = {to:?}\ninsecure = true\n")).unwrap();
    let run = |words: &[&str]| kit.command(&mirror(words)).env("CONTAINERS_REGISTRIES_CONF", &conf).output().unwrap();
    let file = kit.set("set.yaml", BETA);
    let output = run(&["pull", &file, "out"]);
    assert!(output.status.success(), "{output:?}");
    assert!(kit.read("out/mirror/lock.json").contains(&made.to_string()));
    // One that is listed and cannot be fetched makes its image incomplete, unless that is wanted.
    broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let output = run(&["pull", &file, "other"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("bundle beta.v0.1.0"), "{error}");
    let output = run(&["pull", &file, "other", "--missing", "keep"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("is mirrored without its signatures and other referrers"),
        "{said}"
    );
    let lock = kit.read("other/mirror/lock.json");
    assert!(lock.contains(&beta.to_string()) && !lock.contains(&made.to_string()), "{lock}");
}
