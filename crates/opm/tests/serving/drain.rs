//! Shutdown while clients are served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::{Scratch, list};

/// Downloads slowly after the first bytes arrive; returns the received and the announced length of the body.
fn download(port: u16, begun: &std::sync::Barrier) -> (usize, usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /catalogs/test/api/v1/all HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut response = vec![0; 16 << 10];
    let mut length = stream.read(&mut response).unwrap();
    response.truncate(length);
    let text = String::from_utf8_lossy(&response).into_owned();
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let wanted = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    begun.wait();
    let mut buffer = vec![0; 256 << 10];
    loop {
        std::thread::sleep(Duration::from_millis(10));
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return (length - head.len() - 4, wanted),
            Ok(more) => length += more,
        }
        if length - head.len() - 4 >= wanted {
            return (length - head.len() - 4, wanted);
        }
    }
}

#[test]
fn streams_and_downloads_finish_before_the_server_ends() {
    const CLIENTS: usize = 8;
    let scratch = Scratch::new();
    scratch.package("foo", "first", 200, 60_000);
    let mut server = scratch.serve(&["--drain-timeout", "20s"]).ready();
    let begun = std::sync::Arc::new(std::sync::Barrier::new(CLIENTS + 1));
    let downloads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (port, begun) = (server.http, std::sync::Arc::clone(&begun));
            std::thread::spawn(move || download(port, &begun))
        })
        .collect();
    begun.wait();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..CLIENTS {
            let mut stream = list(&server.channel().await).await;
            stream.message().await.unwrap().unwrap();
            streams.push(stream);
        }
        streams
    });
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    for stream in &mut streams {
        let rest = runtime.block_on(async {
            let mut count = 0;
            while stream.message().await.unwrap().is_some() {
                count += 1;
            }
            count
        });
        assert_eq!(rest, 199, "a stream is incomplete");
    }
    drop(streams);
    for download in downloads {
        let (length, wanted) = download.join().unwrap();
        assert_eq!(length, wanted, "a download is incomplete");
    }
    let status = server.end(Duration::from_secs(10)).expect("the server exits after all replies");
    assert!(status.success(), "{status}\n{}", server.log());
}

#[test]
fn idle_clients_do_not_delay_the_shutdown() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let mut server = scratch.serve(&["--drain-timeout", "20s"]).ready();
    let mut idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(("127.0.0.1", server.http)).unwrap()).collect();
    for (i, stream) in idle.iter_mut().enumerate() {
        if i % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    server.signal("TERM");
    assert!(server.end(Duration::from_secs(5)).expect("the server exits without clients in flight").success());
}

#[test]
fn sighup_reloads_the_catalog() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let mut server = scratch.serve(&[]).ready();
    scratch.package("bar", "second", 1, 100);
    server.signal("HUP");
    server.wait_for(server.http, "/catalogs/test/api/v1/packages/bar", |response| response.starts_with("HTTP/1.1 200"));
    std::fs::write(scratch.path("catalog/bar.json"), "{").unwrap();
    server.signal("HUP");
    server.wait_for(server.debug, "/readyz", |response| response.contains("the last update was refused"));
    assert!(server.get("/catalogs/test/api/v1/packages/bar").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    assert!(server.end(Duration::from_secs(10)).unwrap().success());
}
