//! A proxy between clients and a registry.

use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use testkit::{FakeRequest, FakeResponse};

/// A proxy that counts bytes from the registry, and can be disconnected.
pub(crate) struct Proxy {
    pub(crate) host: String,
    count: Arc<AtomicU64>,
    up: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn start(to: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let proxy = Proxy { host, count: Arc::default(), up: Arc::new(AtomicBool::new(true)), open: Arc::default() };
        let (to, count, up, open) = (to.to_owned(), proxy.count.clone(), proxy.up.clone(), proxy.open.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(server) = up.load(Ordering::Relaxed).then(|| TcpStream::connect(&to).ok()).flatten() else {
                    continue;
                };
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(from, into, &AtomicU64::new(0)));
                let count = count.clone();
                std::thread::spawn(move || pass(server, client, &count));
            }
        });
        proxy
    }

    /// Returns the number of bytes from the registry.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Closes all connections and accepts no more.
    pub(crate) fn disconnect(&self) {
        self.up.store(false, Ordering::Relaxed);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub(crate) fn restore(&self) {
        self.up.store(true, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut into: TcpStream, count: &AtomicU64) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        count.fetch_add(length as u64, Ordering::Relaxed);
        if into.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Forwards a request of a fake registry to a real one, without its range.
pub(crate) fn forward(host: &str, request: &FakeRequest) -> FakeResponse {
    let mut stream = TcpStream::connect(host).expect("the registry listens");
    let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n", request.method, request.path);
    // The fake registry keeps the last of several headers with one name.
    for kind in ["manifest.v1+json", "index.v1+json"] {
        head += &format!("Accept: application/vnd.oci.image.{kind}\r\n");
    }
    head += "Accept: */*\r\n";
    for (name, value) in &request.headers {
        if !matches!(name.as_str(), "host" | "connection" | "range" | "authorization" | "accept") {
            head += &format!("{name}: {value}\r\n");
        }
    }
    head += "\r\n";
    stream.write_all(head.as_bytes()).expect("a request");
    stream.write_all(&request.body).expect("a body");
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).expect("a response");
    let end = whole.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&whole[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let mut response = FakeResponse::status(status);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if !matches!(name.to_ascii_lowercase().as_str(), "content-length" | "connection" | "transfer-encoding") {
            response = response.header(name, value);
        }
    }
    response.body(&whole[end + 4..])
}
