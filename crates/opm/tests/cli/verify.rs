use std::fs;
use std::process::Command;

use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::env::TestEnv;

const CONFIG: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// Starts a registry with an image without layers; returns it with the digest of the manifest.
fn registry() -> (FakeRegistry, String) {
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None::<FakeResponse>));
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{CONFIG}","size":2}},"layers":[]}}"#
    );
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    registry.put(&format!("/v2/a/b/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    (registry, image::Digest::of(manifest.as_bytes()).to_string())
}

fn openssl(env: &TestEnv, arguments: &str) -> Vec<u8> {
    let output = Command::new("openssl").current_dir(env.path(".")).args(arguments.split(' ')).output();
    let output = output.expect("openssl runs");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Attaches a signature to the image; the claim has this name.
fn attach(env: &TestEnv, registry: &FakeRegistry, digest: &str, name: &str) {
    let payload = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{name}"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
    );
    env.file("payload", &payload);
    openssl(env, "dgst -sha256 -sign key -out signature payload");
    openssl(env, "base64 -A -in signature -out signature.b64");
    let signature = env.read("signature.b64");
    let layer = image::Digest::of(payload.as_bytes());
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{CONFIG}","size":2}},"layers":[{{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":"{layer}","size":{},"annotations":{{"dev.cosignproject.cosign/signature":"{signature}"}}}}]}}"#,
        payload.len()
    );
    let tag = digest.replace(':', "-");
    registry.put(
        &format!("/v2/a/b/manifests/{tag}.sig"),
        "application/vnd.oci.image.manifest.v1+json",
        manifest.as_bytes(),
    );
    registry.put(&format!("/v2/a/b/blobs/{layer}"), "application/octet-stream", payload.as_bytes());
}

fn keys(env: &TestEnv) {
    fs::create_dir_all(env.path("home/.config/containers/registries.d")).expect("directories");
    openssl(env, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key");
    openssl(env, "pkey -in key -pubout -out key.pub");
    env.file("home/.config/containers/registries.d/a.yaml", "default-docker:\n  use-sigstore-attachments: true\n");
    let policy = format!(
        r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{"": [{{"type": "sigstoreSigned", "keyPath": "{}"}}]}}}}}}"#,
        env.path("key.pub").display()
    );
    env.file("policy.json", policy);
}

