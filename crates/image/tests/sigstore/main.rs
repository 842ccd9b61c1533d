//! Sigstore signatures: keys and signatures of OpenSSL, certificates and log entries in the format of cosign.

mod authority;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use image::signature::{
    AttachedSignature, BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, Judgement, Name,
    SIGNATURE_ANNOTATION, SIGSTORE_MEDIA_TYPE, SignaturePolicy, Sigstore, Subject,
};
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, SanType, SigningKey, date_time_ymd};
use serde_json::{Value, json};

use authority::{Authority, keyless, utf8};

const DIGEST: &str = "sha256:a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
/// Noon of the day on which certificates are valid.
const THEN: i64 = 1_714_564_800;
/// Years later.
const NOW: i64 = 1_790_000_000;
const ISSUER: &str = "https://issuer.test";
const EMAIL: &str = "builder@a.test";

fn base64(bytes: impl AsRef<[u8]>) -> String {
    base64_simd::STANDARD.encode_to_string(bytes.as_ref())
}

fn payload(reference: &str) -> Vec<u8> {
    format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{reference}"}},"image":{{"docker-manifest-digest":"{DIGEST}"}},"type":"cosign container image signature"}},"optional":null}}"#
    )
    .into_bytes()
}

fn attached(payload: &[u8], signature: &[u8], more: &[(&str, &str)]) -> AttachedSignature {
    let mut annotations = BTreeMap::from([(SIGNATURE_ANNOTATION.to_owned(), base64(signature))]);
    annotations.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    AttachedSignature::Sigstore(Sigstore {
        media_type: SIGSTORE_MEDIA_TYPE.into(),
        payload: payload.to_vec(),
        annotations,
    })
}

fn judge_as(name: &str, requirement: &Value, signatures: &[AttachedSignature]) -> Judgement {
    let mut requirement = requirement.clone();
    requirement["type"] = json!("sigstoreSigned");
    let policy = SignaturePolicy::parse(json!({ "default": [requirement] }).to_string().as_bytes()).unwrap();
    let read = |_: &Path| Err(std::io::Error::other("no such file"));
    let name = Name::parse(name).unwrap();
    let subject = Subject { name: Some(&name), digest: DIGEST };
    policy.applied("docker", &[]).requirements[0].judge(&subject, signatures, NOW, &read)
}

fn judge(requirement: &Value, signature: AttachedSignature) -> Judgement {
    judge_as("quay.io/a/b:v1", requirement, &[signature])
}

fn reason(requirement: &Value, signature: AttachedSignature) -> String {
    judge(requirement, signature).reason.unwrap()
}

