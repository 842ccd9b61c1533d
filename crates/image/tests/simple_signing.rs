//! Simple signing, with keys and signatures of GnuPG.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use image::signature::{AttachedSignature, Judgement, Name, SignaturePolicy, Subject};

const DIGEST: &str = "sha256:a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const DAY: i64 = 86_400;

/// A home directory of GnuPG.
struct Gpg(tempfile::TempDir);

impl Gpg {
    /// Creates a home directory; `None` if a program is missing.
    fn new() -> Option<Gpg> {
        if !["gpg", "gpgconf"].into_iter().all(testkit::installed) {
            return None;
        }
        // Socket paths of gpg-agent must be short.
        Some(Gpg(tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap()))
    }

    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.0.path()).args([
            "--batch",
            "--quiet",
            "--yes",
            "--pinentry-mode",
            "loopback",
        ]);
        let output = command.args(["--passphrase", ""]).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpg {arguments:?}: {error}");
        output.stdout
    }

    fn key(&self, name: &str, algorithm: &str) -> String {
        self.run(&["--quick-generate-key", name, algorithm, "sign", "never"]);
        self.fingerprint(name)
    }

    fn fingerprint(&self, name: &str) -> String {
        let listed = String::from_utf8(self.run(&["--list-keys", "--with-colons", name])).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    fn sign(&self, text: &str, arguments: &[&str]) -> Vec<u8> {
        let file = self.0.path().join("text");
        fs::write(&file, text).unwrap();
        let all = [arguments, &["--output", "-", "--sign", file.to_str().unwrap()]].concat();
        self.run(&all)
    }

    fn export(&self, name: &str) -> Vec<u8> {
        self.run(&["--export", name])
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.0.path()).args(["--kill", "all"]).output();
    }
}

fn claim(reference: &str) -> String {
    format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{reference}"}},"image":{{"docker-manifest-digest":"{DIGEST}"}},"type":"atomic container signature"}},"optional":{{"creator":"test","timestamp":1700000000}}}}"#
    )
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

fn judge_at(now: i64, keys: &[u8], signatures: &[&[u8]]) -> Judgement {
    let text = r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys"}]}"#;
    let policy = SignaturePolicy::parse(text.as_bytes()).unwrap();
    let files = BTreeMap::from([(Path::new("/keys"), keys.to_vec())]);
    let read = |path: &Path| files.get(path).cloned().ok_or(std::io::ErrorKind::NotFound.into());
    let name = Name::parse("quay.io/a/b:v1").unwrap();
    let subject = Subject { name: Some(&name), digest: DIGEST };
    let signatures: Vec<AttachedSignature> =
        signatures.iter().map(|it| AttachedSignature::from_file(it).unwrap()).collect();
    policy.applied("docker", &[]).requirements[0].judge(&subject, &signatures, now, &read)
}

fn judge(keys: &[u8], signatures: &[&[u8]]) -> Judgement {
    judge_at(now(), keys, signatures)
}

fn reason(keys: &[u8], signature: &[u8]) -> String {
    judge(keys, &[signature]).reason.unwrap()
}

#[test]
fn signatures_of_all_kinds_of_keys_are_accepted() {
    let Some(gpg) = Gpg::new() else { return };
    for (name, algorithm) in [
        ("one@a.test", "rsa3072"),
        ("two@a.test", "ed25519"),
        ("three@a.test", "nistp256"),
        ("four@a.test", "nistp521"),
    ] {
        let fingerprint = gpg.key(name, algorithm);
        for compression in ["none", "zip", "zlib"] {
            let signature = gpg.sign(&claim("quay.io/a/b:v1"), &["-u", name, "--compress-algo", compression]);
            let judgement = judge(&gpg.export(name), &[&signature]);
            assert!(judgement.accepted, "{algorithm} {compression}: {judgement:?}");
            let finding = &judgement.signatures[0];
            assert_eq!(finding.signer, Some(format!("key {fingerprint} ({name})")));
            assert_eq!(finding.identity.as_deref(), Some("quay.io/a/b:v1"));
            assert_eq!(finding.digest.as_deref(), Some(DIGEST));
        }
    }
    // All keys of a ring are trusted, armored or not, and one good signature is enough.
    let armored = gpg.run(&["--armor", "--export"]);
    let signature = gpg.sign(&claim("quay.io/a/b:v1"), &["-u", "three@a.test", "--armor"]);
    let wrong = gpg.sign(&claim("quay.io/a/b:v2"), &["-u", "one@a.test"]);
    let judgement = judge(&armored, &[&wrong, &signature]);
    assert!(judgement.accepted, "{judgement:?}");
    let accepted: Vec<bool> = judgement.signatures.iter().map(|it| it.accepted).collect();
    assert_eq!(accepted, [false, true]);
}

