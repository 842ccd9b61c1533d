//! Policies that require signatures, compared with skopeo.

use std::fs;

use image::{ClientOptions, CopyPlan, ErrorKind, Location};
use serde_json::{Value, json};
use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::{Kit, write};
use crate::signed::{SignedRegistry, base64};

fn simple(signed: &SignedRegistry, key: &str) -> Value {
    json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": signed.path(&format!("{key}.gpg")) })
}

fn sigstore(signed: &SignedRegistry, key: &str) -> Value {
    json!({ "type": "sigstoreSigned", "keyPath": signed.path(&format!("{key}.pub")) })
}

fn with(mut requirement: Value, identity: Value) -> Value {
    requirement["signedIdentity"] = identity;
    requirement
}

/// Pulls by a policy into a new store, and compares the result with skopeo's.
fn compare(signed: &SignedRegistry, requirement: &Value, rest: &str, good: bool) {
    let policy = signed.policy(requirement);
    let ours = signed.client(&policy).pull(&signed.name(rest));
    assert_eq!(ours.is_ok(), good, "{requirement} {rest}: {:?}", ours.err());
    if let Err(error) = ours {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    }
    let theirs = signed.skopeo(&policy, rest);
    // Debian's skopeo is built without sigstore, so it cannot be compared there.
    if theirs.as_ref().is_err_and(|error| error.contains("sigstore disabled")) {
        return;
    }
    assert_eq!(theirs.is_ok(), good, "skopeo, {requirement} {rest}: {theirs:?}");
}

#[test]
fn simple_signing_is_judged_like_skopeo() {
    let Some(signed) = SignedRegistry::new() else { return };
    let (name, digest) = (signed.name("a/b:v1"), signed.digest);
    let by_digest = format!("a/b@{digest}");
    let (good, other) = (simple(&signed, "good"), simple(&signed, "other"));
    compare(&signed, &good, "a/b:v1", false);
    signed.sign_with_gpg(&digest, "good", "a/b:v1", &name);
    compare(&signed, &good, "a/b:v1", true);
    compare(&signed, &good, &by_digest, true);
    compare(&signed, &other, "a/b:v1", false);
    // The same image by another tag, and a signature in the lookaside storage of another repository.
    signed.push(&digest, "a/b:v2");
    compare(&signed, &good, "a/b:v2", false);
    signed.push(&digest, "a/c:v1");
    compare(&signed, &good, "a/c:v1", false);
    signed.sign_with_gpg(&digest, "good", "a/c:v1", &name);
    compare(&signed, &good, "a/c:v1", false);
    for (identity, rest, expected) in [
        (json!({ "type": "matchExact" }), "a/b:v1", true),
        (json!({ "type": "matchExact" }), &by_digest, false),
        (json!({ "type": "matchRepository" }), "a/b:v2", true),
        (json!({ "type": "matchRepository" }), "a/c:v1", false),
        (json!({ "type": "exactReference", "dockerReference": name }), "a/c:v1", true),
        (json!({ "type": "exactReference", "dockerReference": signed.name("a/b:v2") }), "a/c:v1", false),
        (json!({ "type": "exactRepository", "dockerRepository": signed.name("a/b") }), "a/c:v1", true),
        (json!({ "type": "exactRepository", "dockerRepository": signed.name("a/d") }), "a/c:v1", false),
        (
            json!({ "type": "remapIdentity", "prefix": signed.name("a/c"), "signedPrefix": signed.name("a/b") }),
            "a/c:v1",
            true,
        ),
        (
            json!({ "type": "remapIdentity", "prefix": signed.name("a"), "signedPrefix": signed.name("z") }),
            "a/c:v1",
            false,
        ),
    ] {
        compare(&signed, &with(good.clone(), identity), rest, expected);
    }
    // A bad signature before a good one does no harm.
    let next = signed.image(b"next", "a/b:v3");
    signed.sign_with_gpg(&next, "other", "a/b:v3", &signed.name("a/b:v3"));
    compare(&signed, &good, "a/b:v3", false);
    signed.sign_with_gpg(&next, "good", "a/b:v3", &signed.name("a/b:v3"));
    compare(&signed, &good, "a/b:v3", true);
    // A signature of another image is rejected.
    let replayed = signed.image(b"replayed", "a/b:v4");
    let place = |hex: &str| signed.path(&format!("lookaside/a/b@sha256={hex}"));
    fs::create_dir(place(&replayed.hex())).unwrap();
    let to = format!("{}/signature-1", place(&replayed.hex()));
    fs::copy(format!("{}/signature-1", place(&digest.hex())), &to).unwrap();
    compare(&signed, &with(good.clone(), json!({ "type": "matchRepository" })), "a/b:v4", false);
    for rubbish in [&b"x"[..], b"\xa3\x01rubbish", &[0xff; 5000]] {
        fs::write(&to, rubbish).unwrap();
        compare(&signed, &good, "a/b:v4", false);
    }
    let keys = base64(fs::read(signed.path("good.gpg")).unwrap());
    compare(&signed, &json!({ "type": "signedBy", "keyType": "GPGKeys", "keyData": keys }), "a/b:v1", true);
    let missing = json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": signed.path("no-such") });
    compare(&signed, &missing, "a/b:v1", false);
}

