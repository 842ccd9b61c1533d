//! The image that `opm build` creates, unpacked by another tool and run in its own root directory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{installed, skipped};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

/// A message of the registry API whose first field is a string.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

/// A process that is killed on drop.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the released program, if it was built: `cargo xtask dist`.
fn static_program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_opm"));
    Some(built.parent()?.parent()?.join("dist/opm")).filter(|path| path.is_file())
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_image_serves_the_catalog_it_was_built_from() {
    let Some(opm) = static_program() else {
        return skipped("there is no static program, 'cargo xtask dist' builds it");
    };
    if run(Command::new("id").arg("-u")).trim() != "0" {
        return skipped("only root can change its root directory");
    }
    if !installed("umoci") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/catalog");
    let build = |output: &str| {
        let mut command = Command::new(&opm);
        command.current_dir(root).arg("build").arg(&catalog).args(["-t", "localhost/catalog:v1", "-o", output]);
        run(&mut command)
    };
    assert_eq!(build("oci:layout"), build("oci:again"));
    run(Command::new("umoci").current_dir(root).args(["unpack", "--image", "layout:v1", "bundle"]));
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(root.join("bundle/config.json")).unwrap()).unwrap();
    let words = config["process"]["args"].as_array().unwrap();
    let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words, ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache"]);
    let user = format!("--userspec={}:{}", config["process"]["user"]["uid"], config["process"]["user"]["gid"]);

    let rootfs = root.join("bundle/rootfs");
    let inside = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(&user).arg(&rootfs).args(words);
        command
    };
    let more = ["--port=0", "--cache-enforce-integrity", "--termination-log="];
    let server = inside(&[&words[..], &more].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let mut server = KilledOnDrop(server);
    let mut port = String::new();
    for line in BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(rest) = line.contains("listening").then(|| line.rsplit(':').next()).flatten() {
            port = rest.trim().to_owned();
        }
        if line.contains("serving registry") {
            assert!(line.contains("cache_built=false"), "the cache of the image was not used: {line}");
            break;
        }
    }
    run(&mut inside(&["/bin/grpc_health_probe", &format!("-addr=:{port}")]));

    let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec: ProstCodec<Named, Named> = ProstCodec::default();
    let method = PathAndQuery::from_static("/api.Registry/ListPackages");
    let mut replies =
        grpc.server_streaming(tonic::Request::new(Named::default()), method, codec).await.unwrap().into_inner();
    let mut packages = Vec::new();
    while let Some(reply) = replies.message().await.unwrap() {
        packages.push(reply.name);
    }
    assert_eq!(packages, ["buoy", "lantern", "tide-gauge", "weather-vane"]);
}
