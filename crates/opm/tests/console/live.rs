//! What open pages hear of a server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testkit::{Browser, Setup};

use crate::harness::{Place, Server, example};

fn stream(server: &Server) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(socket, "GET /-/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n").unwrap();
    BufReader::new(socket)
}

fn next(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(data.trim().to_owned());
        }
        line.clear();
    }
    None
}

/// T-14: pages hear of another catalog, of a refused one and of its repair, and never load by themselves.
#[test]
fn pages_hear_of_another_catalog() {
    let place = Place::with_example();
    let server = place.serve(&["--poll-interval", "100ms"]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern"));
    browser.run("window.mark = 1", &[]);
    place.write("catalog/lantern.json", &example().replace("Lights", "Shines"));
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed')");
    assert_eq!(browser.run("return window.mark", &[]), serde_json::json!(1), "the page did not load again");
    browser.open(&server.address("/p/lantern"));
    place.write(
        "catalog/broken.json",
        "{\"schema\":\"olm.channel\",\"name\":\"x\",\"package\":\"none\",\"entries\":[]}",
    );
    browser.wait("return document.getElementById('live').textContent.includes('refused')");
    assert!(server.wait("/", |page| page.body.contains("refused")).body.contains("strip bad"));
    std::fs::remove_file(place.path("catalog/broken.json")).unwrap();
    server.wait("/", |page| !page.body.contains("was refused"));
}

/// T-14, T-15: streams end with the server, and there are not too many of them.
#[test]
fn streams_are_bounded_and_end_with_the_server() {
    let place = Place::with_example();
    let mut server = place.serve(&[]);
    let mut streams: Vec<BufReader<TcpStream>> = Vec::new();
    for _ in 0..256 {
        let mut one = stream(&server);
        assert!(next(&mut one).is_some_and(|news| news.contains("revision")));
        streams.push(one);
    }
    assert_eq!(server.ask("GET", "/-/events", "").status, 503);
    assert_eq!(server.get("/p/lantern").status, 200);
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(streams.iter_mut().all(|stream| next(stream).is_none()));
}
