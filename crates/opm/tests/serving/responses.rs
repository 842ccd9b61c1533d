//! Replies over HTTP.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Scratch, TIMEOUT, free_port, get, get_bytes};

#[test]
fn redirects_keep_the_query_and_unmodified_replies_have_no_type() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 2, 5000);
    let server = scratch.serve(&[]).ready();
    let response = server.get("/catalogs//test/api/v1/metas?schema=olm.package&name=foo");
    assert!(response.starts_with("HTTP/1.1 307"), "{response}");
    assert!(response.contains("location: /catalogs/test/api/v1/metas?schema=olm.package&name=foo\r\n"), "{response}");
    let all = server.get("/catalogs/test/api/v1/all");
    let tag = all.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim();
    let known = get(server.http, "/catalogs/test/api/v1/all", &format!("If-None-Match: {tag}\r\n"));
    assert!(known.starts_with("HTTP/1.1 304") && known.contains(&format!("etag: {tag}")), "{known}");
    assert!(!known.contains("content-type"), "{known}");
}

#[test]
fn several_ranges_come_in_one_reply() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 3, 5000);
    let server = scratch.serve(&[]).ready();
    let all = server.get("/catalogs/test/api/v1/all");
    let (_, body) = all.split_once("\r\n\r\n").unwrap();
    let ranges = |list: &str| get(server.http, "/catalogs/test/api/v1/all", &format!("Range: bytes={list}\r\n"));
    let two = ranges("100-199,5000-5009");
    let (head, parts) = two.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let length = body.len();
    let wanted = format!(
        "--{boundary}\r\nContent-Type: application/jsonl\r\nContent-Range: bytes 100-199/{length}\r\n\r\n{}\r\n\
         --{boundary}\r\nContent-Type: application/jsonl\r\nContent-Range: bytes 5000-5009/{length}\r\n\r\n{}\r\n\
         --{boundary}--\r\n",
        &body[100..200],
        &body[5000..5010]
    );
    assert_eq!(parts, wanted);
    assert!(head.contains(&format!("content-length: {}", wanted.len())), "{head}");
    let joined = ranges("0-9,5-19,20-29");
    assert!(joined.contains(&format!("content-range: bytes 0-29/{length}")) && joined.ends_with(&body[..30]));
    assert!(
        ranges("0-1,99999999-").ends_with(&format!("\r\n\r\n{}", &body[..2])),
        "a range outside the content is not omitted"
    );
    assert!(ranges("99999998-,99999999-").starts_with("HTTP/1.1 416"));
    let many: Vec<String> = (0..100).map(|i| format!("{}-{}", i * 10, i * 10)).collect();
    assert!(ranges(&many.join(",")).starts_with("HTTP/1.1 200"), "too many ranges are not ignored");
}

#[test]
fn compressed_content_equals_uncompressed_content() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 40, 20_000);
    let server = scratch.serve(&[]).ready();
    let plain = get_bytes(server.http, "/catalogs/test/api/v1/all", "");
    let body = |response: &[u8]| {
        let at = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        response[at + 4..].to_vec()
    };
    for (coding, tool) in [("gzip", "gzip"), ("zstd", "zstd")] {
        let response = get_bytes(server.http, "/catalogs/test/api/v1/all", &format!("Accept-Encoding: {coding}\r\n"));
        let packed = unchunked(&body(&response));
        assert!(packed.len() < plain.len() * 9 / 10, "{coding}: {}", packed.len());
        let file = scratch.path(&format!("all.{coding}"));
        std::fs::write(&file, packed).unwrap();
        let unpacked = std::process::Command::new(tool).arg("-dc").stdin(std::fs::File::open(&file).unwrap()).output();
        // Some machines lack some of these tools.
        if let Ok(unpacked) = unpacked {
            assert!(unpacked.status.success() && unpacked.stdout == body(&plain), "{coding}");
        }
    }
}

/// Joins the chunks of a body.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let line = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return out;
        }
        out.extend_from_slice(&body[line + 2..line + 2 + length]);
        body = &body[line + 4 + length..];
    }
}

/// Starts a server without HTTP, and returns it when it has written its cache.
fn serve_without_pages(scratch: &Scratch) -> Child {
    let flags = ["--cache-dir", "cache", "--cache-enforce-integrity=false", "--port", &free_port().to_string()];
    let server = scratch.command(&["serve", "catalog", "-t", ""]).args(flags).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !scratch.path("cache/opm.v1/catalog.cache").exists() {
        assert!(start.elapsed() < TIMEOUT, "there is no cache");
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

#[test]
fn a_cache_of_a_server_without_http_gets_its_pages_when_they_are_served() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 2, 5000);
    let size = || scratch.path("cache/opm.v1/catalog.cache").metadata().unwrap().len();
    let mut server = serve_without_pages(&scratch);
    server.kill().unwrap();
    server.wait().unwrap();
    let bare = size();
    let enforced =
        ["serve", "catalog", "-t", "", "--cache-dir", "cache", "--cache-enforce-integrity=true", "--http", ":0"];
    let refused = scratch.command(&enforced).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains("the cache has no data for web pages"), "{message}");
    let page = |flags: &[&str]| {
        let server = scratch.serve(&[&["--cache-dir", "cache", "--http-host", "x"], flags].concat()).ready();
        let page = server.get("/p/foo");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        server.log()
    };
    assert!(page(&[]).contains("the cache has no data for web pages"));
    assert_eq!(size(), bare, "the cache was replaced");
    assert!(page(&["--cache-enforce-integrity=false"]).contains("building cache"));
    assert!(size() > bare);
    assert!(!page(&["--cache-enforce-integrity=false"]).contains("building cache"));
}
