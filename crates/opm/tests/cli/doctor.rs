use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;

use crate::env::TestEnv;

/// Runs the command with its own settings: the configuration of this machine must not matter.
fn doctor(env: &TestEnv, settings: &str, arguments: &[&str]) -> Output {
    env.file("registries.conf", settings)
        .file("home/.config/containers/policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let mut command = env.command();
    command.env("CONTAINERS_REGISTRIES_CONF", "registries.conf").env("REGISTRY_AUTH_FILE", "auth.json");
    command.args(["registry", "doctor"]).args(arguments).output().expect("opm runs")
}

#[test]
fn a_blocked_registry_is_explained() {
    let env = TestEnv::new();
    let blocked = "[[registry]]\nlocation = 'reg.test'\nblocked = true\n";
    insta::assert_snapshot!(env.show(doctor(&env, blocked, &["reg.test/a/b:v1"])), @r"
    exit 3
    --- stdout
    image:        reg.test/a/b:v1
    settings:     registries.conf; this image is meant in registries.conf
    policy:       [SCRATCH]/home/.config/containers/policy.json
    problem:      registry reg.test is blocked in registries.conf
    --- stderr
    error: registry reg.test is blocked in registries.conf
    ");
}

#[test]
fn required_signatures_are_shown() {
    let env = TestEnv::new();
    let policy = r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys"}]}"#;
    env.file("registries.conf", "[[registry]]\nlocation = 'reg.test'\nblocked = true\n");
    env.file("home/.config/containers/policy.json", policy);
    let mut command = env.command();
    command.env("CONTAINERS_REGISTRIES_CONF", "registries.conf");
    let output = command.args(["registry", "doctor", "reg.test/a/b:v1"]).output().expect("opm runs");
    let shown = env.show(output);
    assert!(shown.contains("\nsignatures:   signedBy; opm verify reg.test/a/b:v1 checks them\n"), "{shown}");
}

#[test]
fn rejected_credentials_are_explained() {
    let env = TestEnv::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            // The registry rejects every request.
            while stream.read(&mut head).is_ok_and(|count| count > 0) {
                let response = "HTTP/1.1 401 x\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n";
                if stream.write_all(response.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    env.file("auth.json", format!(r#"{{"auths": {{"{host}": {{"auth": "dXNlcjpzZWNyZXQ="}}}}}}"#));
    let image = format!("{host}/a/b:v1");
    let shown = env.show(doctor(&env, "", &["--use-http", &image])).replace(&host, "[HOST]");
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("time:")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    exit 3
    --- stdout
    image:        [HOST]/a/b:v1
    settings:     registries.conf; none is about this image
    policy:       [SCRATCH]/home/.config/containers/policy.json

    registry:     [HOST]/a/b:v1
    address:      http://[HOST], without TLS
    proxy:        none
    credentials:  password of "[HOST]" in auth.json
    answer:       status 401; it asks for a password
    problem:      reading manifest v1 in [HOST]/a/b: unauthorized: authentication required
    help:         [HOST]/a/b rejected the credentials of "[HOST]" in auth.json
    --- stderr
    error: [HOST] rejected the credentials of "[HOST]" in auth.json for [HOST]/a/b:v1
    "#);
    let output = doctor(&env, "", &["--use-http", "-o", "json", &image]);
    testkit::assert_report("registry-doctor", &output.stdout);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["places"][0]["credentials"]["file"], "auth.json");
    let text = printed.to_string();
    assert!(!text.contains("secret") && !text.contains("dXNl"), "{text}");
}

/// Returns the report without what differs between runs, machines and users.
fn comparable(shown: &str, host: &str) -> String {
    let shown = shown.replace(host, "[HOST]");
    let differs = |line: &str| ["time:", "credentials:", "help:"].iter().any(|name| line.starts_with(name));
    shown.lines().filter(|line| !differs(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_missing_tag_leads_to_the_nearest_ones() {
    let env = TestEnv::new();
    let registry = testkit::FakeRegistry::start(|_| (testkit::ResponseFault::None, None));
    let tags = ["latest", "v2.0", "v1.11", "v1.0", "v1.10", "v3", "v4", "v5", "v6", "v7", "v8", "v9"];
    let list = format!(r#"{{"name": "a/b", "tags": {}}}"#, serde_json::json!(tags));
    registry.put("/v2/a/b/tags/list", "application/json", list.as_bytes());
    let shown = env.show(doctor(&env, "", &["--use-http", &format!("{}/a/b:v1.1", registry.host())]));
    insta::assert_snapshot!(comparable(&shown, registry.host()), @r"
    exit 3
    --- stdout
    image:        [HOST]/a/b:v1.1
    settings:     registries.conf; none is about this image
    policy:       [SCRATCH]/home/.config/containers/policy.json

    registry:     [HOST]/a/b:v1.1
    address:      http://[HOST], without TLS
    proxy:        none
    answer:       status 200; it asks for nothing
    problem:      reading manifest v1.1 in [HOST]/a/b: manifest unknown
    tags:         v1.0, v1.10, v1.11, v2.0, v3, v4, v5, v6, v7, v8
    --- stderr
    error: [HOST] has no [HOST]/a/b:v1.1: the repository exists, the tag does not
    ");
    let shown = env.show(doctor(&env, "", &["--use-http", &format!("{}/a/c:v1", registry.host())]));
    insta::assert_snapshot!(comparable(&shown, registry.host()), @r"
    exit 3
    --- stdout
    image:        [HOST]/a/c:v1
    settings:     registries.conf; none is about this image
    policy:       [SCRATCH]/home/.config/containers/policy.json

    registry:     [HOST]/a/c:v1
    address:      http://[HOST], without TLS
    proxy:        none
    answer:       status 200; it asks for nothing
    problem:      reading manifest v1 in [HOST]/a/c: manifest unknown
    --- stderr
    error: [HOST] has no [HOST]/a/c:v1: the repository does not exist
    ");
}

#[test]
fn missing_credentials_are_named() {
    let env = TestEnv::new();
    let registry = testkit::FakeRegistry::start(|_| {
        let refusal = testkit::FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x");
        (testkit::ResponseFault::None, Some(refusal))
    });
    let shown = env.show(doctor(&env, "", &["--use-http", &format!("{}/a/b:v1", registry.host())]));
    insta::assert_snapshot!(comparable(&shown, registry.host()), @r"
    exit 3
    --- stdout
    image:        [HOST]/a/b:v1
    settings:     registries.conf; none is about this image
    policy:       [SCRATCH]/home/.config/containers/policy.json

    registry:     [HOST]/a/b:v1
    address:      http://[HOST], without TLS
    proxy:        none
    answer:       status 401; it asks for a password
    problem:      reading manifest v1 in [HOST]/a/b: unauthorized: authentication required
    --- stderr
    error: [HOST] requires credentials for [HOST]/a/b:v1, and there are none
    ");
}

#[test]
fn the_issuer_of_an_untrusted_certificate_is_named() {
    let plan = testkit::RegistryPlan { tls: true, ..testkit::RegistryPlan::default() };
    let Some(registry) = testkit::DockerRegistry::start(plan) else { return };
    let env = TestEnv::new();
    let shown = env.show(doctor(&env, "", &[&format!("{}/a/b:v1", registry.host())]));
    let told: Vec<&str> =
        shown.lines().filter(|line| ["problem:", "help:", "error:"].iter().any(|it| line.starts_with(it))).collect();
    insta::assert_snapshot!(told.join("\n").replace(registry.host(), "[HOST]"), @r#"
    problem:      pinging container registry [HOST]: Get "https://[HOST]/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority
    help:         the certificate of "CN=server" was issued by "CN=test authority"; trust its authority with --ca-file, SSL_CERT_FILE or certs.d, or skip verification with --skip-tls-verify
    error: the certificate of [HOST] is not trusted
    "#);
}