#[test]
fn signatures_of_all_kinds_of_keys_are_accepted() {
    if !testkit::installed("openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let output = Command::new("openssl").current_dir(dir.path()).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let what = payload("quay.io/a/b:v1");
    fs::write(dir.path().join("payload"), &what).unwrap();
    for (options, sign) in [
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-256", "dgst -sha256 -sign key -out signature payload"),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-384", "dgst -sha256 -sign key -out signature payload"),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-521", "dgst -sha256 -sign key -out signature payload"),
        ("-algorithm RSA -pkeyopt rsa_keygen_bits:2048", "dgst -sha256 -sign key -out signature payload"),
        ("-algorithm ED25519", "pkeyutl -sign -rawin -inkey key -in payload -out signature"),
    ] {
        run(&format!("genpkey {options} -out key"));
        run("pkey -in key -pubout -out public");
        run(sign);
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let requirement = json!({ "keyData": base64(read("public")) });
        let judgement = judge(&requirement, attached(&what, &read("signature"), &[]));
        assert!(judgement.accepted, "{options}: {judgement:?}");
        let signer = judgement.signatures[0].signer.clone().unwrap();
        assert!(signer.starts_with("key sha256:"), "{signer}");
        let mut other = read("signature");
        let last = other.len() - 1;
        other[last] ^= 1;
        assert!(!judge(&requirement, attached(&what, &other, &[])).accepted, "{options}");
        let wrong = payload("quay.io/a/b:v2");
        assert!(!judge(&requirement, attached(&wrong, &read("signature"), &[])).accepted, "{options}");
        if options.contains("RSA") {
            run("rsa -pubin -in public -RSAPublicKey_out -out public");
            let requirement = json!({ "keyDatas": [base64(read("public"))] });
            assert!(judge(&requirement, attached(&what, &read("signature"), &[])).accepted, "the older format");
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

#[test]
fn one_of_several_keys_is_enough_and_names_must_match() {
    let (one, two, three) = (key(), key(), key());
    let requirement = json!({ "keyDatas": [base64(one.public_key_pem()), base64(two.public_key_pem())] });
    let signed = |key: &KeyPair, what: &[u8]| attached(what, &key.sign(what).unwrap(), &[]);
    let good = payload("quay.io/a/b:v1");
    assert!(judge(&requirement, signed(&two, &good)).accepted);
    assert!(reason(&requirement, signed(&three, &good)).contains("not a valid signature of a trusted key"));
    // cosign signs for a repository, which the default does not accept for an image by tag.
    let cosign = payload("quay.io/a/b");
    assert_eq!(reason(&requirement, signed(&one, &cosign)), "it is for quay.io/a/b, not for quay.io/a/b:v1");
    let mut by_repository = requirement.clone();
    by_repository["signedIdentity"] = json!({ "type": "matchRepository" });
    assert!(judge(&by_repository, signed(&one, &cosign)).accepted);
    assert!(!judge_as("quay.io/a/c:v1", &by_repository, &[signed(&one, &cosign)]).accepted);
    let other = String::from_utf8(good.clone()).unwrap().replace("a1a1", "b2b2").into_bytes();
    assert!(reason(&requirement, signed(&one, &other)).starts_with("it is for sha256:b2b2"));
    for (what, expected) in [
        (&b"{"[..], "EOF"),
        (b"[]", "not an object"),
        (br#"{"critical": {}, "critical": {}, "optional": {}}"#, "duplicate key"),
    ] {
        let found = reason(&requirement, signed(&one, what));
        assert!(found.contains(expected), "{found}");
    }
    let mut layer = signed(&one, &good);
    if let AttachedSignature::Sigstore(it) = &mut layer {
        it.media_type = "application/json".into();
    }
    assert!(reason(&requirement, layer).contains("not a signature"));
    assert!(reason(&requirement, AttachedSignature::Simple(b"x".to_vec())).contains("wants a sigstore signature"));
    let broken = json!({ "keyData": base64("-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n") });
    assert!(reason(&broken, signed(&one, &good)).contains("the public key is damaged"));
    let path = json!({ "keyPath": "/no/such" });
    assert_eq!(reason(&path, signed(&one, &good)), "/no/such: no such file");
}

/// A transparency log.
struct Log(KeyPair);

impl Log {
    fn entry(&self, signer: &str, signature: &[u8], payload: &[u8], time: i64) -> Value {
        let hash = sha256(payload);
        let body = json!({ "apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
            "data": { "hash": { "algorithm": "sha256", "value": hash } },
            "signature": { "content": base64(signature), "publicKey": { "content": base64(signer) } } } });
        let payload = json!({
            "body": base64(body.to_string()), "integratedTime": time, "logIndex": 42, "logID": "c0d2" });
        self.promise(payload)
    }

    /// Signs the canonical form of a payload.
    fn promise(&self, payload: Value) -> Value {
        let sorted: BTreeMap<String, Value> = payload.as_object().unwrap().clone().into_iter().collect();
        let text = serde_json::to_string(&sorted).unwrap();
        json!({ "SignedEntryTimestamp": base64(self.0.sign(text.as_bytes()).unwrap()), "Payload": payload })
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_log_must_contain_the_signature() {
    let (key, log) = (key(), Log(key()));
    let requirement =
        json!({ "keyData": base64(key.public_key_pem()), "rekorPublicKeyData": base64(log.0.public_key_pem()) });
    let what = payload("quay.io/a/b:v1");
    let signature = key.sign(&what).unwrap();
    let with = |bundle: &Value| attached(&what, &signature, &[(BUNDLE_ANNOTATION, &bundle.to_string())]);
    let good = log.entry(&key.public_key_pem(), &signature, &what, THEN);
    let judgement = judge(&requirement, with(&good));
    assert!(judgement.accepted, "{judgement:?}");
    assert_eq!(judgement.signatures[0].time.as_deref(), Some("2024-05-01T12:00:00Z"));
    assert!(
        reason(&requirement, attached(&what, &signature, &[])).contains("no annotation dev.sigstore.cosign/bundle")
    );
    let mut later = good.clone();
    later["Payload"]["integratedTime"] = json!(THEN + 1);
    let mut more = good.clone();
    more["Extra"] = json!(1);
    let mut unsigned = good.clone();
    unsigned["Payload"]["more"] = json!(1);
    let stranger = Log(self::key());
    for (bundle, expected) in [
        (later, "no log that the policy trusts"),
        (more, "unknown key \"Extra\""),
        (unsigned, "unknown key \"more\""),
        (stranger.entry(&key.public_key_pem(), &signature, &what, THEN), "no log that the policy trusts"),
        (log.entry(&stranger.0.public_key_pem(), &signature, &what, THEN), "for another signer"),
        (log.entry(&key.public_key_pem(), b"other", &what, THEN), "for another signature"),
        (log.entry(&key.public_key_pem(), &signature, b"other", THEN), "for another payload"),
        (log.entry("no PEM", &signature, &what, THEN), "not PEM"),
        (
            log.promise(json!({ "body": base64("{}"), "integratedTime": 1, "logIndex": 1, "logID": "" })),
            "missing field",
        ),
        (json!({}), "has no \"SignedEntryTimestamp\""),
    ] {
        let found = reason(&requirement, with(&bundle));
        assert!(found.contains(expected), "{bundle}: {found}");
    }
}

#[test]
fn keyless_certificates_must_be_valid_at_the_time_of_the_log_entry() {
    let root = Authority::new("root", None);
    let between = Authority::new("between", Some(&root));
    let (key, log) = (key(), Log(key()));
    let requirement = json!({
        "fulcio": { "caData": base64(&root.pem), "oidcIssuer": ISSUER, "subjectEmail": EMAIL },
        "rekorPublicKeyDatas": [base64(Log(self::key()).0.public_key_pem()), base64(log.0.public_key_pem())] });
    let what = payload("quay.io/a/b:v1");
    let signature = key.sign(&what).unwrap();
    let chain = format!("{}{}", between.pem, root.pem);
    let with_chain = |certificate: &str, chain: &str, time: i64| {
        let bundle = log.entry(certificate, &signature, &what, time).to_string();
        let annotations =
            [(CERTIFICATE_ANNOTATION, certificate), (CHAIN_ANNOTATION, chain), (BUNDLE_ANNOTATION, &bundle)];
        attached(&what, &signature, &annotations)
    };
    let with = |certificate: &str, time: i64| with_chain(certificate, &chain, time);
    let issuers = [(1, ISSUER.as_bytes().to_vec()), (8, utf8(ISSUER))];
    for issuers in [&issuers[..], &issuers[..1], &issuers[1..]] {
        let certificate = between.certify(&key, &keyless(EMAIL, issuers));
        let judgement = judge(&requirement, with(&certificate, THEN));
        assert!(judgement.accepted, "{judgement:?}");
        let signer = judgement.signatures[0].signer.as_deref();
        assert_eq!(signer, Some("certificate of builder@a.test, vouched for by https://issuer.test"));
    }
    let direct = root.certify(&key, &keyless(EMAIL, &issuers));
    assert!(judge(&requirement, with_chain(&direct, "", THEN)).accepted);
    let good = between.certify(&key, &keyless(EMAIL, &issuers));
    let mut for_servers = keyless(EMAIL, &issuers);
    for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let stranger = Authority::new("root", None);
    for (certificate, time, expected) in [
        (good.clone(), THEN + 86_400, "not valid at 2024-05-02T12:00:00Z"),
        (good.clone(), THEN - 86_400, "not valid at 2024"),
        (
            between.certify(&key, &keyless("other@a.test", &issuers)),
            THEN,
            "is for other@a.test, not for builder@a.test",
        ),
        (
            between.certify(&key, &keyless(EMAIL, &[(1, b"https://evil.test".to_vec())])),
            THEN,
            "issuer is \"https://evil.test\"",
        ),
        (between.certify(&key, &keyless(EMAIL, &[])), THEN, "does not name the issuer"),
        (between.certify(&key, &keyless(EMAIL, &[issuers[0].clone(), (8, utf8("x"))])), THEN, "names two issuers"),
        (between.certify(&key, &keyless(EMAIL, &[(8, ISSUER.into())])), THEN, "the issuer is not text"),
        (between.certify(&key, &for_servers), THEN, "is not trusted"),
        (stranger.certify(&key, &keyless(EMAIL, &issuers)), THEN, "is not trusted"),
        (
            between.certify(&self::key(), &keyless(EMAIL, &issuers)),
            THEN,
            "not a valid signature of the key in its certificate",
        ),
        (format!("{good}{good}"), THEN, "several certificates"),
        (String::new(), THEN, "certificate is missing"),
    ] {
        let found = reason(&requirement, with(&certificate, time));
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert!(reason(&requirement, with_chain(&good, "", THEN)).contains("is not trusted"));
    assert!(reason(&requirement, with_chain(&good, &root.pem.repeat(20), THEN)).contains("more than 10"));
    // The certificate is valid, but the log contains another one.
    let mut replayed = with(&between.certify(&key, &keyless(EMAIL, &issuers)), THEN);
    if let (AttachedSignature::Sigstore(it), AttachedSignature::Sigstore(other)) = (&mut replayed, with(&good, THEN)) {
        it.annotations.insert(BUNDLE_ANNOTATION.into(), other.annotations[BUNDLE_ANNOTATION].clone());
    }
    assert!(reason(&requirement, replayed).contains("for another signer"));
    // An expired authority issues no certificates, whatever they claim.
    let mut long = keyless(EMAIL, &issuers);
    long.not_after = date_time_ymd(2027, 1, 1);
    let long = root.certify(&key, &long);
    assert!(reason(&requirement, with_chain(&long, "", NOW - 1_000)).contains("no authority is valid"));
}

#[test]
fn certificates_of_a_private_pki_must_be_valid_now() {
    let mut root = Authority::new("root", None);
    root.params.not_after = date_time_ymd(2030, 1, 1);
    root.pem = root.params.self_signed(&root.key).unwrap().pem();
    let mut between = Authority::new("between", Some(&root));
    between.params.not_after = date_time_ymd(2030, 1, 1);
    between.pem = between.params.signed_by(&between.key, &root.issuer()).unwrap().pem();
    let key = key();
    let what = payload("quay.io/a/b:v1");
    let signature = key.sign(&what).unwrap();
    let mut params = keyless(EMAIL, &[]);
    params.subject_alt_names.push(SanType::DnsName("build.a.test".try_into().unwrap()));
    params.not_after = date_time_ymd(2029, 1, 1);
    let certificate = between.certify(&key, &params);
    let with = |certificate: &str, chain: &str| {
        attached(&what, &signature, &[(CERTIFICATE_ANNOTATION, certificate), (CHAIN_ANNOTATION, chain)])
    };
    let pki = |more: Value| {
        let mut pki = json!({ "caRootsData": base64(&root.pem) });
        pki.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "pki": pki })
    };
    let chain = format!("{}{}", between.pem, root.pem);
    // A PKI may have many authorities; the limit applies to those that a signature brings.
    let many = format!("{}{}", root.pem.repeat(20), between.pem);
    let own = json!({ "subjectEmail": EMAIL, "caIntermediatesData": base64(many) });
    for (requirement, chain, good) in [
        (pki(json!({ "subjectEmail": EMAIL })), chain.as_str(), true),
        (pki(own), "", true),
        (pki(json!({ "subjectEmail": EMAIL })), "", false),
        (pki(json!({ "subjectHostname": "build.a.test" })), &chain, true),
        (pki(json!({ "subjectHostname": "build.a.test", "subjectEmail": EMAIL })), &chain, true),
        (pki(json!({ "subjectHostname": "build.b.test" })), &chain, false),
        (pki(json!({ "subjectHostname": "build.a.test", "subjectEmail": "x@a.test" })), &chain, false),
    ] {
        let judgement = judge(&requirement, with(&certificate, chain));
        assert_eq!(judgement.accepted, good, "{requirement}: {judgement:?}");
    }
    params.not_after = date_time_ymd(2025, 1, 1);
    let over = between.certify(&key, &params);
    assert!(reason(&pki(json!({ "subjectEmail": EMAIL })), with(&over, &chain)).contains("is not valid at "));
}

#[test]
fn arbitrary_bytes_are_no_signature() {
    let (key, log) = (key(), Log(key()));
    let root = Authority::new("root", None);
    let requirement = json!({
        "fulcio": { "caData": base64(&root.pem), "oidcIssuer": ISSUER, "subjectEmail": EMAIL },
        "rekorPublicKeyData": base64(log.0.public_key_pem()) });
    let what = payload("quay.io/a/b:v1");
    let signature = key.sign(&what).unwrap();
    let pem = root.certify(&key, &keyless(EMAIL, &[(8, utf8(ISSUER))]));
    let der =
        base64_simd::STANDARD.decode_to_vec(pem.lines().filter(|it| !it.starts_with('-')).collect::<String>()).unwrap();
    let with = |der: &[u8]| {
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", base64(der));
        let bundle = log.entry(&pem, &signature, &what, THEN).to_string();
        judge(
            &requirement,
            attached(&what, &signature, &[(CERTIFICATE_ANNOTATION, &pem), (BUNDLE_ANNOTATION, &bundle)]),
        )
    };
    assert!(with(&der).accepted);
    for length in 0..der.len() {
        assert!(!with(&der[..length]).accepted, "{length} bytes");
    }
    for at in 0..der.len() {
        let mut damaged = der.clone();
        damaged[at] ^= 0x20;
        assert!(!with(&damaged).accepted, "byte {at}");
    }
    let deep = "[".repeat(100_000);
    let judgement = judge(&json!({ "keyData": base64(key.public_key_pem()) }), attached(deep.as_bytes(), b"", &[]));
    assert!(!judgement.accepted);
}
