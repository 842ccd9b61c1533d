//! A catalog with all kinds of content, a server for it, and requests to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A temporary directory for catalogs and exports.
pub(crate) struct Workspace {
    scratch: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        Workspace { scratch: tempfile::tempdir().unwrap() }
    }

    /// Returns a workspace with the example catalog in `catalog`.
    pub(crate) fn with_example() -> Workspace {
        let workspace = Workspace::new();
        workspace.write("catalog/lantern.json", &example());
        workspace.write("catalog/beacon.json", &neighbour());
        workspace.write("previous/lantern.json", &before());
        workspace
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn opm(&self, arguments: &[&str]) -> Command {
        // Benchmarks measure an optimized program.
        let program = std::env::var_os("OPM_CONSOLE_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_opm").into());
        let mut command = Command::new(program);
        command.current_dir(self.scratch.path()).env("HOME", self.scratch.path()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.opm(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        error.into_owned() + &String::from_utf8_lossy(&output.stdout)
    }

    /// Serves the catalog.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        self.serve_with(arguments, &[])
    }

    /// Serves the catalog with additional environment variables.
    pub(crate) fn serve_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        self.serve_at(free_port(), arguments, variables)
    }

    /// Serves the catalog on this port.
    pub(crate) fn serve_at(&self, port: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let server = self.start(port, arguments, variables);
        server.wait("/catalogs/test/api/v1/metas?schema=none", |reply| reply.status == 200);
        server
    }

    /// Starts a server, and does not wait until it is ready.
    pub(crate) fn start(&self, port: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let pages = self.path("previous").is_dir() && !arguments.contains(&"--no-console");
        let previous: &[&str] = if pages { &["--previous", "previous"] } else { &[] };
        let mut child = self
            .opm(&["serve", "catalog", "-t", "", "--address", "127.0.0.1", "--port", "0", "--http-catalog", "test"])
            .args(["--http", &format!("127.0.0.1:{port}")])
            .args(arguments)
            .args(previous)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            while log.read_line(&mut line).is_ok_and(|read| read > 0) {
                line.clear();
            }
        });
        Server { child, port }
    }
}

pub(crate) use testkit::free_port;

/// A server that is killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reply to a request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Server {
    /// Returns a server that was started elsewhere.
    pub(crate) fn of(child: Child, port: u16) -> Server {
        Server { child, port }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends a request like a browser.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "Accept: text/html,application/xhtml+xml\r\n")
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> Reply {
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{}\r\n", self.port) };
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(socket, "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n").unwrap();
        let mut bytes = Vec::new();
        let _ = socket.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn wait(&self, path: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let start = Instant::now();
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                let reply = self.get(path);
                if wanted(&reply) {
                    return reply;
                }
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{path} never gets the expected reply");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stop(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        let _ = self.child.wait();
    }
}

/// URLs of every kind of page of the example.
pub(crate) const PAGES: [&str; 20] = [
    "/",
    "/?q=lantern&view=rows",
    "/?q=nothing-like-this",
    "/p/lantern",
    "/p/lantern/graph",
    "/p/lantern/path",
    "/p/lantern/path?from=1.0.0",
    "/p/lantern/path?from=0.1.0",
    "/p/lantern/why",
    "/p/lantern/why?version=1.0.1",
    "/p/beacon/why?version=0.1.0&installed=lantern.v1.0.0",
    "/p/lantern/install",
    "/p/lantern/compare?from=1.0.0&to=1.1.0",
    "/p/lantern/v/lantern.v1.1.0",
    "/apis",
    "/apis/lantern.test/lamp",
    "/images",
    "/changes",
    "/problems",
    "/about",
];

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// Returns the CSV of a version of the example.
fn csv(version: &str, extra: bool) -> Value {
    let mut rules = vec![json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})];
    if extra {
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}));
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("lantern.v{version}"), "annotations": {
            "categories": "Networking, Developer Tools", "capabilities": "Full Lifecycle", "createdAt": "2024-03-01T00:00:00Z",
            "description": "Lights the way of requests", "containerImage": "registry.test/lantern:1", "repository": "https://github.com/example/lantern",
            "alm-examples": "[{\"apiVersion\":\"lantern.test/v1\",\"kind\":\"Lamp\",\"metadata\":{\"name\":\"one\"},\"spec\":{\"lumen\":800}}]"}},
        "spec": {
            "displayName": "Lantern", "version": version,
            "description": "# Lantern\n\nLights *requests*.\n\n## Use\n\nSee https://example.test/docs.\n\n## More\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nRun `lantern <plan>`.",
            "provider": {"name": "Example, Inc.", "url": "https://example.test"}, "keywords": ["light", "trace"],
            "links": [{"name": "Docs", "url": "https://example.test/docs"}], "maintainers": [{"name": "Ann", "email": "ann@example.test"}],
            "minKubeVersion": "1.25.0", "installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}],
            "icon": [{"base64data": "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCA4IDgiPjxjaXJjbGUgY3g9IjQiIGN5PSI0IiByPSIzIi8+PC9zdmc+", "mediatype": "image/svg+xml"}],
            "customresourcedefinitions": {"owned": [{"name": "lamps.lantern.test", "version": "v1", "kind": "Lamp", "displayName": "Lamp", "description": "A light"}]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "lantern", "rules": rules}],
                "deployments": [{"name": "lantern", "spec": {"template": {"spec": {"serviceAccountName": "lantern", "containers": [{"name": "a", "image": "registry.test/lantern:1"}]}}}}]}}
        }
    })
}

