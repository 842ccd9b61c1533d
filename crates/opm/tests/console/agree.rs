//! The same question asked everywhere it is answered: commands, their JSON, the console, its export, gRPC.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use testkit::{Browser, Setup};

use crate::harness::{Server, Workspace, free_port};
use crate::random::{self, Dice};

/// The versions of each package.
const VERSIONS: usize = 6;

#[derive(Clone, PartialEq, prost::Message)]
struct PackageRequest {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Package {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    channels: Vec<Channel>,
    #[prost(string, tag = "3")]
    default_channel: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Channel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    head: String,
}

/// A catalog that is served and exported.
struct Everywhere {
    workspace: Workspace,
    server: Server,
    grpc: u16,
}

impl Everywhere {
    /// Generates a catalog of two packages, the second of which may depend on the first.
    fn start(number: usize) -> Everywhere {
        let workspace = Workspace::new();
        random::write_packages(&workspace, "catalog", &[number, number + 6], VERSIONS);
        workspace.run(&["site", "build", "catalog", "-o", "site"]);
        let (grpc, http) = (free_port(), free_port());
        let child: Child = workspace
            .opm(&["serve", "catalog", "-t", "", "--address", "127.0.0.1", "--http-catalog", "test"])
            .args(["--port", &grpc.to_string(), "--http", &format!("127.0.0.1:{http}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server::of(child, http);
        server.wait("/catalogs/test/api/v1/metas?schema=none", |reply| reply.status == 200);
        Everywhere { workspace, server, grpc }
    }

    /// Runs a command that prints JSON, whatever its exit code.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.workspace.opm(arguments).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn package(&self, name: &str) -> Package {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let address = format!("http://127.0.0.1:{}", self.grpc);
            let start = Instant::now();
            let channel = loop {
                match Endpoint::from_shared(address.clone()).unwrap().connect().await {
                    Ok(channel) => break channel,
                    Err(error) => assert!(start.elapsed() < Duration::from_secs(20), "{error}"),
                }
            };
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.unwrap();
            let codec: ProstCodec<PackageRequest, Package> = ProstCodec::default();
            let request = tonic::Request::new(PackageRequest { name: name.into() });
            let path = PathAndQuery::from_static("/api.Registry/GetPackage");
            grpc.unary(request, path, codec).await.unwrap().into_inner()
        })
    }

    fn exported(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace.path("site").join(path)).unwrap()
    }
}

/// Returns the text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start:?} in {text}")).1;
    rest.split_once(end).map_or(rest, |(inner, _)| inner)
}

/// Returns an attribute of an element, with or without quotes.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let rest = element.split_once('>').map_or(element, |(head, _)| head).split_once(&format!(" {name}="))?.1;
    match rest.strip_prefix('"') {
        Some(rest) => rest.split('"').next(),
        None => rest.split([' ', '>']).next(),
    }
}

/// An upgrade path: the bundles after the installed one, and whether the cluster arrives.
type Path = (Vec<String>, bool);

/// Reads the path on a page of the console.
fn on_page(page: &str) -> Path {
    let list = between(page, "<ol class=\"steps\">", "</ol>");
    let bundles = list.split("<code class=\"soft\">").skip(2).map(|rest| rest.split('<').next().unwrap().to_owned());
    (bundles.collect(), !page.contains("It does not get there"))
}

/// Follows the rows of an exported page, as its script does.
fn in_export(page: &str, package: &str, channel: &str, from: &str) -> Path {
    let block = page.split("<details").find(|block| attribute(block, "data-channel") == Some(channel)).unwrap();
    let rows: Vec<&str> = block.split("<tr").skip(2).collect();
    let label = |row: &str| between(row.split_once("<th").unwrap().1, ">", "<").to_owned();
    let mut row = rows.iter().position(|row| label(row) == from).expect("the installed version");
    let mut steps = Vec::new();
    while let Some(next) = attribute(rows[row], "data-n") {
        row = next.parse().unwrap();
        steps.push(row);
    }
    let rest = attribute(rows[row], "data-p").unwrap_or_default().split_whitespace();
    steps.extend(rest.map(|next| next.parse::<usize>().unwrap()));
    let names = steps.iter().map(|step| format!("{package}.v{}", label(rows[*step])));
    (names.collect(), attribute(rows[row], "data-e").is_none())
}

