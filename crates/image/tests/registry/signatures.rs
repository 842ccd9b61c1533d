//! Policies that ask for signatures, and skopeo as a second opinion.

use std::fs;

use image::{CopyPlan, ErrorKind, Location, Options};
use serde_json::{Value, json};
use testkit::{FakeRegistry, FakeResponse, Fault};

use crate::kit::{Kit, write};
use crate::signed::{House, base64};

fn simple(house: &House, key: &str) -> Value {
    json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": house.path(&format!("{key}.gpg")) })
}

fn sigstore(house: &House, key: &str) -> Value {
    json!({ "type": "sigstoreSigned", "keyPath": house.path(&format!("{key}.pub")) })
}

fn with(mut requirement: Value, identity: Value) -> Value {
    requirement["signedIdentity"] = identity;
    requirement
}

/// Pulls by a policy with a new store, and compares with what skopeo makes of it.
fn both(house: &House, requirement: &Value, rest: &str, good: bool) {
    let policy = house.policy(requirement);
    let ours = house.client(&policy).pull(&house.name(rest));
    assert_eq!(ours.is_ok(), good, "{requirement} {rest}: {:?}", ours.err());
    if let Err(error) = ours {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    }
    let theirs = house.skopeo(&policy, rest);
    // Debian's is built without sigstore, so that it has no opinion there.
    if theirs.as_ref().is_err_and(|error| error.contains("sigstore disabled")) {
        return;
    }
    assert_eq!(theirs.is_ok(), good, "skopeo, {requirement} {rest}: {theirs:?}");
}

#[test]
fn simple_signing_is_judged_as_skopeo_does() {
    let Some(house) = House::new() else { return };
    let (name, digest) = (house.name("a/b:v1"), house.digest);
    let by_digest = format!("a/b@{digest}");
    let (good, other) = (simple(&house, "good"), simple(&house, "other"));
    both(&house, &good, "a/b:v1", false);
    house.sign_simply(&digest, "good", "a/b:v1", &name);
    both(&house, &good, "a/b:v1", true);
    both(&house, &good, &by_digest, true);
    both(&house, &other, "a/b:v1", false);
    // The same image by another tag, and a signature in the storage of another repository.
    house.push(&digest, "a/b:v2");
    both(&house, &good, "a/b:v2", false);
    house.push(&digest, "a/c:v1");
    both(&house, &good, "a/c:v1", false);
    house.sign_simply(&digest, "good", "a/c:v1", &name);
    both(&house, &good, "a/c:v1", false);
    for (identity, rest, expected) in [
        (json!({ "type": "matchExact" }), "a/b:v1", true),
        (json!({ "type": "matchExact" }), &by_digest, false),
        (json!({ "type": "matchRepository" }), "a/b:v2", true),
        (json!({ "type": "matchRepository" }), "a/c:v1", false),
        (json!({ "type": "exactReference", "dockerReference": name }), "a/c:v1", true),
        (json!({ "type": "exactReference", "dockerReference": house.name("a/b:v2") }), "a/c:v1", false),
        (json!({ "type": "exactRepository", "dockerRepository": house.name("a/b") }), "a/c:v1", true),
        (json!({ "type": "exactRepository", "dockerRepository": house.name("a/d") }), "a/c:v1", false),
        (
            json!({ "type": "remapIdentity", "prefix": house.name("a/c"), "signedPrefix": house.name("a/b") }),
            "a/c:v1",
            true,
        ),
        (
            json!({ "type": "remapIdentity", "prefix": house.name("a"), "signedPrefix": house.name("z") }),
            "a/c:v1",
            false,
        ),
    ] {
        both(&house, &with(good.clone(), identity), rest, expected);
    }
    // A wrong signature in front does no harm, and a good one behind it counts.
    let next = house.image(b"next", "a/b:v3");
    house.sign_simply(&next, "other", "a/b:v3", &house.name("a/b:v3"));
    both(&house, &good, "a/b:v3", false);
    house.sign_simply(&next, "good", "a/b:v3", &house.name("a/b:v3"));
    both(&house, &good, "a/b:v3", true);
    // The signature of another image.
    let replayed = house.image(b"replayed", "a/b:v4");
    let place = |hex: &str| house.path(&format!("lookaside/a/b@sha256={hex}"));
    fs::create_dir(place(&replayed.hex())).unwrap();
    let to = format!("{}/signature-1", place(&replayed.hex()));
    fs::copy(format!("{}/signature-1", place(&digest.hex())), &to).unwrap();
    both(&house, &with(good.clone(), json!({ "type": "matchRepository" })), "a/b:v4", false);
    for rubbish in [&b"x"[..], b"\xa3\x01rubbish", &[0xff; 5000]] {
        fs::write(&to, rubbish).unwrap();
        both(&house, &good, "a/b:v4", false);
    }
    let keys = base64(fs::read(house.path("good.gpg")).unwrap());
    both(&house, &json!({ "type": "signedBy", "keyType": "GPGKeys", "keyData": keys }), "a/b:v1", true);
    let missing = json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": house.path("no-such") });
    both(&house, &missing, "a/b:v1", false);
}

