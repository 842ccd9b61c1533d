//! A registry without a disk: it generates the content that it serves, and discards uploads once they are hashed.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use image::{Descriptor, Digest, Hasher, media_type};
use testkit::requests::{RecordedRequest, listen};

/// The distance between blocks of noise in a layer; the rest is zeros.
const STRIDE: u64 = 16 << 20;
const NOISE: u64 = 4 << 10;
/// The chunk in which a layer is generated.
const CHUNK: usize = 1 << 20;

/// The content of a registry, and the uploads to it.
#[derive(Default)]
pub(crate) struct GeneratedRegistry {
    /// Media type and content by path.
    content: Mutex<HashMap<String, (String, Vec<u8>)>>,
    /// Sizes of generated layers by digest.
    layers: Mutex<HashMap<String, u64>>,
    /// The number of bytes of generated layers that were requested.
    pub(crate) fetched: AtomicU64,
    /// Uploads in progress: the bytes received so far.
    uploads: Mutex<HashMap<u64, (Hasher, u64)>>,
    count: AtomicU64,
    /// The number of bytes received for each blob, in all finished uploads.
    pub(crate) received: Mutex<BTreeMap<String, u64>>,
    /// The number of requests.
    pub(crate) requests: AtomicU64,
}

/// Fills a buffer with the content of a layer from `at` on.
fn fill(at: u64, buffer: &mut [u8]) {
    buffer.fill(0);
    let end = at + buffer.len() as u64;
    for mark in at / STRIDE..=end / STRIDE {
        for byte in (mark * STRIDE).max(at)..(mark * STRIDE + NOISE).min(end) {
            buffer[(byte - at) as usize] = (byte.wrapping_mul(0x9e37_79b9) >> 7) as u8 | 1;
        }
    }
}

impl GeneratedRegistry {
    pub(crate) fn start() -> (Arc<GeneratedRegistry>, String) {
        let standin: Arc<GeneratedRegistry> = Arc::default();
        let own = standin.clone();
        let host = listen(move |stream| own.serve(stream)).unwrap();
        (standin, host)
    }

    fn put(&self, path: String, kind: &str, content: &[u8]) {
        self.content.lock().unwrap().insert(path, (kind.to_owned(), content.to_owned()));
    }

    /// Adds an image with one layer, and returns its digest.
    fn add(&self, name: &str, tag: &str, layer: Descriptor) -> Digest {
        let config = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "config": Descriptor::of(media_type::OCI_CONFIG, config),
            "layers": [layer],
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = Digest::of(&manifest);
        self.put(format!("/v2/{name}/blobs/{}", Digest::of(config)), "application/octet-stream", config);
        for version in [tag.to_owned(), digest.to_string()] {
            self.put(format!("/v2/{name}/manifests/{version}"), media_type::OCI_MANIFEST, &manifest);
        }
        digest
    }

    /// Adds an image with a small layer.
    pub(crate) fn add_small(&self, name: &str, tag: &str, layer: &[u8]) -> Digest {
        let described = Descriptor::of(media_type::OCI_LAYER, layer);
        self.put(format!("/v2/{name}/blobs/{}", described.digest), "application/octet-stream", layer);
        self.add(name, tag, described)
    }

    /// Adds an image with a layer of any size, and returns the digest of the layer.
    pub(crate) fn add_large(&self, name: &str, tag: &str, size: u64) -> Digest {
        let mut hasher = Hasher::new();
        let (mut at, mut buffer) = (0, vec![0; CHUNK]);
        while at < size {
            let length = (size - at).min(CHUNK as u64) as usize;
            fill(at, &mut buffer[..length]);
            hasher.update(&buffer[..length]);
            at += length as u64;
        }
        let digest = hasher.finish();
        self.layers.lock().unwrap().insert(digest.to_string(), size);
        self.add(name, tag, Descriptor::new(media_type::OCI_LAYER, digest, size));
        digest
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(256 << 10, stream.try_clone()?);
        while let Some(head) = RecordedRequest::read(&mut reader)? {
            let (method, path) = (head.method.as_str(), head.path.as_str());
            self.requests.fetch_add(1, Ordering::Relaxed);
            let last = path.rsplit('/').next().unwrap_or_default().to_owned();
            let layer = self.layers.lock().unwrap().get(&last).copied().filter(|_| path.contains("/blobs/"));
            match (method, layer) {
                ("GET", Some(size)) => self.layer(&mut stream, size, head.start().unwrap_or(0))?,
                ("GET" | "HEAD", _) => self.serve_content(&mut stream, method, path)?,
                _ => self.receive(&mut stream, &mut reader, method, path, head.length())?,
            }
        }
        Ok(())
    }

