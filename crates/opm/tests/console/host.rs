//! A static host without knowledge of the console: files by path, types by extension, no other headers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Serves a directory below a path, for as long as the test runs.
pub(crate) struct Host {
    port: u16,
    prefix: &'static str,
}

impl Host {
    pub(crate) fn start(root: &Path, prefix: &'static str) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let root = root.to_path_buf();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let root = root.clone();
                std::thread::spawn(move || respond(socket, &root, prefix));
            }
        });
        Host { port, prefix }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{}{path}", self.port, self.prefix)
    }
}

fn respond(mut socket: std::net::TcpStream, root: &Path, prefix: &str) -> Option<()> {
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut rest = String::new();
    while reader.read_line(&mut rest).ok()? > 2 {
        rest.clear();
    }
    let path = line.split(' ').nth(1)?.split('?').next()?.strip_prefix(prefix)?;
    let path = if path.is_empty() { "index.html" } else { path };
    let file: PathBuf = root.join(path);
    let kind = match path.rsplit('.').next()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css",
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        _ => "application/octet-stream",
    };
    let (status, body) = match fs::read(file) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .ok()?;
    socket.write_all(&body).ok()
}
