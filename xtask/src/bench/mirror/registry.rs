//! Registries for benchmarks: real ones, one that serves files, and a counting proxy.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::requests::{RecordedRequest, listen};

/// The timeout for a registry to respond.
const START_TIMEOUT: Duration = Duration::from_secs(20);

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

fn config(data: &str, address: &str) -> String {
    format!(
        "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: \
         {data}}}, delete: {{enabled: true}}}}\nhttp: {{addr: {address}}}\n"
    )
}

/// A `docker-registry` that is stopped on drop.
pub(super) struct Registry {
    child: Child,
    host: String,
}

impl Registry {
    pub(super) fn start(place: &Path) -> Result<Registry> {
        fs::create_dir_all(place.join("data")).context("creating a directory for a registry")?;
        let host = free_address()?;
        let file = place.join("config.yml");
        fs::write(&file, config(&place.join("data").display().to_string(), &host))?;
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting docker-registry, which has to be installed")?;
        let registry = Registry { child, host };
        let begin = Instant::now();
        while TcpStream::connect(&registry.host).is_err() {
            ensure!(begin.elapsed() < START_TIMEOUT, "the registry does not respond");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(registry)
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns a script that runs a registry on a directory while another script runs.
    pub(super) fn script(data: &str, work: impl FnOnce(&str) -> String) -> Result<String> {
        let host = free_address()?;
        Ok(format!(
            "cat >cache.yml <<'END'\n{}END\ndocker-registry serve cache.yml >/dev/null 2>&1 &\nregistry=$!\nsleep 0.3\n\
             {}\nkill $registry\nwait $registry || true\n",
            config(data, &host),
            work(&host)
        ))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A proxy that counts the bytes from a registry and the requests.
pub(super) struct CountingProxy {
    host: String,
    bytes: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

impl CountingProxy {
    pub(super) fn start(to: &str) -> Result<CountingProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let host = listener.local_addr()?.to_string();
        let (bytes, requests): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
        let (to, received, asked) = (to.to_owned(), bytes.clone(), requests.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&to) else { continue };
                let (Ok(from), Ok(into)) = (client.try_clone(), server.try_clone()) else { continue };
                let (received, asked) = (received.clone(), asked.clone());
                std::thread::spawn(move || {
                    pass(from, into, |piece| {
                        let words = piece.windows(11).filter(|window| *window == b" HTTP/1.1\r\n").count();
                        asked.fetch_add(words as u64, Ordering::Relaxed);
                    });
                });
                std::thread::spawn(move || {
                    pass(server, client, |piece| {
                        received.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    });
                });
            }
        });
        Ok(CountingProxy { host, bytes, requests })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the bytes received and the requests sent.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}

fn pass(mut from: TcpStream, mut into: TcpStream, seen: impl Fn(&[u8])) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        seen(&buffer[..length]);
        if into.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    into.shutdown(Shutdown::Both).ok();
    from.shutdown(Shutdown::Both).ok();
}

/// A registry that serves files named by digest; `v0`, `v1` and so on are tags of images.
pub(super) struct FileRegistry {
    host: String,
}

impl FileRegistry {
    pub(super) fn start(place: &Path, images: Vec<String>) -> Result<FileRegistry> {
        let place = place.join("blobs/sha256");
        let host = listen(move |stream| answer(stream, &place, &images))?;
        Ok(FileRegistry { host })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

fn answer(mut stream: TcpStream, place: &Path, images: &[String]) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(head) = RecordedRequest::read(&mut reader)? {
        let path = head.path.as_str();
        let last = path.rsplit('/').next().unwrap_or_default();
        let tagged = last.strip_prefix('v').and_then(|number| images.get(number.parse::<usize>().ok()?));
        let digest = tagged.map_or(last, String::as_str);
        let file: PathBuf = place.join(digest.trim_start_matches("sha256:"));
        let kind = match path.contains("/manifests/") {
            true => "application/vnd.oci.image.manifest.v1+json",
            false => "application/octet-stream",
        };
        let content = match path {
            "/v2/" => Some(b"{}".to_vec()),
            _ => fs::read(&file).ok(),
        };
        let about = format!("Content-Type: {kind}\r\nDocker-Content-Digest: {digest}\r\n");
        let mut whole = match &content {
            Some(content) => format!("HTTP/1.1 200 x\r\n{about}Content-Length: {}\r\n\r\n", content.len()).into_bytes(),
            None => b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n".to_vec(),
        };
        if head.method == "GET" {
            whole.extend(content.unwrap_or_default());
        }
        stream.write_all(&whole)?;
    }
    Ok(())
}
