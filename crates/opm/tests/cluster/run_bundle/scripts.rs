//! The scripts of the pod's containers, run on this machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cluster::ResourceKind;
use serde_json::Value;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::stage::{CONFIGS, DATABASE, Stage};

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

/// The fields of a bundle that these tests read.
#[derive(Clone, PartialEq, prost::Message)]
struct Bundle {
    #[prost(string, tag = "1")]
    csv_name: String,
    #[prost(string, tag = "2")]
    package_name: String,
    #[prost(string, tag = "3")]
    channel_name: String,
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs a script of the pod with `sh`; the program under test is `opm` on its path.
fn shell(stage: &Stage, script: &str) -> Command {
    let bin = stage.kit.env.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), bin.join("opm"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PATH", path).env("HOME", stage.kit.env.path("home"));
    command
}

/// Starts a server and returns its bundles.
async fn served(command: &mut Command) -> Vec<(String, String, String)> {
    let mut server = KilledOnDrop(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut shown = String::new();
    let mut port = None;
    for line in BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok) {
        shown += &format!("{line}\n");
        let address = line.split_once("listening").or_else(|| line.split_once("address="));
        if let Some((_, rest)) = address.filter(|_| port.is_none()) {
            let digits: String = rest.rsplit(':').next().unwrap().chars().take_while(char::is_ascii_digit).collect();
            port = Some(digits);
        }
        if line.contains("serving registry") {
            break;
        }
    }
    let port = port.unwrap_or_else(|| panic!("the server does not start:\n{shown}"));
    let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec: ProstCodec<Nothing, Bundle> = ProstCodec::default();
    let method = PathAndQuery::from_static("/api.Registry/ListBundles");
    let mut replies = grpc.server_streaming(tonic::Request::new(Nothing {}), method, codec).await.unwrap().into_inner();
    let mut bundles = Vec::new();
    while let Some(reply) = replies.message().await.unwrap() {
        bundles.push((reply.csv_name, reply.package_name, reply.channel_name));
    }
    bundles.sort();
    bundles
}

fn script(container: &Value) -> &str {
    assert_eq!((container["command"][0].as_str(), container["command"][1].as_str()), (Some("sh"), Some("-c")));
    container["command"][2].as_str().unwrap()
}

fn expected(bundles: &[(&str, &str)]) -> Vec<(String, String, String)> {
    bundles.iter().map(|(name, channel)| ((*name).into(), "foo".into(), (*channel).into())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_unpacks_and_serves_the_catalog() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let yaml = "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\nentries: [{name: foo.v0.9.0}]\n";
    let json = r#"{"schema":"olm.bundle","package":"foo","name":"foo.v0.9.0","image":"example.com/foo:v0.9.0","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"0.9.0"}}]}"#;
    let files = [("/configs/a.yaml", yaml.as_bytes()), ("/configs/b.json", json.as_bytes())];
    let index = stage.push("index:v1", &files, &[(CONFIGS, "/configs")]);
    let _emulation = stage.emulate(&["1.0.0"]);
    let shown = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(shown.starts_with("exit 0"), "{shown}");

    // Volumes are mounted below a directory of the test, like kubelet would.
    let root = stage.kit.env.path("root");
    let pod = stage.list(ResourceKind::POD).await.remove(0);
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    for mount in pod["spec"]["initContainers"][0]["volumeMounts"].as_array().unwrap() {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let place = at(mount["mountPath"].as_str().unwrap());
        std::fs::create_dir_all(&place).unwrap();
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let map = stage.get(ResourceKind::CONFIG_MAP, name).await.unwrap();
            let item = &volume["configMap"]["items"][0];
            let content =
                fbc::base64::decode(map["binaryData"][item["key"].as_str().unwrap()].as_str().unwrap()).unwrap();
            let path = Path::new(item["path"].as_str().unwrap());
            let below = path.strip_prefix(mount["subPath"].as_str().unwrap()).unwrap();
            std::fs::write(place.join(below), content).unwrap();
        }
    }
    let moved = |script: &str| {
        let root = root.display().to_string();
        script.replace("/compressed", &format!("{root}/compressed")).replace("> \"${", &format!("> \"{root}${{"))
    };
    let output = shell(&stage, &moved(script(&pod["spec"]["initContainers"][0]))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let serve = script(&pod["spec"]["containers"][0]);
    assert_eq!(serve, "opm serve /foo-catalog-configs -p 50051");
    let serve = serve.replace(" /foo", &format!(" {}/foo", root.display())).replace("50051", "0 -t ''");
    let bundles = served(&mut shell(&stage, &format!("exec {serve}"))).await;
    assert_eq!(bundles, expected(&[("foo.v0.9.0", "stable"), ("foo.v1.0.0", "operator-sdk-run-bundle")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_adds_the_bundle_to_a_database_and_serves_it() {
    let stage = Stage::new().await;
    let old = stage.bundle("0.9.0");
    let bundle = stage.bundle_with("1.0.0", r#"{"replaces": "foo.v0.9.0"}"#);
    let env = &stage.kit.env;
    env.stdout(&["registry", "add", "-d", "index.db", "-b", &old, "--use-http"]);
    let content = std::fs::read(env.path("index.db")).unwrap();
    let place = env.path("index.db").display().to_string();
    let index = stage.push("database:v1", &[("/database/index.db", &content)], &[(DATABASE, &place)]);
    let _emulation = stage.emulate(&["1.0.0"]);
    let shown = stage.opm(&["run", "bundle", &bundle, "--index-image", &index]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let pod = stage.list(ResourceKind::POD).await.remove(0);
    let moved = script(&pod["spec"]["containers"][0])
        .replace("/tmp/tmp.db", &env.path("tmp.db").display().to_string())
        .replace("50051", "0 -t ''");
    let bundles = served(&mut shell(&stage, &moved)).await;
    assert_eq!(
        bundles,
        expected(&[("foo.v0.9.0", "beta"), ("foo.v0.9.0", "stable"), ("foo.v1.0.0", "beta"), ("foo.v1.0.0", "stable")])
    );
    // The database of the image is not changed.
    assert_eq!(std::fs::read(env.path("index.db")).unwrap(), content);
    // The second time the bundle exists already, and the container fails.
    std::fs::copy(env.path("tmp.db"), env.path("index.db")).unwrap();
    let output = shell(&stage, &moved).output().unwrap();
    assert!(!output.status.success());
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(shown.contains("already exists, Bundle already added that provides package and csv"), "{shown}");
}