#[test]
fn a_signature_is_valid_for_one_image_only() {
    let Some(gpg) = Gpg::new() else { return };
    gpg.key("one@a.test", "ed25519");
    let keys = gpg.export("one@a.test");
    let sign = |text: &str| gpg.sign(text, &["-u", "one@a.test"]);
    let other = claim("quay.io/a/b:v1").replace("a1a1", "b2b2");
    assert!(reason(&keys, &sign(&other)).starts_with("it is for sha256:b2b2"));
    assert_eq!(reason(&keys, &sign(&claim("quay.io/a/c:v1"))), "it is for quay.io/a/c:v1, not for quay.io/a/b:v1");
    let twice = claim("quay.io/a/b:v1").replace("\"optional\"", "\"critical\":{},\"optional\"");
    assert!(reason(&keys, &sign(&twice)).contains("duplicate key"));
    let more = claim("quay.io/a/b:v1").replace("\"optional\"", "\"other\":{},\"optional\"");
    assert!(reason(&keys, &sign(&more)).contains("unknown key \"other\""));
    let cosign = claim("quay.io/a/b:v1").replace("atomic container", "cosign container image");
    assert!(reason(&keys, &sign(&cosign)).contains("not a \"atomic container signature\""));
    assert_eq!(judge(&keys, &[]).reason.as_deref(), Some("it has no signature"));
}

#[test]
fn other_openpgp_messages_are_rejected() {
    let Some(gpg) = Gpg::new() else { return };
    gpg.key("one@a.test", "ed25519");
    gpg.key("two@a.test", "ed25519");
    let keys = gpg.run(&["--export"]);
    let text = claim("quay.io/a/b:v1");
    let sign = |arguments: &[&str]| gpg.sign(&text, arguments);
    let good = sign(&["-u", "one@a.test"]);
    assert!(judge(&keys, &[&good]).accepted);
    for (arguments, expected) in [
        (&["-u", "one@a.test", "-u", "two@a.test"][..], "with exactly one signature (it has 2)"),
        (&["-u", "one@a.test", "--detach-sign"], "with exactly one signature (it has 1)"),
        (&["-u", "one@a.test", "--clearsign"], "a signature of plain text"),
        (&["-u", "one@a.test", "--textmode"], "a text signature"),
        (&["-u", "one@a.test", "--compress-algo", "bzip2"], "compression 3 is not supported"),
        (&["-u", "one@a.test", "--digest-algo", "SHA1"], "SHA-1"),
        (&["-u", "one@a.test", "--set-notation", "!critical@a.test=1"], "an unknown critical subpacket (20)"),
    ] {
        let found = reason(&keys, &sign(arguments));
        assert!(found.contains(expected), "{arguments:?}: {found}");
    }
    let store = gpg.run(&["--store", "--output", "-", gpg.0.path().join("text").to_str().unwrap()]);
    assert!(reason(&keys, &store).contains("it has 0"));
    assert!(reason(&gpg.export("two@a.test"), &good).contains("not among the keys of the policy"));
    assert!(reason(b"-----BEGIN PGP PUBLIC KEY BLOCK-----", &good).contains("armor has no end"));
    assert!(reason(b"rubbish", &good).contains("not OpenPGP"));
    let two = [good.clone(), good].concat();
    assert!(!judge(&keys, &[&two]).accepted);
}

