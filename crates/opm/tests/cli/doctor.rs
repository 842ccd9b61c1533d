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
    error: reg.test/a/b:v1 cannot be reached
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
    error: [HOST]/a/b:v1 cannot be reached
    "#);
    let output = doctor(&env, "", &["--use-http", "-o", "json", &image]);
    testkit::assert_report("registry-doctor", &output.stdout);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["places"][0]["credentials"]["file"], "auth.json");
    let text = printed.to_string();
    assert!(!text.contains("secret") && !text.contains("dXNl"), "{text}");
}