    fn layer(&self, stream: &mut TcpStream, size: u64, start: u64) -> io::Result<()> {
        let status = match start {
            0 => "200 OK".to_owned(),
            start => format!("206 Partial\r\nContent-Range: bytes {start}-{}/{size}", size - 1),
        };
        stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", size - start).as_bytes())?;
        let (mut at, mut buffer) = (start, vec![0; CHUNK]);
        while at < size {
            let length = (size - at).min(CHUNK as u64) as usize;
            fill(at, &mut buffer[..length]);
            stream.write_all(&buffer[..length])?;
            at += length as u64;
            self.fetched.fetch_add(length as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn serve_content(&self, stream: &mut TcpStream, method: &str, path: &str) -> io::Result<()> {
        let found = self.content.lock().unwrap().get(path).cloned();
        let blob = path.rsplit_once("/blobs/").map(|(_, digest)| digest.to_owned());
        let came = blob.is_some_and(|digest| self.received.lock().unwrap().contains_key(&digest));
        let found = found.or_else(|| (path == "/v2/" || came).then(|| ("application/json".into(), b"{}".to_vec())));
        let Some((kind, content)) = found else {
            return stream.write_all(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
        };
        let digest = Digest::of(&content);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nDocker-Content-Digest: {digest}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        let mut whole = head.into_bytes();
        if method == "GET" {
            whole.extend(content);
        }
        stream.write_all(&whole)
    }

    /// Receives an upload.
    fn receive(
        &self,
        stream: &mut TcpStream,
        reader: &mut BufReader<TcpStream>,
        method: &str,
        path: &str,
        length: u64,
    ) -> io::Result<()> {
        let (plain, query) = path.split_once('?').unwrap_or((path, ""));
        if plain.contains("/manifests/") {
            let mut content = vec![0; length as usize];
            reader.read_exact(&mut content)?;
            let (name, _) = plain.split_once("/manifests/").unwrap();
            self.put(format!("{name}/manifests/{}", Digest::of(&content)), media_type::OCI_MANIFEST, &content);
            self.put(plain.to_owned(), media_type::OCI_MANIFEST, &content);
            return stream.write_all(b"HTTP/1.1 201 x\r\nContent-Length: 0\r\n\r\n");
        }
        let number = match method {
            "POST" => self.count.fetch_add(1, Ordering::Relaxed),
            _ => plain.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default(),
        };
        let (mut hasher, mut size) = self.uploads.lock().unwrap().remove(&number).unwrap_or_else(|| (Hasher::new(), 0));
        let mut left = length;
        while left > 0 {
            let piece = reader.fill_buf()?;
            let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.update(&piece[..count]);
            reader.consume(count);
            left -= count as u64;
        }
        size += length;
        if method == "PUT" {
            let wanted = query.split('&').find_map(|part| part.strip_prefix("digest=")).unwrap_or_default();
            let digest = hasher.finish().to_string();
            let status = if digest == wanted.replace("%3A", ":") { 201 } else { 400 };
            if status == 201 {
                *self.received.lock().unwrap().entry(digest).or_default() += size;
            }
            return stream.write_all(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
        let place = match method {
            "POST" => format!("{}/{number}", plain.trim_end_matches('/')),
            _ => plain.to_owned(),
        };
        if method != "DELETE" {
            self.uploads.lock().unwrap().insert(number, (hasher, size));
        }
        let head = format!(
            "HTTP/1.1 202 x\r\nLocation: {place}\r\nRange: 0-{}\r\nContent-Length: 0\r\n\r\n",
            size.saturating_sub(1)
        );
        stream.write_all(head.as_bytes())
    }
}