#[test]
fn expired_and_revoked_keys_are_rejected() {
    let Some(gpg) = Gpg::new() else { return };
    let text = claim("quay.io/a/b:v1");
    gpg.run(&["--quick-generate-key", "short@a.test", "rsa2048", "sign", "7d"]);
    let signature = gpg.sign(&text, &["-u", "short@a.test"]);
    let keys = gpg.export("short@a.test");
    assert!(judge(&keys, &[&signature]).accepted);
    let later = judge_at(now() + 8 * DAY, &keys, &[&signature]).reason.unwrap();
    assert!(later.contains("expired at"), "{later}");
    let earlier = judge_at(now() - 8 * DAY, &keys, &[&signature]).reason.unwrap();
    assert!(earlier.contains("was created in the future"), "{earlier}");
    // The owner extends the validity of the key.
    gpg.run(&["--quick-set-expire", &gpg.fingerprint("short@a.test"), "30d"]);
    assert!(judge_at(now() + 8 * DAY, &gpg.export("short@a.test"), &[&signature]).accepted);

    let fingerprint = gpg.key("gone@a.test", "ed25519");
    let signature = gpg.sign(&text, &["-u", "gone@a.test"]);
    let short = gpg.sign(&text, &["-u", "gone@a.test", "--default-sig-expire", "2d"]);
    let keys = gpg.export("gone@a.test");
    assert!(judge(&keys, &[&signature]).accepted && judge(&keys, &[&short]).accepted);
    let later = judge_at(now() + 3 * DAY, &keys, &[&short]).reason.unwrap();
    assert_eq!(later, "the signature has expired");
    let revocation = gpg.0.path().join(format!("openpgp-revocs.d/{fingerprint}.rev"));
    let content = fs::read_to_string(&revocation).unwrap().replace(":-----BEGIN", "-----BEGIN");
    fs::write(&revocation, content).unwrap();
    gpg.run(&["--import", revocation.to_str().unwrap()]);
    assert_eq!(reason(&gpg.export("gone@a.test"), &signature), format!("key {fingerprint} is revoked"));
}

#[test]
fn subkeys_sign_for_their_owner() {
    let Some(gpg) = Gpg::new() else { return };
    let text = claim("quay.io/a/b:v1");
    let fingerprint = gpg.key("owner@a.test", "ed25519");
    gpg.run(&["--quick-add-key", &fingerprint, "rsa2048", "sign", "5d"]);
    let signature = gpg.sign(&text, &["-u", "owner@a.test"]);
    let keys = gpg.export("owner@a.test");
    let judgement = judge(&keys, &[&signature]);
    assert!(judgement.accepted, "{judgement:?}");
    let signer = judgement.signatures[0].signer.clone().unwrap();
    assert!(signer.starts_with(&format!("key {fingerprint} (owner@a.test), subkey ")), "{signer}");
    assert!(judge_at(now() + 6 * DAY, &keys, &[&signature]).reason.unwrap().contains("expired"));
    // A subkey of another owner is not trusted, even after this key in the ring.
    gpg.key("thief@a.test", "ed25519");
    let other_owner = gpg.run(&["--export-options", "export-minimal", "--export", "thief@a.test"]);
    let subkey = subkey_of(&keys);
    let stolen = judge(&[other_owner, subkey].concat(), &[&signature]).reason.unwrap();
    assert!(stolen.contains("does not belong to key"), "{stolen}");
}

/// Returns the last key of a ring with the packets that follow it.
fn subkey_of(keys: &[u8]) -> Vec<u8> {
    let (mut at, mut start) = (0, 0);
    while at < keys.len() {
        let (head, length) = match keys[at] & 3 {
            0 => (2, usize::from(keys[at + 1])),
            1 => (3, usize::from(keys[at + 1]) << 8 | usize::from(keys[at + 2])),
            _ => panic!("an unexpected packet"),
        };
        if keys[at] >> 2 & 0xf == 14 {
            start = at;
        }
        at += head + length;
    }
    keys[start..].to_vec()
}

#[test]
fn damaged_signatures_and_keys_are_rejected() {
    let Some(gpg) = Gpg::new() else { return };
    gpg.key("one@a.test", "ed25519");
    let keys = gpg.export("one@a.test");
    let signature = gpg.sign(&claim("quay.io/a/b:v1"), &["-u", "one@a.test", "--compress-algo", "none"]);
    for length in 1..signature.len() {
        assert!(!judge(&keys, &[&signature[..length]]).accepted, "{length} bytes");
    }
    for at in 0..signature.len() {
        let mut damaged = signature.clone();
        damaged[at] ^= 0x04;
        if damaged[0] == 0 {
            continue;
        }
        let judgement = judge(&keys, &[&damaged]);
        // The head of the message, the name of its file and hints at keys are not signed.
        if judgement.accepted {
            assert_eq!(judgement.signatures[0].identity.as_deref(), Some("quay.io/a/b:v1"));
            assert_eq!(judgement.signatures[0].digest.as_deref(), Some(DIGEST));
        }
    }
    for length in 1..keys.len() {
        let _ = judge(&keys[..length], &[&signature]);
    }
    for at in 0..keys.len() {
        let mut damaged = keys.clone();
        damaged[at] ^= 0x10;
        let _ = judge(&damaged, &[&signature]);
    }
}

