use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{FakeRegistry, FakeResponse, ResponseFault};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::env::{Stopped, TestEnv};

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata:\n  \
    name: etcds.etcd.io\nspec:\n  group: etcd.io\n  version: v1\n  names: {kind: Etcd, plural: etcds}\n";

fn csv(name: &str, version: &str, more: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {name}.v{version}\n\
         spec:\n  version: {version}\n  displayName: {name}\n{more}"
    )
}

/// Wraps objects in a list, as packages once were stored.
fn in_list(objects: &[&str]) -> String {
    let item = |object: &&str| {
        let lines: Vec<String> = object.lines().map(|line| format!("      {line}")).collect();
        format!("    - {}\n", lines.join("\n").trim_start())
    };
    objects.iter().map(item).collect()
}

/// Starts an application registry with a package of many files and one of a single file.
pub(crate) fn registry(env: &TestEnv) -> FakeRegistry {
    env.file("nested/etcd/0.9.0/csv.yaml", csv("etcd", "0.9.0", ""));
    let owned = "  replaces: etcd.v0.9.0\n  customresourcedefinitions:\n    \
        owned: [{name: etcds.etcd.io, version: v1, kind: Etcd}]\n";
    env.file("nested/etcd/0.9.2/csv.yaml", csv("etcd", "0.9.2", owned));
    env.file("nested/etcd/0.9.2/crd.yaml", CRD);
    let package = "packageName: etcd\nchannels: [{name: alpha, currentCSV: etcd.v0.9.2}]\n";
    env.file("nested/etcd/etcd.package.yaml", package);
    let flat = format!(
        "data:\n  customResourceDefinitions: |\n{}  clusterServiceVersions: |\n{}  packages: |\n    \
         - packageName: akka\n      channels: [{{name: beta, currentCSV: akka.v1.0.0}}]\n",
        in_list(&[CRD]),
        in_list(&[&csv("akka", "1.0.0", "")])
    );
    env.file("flat/bundle.yaml", flat);
    let archive = |directory: &str| {
        let output =
            Command::new("tar").arg("-C").arg(env.path(directory)).args(["-cz", "."]).output().expect("tar runs");
        assert!(output.status.success());
        output.stdout
    };
    // No real server of this kind exists any more; these are recorded responses.
    let server = FakeRegistry::start(|request| {
        let known = request.headers.get("authorization").map(String::as_str) == Some("basic c2VjcmV0");
        match request.path.contains("=private") && !known {
            true => (
                ResponseFault::None,
                Some(FakeResponse::status(401).body(r#"{"error": {"code": "unauthorized", "message": "no access"}}"#)),
            ),
            false => (ResponseFault::None, None),
        }
    });
    let base = "/cnr/api/v1/packages";
    let mut listed = Vec::new();
    for (name, release, content) in
        [("community/etcd", "3.0.0", archive("nested")), ("community/akka", "1.0.0", archive("flat"))]
    {
        let digest = image_digest(&content);
        listed.push(format!(
            r#"{{"name": "{name}", "namespace": "community", "default": "{release}", "releases": ["{release}"]}}"#
        ));
        let shown = format!(
            r#"{{"package": "{name}", "release": "{release}", "mediaType": "helm", "content": {{"digest": "{digest}", "size": 1}}}}"#
        );
        server.put(&format!("{base}/{name}/{release}/helm"), "application/json", shown.as_bytes());
        server.put(&format!("{base}/{name}/blobs/sha256/{digest}"), "application/x-gzip", &content);
    }
    let list = format!("[{}]", listed.join(","));
    for namespace in ["community", "private"] {
        let path = format!("{base}?namespace={namespace}&media_type=helm");
        server.put(&path, "application/json", list.as_bytes());
    }
    let broken = r#"{"name": "community/gone", "default": "1.0.0", "releases": ["1.0.0"]}"#;
    server.put(
        &format!("{base}?namespace=broken&media_type=helm"),
        "application/json",
        format!("[{broken}]").as_bytes(),
    );
    server
}

fn image_digest(content: &[u8]) -> String {
    image::Digest::of(content).hex()
}

#[test]
fn packages_are_loaded_into_a_database() {
    let env = TestEnv::new();
    let server = registry(&env);
    let source = format!("http://{}/cnr|community", server.host());
    env.stdout(&["operator-registry", "initializer", "-r", &source, "-o", "index.db"]);
    assert_eq!(
        env.stdout(&["alpha", "list", "bundles", "index.db"]),
        "PACKAGE  CHANNEL  BUNDLE       REPLACES     SKIPS  SKIP RANGE  IMAGE\n\
         akka     beta     akka.v1.0.0                                  \n\
         etcd     alpha    etcd.v0.9.0                                  \n\
         etcd     alpha    etcd.v0.9.2  etcd.v0.9.0                     \n"
    );
    env.stdout(&["operator-registry", "initializer", "-r", &source, "--packages", "etcd:3.0.0", "-o", "one.db"]);
    assert_eq!(
        env.stdout(&["alpha", "list", "channels", "one.db"]),
        "PACKAGE  CHANNEL  HEAD\netcd     alpha    etcd.v0.9.2\n"
    );
}

#[test]
fn missing_packages_and_namespaces_are_reported() {
    let env = TestEnv::new();
    let server = registry(&env);
    let source = |namespace: &str| format!("http://{}/cnr|{namespace}", server.host());
    let load = |namespace: &str, packages: &str| {
        env.opm(&[
            "operator-registry",
            "initializer",
            "-r",
            &source(namespace),
            "--packages",
            packages,
            "-o",
            "index.db",
        ])
    };
    let shown = load("community", "etcd:9.9.9");
    assert!(shown.starts_with("exit 1") && shown.contains("package etcd in release 9.9.9 not found"), "{shown}");
    let shown = load("elsewhere", "etcd");
    assert!(shown.contains("404") && shown.contains("namespace elsewhere"), "{shown}");
    let shown = load("broken", "gone");
    assert!(shown.contains("community/gone") && shown.contains("404"), "{shown}");
    assert!(!env.path("index.db").exists(), "a failed load created a database");
}

#[test]
fn a_token_is_sent_unchanged() {
    let env = TestEnv::new();
    let server = registry(&env);
    let source = format!("http://{}/cnr|private", server.host());
    let load = ["operator-registry", "initializer", "--packages", "akka", "-r", &source, "-o", "index.db"];
    let shown = env.opm(&load);
    assert!(shown.starts_with("exit 1") && shown.contains("401") && shown.contains("no access"), "{shown}");
    env.file("token", "basic c2VjcmV0\n");
    env.stdout(&[&load[..], &["--token-file", "token"]].concat());
    assert!(env.stdout(&["alpha", "list", "packages", "index.db"]).contains("akka"));
}

#[test]
fn packages_are_served_and_broken_ones_are_logged() {
    let env = TestEnv::new();
    let server = registry(&env);
    let source = |namespace: &str| format!("http://{}/cnr|{namespace}", server.host());
    let shown = packages(&env, &["-r", &source("broken"), "-r", &source("community"), "-o", "etcd,gone"]);
    assert_eq!(shown, Ok(vec!["etcd".to_owned()]));
    assert_eq!(env.names("downloaded"), [".opm-downloaded", "etcd"]);
    let shown = packages(&env, &["-r", &source("broken")]);
    assert_eq!(shown, Err("empty querier: cannot list packages".to_owned()));
    let strict = env.opm(&["appregistry-server", "--strict", "-t", "", "-r", &source("broken")]);
    assert!(strict.starts_with("exit 1") && strict.contains("community/gone"), "{strict}");
}

#[test]
fn a_directory_that_opm_did_not_download_is_not_overwritten() {
    let env = TestEnv::new();
    let server = registry(&env);
    let source = format!("http://{}/cnr|community", server.host());
    env.file("mine/etcd/notes.txt", "precious");
    let strict = ["appregistry-server", "--strict", "-t", "", "-f", "mine", "-r", &source, "-o", "etcd"];
    let shown = env.opm(&strict);
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(shown.contains("mine/etcd already exists, and opm did not download it; not overwriting it"), "{shown}");
    assert_eq!(env.read("mine/etcd/notes.txt"), "precious");
    // A download replaces the directory of an earlier download.
    for _ in 0..2 {
        assert_eq!(packages(&env, &["-f", "theirs", "-r", &source, "-o", "etcd"]), Ok(vec!["etcd".to_owned()]));
    }
}

/// Starts a server and queries its packages.
fn packages(env: &TestEnv, arguments: &[&str]) -> Result<Vec<String>, String> {
    let port = testkit::free_port();
    let mut server = env.command();
    server.args(["appregistry-server", "-t", "", "-p", &port.to_string()]).args(arguments).stderr(Stdio::piped());
    let mut server = Stopped(server.spawn().unwrap());
    let log = BufReader::new(server.0.stderr.take().unwrap());
    std::thread::spawn(move || log.lines().for_each(drop));
    let patience = Instant::now() + Duration::from_secs(60);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) if Instant::now() > patience => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.unwrap();
        let codec: ProstCodec<Named, Named> = ProstCodec::default();
        let method = PathAndQuery::from_static("/api.Registry/ListPackages");
        let replies = grpc.server_streaming(tonic::Request::new(Named::default()), method, codec).await;
        let mut replies = replies.map_err(|status| status.message().to_owned())?.into_inner();
        let mut packages = Vec::new();
        while let Some(reply) = replies.message().await.map_err(|status| status.message().to_owned())? {
            packages.push(reply.name);
        }
        Ok(packages)
    })
}

#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}