#[test]
fn sigstore_signatures_are_judged_as_skopeo_does() {
    let Some(house) = House::new() else { return };
    let (name, digest) = (house.name("a/b:v1"), house.digest);
    let (good, other) = (sigstore(&house, "good"), sigstore(&house, "other"));
    let repository = json!({ "type": "matchRepository" });
    both(&house, &good, "a/b:v1", false);
    house.sign_by_sigstore(&digest, "good", "a/b", &name);
    both(&house, &good, "a/b:v1", true);
    both(&house, &good, &format!("a/b@{digest}"), true);
    both(&house, &other, "a/b:v1", false);
    house.sign_by_sigstore(&digest, "good", "a/b", &house.name("a/b"));
    both(&house, &good, "a/b:v1", false);
    both(&house, &with(good.clone(), repository.clone()), "a/b:v1", true);
    house.push(&digest, "a/c:v1");
    house.sign_by_sigstore(&digest, "good", "a/c", &house.name("a/b"));
    both(&house, &with(good.clone(), repository.clone()), "a/c:v1", false);
    // Claims that say too much, too little, or twice.
    let claim = String::from_utf8(house.claim(&digest, &name)).unwrap();
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
        let signature = base64(house.openssl_sign("good", text.as_bytes()));
        let annotations = json!({ "dev.cosignproject.cosign/signature": signature });
        house.attach(&digest, "a/b", &[(text.into_bytes(), annotations)]);
        both(&house, &good, "a/b:v1", expected);
    }
    // No signature, half a signature, several signatures.
    let payload = house.claim(&digest, &name);
    let signature = house.openssl_sign("good", &payload);
    let annotated = |bytes: &[u8]| (payload.clone(), json!({ "dev.cosignproject.cosign/signature": base64(bytes) }));
    house.attach(&digest, "a/b", &[(payload.clone(), json!({}))]);
    both(&house, &good, "a/b:v1", false);
    house.attach(&digest, "a/b", &[annotated(&signature[..20])]);
    both(&house, &good, "a/b:v1", false);
    house.attach(&digest, "a/b", &[annotated(b""), annotated(&signature)]);
    both(&house, &good, "a/b:v1", true);
}