#[test]
fn old_keys_and_old_signatures_are_accepted() {
    let Some(gpg) = Gpg::new() else { return };
    // The policy contains the key, so its SHA-1 self-signature does not matter.
    gpg.run(&["--cert-digest-algo", "SHA1", "--quick-generate-key", "old@a.test", "rsa2048", "sign", "never"]);
    let signature = gpg.sign(&claim("quay.io/a/b:v1"), &["-u", "old@a.test"]);
    let judgement = judge(&gpg.export("old@a.test"), &[&signature]);
    assert!(judgement.accepted, "{judgement:?}");
    // GnuPG no longer creates signatures of version 3, but some signers do.
    let old = Rsa::new();
    let signature = old.sign_as_version_3(claim("quay.io/a/b:v1").as_bytes());
    let judgement = judge(&old.ring(), &[&signature]);
    assert!(judgement.accepted, "{judgement:?}");
    let checked = gpg.0.path().join("v3");
    fs::write(&checked, &signature).unwrap();
    let ring = gpg.0.path().join("ring");
    fs::write(&ring, old.ring()).unwrap();
    gpg.run(&["--import", ring.to_str().unwrap()]);
    gpg.run(&["--verify", checked.to_str().unwrap()]);
}

/// An RSA key, for signatures that GnuPG does not create.
struct Rsa(aws_lc_rs::rsa::KeyPair);

impl Rsa {
    fn new() -> Rsa {
        Rsa(aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap())
    }

    fn body(&self) -> Vec<u8> {
        use aws_lc_rs::signature::KeyPair;
        // DER encodes two numbers, of 256 and of 3 bytes.
        let key = self.0.public_key().as_ref();
        let numbers = [number(&key[9..9 + 256]), number(&key[key.len() - 3..])];
        [&[4, 0x60, 0, 0, 0, 1][..], &numbers.concat()].concat()
    }

    fn framed(&self) -> Vec<u8> {
        let body = self.body();
        [&[0x99], &(body.len() as u16).to_be_bytes()[..], &body].concat()
    }

    fn id(&self) -> Vec<u8> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, &self.framed());
        digest.as_ref()[12..].to_vec()
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        self.0.sign(&aws_lc_rs::signature::RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
        number(&signature)
    }

    /// Returns the key with a user id.
    fn ring(&self) -> Vec<u8> {
        let name = b"v3@a.test";
        let hashed = [&[4, 0x13, 1, 8, 0, 9, 5, 2, 0x60, 0, 0, 1, 2, 27, 3][..]].concat();
        let trailer = [&hashed[..], &[4, 0xff, 0, 0, 0, hashed.len() as u8]].concat();
        let length = [0, 0, 0, name.len() as u8];
        let message = [&self.framed()[..], &[0xb4], &length, name, &trailer].concat();
        let signed = [&hashed[..], &[0, 10, 9, 16], &self.id(), &[0, 0], &self.sign(&message)].concat();
        [packet(6, &self.body()), packet(13, name), packet(2, &signed)].concat()
    }

    fn sign_as_version_3(&self, content: &[u8]) -> Vec<u8> {
        let trailer = [0, 0x60, 0, 0, 2];
        let signed = [&[3, 5][..], &trailer, &self.id(), &[1, 8]].concat();
        let message = [content, &trailer].concat();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &message);
        let signed = [&signed[..], &digest.as_ref()[..2], &self.sign(&message)].concat();
        let one_pass = [&[3, 0, 8, 1][..], &self.id(), &[1]].concat();
        let literal = [&[b'b', 0, 0, 0, 0, 0], content].concat();
        [packet(4, &one_pass), packet(11, &literal), packet(2, &signed)].concat()
    }
}

fn number(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let bits = bytes.len() * 8 - bytes[0].leading_zeros() as usize;
    [&(bits as u16).to_be_bytes()[..], bytes].concat()
}

fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[0xc0 | tag, 0xff], &(body.len() as u32).to_be_bytes()[..], body].concat()
}