fn crd(extra: bool) -> Value {
    let mut fields = json!({"lumen": {"type": "integer", "description": "How bright"}});
    if extra {
        fields["colour"] = json!({"type": "string", "enum": ["white", "warm"]});
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.lantern.test"},
        "spec": {"group": "lantern.test", "names": {"kind": "Lamp", "plural": "lamps"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}}]}})
}

pub(crate) fn packed(value: &Value) -> String {
    let mut out = Vec::new();
    fbc::base64::encode(value.to_string().as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns a package with channels, skips, a range, deprecations, manifests and support phases.
pub(crate) fn example() -> String {
    let mut text =
        line(&json!({"schema": "olm.package", "name": "lantern", "defaultChannel": "stable", "description": "Lights"}));
    text += &line(&json!({"schema": "olm.channel", "package": "lantern", "name": "stable", "entries": [
        {"name": "lantern.v1.0.0"}, {"name": "lantern.v1.0.1", "replaces": "lantern.v1.0.0"},
        {"name": "lantern.v1.1.0", "replaces": "lantern.v1.0.0", "skips": ["lantern.v1.0.1"], "skipRange": ">=0.9.0 <1.1.0"}]}));
    text += &line(&json!({"schema": "olm.channel", "package": "lantern", "name": "fast", "entries": [
        {"name": "lantern.v1.1.0"}, {"name": "lantern.v2.0.0", "replaces": "lantern.v1.1.0"}]}));
    for (version, extra) in [("1.0.0", false), ("1.0.1", false), ("1.1.0", true), ("2.0.0", true)] {
        text += &line(&json!({"schema": "olm.bundle", "package": "lantern", "name": format!("lantern.v{version}"),
            "image": format!("registry.test/lantern-bundle:{version}"),
            "relatedImages": [{"name": "operator", "image": format!("registry.test/lantern:{version}")},
                {"name": "base", "image": "registry.test/base@sha256:0000000000000000000000000000000000000000000000000000000000000000"}],
            "properties": [
                {"type": "olm.package", "value": {"packageName": "lantern", "version": version}},
                {"type": "olm.gvk", "value": {"group": "lantern.test", "version": "v1", "kind": "Lamp"}},
                {"type": "olm.bundle.object", "value": {"data": packed(&csv(version, extra))}},
                {"type": "olm.bundle.object", "value": {"data": packed(&crd(extra))}}]}));
    }
    text += &line(&json!({"schema": "olm.deprecations", "package": "lantern", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "lantern.v1.0.0"}, "message": "Use 1.1.0."},
        {"reference": {"schema": "olm.channel", "name": "fast"}, "message": "Follow stable."}]}));
    text += &line(&json!({"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "lantern",
        "versions": [{"name": "1.1", "phases": [{"name": "Full support", "startDate": "2024-01-01", "endDate": "2025-01-01"}]}]}));
    text
}

/// Returns the package before the last changes: with a channel that is removed later, and without the latest versions.
fn before() -> String {
    let mut text = line(&json!({"schema": "olm.package", "name": "lantern", "defaultChannel": "stable"}));
    for channel in ["stable", "old"] {
        text += &line(&json!({"schema": "olm.channel", "package": "lantern", "name": channel, "entries": [
            {"name": "lantern.v1.0.0"}, {"name": "lantern.v1.0.1", "replaces": "lantern.v1.0.0"}]}));
    }
    let kept = |line: &&str| {
        line.starts_with("{\"schema\":\"olm.bundle\"")
            && (line.contains("\"lantern.v1.0.0\"") || line.contains("\"lantern.v1.0.1\""))
    };
    text + &example().lines().filter(kept).map(|line| format!("{line}\n")).collect::<String>()
}

/// Returns a package that requires the other one, with metadata instead of manifests.
fn neighbour() -> String {
    let mut text = line(&json!({"schema": "olm.package", "name": "beacon", "defaultChannel": "alpha"}));
    text += &line(
        &json!({"schema": "olm.channel", "package": "beacon", "name": "alpha", "entries": [{"name": "beacon.v0.1.0"}]}),
    );
    text += &line(
        &json!({"schema": "olm.bundle", "package": "beacon", "name": "beacon.v0.1.0", "image": "registry.test/beacon:0.1.0", "properties": [
        {"type": "olm.package", "value": {"packageName": "beacon", "version": "0.1.0"}},
        {"type": "olm.package.required", "value": {"packageName": "lantern", "versionRange": ">=1.0.0"}},
        {"type": "olm.csv.metadata", "value": {"displayName": "Beacon", "description": "Shows where things are", "annotations": {"createdAt": "soon"}, "provider": {"name": "Other GmbH"}}}]}),
    );
    text
}

/// Returns every URL in the `href` and `src` attributes of a page.
pub(crate) fn links(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in [" href=", " src=", " action="] {
        for rest in html.split(attribute).skip(1) {
            let link = value(rest);
            found.push(link.replace("&amp;", "&"));
        }
    }
    found
}

/// Returns the value of an attribute, which may have no quotes.
pub(crate) fn value(text: &str) -> &str {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => text.split([' ', '>']).next().unwrap_or_default(),
    }
}

/// Lists all files below a directory, by path.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => todo.push(path),
                path => all.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    all.sort();
    all
}

/// Returns the visible text of a page's main part, or of a part of it.
pub(crate) fn text_of(html: &str) -> String {
    let main = html.split("<main").nth(1).map_or(html, |rest| rest.split("</main>").next().unwrap_or_default());
    let mut out = String::new();
    let mut inside = main.starts_with(" id=");
    for c in main.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    let plain = out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}