#[test]
fn of_an_index_the_image_of_the_platform_has_to_be_signed() {
    let Some(house) = House::new() else { return };
    let (index, here) = house.index("a/all:v1");
    let name = house.name("a/all:v1");
    let by_gpg = simple(&house, "good");
    house.sign_simply(&index, "good", "a/all:v1", &name);
    both(&house, &by_gpg, "a/all:v1", false);
    house.sign_simply(&here, "good", "a/all:v1", &name);
    both(&house, &by_gpg, "a/all:v1", true);
    let requirement = sigstore(&house, "good");
    house.sign_by_sigstore(&index, "good", "a/all", &name);
    both(&house, &requirement, "a/all:v1", false);
    let verify = |kit: &Kit| kit.client.verify(&Location::parse(&name).unwrap()).unwrap();
    let kit = house.client(&house.policy(&requirement));
    let notes = verify(&kit).notes.join("\n");
    assert!(notes.contains("the index") && notes.contains("--recursive"), "{notes}");
    house.sign_by_sigstore(&here, "good", "a/all", &name);
    both(&house, &requirement, "a/all:v1", true);
    let verification = verify(&kit);
    assert!(verification.accepted);
    assert_eq!((verification.digest, verification.manifest_digest), (index, here));
    // All of it is copied only if all of it is signed.
    let target = Location::parse(&house.name("mirror/all:v1")).unwrap();
    let copy = |plan: CopyPlan| kit.client.copy(&Location::parse(&name).unwrap(), &target, plan);
    let error = copy(CopyPlan::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(kit.client.head(&house.name("mirror/all:v1").parse().unwrap()).is_err());
    copy(CopyPlan { one_platform: true, ..CopyPlan::default() }).unwrap();
}

#[test]
fn nothing_is_used_before_it_is_checked() {
    let Some(house) = House::new() else { return };
    let name = house.name("a/b:v1");
    let location = Location::parse(&name).unwrap();
    let kit = house.client(&house.policy(&simple(&house, "good")));
    let target = Location::parse(&house.name("mirror/b:v1")).unwrap();
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
    // The layer never came.
    assert!(fs::read_dir(kit.store().path_of(&house.digest).parent().unwrap()).unwrap().count() <= 1);
    house.sign_simply(&house.digest, "good", "a/b:v1", &name);
    kit.client.config(&location).unwrap();
    kit.pull(&name).unwrap();
    kit.client.copy(&location, &layout, CopyPlan::default()).unwrap();
    // Files have no signatures, so that they are not accepted where one is asked for.
    let policy = json!({ "default": [simple(&house, "good")] }).to_string();
    fs::write(house.path("strict.json"), policy).unwrap();
    let strict = house.client(&house.path("strict.json"));
    let error = strict.client.pull(&layout).unwrap_err();
    assert!(error.to_string().ends_with("and it has no signature"), "{error}");
}

#[test]
fn what_was_checked_once_can_be_checked_again_without_the_network() {
    let Some(house) = House::new() else { return };
    let name = house.name("a/b:v1");
    house.sign_simply(&house.digest, "good", "a/b:v1", &name);
    let policy = house.policy(&simple(&house, "good"));
    let kit = house.client(&policy);
    kit.pull(&name).unwrap();
    let offline = |policy: &str| {
        let mut options: Options = kit.client.options().clone();
        options.offline = true;
        options.policy = Some(policy.into());
        image::Client::new(options).unwrap()
    };
    let location = Location::parse(&name).unwrap();
    offline(&policy).pull(&location).unwrap();
    assert!(offline(&policy).verify(&location).unwrap().accepted);
    // Another policy is another question.
    let other = house.policy(&simple(&house, "other"));
    let error = offline(&other).pull(&location).unwrap_err();
    assert!(error.to_string().contains("is not among the keys of the policy"), "{error}");
    assert!(!offline(&other).verify(&location).unwrap().accepted);
    // What came without a check has no signatures yet.
    let plain = Kit::plain();
    plain.pull(&name).unwrap();
    let mut options = plain.client.options().clone();
    options.offline = true;
    options.policy = Some(house.policy(&simple(&house, "good")).into());
    let error = image::Client::new(options).unwrap().pull(&location).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline, "{error}");
}

#[test]
fn what_was_checked_is_shown() {
    let Some(house) = House::new() else { return };
    let name = house.name("a/b:v1");
    house.sign_simply(&house.digest, "other", "a/b:v1", &name);
    house.sign_simply(&house.digest, "good", "a/b:v1", &name);
    let kit = house.client(&house.policy(&simple(&house, "good")));
    let verification = kit.client.verify(&Location::parse(&name).unwrap()).unwrap();
    assert!(verification.accepted);
    assert_eq!(verification.scope, Some(format!("docker {}", house.registry.host())));
    let signatures = &verification.requirements[0].signatures;
    assert_eq!(signatures.iter().map(|it| it.accepted).collect::<Vec<_>>(), [false, true]);
    assert!(signatures[0].reason.as_deref().unwrap().contains("not among the keys"));
    assert!(signatures[1].signer.as_deref().unwrap().ends_with("(good@a.test)"));
    assert!(verification.searched[0].ends_with(&format!("/a/b@sha256={}", house.digest.hex())));
    // Where attachments are not looked up, that is said.
    write(&kit.dir, "etc/containers/registries.d/a.yaml", "docker: {}\n");
    let strict = Kit::in_dir(kit.dir, &[], |options| {
        options.use_http = true;
        options.policy = Some(house.policy(&sigstore(&house, "good")).into());
    });
    let verification = strict.client.verify(&Location::parse(&name).unwrap()).unwrap();
    assert!(!verification.accepted);
    assert!(verification.notes[0].contains("set use-sigstore-attachments in registries.d"), "{:?}", verification.notes);
    assert!(strict.pull(&name).unwrap_err().help().unwrap().contains("set use-sigstore-attachments"));
}

