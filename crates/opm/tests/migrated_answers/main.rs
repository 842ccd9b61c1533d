//! A database index, and the file-based catalog that `migrate` creates from it, give the same replies.
//!
//! They differ where the existing tools always differed: see `docs/sqlite.md`. The comparison omits these differences,
//! with the reason in a comment.

mod queries;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// A request of three strings.
#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
    #[prost(string, tag = "3")]
    third: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Package {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    channels: Vec<Request>,
    #[prost(string, tag = "3")]
    default_channel: String,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
struct Api {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(string, tag = "4")]
    plural: String,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
struct Typed {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Bundle {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, tag = "3")]
    channel: String,
    #[prost(string, tag = "4")]
    csv: String,
    #[prost(string, repeated, tag = "5")]
    objects: Vec<String>,
    #[prost(string, tag = "6")]
    image: String,
    #[prost(message, repeated, tag = "7")]
    provided: Vec<Api>,
    #[prost(message, repeated, tag = "8")]
    required: Vec<Api>,
    #[prost(string, tag = "9")]
    version: String,
    #[prost(string, tag = "10")]
    skip_range: String,
    #[prost(message, repeated, tag = "11")]
    dependencies: Vec<Typed>,
    #[prost(message, repeated, tag = "12")]
    properties: Vec<Typed>,
    #[prost(string, tag = "13")]
    replaces: String,
    #[prost(string, repeated, tag = "14")]
    skips: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    package: String,
    #[prost(string, tag = "2")]
    channel: String,
    #[prost(string, tag = "3")]
    bundle: String,
    #[prost(string, tag = "4")]
    replaces: String,
}

/// A server that is killed on drop.
struct Server {
    process: Child,
    channel: Channel,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    async fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
        let mut process =
            command.args(arguments).args(["-p", "0", "-t", ""]).stderr(Stdio::piped()).spawn().expect("opm runs");
        let mut log = BufReader::new(process.stderr.take().expect("a log")).lines();
        let port = log
            .by_ref()
            .map_while(Result::ok)
            .filter(|line| line.contains("serving registry"))
            .find_map(|line| {
                let address = line.split("address=").nth(1)?.split_whitespace().next()?;
                address.rsplit(':').next()?.parse::<u16>().ok()
            })
            .expect("the server logs its address");
        std::thread::spawn(move || log.for_each(drop));
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("an address");
        let mut tries = 0;
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) if tries == 100 => panic!("{error}"),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
            tries += 1;
        };
        Server { process, channel }
    }

    fn codec<Reply: prost::Message + Default + 'static>() -> ProstCodec<Request, Reply> {
        ProstCodec::default()
    }

    async fn grpc(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        grpc.ready().await.expect("a server");
        grpc
    }

    /// Sends a request for one object; `None` if the server does not have it.
    async fn one<Reply>(&self, method: &'static str, ask: [&str; 3]) -> Option<Reply>
    where
        Reply: prost::Message + Default + 'static,
    {
        let path = PathAndQuery::from_static(method);
        let reply = self.grpc().await.unary(request(ask), path, Server::codec::<Reply>()).await;
        reply.ok().map(tonic::Response::into_inner)
    }

    /// Sends a request for a list; an error counts as an empty list.
    async fn list<Reply>(&self, method: &'static str, ask: [&str; 3]) -> Vec<Reply>
    where
        Reply: prost::Message + Default + 'static,
    {
        let path = PathAndQuery::from_static(method);
        let replies = self.grpc().await.server_streaming(request(ask), path, Server::codec::<Reply>()).await;
        let mut list = Vec::new();
        let mut replies = match replies {
            Ok(replies) => replies.into_inner(),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unknown, "{status}");
                return list;
            }
        };
        while let Some(reply) = replies.message().await.expect("a reply") {
            list.push(reply);
        }
        list
    }
}

fn request([first, second, third]: [&str; 3]) -> tonic::Request<Request> {
    tonic::Request::new(Request { first: first.into(), second: second.into(), third: third.into() })
}

/// Removes the fields of a bundle in which the two servers are known to differ.
fn comparable(mut bundle: Bundle) -> Bundle {
    // Only databases have the plurals of APIs.
    bundle.provided.iter_mut().chain(&mut bundle.required).for_each(|api| api.plural.clear());
    bundle.provided.sort();
    bundle.required.sort();
    // Both report requirements as dependencies, and only catalogs report them as properties.
    bundle.properties.retain(|property| !property.kind.ends_with(".required") && property.kind != "olm.package");
    // Catalogs have dependencies of these two types; others become properties.
    let known = |one: &Typed| matches!(one.kind.as_str(), "olm.gvk" | "olm.package");
    let (dependencies, others) = std::mem::take(&mut bundle.dependencies).into_iter().partition(known);
    bundle.dependencies = dependencies;
    bundle.properties.extend::<Vec<Typed>>(others);
    for list in [&mut bundle.properties, &mut bundle.dependencies] {
        list.iter_mut().for_each(|one| one.value = same_json(&one.value));
        list.sort();
        list.dedup();
    }
    bundle.csv = same_json(&bundle.csv);
    bundle.objects = bundle.objects.iter().map(|object| same_json(object)).collect();
    bundle.objects.sort();
    bundle.skips.sort();
    bundle
}

