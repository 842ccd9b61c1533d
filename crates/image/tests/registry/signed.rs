//! A registry with signatures and policies for tests; other programs create the signatures if they can.

use std::fs;
use std::path::Path;
use std::process::Command;

use image::{Descriptor, Digest, ImageManifest, Location, Platform, media_type};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{DockerRegistry, RegistryPlan, installed};

use crate::kit::{Kit, image, write};

/// A registry with an image at `a/b:v1`, keys, and the settings with which containers tools sign it.
pub(crate) struct SignedRegistry {
    pub(crate) dir: TempDir,
    pub(crate) registry: DockerRegistry,
    pub(crate) digest: Digest,
    kit: Kit,
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    base64_simd::STANDARD.encode_to_string(bytes.as_ref())
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl SignedRegistry {
    /// Starts a registry and creates keys; `None` if a program is missing.
    pub(crate) fn new() -> Option<SignedRegistry> {
        let registry = DockerRegistry::start(RegistryPlan::default())?;
        if !["gpg", "gpgconf", "openssl", "skopeo"].into_iter().all(installed) {
            return None;
        }
        // Socket paths of gpg-agent must be short.
        let dir = tempfile::Builder::new().prefix("signed").tempdir_in("/tmp").unwrap();
        let kit = Kit::plain();
        let digest = image(kit.store(), &[b"layer"]);
        let signed = SignedRegistry { dir, registry, digest, kit };
        signed.push(&digest, "a/b:v1");
        fs::create_dir(signed.path("gpg")).unwrap();
        for key in ["good", "other"] {
            let name = format!("{key}@a.test");
            signed.gpg(&["--quick-generate-key", &name, "ed25519", "sign", "never"]);
            fs::write(signed.path(&format!("{key}.gpg")), signed.gpg(&["--export", &name])).unwrap();
            let private = signed.path(&format!("{key}.key"));
            let arguments = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &private];
            run(Command::new("openssl").args(arguments));
            let public = signed.path(&format!("{key}.pub"));
            run(Command::new("openssl").args(["pkey", "-in", &private, "-pubout", "-out", &public]));
        }
        let settings = format!(
            "docker:\n  {}:\n    lookaside: file://{}\n    use-sigstore-attachments: true\n",
            signed.registry.host(),
            signed.path("lookaside")
        );
        write(&signed.dir, "etc/containers/registries.d/a.yaml", settings);
        Some(signed)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the full name of an image in the registry.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.registry.host())
    }

    pub(crate) fn push(&self, digest: &Digest, rest: &str) {
        self.kit.client.push(digest, &Location::parse(&self.name(rest)).unwrap()).unwrap();
    }

    fn gpg(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.path("gpg")).args(["--batch", "--quiet", "--yes", "--passphrase", ""]);
        run(command.args(["--pinentry-mode", "loopback"]).args(arguments))
    }

    fn fingerprint(&self, key: &str) -> String {
        let listed = String::from_utf8(self.gpg(&["--list-keys", "--with-colons", &format!("{key}@a.test")])).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// Adds another image, and returns its digest.
    pub(crate) fn image(&self, content: &[u8], rest: &str) -> Digest {
        let digest = image(self.kit.store(), &[content]);
        self.push(&digest, rest);
        digest
    }

    /// Adds an index of two images, and returns its digest and that of the image for this machine.
    pub(crate) fn index(&self, rest: &str) -> (Digest, Digest) {
        let store = self.kit.store();
        let (native, other) = (image(store, &[b"here"]), image(store, &[b"there"]));
        let entry = |digest: Digest, architecture: &str| {
            let size = fs::metadata(store.path_of(&digest)).unwrap().len();
            let platform = Platform { os: "linux".into(), architecture: architecture.into(), ..Platform::default() };
            Descriptor { platform: Some(platform), ..Descriptor::new(media_type::OCI_MANIFEST, digest, size) }
        };
        let index = json!({ "schemaVersion": 2, "mediaType": media_type::OCI_INDEX,
            "manifests": [entry(native, "amd64"), entry(other, "arm64")] });
        let digest = store.put(index.to_string().as_bytes()).unwrap();
        self.push(&digest, rest);
        (digest, native)
    }

    /// Signs with skopeo and GnuPG; the claim has this name.
    pub(crate) fn sign_with_gpg(&self, digest: &Digest, key: &str, rest: &str, name: &str) {
        let manifest = self.kit.store().path_of(digest);
        let repository = rest.split([':', '@']).next().unwrap();
        let place = format!("lookaside/{repository}@sha256={}", digest.hex());
        fs::create_dir_all(self.path(&place)).unwrap();
        let number = fs::read_dir(self.path(&place)).unwrap().count() + 1;
        let mut command = Command::new("skopeo");
        command.env("GNUPGHOME", self.path("gpg")).arg("standalone-sign").arg(manifest).arg(name);
        let output = self.path(&format!("{place}/signature-{number}"));
        run(command.arg(self.fingerprint(key)).args(["--output", &output]));
    }

    /// Returns a claim in the format of cosign.
    pub(crate) fn claim(&self, digest: &Digest, name: &str) -> Vec<u8> {
        let text = json!({ "critical": { "identity": { "docker-reference": name },
            "image": { "docker-manifest-digest": digest.to_string() },
            "type": "cosign container image signature" }, "optional": null });
        text.to_string().into_bytes()
    }

    pub(crate) fn openssl_sign(&self, key: &str, payload: &[u8]) -> Vec<u8> {
        fs::write(self.path("payload"), payload).unwrap();
        let mut command = Command::new("openssl");
        command.args(["dgst", "-sha256", "-sign", &self.path(&format!("{key}.key")), &self.path("payload")]);
        run(&mut command)
    }

    /// Attaches signed payloads to an image, and replaces earlier ones.
    pub(crate) fn attach(&self, digest: &Digest, repository: &str, layers: &[(Vec<u8>, Value)]) {
        let store = self.kit.store();
        let mut list = Vec::new();
        for (payload, annotations) in layers {
            store.put(payload).unwrap();
            let mut layer = Descriptor::of("application/vnd.dev.cosign.simplesigning.v1+json", payload);
            layer.annotations = serde_json::from_value(annotations.clone()).unwrap();
            list.push(layer);
        }
        let config = json!({ "architecture": "", "os": "", "config": {}, "rootfs": { "type": "layers",
            "diff_ids": list.iter().map(|layer| layer.digest.to_string()).collect::<Vec<_>>() } })
        .to_string();
        store.put(config.as_bytes()).unwrap();
        let manifest = ImageManifest {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.into()),
            config: Descriptor::of(media_type::OCI_CONFIG, config.as_bytes()),
            layers: list,
            annotations: Default::default(),
            other: Default::default(),
        };
        let signed = store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap();
        self.push(&signed, &format!("{repository}:sha256-{}.sig", digest.hex()));
    }

    /// Signs like cosign, with a key of OpenSSL; the claim has this name.
    pub(crate) fn sign_with_sigstore(&self, digest: &Digest, key: &str, repository: &str, name: &str) {
        let payload = self.claim(digest, name);
        let signature = base64(self.openssl_sign(key, &payload));
        self.attach(digest, repository, &[(payload, json!({ "dev.cosignproject.cosign/signature": signature }))]);
    }

    /// Writes a policy that has one requirement for the registry and rejects everything else.
    pub(crate) fn policy(&self, requirement: &Value) -> String {
        let policy = json!({ "default": [{ "type": "reject" }],
            "transports": { "docker": { self.registry.host(): [requirement] } } });
        fs::write(self.path("policy.json"), policy.to_string()).unwrap();
        self.path("policy.json")
    }

    /// Returns a client that enforces a policy.
    pub(crate) fn client(&self, policy: &str) -> Kit {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(&self.path("etc/containers/registries.d")).join("a.yaml");
        write(&dir, "etc/containers/registries.d/a.yaml", fs::read(from).unwrap());
        Kit::in_dir(dir, &[], |options| {
            options.use_http = true;
            options.policy = Some(policy.into());
        })
    }

    /// Returns whether skopeo accepts an image.
    pub(crate) fn skopeo(&self, policy: &str, rest: &str) -> Result<(), String> {
        let target = tempfile::tempdir().unwrap();
        let output = Command::new("skopeo")
            .args(["--policy", policy, "--registries.d", &self.path("etc/containers/registries.d")])
            .args(["--override-arch", "amd64", "--override-os", "linux", "copy", "--src-tls-verify=false"])
            .arg(format!("docker://{}", self.name(rest)))
            .arg(format!("dir:{}", target.path().display()))
            .output()
            .unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

impl Drop for SignedRegistry {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").args(["--homedir", &self.path("gpg"), "--kill", "all"]).output();
    }
}