#[test]
fn registries_and_web_servers_keep_signatures_too() {
    let Some(house) = House::new() else { return };
    let source = Kit::plain();
    let image = source.pull(&house.name("a/b:v1")).unwrap();
    let read = |digest: &image::Digest| fs::read(source.store().path_of(digest)).unwrap();
    // The same image in a registry that keeps signatures, and beside a web server that does.
    let serve = |own: bool| {
        let registry = FakeRegistry::start(move |asked| {
            let headers =
                if own { vec![("X-Registry-Supports-Signatures".to_owned(), "1".to_owned())] } else { Vec::new() };
            (
                Fault::None,
                (asked.path == "/v2/").then(|| FakeResponse { status: 200, headers, ..FakeResponse::default() }),
            )
        });
        let manifest = read(&house.digest);
        registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", &manifest);
        for blob in image.manifest.layers.iter().chain([&image.manifest.config]) {
            registry.put(&format!("/v2/a/b/blobs/{}", blob.digest), "application/octet-stream", &read(&blob.digest));
        }
        registry
    };
    let (keeps, plain) = (serve(true), serve(false));
    let policy = json!({ "default": [simple(&house, "good")] }).to_string();
    fs::write(house.path("all.json"), policy).unwrap();
    let client = |settings: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "etc/containers/registries.d/a.yaml", settings);
        Kit::in_dir(dir, &[], |options| {
            options.use_http = true;
            options.policy = Some(house.path("all.json").into());
        })
    };
    let signed = |host: &str| {
        let name = format!("{host}/a/b:v1");
        house.sign_simply(&house.digest, "good", &format!("{host}:v1"), &name);
        let path = format!("lookaside/{}@sha256={}/signature-1", host.split(':').next().unwrap(), house.digest.hex());
        let bytes = fs::read(house.path(&path)).unwrap();
        fs::remove_dir_all(house.path("lookaside")).unwrap();
        (name, bytes)
    };
    let (name, signature) = signed(keeps.host());
    let list = |kind: &str| json!({ "signatures": [{ "schemaVersion": 2, "name": "x", "type": kind, "content": base64(&signature) }] });
    let path = format!("/extensions/v2/a/b/signatures/{}", house.digest);
    assert!(client("").pull(&name).is_err());
    keeps.put(&path, "application/json", list("other").to_string().as_bytes());
    assert!(client("").pull(&name).is_err());
    keeps.put(&path, "application/json", list("atomic").to_string().as_bytes());
    client("").pull(&name).unwrap();

    let (name, signature) = signed(plain.host());
    let settings = format!("default-docker:\n  sigstore: http://{}/sigs/\n", plain.host());
    assert!(client(&settings).pull(&name).is_err());
    plain.put(&format!("/sigs/a/b@sha256={}/signature-1", house.digest.hex()), "application/octet-stream", &signature);
    client(&settings).pull(&name).unwrap();
    assert!(client("default-docker:\n  sigstore: ftp://x\n").pull(&name).is_err());
}

#[test]
fn more_signatures_than_anybody_needs_are_refused() {
    let Some(house) = House::new() else { return };
    let name = house.name("a/b:v1");
    house.sign_simply(&house.digest, "other", "a/b:v1", &name);
    let place = house.path(&format!("lookaside/a/b@sha256={}", house.digest.hex()));
    let first = fs::read(format!("{place}/signature-1")).unwrap();
    for number in 2..200 {
        fs::write(format!("{place}/signature-{number}"), &first).unwrap();
    }
    let policy = house.policy(&simple(&house, "good"));
    assert_eq!(house.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
    fs::remove_file(format!("{place}/signature-2")).unwrap();
    fs::write(format!("{place}/signature-1"), vec![0xa3; 2 << 20]).unwrap();
    assert!(house.client(&policy).pull(&name).unwrap_err().to_string().contains("larger than"));
    let payload = vec![b' '; 2 << 20];
    house.attach(&house.digest, "a/b", &[(payload, json!({}))]);
    let policy = house.policy(&sigstore(&house, "good"));
    assert_eq!(house.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
    let many: Vec<_> = (0..200).map(|number| (format!("{number}").into_bytes(), json!({}))).collect();
    house.attach(&house.digest, "a/b", &many);
    assert_eq!(house.client(&policy).pull(&name).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn a_signature_of_skopeo_copy_is_good() {
    let Some(house) = House::new() else { return };
    let target = house.name("signed/b:v1");
    let output = std::process::Command::new("skopeo")
        .env("GNUPGHOME", house.path("gpg"))
        .args(["--insecure-policy", "--registries.d", &house.path("etc/containers/registries.d"), "copy"])
        .args(["--src-tls-verify=false", "--dest-tls-verify=false", "--sign-by", "good@a.test"])
        .args([format!("docker://{}", house.name("a/b:v1")), format!("docker://{target}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    both(&house, &simple(&house, "good"), "signed/b:v1", true);
    both(&house, &simple(&house, "other"), "signed/b:v1", false);
}
