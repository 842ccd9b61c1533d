//! Commands that read images from registries: hostile caches and misbehaving servers.

use std::fs;

use image::{Digest, media_type};
use testkit::{FakeRegistry, Fault};

use crate::env::{SMALL, TestEnv};

/// The parts of an image in a layout.
struct Parts {
    /// Its manifest.
    manifest: Vec<u8>,
    /// Its config and layers.
    blobs: Vec<Vec<u8>>,
}

impl Parts {
    /// Builds the image of a small catalog.
    fn of_catalog(env: &TestEnv) -> Parts {
        env.file("built/catalog.yaml", SMALL);
        let digest = env.stdout(&["build", "built", "--data-only", "--to", "oci:built-image"]);
        let blob = |hex: &str| fs::read(env.path("built-image/blobs/sha256").join(hex)).expect("a blob");
        let manifest = blob(digest.trim().trim_start_matches("sha256:"));
        let parsed: image::Manifest = serde_json::from_slice(&manifest).expect("a manifest");
        let parts = std::iter::once(&parsed.config).chain(&parsed.layers);
        Parts { blobs: parts.map(|part| blob(&part.digest.hex())).collect(), manifest }
    }

    /// Serves the image, and returns its reference.
    fn serve(&self, registry: &FakeRegistry, repository: &str) -> String {
        let digest = Digest::of(&self.manifest);
        for version in ["v1", &digest.to_string()] {
            let path = format!("/v2/{repository}/manifests/{version}");
            registry.put(&path, media_type::OCI_MANIFEST, &self.manifest);
        }
        for blob in &self.blobs {
            let path = format!("/v2/{repository}/blobs/{}", Digest::of(blob));
            registry.put(&path, "application/octet-stream", blob);
        }
        format!("{}/{repository}:v1", registry.host())
    }
}

#[test]
fn a_link_in_a_shared_image_cache_does_not_lead_writes_elsewhere() {
    let env = TestEnv::new();
    let registry = FakeRegistry::start(|_| (Fault::None, None));
    let parts = Parts::of_catalog(&env);
    let name = parts.serve(&registry, "ns/catalog");
    env.file("precious", "do not touch");
    fs::create_dir_all(env.path("cache/partial")).expect("directories");
    for blob in &parts.blobs {
        let planted = env.path("cache/partial").join(Digest::of(blob).hex());
        std::os::unix::fs::symlink(env.path("precious"), planted).expect("a link");
    }
    let text = env.stdout(&["render", &name, "--use-http", "--image-cache", "cache"]);
    assert!(text.contains("foo.v1.0.0"), "{text}");
    assert_eq!(env.read("precious"), "do not touch");
}

#[test]
fn an_invalid_proxy_is_an_error_and_no_direct_connection() {
    let env = TestEnv::new();
    for proxy in ["ftp://proxy.test", "http://name:pass word@proxy.test:3128", "http://name:77#secret@proxy.test"] {
        let mut command = env.command();
        command.env("HTTPS_PROXY", proxy).args(["render", "reg.test/a/b:v1"]);
        let shown = env.show(command.output().expect("opm runs"));
        assert!(shown.starts_with("exit 1\n") && shown.contains("HTTPS_PROXY: "), "{shown}");
        for part in ["dial", "pass", "word@", "77", "secret"] {
            let told = shown.replace("PASSWORD", "").replace("of the password", "");
            assert!(!told.contains(part), "{part}: {shown}");
        }
    }
}