/// C-12: every place that answers a question gives the same answer, on generated catalogs.
#[test]
fn the_same_question_has_the_same_answer_everywhere() {
    let catalogs: usize = std::env::var("OPM_AGREE_CATALOGS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let browser = Browser::start(Setup::default());
    let (mut arrived, mut stuck, mut refused, mut allowed) = (0, 0, 0, 0);
    for number in 0..catalogs {
        let everywhere = Everywhere::start(number);
        let mut dice = Dice(number as u64);
        for number in [number, number + 6] {
            let package = random::package(number);
            which_channel_and_head(&everywhere, &package);
            for v1 in [false, true] {
                match which_path(&everywhere, number, dice.below(VERSIONS - 4), v1) {
                    true => arrived += 1,
                    false => stuck += 1,
                }
            }
            match which_crds(&everywhere, number, dice.below(VERSIONS - 1)) {
                true => refused += 1,
                false => allowed += 1,
            }
        }
        what_matches(&everywhere, &browser, &mut dice);
    }
    // The catalogs ask for all kinds of answers.
    assert!(arrived > 0 && stuck > 0 && refused > 0 && allowed > 0, "{arrived} {stuck} {refused} {allowed}");
}

/// Which channel is meant if none is given, and what is newest in it?
fn which_channel_and_head(everywhere: &Everywhere, package: &str) {
    let channels = everywhere.json(&["list", "channels", "catalog", package]);
    let default = channels.as_array().unwrap().iter().find(|channel| channel["default"] == json!(true)).unwrap();
    let (channel, head) = (default["channel"].as_str().unwrap(), default["head"].as_str().unwrap());
    let served = everywhere.package(package);
    assert_eq!(served.default_channel, channel, "{package}");
    let newest = served.channels.iter().find(|one| one.name == channel).unwrap();
    assert_eq!(newest.head, head, "{package}");
    let data = format!("-/d/p/{package}.json");
    for page in [everywhere.server.get(&format!("/{data}")).body, everywhere.exported(&data)] {
        let shown: Value = serde_json::from_str(&page).unwrap();
        assert_eq!((&shown["defaultChannel"], &shown["head"]), (&json!(channel), &json!(head)), "{package}");
    }
    let picker =
        between(&everywhere.server.get(&format!("/p/{package}/path")).body, "name=\"channel\"", "</select>").to_owned();
    let chosen = picker.split("<option").find(|option| option.contains(" selected")).unwrap();
    assert_eq!(attribute(chosen, "value"), Some(channel), "{package}");
    let from = format!("{package}.v1.0.0");
    let path = everywhere.json(&["upgrade-path", "catalog", package, "--from", &from]);
    assert_eq!(path["channel"], json!(channel), "{package}");
}

/// Which upgrades follow? Returns whether the cluster arrives.
fn which_path(everywhere: &Everywhere, number: usize, version: usize, v1: bool) -> bool {
    let (package, from) = (random::package(number), format!("1.{version}.0"));
    let generation = if v1 { "v1" } else { "v0" };
    let arguments = ["upgrade-path", "catalog", &package, "--from", &from, "--olm", generation];
    let report = everywhere.json(&arguments);
    let names = report["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap().to_owned());
    let asked: Path = (names.collect(), report["arrived"] == json!(true));
    let output = everywhere.workspace.opm(&arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| Some(line.strip_prefix("-> ")?.split_once("  ")?.0.to_owned()));
    assert_eq!((lines.collect(), output.status.success()), asked, "text: {arguments:?}");
    let page = everywhere.server.get(&format!("/p/{package}/path?from={from}&olm={generation}")).body;
    assert_eq!(on_page(&page), asked, "console: {arguments:?}");
    if !v1 {
        let page = everywhere.exported(&format!("p/{package}/path.html"));
        let channel = report["channel"].as_str().unwrap();
        assert_eq!(in_export(&page, &package, channel, &from), asked, "export: {arguments:?}");
    }
    asked.1
}

/// Does OLM v1 refuse the CRDs of an upgrade?
fn which_crds(everywhere: &Everywhere, number: usize, version: usize) -> bool {
    let package = random::package(number);
    let (from, to) = (format!("1.{version}.0"), format!("1.{}.0", version + 1));
    let arguments = ["crd-diff", "catalog", "--package", &package, "--from", &from, "--to", &to];
    let report = everywhere.json(&arguments);
    let blocks = report["changes"].as_array().unwrap().iter().any(|change| change["blocks"] == json!(true));
    let page = everywhere.server.get(&format!("/p/{package}/compare?from={from}&to={to}")).body;
    assert_eq!(page.contains("OLM v1 refuses the upgrade"), blocks, "console: {arguments:?}: {report}");
    let old = random::bundle(number, version);
    let path = everywhere.json(&["upgrade-path", "catalog", &package, "--from", &old, "--to", &to, "--olm", "v1"]);
    if path["steps"].as_array().unwrap().is_empty() && path["refused"] == json!(random::bundle(number, version + 1)) {
        assert!(blocks, "upgrade-path: {arguments:?}");
    }
    if path["steps"][0]["name"] == json!(random::bundle(number, version + 1)) {
        assert!(!blocks, "upgrade-path: {arguments:?}");
    }
    blocks
}

/// Which packages match a search, and in which order?
fn what_matches(everywhere: &Everywhere, browser: &Browser, dice: &mut Dice) {
    let index: Value = serde_json::from_str(&everywhere.exported("-/d/index.json")).unwrap();
    browser.open(&everywhere.server.address("/"));
    browser.wait("return typeof opmFind === 'function'");
    for _ in 0..3 {
        let words = *dice.pick(&["made", "1", "image:made-1", "kind:thing", "gmbh", "provider:one", "is:deprecated"]);
        let page = everywhere.server.get(&format!("/?q={words}")).body;
        let shown: Vec<u64> = page
            .split("class=\"tile\" data-n=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        let rows = index["rows"].clone();
        let found = browser.run("return opmFind(arguments[0], arguments[1])", &[rows, json!(format!("q={words}"))]);
        assert_eq!(json!(shown), found, "{words}");
    }
}
