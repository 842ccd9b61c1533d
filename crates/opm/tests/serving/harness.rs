//! A server in a separate process, and clients for it.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// How long an expected event may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A message of strings, with the fields that these tests read.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Strings {
    #[prost(string, tag = "1")]
    pub(crate) first: String,
    #[prost(string, tag = "2")]
    pub(crate) second: String,
    #[prost(string, tag = "3")]
    pub(crate) third: String,
    #[prost(string, tag = "4")]
    pub(crate) fourth: String,
}

/// A catalog directory, and a temporary directory for all other files.
pub(crate) struct Scratch {
    scratch: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let scratch = Scratch { scratch: tempfile::tempdir().unwrap() };
        for directory in ["catalog", "tmp"] {
            fs::create_dir(scratch.path(directory)).unwrap();
        }
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a package of `bundles` bundles, each of about `size` bytes.
    pub(crate) fn package(&self, name: &str, mark: &str, bundles: usize, size: usize) {
        let file = self.path("catalog").join(format!("{name}.json"));
        fs::write(file, package(name, mark, bundles, size)).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
        command
            .current_dir(self.scratch.path())
            .env_clear()
            .env("HOME", self.scratch.path())
            .env("TMPDIR", self.path("tmp"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Starts a server of the catalog.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        Server::start(self.command(&["serve", "catalog", "-t", ""]), arguments)
    }
}

/// Returns a package whose bundles contain `mark`.
pub(crate) fn package(name: &str, mark: &str, bundles: usize, size: usize) -> String {
    let mut text = format!(
        "{{\"schema\":\"olm.package\",\"name\":\"{name}\",\"defaultChannel\":\"stable\",\"description\":\"{mark}\"}}\n"
    );
    let entries: Vec<String> = (0..bundles)
        .map(|i| match i {
            0 => format!("{{\"name\":\"{name}.v0.0.0\"}}"),
            i => format!("{{\"name\":\"{name}.v{i}.0.0\",\"replaces\":\"{name}.v{}.0.0\"}}", i - 1),
        })
        .collect();
    let entries = entries.join(",");
    writeln!(text, "{{\"schema\":\"olm.channel\",\"name\":\"stable\",\"package\":\"{name}\",\"entries\":[{entries}]}}")
        .unwrap();
    let mut seed = 1u64;
    for i in 0..bundles {
        let mut filler = String::with_capacity(size);
        while filler.len() < size {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let _ = write!(filler, "{:x} ", seed >> 16);
        }
        writeln!(
            text,
            "{{\"schema\":\"olm.bundle\",\"name\":\"{name}.v{i}.0.0\",\"package\":\"{name}\",\
             \"image\":\"registry.test/{name}:v{i}\",\"properties\":[{{\"type\":\"olm.package\",\"value\":\
             {{\"packageName\":\"{name}\",\"version\":\"{i}.0.0\"}}}},{{\"type\":\"olm.csv.metadata\",\"value\":\
             {{\"displayName\":\"{mark}\",\"description\":\"{filler}\"}}}}]}}"
        )
        .unwrap();
    }
    text
}

/// A server that is killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    pub(crate) debug: u16,
    log: Arc<Mutex<String>>,
}

impl Server {
    pub(crate) fn start(mut command: Command, arguments: &[&str]) -> Server {
        let (grpc, http, debug) = (free_port(), free_port(), free_port());
        let mut child = command
            .args(["--address", "127.0.0.1", "--port", &grpc.to_string(), "--http", &format!("127.0.0.1:{http}")])
            .args(["--pprof-addr", &format!("127.0.0.1:{debug}"), "--http-catalog", "test"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, written) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Server { child, grpc, http, debug, log }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn wait_for_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < TIMEOUT, "the log does not contain {text:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the server is ready.
    pub(crate) fn ready(self) -> Server {
        self.wait_for(self.http, "/catalogs/test/api/v1/metas?schema=none", |response| {
            response.starts_with("HTTP/1.1 200")
        });
        self
    }

    pub(crate) fn get(&self, path: &str) -> String {
        get(self.http, path, "")
    }

    /// Polls until the reply is as expected, and returns it.
    pub(crate) fn wait_for(&self, port: u16, path: &str, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let response = get(port, path, "");
            if wanted(&response) {
                return response;
            }
            assert!(start.elapsed() < TIMEOUT, "{path}: {response}\nlog:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits until the process ends.
    pub(crate) fn end(&mut self, within: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < within {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns the memory of the process, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a running process");
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// Returns the size of the open files without a name, in bytes.
    pub(crate) fn deleted_files(&self) -> u64 {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("a running process");
        let paths = files.map(|file| file.unwrap().path());
        let unnamed =
            paths.filter(|path| fs::read_link(path).is_ok_and(|name| name.to_string_lossy().ends_with("(deleted)")));
        unnamed.map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum()
    }

    /// Waits until the process is idle.
    pub(crate) fn wait_until_idle(&self) {
        let ticks = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let number = |i: usize| fields.get(i).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            number(11) + number(12)
        };
        let start = Instant::now();
        let mut before = ticks();
        while start.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(200));
            let now = ticks();
            if now - before <= 2 {
                return;
            }
            before = now;
        }
        panic!("the process never becomes idle");
    }

    pub(crate) async fn channel(&self) -> Channel {
        let address = format!("http://127.0.0.1:{}", self.grpc);
        Endpoint::from_shared(address).unwrap().connect().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) use testkit::free_port;

/// Sends a plain HTTP request and returns the whole reply.
pub(crate) fn get(port: u16, path: &str, headers: &str) -> String {
    String::from_utf8_lossy(&get_bytes(port, path, headers)).into_owned()
}

pub(crate) fn get_bytes(port: u16, path: &str, headers: &str) -> Vec<u8> {
    let mut response = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = stream.set_read_timeout(Some(TIMEOUT));
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        let _ = stream.read_to_end(&mut response);
    }
    response
}

/// Queries a bundle.
pub(crate) async fn bundle(channel: &Channel, package: &str, name: &str) -> Result<Strings, tonic::Status> {
    let request = Strings { first: package.into(), second: "stable".into(), third: name.into(), ..Strings::default() };
    unary(channel, "/api.Registry/GetBundle", request).await
}

pub(crate) async fn unary(channel: &Channel, method: &'static str, request: Strings) -> Result<Strings, tonic::Status> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(64 << 20);
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<Strings, Strings> = ProstCodec::default();
    let response = grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec).await;
    response.map(tonic::Response::into_inner)
}

/// Starts a stream of all bundles.
pub(crate) async fn list(channel: &Channel) -> tonic::Streaming<Strings> {
    stream(channel, "/api.Registry/ListBundles").await
}

/// Starts a stream.
pub(crate) async fn stream(channel: &Channel, method: &'static str) -> tonic::Streaming<Strings> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(64 << 20);
    grpc.ready().await.unwrap();
    let codec: ProstCodec<Strings, Strings> = ProstCodec::default();
    grpc.server_streaming(tonic::Request::new(Strings::default()), PathAndQuery::from_static(method), codec)
        .await
        .unwrap()
        .into_inner()
}

/// Returns the permissions of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