/// Serializes JSON with sorted keys.
fn same_json(text: &str) -> String {
    fn sorted(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(object) => {
                let mut fields: Vec<_> = object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                fields.into_iter().collect()
            }
            serde_json::Value::Array(list) => list.into_iter().map(sorted).collect(),
            other => other,
        }
    }
    serde_json::from_str(text).map_or_else(|_| text.to_owned(), |value| sorted(value).to_string())
}

/// Sends all possible requests to both servers, and returns their number.
async fn compare(database: &Server, catalog: &Server) -> usize {
    let mut questions = 0;
    let names = |list: Vec<Request>| list.into_iter().map(|one| one.first).collect::<BTreeSet<String>>();
    let packages = names(database.list("/api.Registry/ListPackages", ["", "", ""]).await);
    assert_eq!(packages, names(catalog.list("/api.Registry/ListPackages", ["", "", ""]).await));
    let key = |bundle: &Bundle| (bundle.package.clone(), bundle.channel.clone(), bundle.name.clone());
    let listed = |list: Vec<Bundle>| {
        let mut list: Vec<Bundle> = list.into_iter().map(comparable).collect();
        list.sort_by_key(key);
        list
    };
    let bundles = listed(database.list("/api.Registry/ListBundles", ["", "", ""]).await);
    let others = listed(catalog.list("/api.Registry/ListBundles", ["", "", ""]).await);
    assert_eq!(bundles.len(), others.len());
    bundles.iter().zip(&others).for_each(|(one, other)| assert_eq!(one, other));
    questions += 2;
    for name in &packages {
        let ask = [name.as_str(), "", ""];
        let package: Package = database.one("/api.Registry/GetPackage", ask).await.expect("a package");
        assert_eq!(Some(&package), catalog.one("/api.Registry/GetPackage", ask).await.as_ref());
        for channel in &package.channels {
            let ask = [name.as_str(), channel.first.as_str(), ""];
            let head: Option<Bundle> = database.one("/api.Registry/GetBundleForChannel", ask).await;
            let other: Option<Bundle> = catalog.one("/api.Registry/GetBundleForChannel", ask).await;
            // Databases return only the name and the CSV.
            let shown = |bundle: Option<Bundle>| bundle.map(|bundle| (bundle.name, same_json(&bundle.csv)));
            assert_eq!(shown(head), shown(other), "{ask:?}");
            questions += 1;
        }
        questions += 1;
    }
    let mut apis = BTreeSet::new();
    for bundle in &bundles {
        let ask = [bundle.package.as_str(), bundle.channel.as_str(), bundle.name.as_str()];
        let one: Option<Bundle> = database.one("/api.Registry/GetBundle", ask).await;
        let other: Option<Bundle> = catalog.one("/api.Registry/GetBundle", ask).await;
        assert_eq!(one.map(comparable), other.map(comparable), "{ask:?}");
        let replacing = |list: Vec<Entry>| -> BTreeSet<[String; 3]> {
            list.into_iter().map(|entry| [entry.package, entry.channel, entry.bundle]).collect()
        };
        let name = [bundle.name.as_str(), "", ""];
        let all = replacing(database.list("/api.Registry/GetChannelEntriesThatReplace", name).await);
        let others = replacing(catalog.list("/api.Registry/GetChannelEntriesThatReplace", name).await);
        assert_eq!(all, others, "{name:?}");
        let ask = [bundle.name.as_str(), bundle.package.as_str(), bundle.channel.as_str()];
        let candidates: BTreeSet<&String> =
            all.iter().filter(|one| one[0] == bundle.package && one[1] == bundle.channel).map(|one| &one[2]).collect();
        for server in [database, catalog] {
            // If there are several, a server may return any of them.
            let replacement: Option<Bundle> = server.one("/api.Registry/GetBundleThatReplaces", ask).await;
            assert_eq!(replacement.is_some(), !candidates.is_empty(), "{ask:?}");
            assert!(replacement.is_none_or(|one| candidates.contains(&one.name)), "{ask:?}");
        }
        apis.extend(bundle.provided.iter().map(|api| (api.group.clone(), api.version.clone(), api.kind.clone())));
        questions += 3;
    }
    apis.insert(("nobody.example".into(), "v1".into(), "Nothing".into()));
    for (group, version, kind) in &apis {
        let ask = [group.as_str(), version.as_str(), kind.as_str()];
        let set = |list: Vec<Entry>| list.into_iter().collect::<BTreeSet<Entry>>();
        let all = set(database.list("/api.Registry/GetChannelEntriesThatProvide", ask).await);
        assert_eq!(all, set(catalog.list("/api.Registry/GetChannelEntriesThatProvide", ask).await), "{ask:?}");
        // Databases return the latest provider, catalogs return heads.
        let heads = |list: Vec<Entry>| -> BTreeSet<[String; 3]> {
            list.into_iter().map(|entry| [entry.package, entry.channel, entry.bundle]).collect()
        };
        let newest = heads(database.list("/api.Registry/GetLatestChannelEntriesThatProvide", ask).await);
        let latest = heads(catalog.list("/api.Registry/GetLatestChannelEntriesThatProvide", ask).await);
        assert!(latest.is_subset(&newest), "{ask:?}: {latest:?} {newest:?}");
        let one: Option<Bundle> = catalog.one("/api.Registry/GetDefaultBundleThatProvides", ask).await;
        if let Some(one) = one {
            let other: Option<Bundle> = database.one("/api.Registry/GetDefaultBundleThatProvides", ask).await;
            assert_eq!(Some(one.name), other.map(|other| other.name), "{ask:?}");
        }
        questions += 3;
    }
    questions
}

