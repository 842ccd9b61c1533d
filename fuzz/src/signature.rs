//! Policies, and signatures of both kinds: the first byte selects the kind; parts are split at each `0xff 0xff`.

use std::collections::BTreeMap;
use std::path::Path;

use image::signature::{
    AttachedSignature, BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, Name, SIGNATURE_ANNOTATION,
    SIGSTORE_MEDIA_TYPE, SignaturePolicy, Sigstore, Subject,
};

const DIGEST: &str = "sha256:a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const SIMPLE: &str = r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys"}"#;
const KEYS: &str = r#"{"type": "sigstoreSigned", "keyPath": "/keys"}"#;
const KEYLESS: &str = r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/log",
    "fulcio": {"caPath": "/keys", "oidcIssuer": "https://issuer.test", "subjectEmail": "builder@a.test"}}"#;
const PKI: &str = r#"{"type": "sigstoreSigned",
    "pki": {"caRootsPath": "/keys", "subjectEmail": "builder@a.test", "subjectHostname": "a.test"}}"#;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if *kind == b'p' {
        if let Err(error) = SignaturePolicy::parse(rest) {
            assert!(!error.to_string().is_empty());
        }
        return;
    }
    let parts = split(rest);
    let part = |number: usize| parts.get(number).copied().unwrap_or_default();
    let text = |number: usize| String::from_utf8_lossy(part(number)).into_owned();
    let (requirement, signature) = match kind {
        b's' => match AttachedSignature::from_file(part(1)) {
            Ok(signature) => {
                assert_eq!(AttachedSignature::from_file(&signature.to_file()).expect("it was written"), signature);
                (SIMPLE, signature)
            }
            Err(_) => return,
        },
        kind => {
            let annotations = BTreeMap::from([
                (SIGNATURE_ANNOTATION.to_owned(), text(2)),
                (CERTIFICATE_ANNOTATION.to_owned(), text(3)),
                (CHAIN_ANNOTATION.to_owned(), text(4)),
                (BUNDLE_ANNOTATION.to_owned(), text(5)),
            ]);
            let payload = part(1).to_vec();
            let signature =
                AttachedSignature::Sigstore(Sigstore { media_type: SIGSTORE_MEDIA_TYPE.into(), payload, annotations });
            let requirement = match kind {
                b'k' => KEYS,
                b'f' => KEYLESS,
                _ => PKI,
            };
            (requirement, signature)
        }
    };
    let policy = SignaturePolicy::parse(format!(r#"{{"default": [{requirement}]}}"#).as_bytes()).expect("a policy");
    let name = Name::parse("quay.io/a/b:v1").expect("a name");
    let subject = Subject { name: Some(&name), digest: DIGEST };
    let read = |path: &Path| Ok(if path == Path::new("/log") { part(6) } else { part(0) }.to_vec());
    let judgement = policy.applied("docker", &[]).requirements[0].judge(&subject, &[signature], 1_800_000_000, &read);
    assert_eq!(judgement.accepted, judgement.reason.is_none());
    if let [finding] = judgement.signatures.as_slice() {
        assert_eq!(finding.accepted, judgement.accepted);
        if finding.accepted {
            assert_eq!(
                (finding.digest.as_deref(), finding.identity.as_deref()),
                (Some(DIGEST), Some("quay.io/a/b:v1"))
            );
            assert!(finding.signer.is_some());
        }
        for text in [&finding.reason, &finding.signer, &finding.identity].into_iter().flatten() {
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
}

fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes.windows(2).position(|two| two == [0xff, 0xff]) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + 2..];
    }
    parts.push(bytes);
    parts
}