#[test]
fn verified_signatures_are_shown() {
    if !testkit::installed("openssl") {
        return;
    }
    let env = TestEnv::new();
    keys(&env);
    let (registry, digest) = registry();
    let name = format!("{}/a/b:v1", registry.host());
    let show = |arguments: &[&str]| {
        let shown = env.opm(&[&["verify", "--use-http", "--policy", "policy.json"][..], arguments].concat());
        let shown = shown
            .replace(registry.host(), "[HOST]")
            .replace(&digest, "[DIGEST]")
            .replace(&digest.replace(':', "-"), "[TAG]");
        let signer = shown.find("key sha256:").map(|start| shown[start..start + 75].to_owned());
        signer.map_or(shown.clone(), |signer| shown.replace(&signer, "[KEY]"))
    };
    insta::assert_snapshot!(show(&[&name]), @r"
    exit 1
    --- stdout
    image:        [HOST]/a/b:v1
    digest:       [DIGEST]
    policy:       policy.json
    scope:        docker
    searched:     docker://[HOST]/a/b:[TAG].sig
    requirement:  sigstoreSigned, not fulfilled: it has no signature
    result:       refused
    --- stderr
    error: the policy rejects [HOST]/a/b:v1
    ");
    attach(&env, &registry, &digest, &format!("{}/a/b:v2", registry.host()));
    insta::assert_snapshot!(show(&[&name]), @r"
    exit 1
    --- stdout
    image:        [HOST]/a/b:v1
    digest:       [DIGEST]
    policy:       policy.json
    scope:        docker
    searched:     docker://[HOST]/a/b:[TAG].sig
    requirement:  sigstoreSigned, not fulfilled: it is for [HOST]/a/b:v2, not for [HOST]/a/b:v1
      signature:  sigstore, does not count: it is for [HOST]/a/b:v2, not for [HOST]/a/b:v1
      by:         [KEY], as it says
      for:        [DIGEST] as [HOST]/a/b:v2
    result:       refused
    --- stderr
    error: the policy rejects [HOST]/a/b:v1
    ");
    attach(&env, &registry, &digest, &name);
    insta::assert_snapshot!(show(&[&name]), @r"
    exit 0
    --- stdout
    image:        [HOST]/a/b:v1
    digest:       [DIGEST]
    policy:       policy.json
    scope:        docker
    searched:     docker://[HOST]/a/b:[TAG].sig
    requirement:  sigstoreSigned, fulfilled
      signature:  sigstore, good
      by:         [KEY]
      for:        [DIGEST] as [HOST]/a/b:v1
    result:       accepted
    --- stderr
    ");
    let json = env.stdout(&["verify", "--use-http", "--policy", "policy.json", "-o", "json", &name]);
    testkit::assert_report("verify", json.as_bytes());
    let shown: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(shown["accepted"], true);
    assert_eq!(shown["manifestDigest"], digest);
    assert_eq!(shown["scope"], "docker");
    let signature = &shown["requirements"][0]["signatures"][0];
    assert_eq!((&signature["kind"], &signature["identity"]), (&"sigstore".into(), &name.into()));
}

#[test]
fn commands_verify_images_before_they_use_them() {
    if !testkit::installed("openssl") {
        return;
    }
    let env = TestEnv::new();
    keys(&env);
    let (registry, digest) = registry();
    let name = format!("{}/a/b:v1", registry.host());
    env.file("home/.config/containers/policy.json", env.read("policy.json"));
    let copy = |target: &str| env.opm(&["copy", "--use-http", &name, target]).replace(registry.host(), "[HOST]");
    insta::assert_snapshot!(copy("oci:out:v1"), @r#"
    exit 1
    --- stdout
    --- stderr
    error: failed to copy "[HOST]/a/b:v1" to "oci:out:v1": policy wants docker://[HOST]/a/b:v1 to be sigstoreSigned, and it has no signature
      help: opm verify [HOST]/a/b:v1 shows all; the policy is [SCRATCH]/home/.config/containers/policy.json; OPM_INSECURE_POLICY=true disables it
    "#);
    assert!(!env.path("out").exists());
    let insecure = env
        .command()
        .env("OPM_INSECURE_POLICY", "true")
        .args(["copy", "--use-http", &name, "oci:insecure:v1"])
        .output();
    assert!(insecure.expect("opm runs").status.success());
    attach(&env, &registry, &digest, &name);
    assert!(copy("oci:out:v1").starts_with("exit 0"));
}

#[test]
fn the_policy_of_the_user_applies_unless_another_is_given() {
    let env = TestEnv::new();
    let (registry, digest) = registry();
    let name = format!("{}/a/b:v1", registry.host());
    env.file("home/.config/containers/policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let show = |arguments: &[&str]| {
        let shown = env.opm(&[&["verify", "--use-http"][..], arguments].concat());
        shown.replace(registry.host(), "[HOST]").replace(&digest, "[DIGEST]")
    };
    insta::assert_snapshot!(show(&[&name]), @r"
    exit 0
    --- stdout
    image:        [HOST]/a/b:v1
    digest:       [DIGEST]
    policy:       [SCRATCH]/home/.config/containers/policy.json
    scope:        default
    requirement:  insecureAcceptAnything, fulfilled
    result:       accepted
    --- stderr
    ");
    env.file("broken.json", "{}");
    insta::assert_snapshot!(show(&["--policy", "broken.json", &name]), @r#"
    exit 3
    --- stdout
    --- stderr
    error: failed to check "[HOST]/a/b:v1": invalid policy in broken.json: the policy has no "default"
    "#);
}