fn opm(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_opm")).args(arguments).output().expect("opm runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Migrates a database, serves both, and compares the replies.
fn migrated(database: &Path) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let (catalog, cache) = (scratch.path().join("catalog"), scratch.path().join("cache"));
    let (database, catalog) = (database.to_str().unwrap(), catalog.to_str().unwrap());
    opm(&["migrate", database, catalog, "--migrate-level", "none"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let from_database = Server::start(&["registry", "serve", "-d", database]).await;
        let build = ["serve", catalog, "--cache-dir", cache.to_str().unwrap(), "--cache-enforce-integrity=false"];
        let from_catalog = Server::start(&build).await;
        compare(&from_database, &from_catalog).await
    })
}

fn write_bundle(root: &Path, package: &str, version: &str, spec: &str, dependencies: &str) -> PathBuf {
    let directory = root.join(format!("{package}-{version}"));
    let (manifests, metadata) = (directory.join("manifests"), directory.join("metadata"));
    fs::create_dir_all(&manifests).unwrap();
    fs::create_dir_all(&metadata).unwrap();
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  \
         name: {package}.v{version}\n  annotations: {{olm.skipRange: '<{version}'}}\nspec:\n  version: {version}\n  \
         displayName: {package}\n  customresourcedefinitions:\n    owned:\n    \
         - {{name: {package}s.example.com, version: v1, kind: {package}}}\n{spec}"
    );
    fs::write(manifests.join("csv.yaml"), csv).unwrap();
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {package}s.example.com}}\n\
         spec:\n  group: example.com\n  names: {{kind: {package}, plural: {package}s}}\n  scope: Namespaced\n  \
         versions: [{{name: v1, served: true, storage: true}}]\n"
    );
    fs::write(manifests.join("crd.yaml"), crd).unwrap();
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  \
         operators.operatorframework.io.bundle.channels.v1: stable,fast\n  \
         operators.operatorframework.io.bundle.channel.default.v1: stable\n"
    );
    fs::write(metadata.join("annotations.yaml"), annotations).unwrap();
    if !dependencies.is_empty() {
        fs::write(metadata.join("dependencies.yaml"), format!("dependencies:\n{dependencies}")).unwrap();
    }
    directory
}

#[test]
fn a_migrated_index_gives_the_replies_of_the_database() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let needs = "- type: olm.package\n  value: {packageName: buoy, version: '>=1.0.0'}\n\
        - type: olm.gvk\n  value: {group: example.com, version: v1, kind: buoy}\n\
        - type: olm.label\n  value: {label: sea}\n";
    let bundles = [
        write_bundle(root, "buoy", "1.0.0", "", ""),
        write_bundle(root, "buoy", "1.1.0", "  replaces: buoy.v1.0.0\n", ""),
        write_bundle(root, "buoy", "1.2.0", "  replaces: buoy.v1.0.0\n  skips: [buoy.v1.1.0]\n", ""),
        write_bundle(root, "lamp", "0.1.0", "", needs),
        write_bundle(root, "lamp", "0.2.0", "  replaces: lamp.v0.1.0\n", needs),
    ];
    let database = root.join("index.db");
    for bundle in &bundles {
        opm(&["registry", "add", "-d", database.to_str().unwrap(), "-b", bundle.to_str().unwrap()]);
    }
    assert!(migrated(&database) > 40);
}

#[test]
#[ignore = "OPM_INDEX_DB names the database to look at, such as one of all bundles at hand"]
fn a_real_migrated_index_gives_the_replies_of_the_database() {
    let database = std::env::var_os("OPM_INDEX_DB").expect("OPM_INDEX_DB");
    assert!(migrated(Path::new(&database)) > 0);
}