#[test]
fn sigstore_signatures_are_judged_like_skopeo() {
    let Some(signed) = SignedRegistry::new() else { return };
    let (name, digest) = (signed.name("a/b:v1"), signed.digest);
    let (good, other) = (sigstore(&signed, "good"), sigstore(&signed, "other"));
    let repository = json!({ "type": "matchRepository" });
    compare(&signed, &good, "a/b:v1", false);
    signed.sign_with_sigstore(&digest, "good", "a/b", &name);
    compare(&signed, &good, "a/b:v1", true);
    compare(&signed, &good, &format!("a/b@{digest}"), true);
    compare(&signed, &other, "a/b:v1", false);
    signed.sign_with_sigstore(&digest, "good", "a/b", &signed.name("a/b"));
    compare(&signed, &good, "a/b:v1", false);
    compare(&signed, &with(good.clone(), repository.clone()), "a/b:v1", true);
    signed.push(&digest, "a/c:v1");
    signed.sign_with_sigstore(&digest, "good", "a/c", &signed.name("a/b"));
    compare(&signed, &with(good.clone(), repository.clone()), "a/c:v1", false);
    // Claims with too much, too little, or duplicate content.
    let claim = String::from_utf8(signed.claim(&digest, &name)).unwrap();
    let other_digest = claim.replace(&digest.hex(), &"a1".repeat(32));
    for (text, expected) in [
        (claim.clone(), true),
        (claim.replace("null", r#"{"creator":"me","timestamp":12,"more":{"x":[]}}"#), true),
        (claim.replace("null", r#"{"timestamp":1.5}"#), false),
        (claim.replace(r#""optional""#, r#""extra":1,"optional""#), false),
        (claim.replace(r#""optional""#, r#""optional":null,"optional""#), false),
        (claim.replace(",\"optional\":null", ""), false),
        (claim.replace("cosign container image", "atomic container"), false),
        (claim.replace("docker-manifest-digest", "digest"), false),
        (other_digest, false),
        (format!("{claim} "), true),
        (format!("{claim}{claim}"), false),
        ("[".repeat(5000), false),
    ] {
        let signature = base64(signed.openssl_sign("good", text.as_bytes()));
        let annotations = json!({ "dev.cosignproject.cosign/signature": signature });
        signed.attach(&digest, "a/b", &[(text.into_bytes(), annotations)]);
        compare(&signed, &good, "a/b:v1", expected);
    }
    // No signature, a partial signature, several signatures.
    let payload = signed.claim(&digest, &name);
    let signature = signed.openssl_sign("good", &payload);
    let annotated = |bytes: &[u8]| (payload.clone(), json!({ "dev.cosignproject.cosign/signature": base64(bytes) }));
    signed.attach(&digest, "a/b", &[(payload.clone(), json!({}))]);
    compare(&signed, &good, "a/b:v1", false);
    signed.attach(&digest, "a/b", &[annotated(&signature[..20])]);
    compare(&signed, &good, "a/b:v1", false);
    signed.attach(&digest, "a/b", &[annotated(b""), annotated(&signature)]);
    compare(&signed, &good, "a/b:v1", true);
}

#[test]
fn the_image_of_the_platform_must_be_signed_not_only_its_index() {
    let Some(signed) = SignedRegistry::new() else { return };
    let (index, here) = signed.index("a/all:v1");
    let name = signed.name("a/all:v1");
    let by_gpg = simple(&signed, "good");
    signed.sign_with_gpg(&index, "good", "a/all:v1", &name);
    compare(&signed, &by_gpg, "a/all:v1", false);
    signed.sign_with_gpg(&here, "good", "a/all:v1", &name);
    compare(&signed, &by_gpg, "a/all:v1", true);
    let requirement = sigstore(&signed, "good");
    signed.sign_with_sigstore(&index, "good", "a/all", &name);
    compare(&signed, &requirement, "a/all:v1", false);
    let verify = |kit: &Kit| kit.client.verify(&Location::parse(&name).unwrap()).unwrap();
    let kit = signed.client(&signed.policy(&requirement));
    let notes = verify(&kit).notes.join("\n");
    assert!(notes.contains("the index") && notes.contains("--recursive"), "{notes}");
    signed.sign_with_sigstore(&here, "good", "a/all", &name);
    compare(&signed, &requirement, "a/all:v1", true);
    let verification = verify(&kit);
    assert!(verification.accepted);
    assert_eq!((verification.digest, verification.manifest_digest), (index, here));
    // A copy of the whole index requires signatures of all images.
    let target = Location::parse(&signed.name("mirror/all:v1")).unwrap();
    let copy = |plan: CopyPlan| kit.client.copy(&Location::parse(&name).unwrap(), &target, plan);
    let error = copy(CopyPlan::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(kit.client.head(&signed.name("mirror/all:v1").parse().unwrap()).is_err());
    copy(CopyPlan { one_platform: true, ..CopyPlan::default() }).unwrap();
}

#[test]
fn nothing_is_used_before_it_is_verified() {
    let Some(signed) = SignedRegistry::new() else { return };
    let name = signed.name("a/b:v1");
    let location = Location::parse(&name).unwrap();
    let kit = signed.client(&signed.policy(&simple(&signed, "good")));
    let target = Location::parse(&signed.name("mirror/b:v1")).unwrap();
    let layout = Location::parse(&format!("oci:{}:v1", kit.path().join("out").display())).unwrap();
    for error in [
        kit.pull(&name).unwrap_err(),
        kit.client.config(&location).unwrap_err(),
        kit.client.copy(&location, &target, CopyPlan::default()).unwrap_err(),
        kit.client.copy(&location, &layout, CopyPlan::default()).unwrap_err(),
        kit.client.pull_many(std::slice::from_ref(&location)).remove(0).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        assert!(error.to_string().ends_with("to be signedBy, and it has no signature"), "{error}");
        let help = error.help().unwrap();
        assert!(help.contains(&format!("opm verify {name} shows all")), "{help}");
        assert!(help.ends_with("OPM_INSECURE_POLICY=true disables it"), "{help}");
    }
    assert!(!kit.path().join("out/index.json").exists());
    // The layer was never fetched.
    assert!(fs::read_dir(kit.store().path_of(&signed.digest).parent().unwrap()).unwrap().count() <= 1);
    signed.sign_with_gpg(&signed.digest, "good", "a/b:v1", &name);
    kit.client.config(&location).unwrap();
    kit.pull(&name).unwrap();
    kit.client.copy(&location, &layout, CopyPlan::default()).unwrap();
    // Layouts have no signatures, so a policy that requires one rejects them.
    let policy = json!({ "default": [simple(&signed, "good")] }).to_string();
    fs::write(signed.path("strict.json"), policy).unwrap();
    let strict = signed.client(&signed.path("strict.json"));
    let error = strict.client.pull(&layout).unwrap_err();
    assert!(error.to_string().ends_with("and it has no signature"), "{error}");
}

#[test]
fn a_verified_image_can_be_verified_again_offline() {
    let Some(signed) = SignedRegistry::new() else { return };
    let name = signed.name("a/b:v1");
    signed.sign_with_gpg(&signed.digest, "good", "a/b:v1", &name);
    let policy = signed.policy(&simple(&signed, "good"));
    let kit = signed.client(&policy);
    kit.pull(&name).unwrap();
    let offline = |policy: &str| {
        let mut options: ClientOptions = kit.client.options().clone();
        options.offline = true;
        options.policy = Some(policy.into());
        image::Client::new(options).unwrap()
    };
    let location = Location::parse(&name).unwrap();
    offline(&policy).pull(&location).unwrap();
    assert!(offline(&policy).verify(&location).unwrap().accepted);
    // Another policy requires another verification.
    let other = signed.policy(&simple(&signed, "other"));
    let error = offline(&other).pull(&location).unwrap_err();
    assert!(error.to_string().contains("is not among the keys of the policy"), "{error}");
    assert!(!offline(&other).verify(&location).unwrap().accepted);
    // An image that was pulled without verification has no signatures in the store.
    let plain = Kit::plain();
    plain.pull(&name).unwrap();
    let mut options = plain.client.options().clone();
    options.offline = true;
    options.policy = Some(signed.policy(&simple(&signed, "good")).into());
    let error = image::Client::new(options).unwrap().pull(&location).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline, "{error}");
}

#[test]
fn a_verification_shows_its_signatures() {
    let Some(signed) = SignedRegistry::new() else { return };
    let name = signed.name("a/b:v1");
    signed.sign_with_gpg(&signed.digest, "other", "a/b:v1", &name);
    signed.sign_with_gpg(&signed.digest, "good", "a/b:v1", &name);
    let kit = signed.client(&signed.policy(&simple(&signed, "good")));
    let verification = kit.client.verify(&Location::parse(&name).unwrap()).unwrap();
    assert!(verification.accepted);
    assert_eq!(verification.scope, Some(format!("docker {}", signed.registry.host())));
    let signatures = &verification.requirements[0].signatures;
    assert_eq!(signatures.iter().map(|it| it.accepted).collect::<Vec<_>>(), [false, true]);
    assert!(signatures[0].reason.as_deref().unwrap().contains("not among the keys"));
    assert!(signatures[1].signer.as_deref().unwrap().ends_with("(good@a.test)"));
    assert!(verification.searched[0].ends_with(&format!("/a/b@sha256={}", signed.digest.hex())));
    // A note says when attachments are not read.
    write(&kit.dir, "etc/containers/registries.d/a.yaml", "docker: {}\n");
    let strict = Kit::in_dir(kit.dir, &[], |options| {
        options.use_http = true;
        options.policy = Some(signed.policy(&sigstore(&signed, "good")).into());
    });
    let verification = strict.client.verify(&Location::parse(&name).unwrap()).unwrap();
    assert!(!verification.accepted);
    assert!(verification.notes[0].contains("set use-sigstore-attachments in registries.d"), "{:?}", verification.notes);
    assert!(strict.pull(&name).unwrap_err().help().unwrap().contains("set use-sigstore-attachments"));
}

#[test]
fn signatures_are_read_from_registries_and_web_servers() {
    let Some(signed) = SignedRegistry::new() else { return };
    let source = Kit::plain();
    let image = source.pull(&signed.name("a/b:v1")).unwrap();
    let read = |digest: &image::Digest| fs::read(source.store().path_of(digest)).unwrap();
    // One registry has the signatures API; another has its signatures on a web server.
    let serve = |own: bool| {
        let registry = FakeRegistry::start(move |request| {
            let headers =
                if own { vec![("X-Registry-Supports-Signatures".to_owned(), "1".to_owned())] } else { Vec::new() };
            (
                ResponseFault::None,
                (request.path == "/v2/").then(|| FakeResponse { status: 200, headers, ..FakeResponse::default() }),
            )
        });
        let manifest = read(&signed.digest);
        registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", &manifest);
        for blob in image.manifest.layers.iter().chain([&image.manifest.config]) {
            registry.put(&format!("/v2/a/b/blobs/{}", blob.digest), "application/octet-stream", &read(&blob.digest));
        }
        registry
    };
    let (keeps, plain) = (serve(true), serve(false));
    let policy = json!({ "default": [simple(&signed, "good")] }).to_string();
    fs::write(signed.path("all.json"), policy).unwrap();
    let client = |settings: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "etc/containers/registries.d/a.yaml", settings);
        Kit::in_dir(dir, &[], |options| {
            options.use_http = true;
            options.policy = Some(signed.path("all.json").into());
        })
    };
    let name_and_signature = |host: &str| {
        let name = format!("{host}/a/b:v1");
        signed.sign_with_gpg(&signed.digest, "good", &format!("{host}:v1"), &name);
        let path = format!("lookaside/{}@sha256={}/signature-1", host.split(':').next().unwrap(), signed.digest.hex());
        let bytes = fs::read(signed.path(&path)).unwrap();
        fs::remove_dir_all(signed.path("lookaside")).unwrap();
        (name, bytes)
    };
    let (name, signature) = name_and_signature(keeps.host());
    let list = |kind: &str| json!({ "signatures": [{ "schemaVersion": 2, "name": "x", "type": kind, "content": base64(&signature) }] });
    let path = format!("/extensions/v2/a/b/signatures/{}", signed.digest);
    assert!(client("").pull(&name).is_err());
    keeps.put(&path, "application/json", list("other").to_string().as_bytes());
    assert!(client("").pull(&name).is_err());
    keeps.put(&path, "application/json", list("atomic").to_string().as_bytes());
    client("").pull(&name).unwrap();

    let (name, signature) = name_and_signature(plain.host());
    let settings = format!("default-docker:\n  sigstore: http://{}/sigs/\n", plain.host());
    assert!(client(&settings).pull(&name).is_err());
    plain.put(&format!("/sigs/a/b@sha256={}/signature-1", signed.digest.hex()), "application/octet-stream", &signature);
    client(&settings).pull(&name).unwrap();
    assert!(client("default-docker:\n  sigstore: ftp://x\n").pull(&name).is_err());
}

#[test]
fn too_many_signatures_are_rejected() {
    let Some(signed) = SignedRegistry::new() else { return };
    let name = signed.name("a/b:v1");
    signed.sign_with_gpg(&signed.digest, "other", "a/b:v1", &name);
    let place = signed.path(&format!("lookaside/a/b@sha256={}", signed.digest.hex()));
    let first = fs::read(format!("{place}/signature-1")).unwrap();
    for number in 2..200 {
        fs::write(format!("{place}/signature-{number}"), &first).unwrap();
    }
    let policy = signed.policy(&simple(&signed, "good"));
    assert_eq!(signed.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
    fs::remove_file(format!("{place}/signature-2")).unwrap();
    fs::write(format!("{place}/signature-1"), vec![0xa3; 2 << 20]).unwrap();
    assert!(signed.client(&policy).pull(&name).unwrap_err().to_string().contains("larger than"));
    let payload = vec![b' '; 2 << 20];
    signed.attach(&signed.digest, "a/b", &[(payload, json!({}))]);
    let policy = signed.policy(&sigstore(&signed, "good"));
    assert_eq!(signed.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
    let many: Vec<_> = (0..200).map(|number| (format!("{number}").into_bytes(), json!({}))).collect();
    signed.attach(&signed.digest, "a/b", &many);
    assert_eq!(signed.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn a_signature_of_skopeo_copy_is_accepted() {
    let Some(signed) = SignedRegistry::new() else { return };
    let target = signed.name("signed/b:v1");
    let output = std::process::Command::new("skopeo")
        .env("GNUPGHOME", signed.path("gpg"))
        .args(["--insecure-policy", "--registries.d", &signed.path("etc/containers/registries.d"), "copy"])
        .args(["--src-tls-verify=false", "--dest-tls-verify=false", "--sign-by", "good@a.test"])
        .args([format!("docker://{}", signed.name("a/b:v1")), format!("docker://{target}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    compare(&signed, &simple(&signed, "good"), "signed/b:v1", true);
    compare(&signed, &simple(&signed, "other"), "signed/b:v1", false);
}
