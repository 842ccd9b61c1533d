//! Updates of open pages.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{Reply, Server, Workspace, example, free_port};

fn stream(server: &Server) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(socket, "GET /-/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n").unwrap();
    BufReader::new(socket)
}

fn next(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line.starts_with("HTTP/1.1 503") {
            return None;
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(data.trim().to_owned());
        }
        line.clear();
    }
    None
}

fn revision(reply: &Reply) -> String {
    let data: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
    data["revision"].as_str().unwrap_or_default().to_owned()
}

/// C-14: pages report another catalog, a rejected one and its repair, and never reload by themselves.
#[test]
fn pages_report_a_new_catalog() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&["--poll-interval", "100ms"]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern"));
    browser.run("window.mark = 1", &[]);
    let before = revision(&server.get("/-/d/revision.json"));
    workspace.write("catalog/lantern.json", &example().replace("Lights", "Shines"));
    server.wait("/-/d/revision.json", |now| now.status == 200 && revision(now) != before);
    let swapped = Instant::now();
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed')");
    assert!(swapped.elapsed() < Duration::from_secs(2), "{:?} after the swap", swapped.elapsed());
    assert_eq!(browser.run("return window.mark", &[]), json!(1), "the page reloaded");
    browser.open(&server.address("/p/lantern"));
    workspace.write(
        "catalog/broken.json",
        "{\"schema\":\"olm.channel\",\"name\":\"x\",\"package\":\"none\",\"entries\":[]}",
    );
    browser.wait("return document.getElementById('live').textContent.includes('refused')");
    assert!(server.wait("/", |page| page.body.contains("refused")).body.contains("strip bad"));
    std::fs::remove_file(workspace.path("catalog/broken.json")).unwrap();
    server.wait("/", |page| !page.body.contains("was refused"));
    browser.wait("return document.getElementById('live').hidden");
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// C-14: pages report that the server is unreachable until it is back; they never reload by themselves.
#[test]
fn c14_pages_survive_a_restart_of_the_server() {
    let workspace = Workspace::with_example();
    let mut server = workspace.serve(&["--poll-interval", "100ms"]);
    let port = server.port;
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern"));
    browser.run("window.mark = 1", &[]);
    server.stop();
    browser.wait("return document.getElementById('live').textContent.startsWith('Not connected to the server')");
    let server = workspace.serve_at(port, &["--poll-interval", "100ms"], &[]);
    browser.wait("return document.getElementById('live').hidden");
    // The page follows the new server.
    workspace.write("catalog/lantern.json", &example().replace("Lights", "Shines"));
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed')");
    assert_eq!(browser.run("return window.mark", &[]), json!(1), "the page reloaded");
    drop(server);
}

/// Returns how many more streams the server accepts.
fn free_streams(server: &Server) -> usize {
    let mut streams = Vec::new();
    loop {
        let mut one = stream(server);
        if next(&mut one).is_none() {
            return streams.len();
        }
        streams.push(one);
    }
}

fn wait_for_free_streams(server: &Server, wanted: usize) {
    let start = Instant::now();
    loop {
        let found = free_streams(server);
        if found == wanted {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the server accepts {found} streams, not {wanted}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// C-14: a hidden tab holds no stream, so that any number of tabs loads.
#[test]
fn c14_hidden_tabs_hold_no_stream_and_seven_tabs_load() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&["--poll-interval", "100ms"]);
    let browser = Browser::start(Setup { tabs: true, ..Setup::default() });
    browser.open(&server.address("/p/lantern"));
    wait_for_free_streams(&server, 255);
    let mut tabs = vec![browser.tab()];
    tabs.push(browser.new_tab());
    wait_for_free_streams(&server, 256);
    for path in ["/", "/apis", "/images", "/p/beacon", "/p/lantern/graph", "/problems"] {
        browser.open(&server.address(path));
        assert_eq!(browser.run("return document.readyState", &[]), json!("complete"), "{path}");
        tabs.push(browser.new_tab());
    }
    wait_for_free_streams(&server, 256);
    // A tab that becomes visible gets the updates that it missed.
    let before = revision(&server.get("/-/d/revision.json"));
    workspace.write("catalog/lantern.json", &example().replace("Lights", "Shines"));
    server.wait("/-/d/revision.json", |now| now.status == 200 && revision(now) != before);
    browser.switch(&tabs[0]);
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed')");
    wait_for_free_streams(&server, 255);
}

/// A stream that opens before the first catalog is loaded reports only catalogs.
#[test]
fn the_first_update_reports_a_catalog() {
    let workspace = Workspace::with_example();
    let many: String = (0..3000).map(|n| example().replace("lantern", &format!("lantern-{n}"))).collect();
    workspace.write("catalog/many.json", &many);
    let server = workspace.start(free_port(), &[], &[]);
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", server.port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.get("/-/d/revision.json").status, 503, "the server loaded the catalog before the first request");
    let news = next(&mut stream(&server)).unwrap();
    assert!(news.contains("\"revision\""), "{news}");
}

/// C-14, C-15: streams end with the server, and their number is limited.
#[test]
fn streams_are_bounded_and_end_with_the_server() {
    let workspace = Workspace::with_example();
    let mut server = workspace.serve(&[]);
    let mut streams: Vec<BufReader<TcpStream>> = Vec::new();
    for _ in 0..256 {
        let mut one = stream(&server);
        assert!(next(&mut one).is_some_and(|news| news.contains("revision")));
        streams.push(one);
    }
    assert_eq!(server.request("GET", "/-/events", "").status, 503);
    assert_eq!(server.get("/p/lantern").status, 200);
    let start = Instant::now();
    server.stop();
    let with = start.elapsed();
    let mut quiet = workspace.serve(&[]);
    let start = Instant::now();
    quiet.stop();
    let without = start.elapsed();
    assert!(with < without + Duration::from_secs(1), "{with:?} with streams, {without:?} without");
    assert!(streams.iter_mut().all(|stream| next(stream).is_none()));
}

/// The strip shows how much changed, with a link; a page that follows keeps its position.
#[test]
fn pages_report_what_changed_and_can_follow() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&["--poll-interval", "100ms"]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern"));
    let text = std::fs::read_to_string(workspace.path("catalog/beacon.json")).unwrap();
    workspace.write("catalog/beacon.json", &text.replace("Shows where things are", "Shows where things were"));
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed: 1 package.')");
    browser.run("document.querySelector('#live a').click()", &[]);
    browser.wait("return location.pathname === '/changes'");
    let page = browser.run("return document.getElementById('swaps').innerText", &[]);
    let page = page.as_str().unwrap();
    assert!(
        page.contains("beacon changed") && page.contains("beacon.v0.1.0") && !page.contains("lantern changed"),
        "{page}"
    );
    // Following: the page reloads by itself, and keeps scroll position and focus.
    browser.open(&server.address("/p/lantern"));
    browser.run("localStorage.setItem('opm-follow', 'on'); document.querySelector('a[href$=\"lantern/graph\"]').focus(); scrollTo(0, 200); window.mark = 1", &[]);
    workspace.write("catalog/lantern.json", &example().replace("Follow stable.", "Follow the other one."));
    browser.wait(
        "return window.mark !== 1 && document.readyState === 'complete' && document.body.innerText.includes('Follow the other one.')",
    );
    browser.wait("return document.activeElement.getAttribute('href')?.endsWith('lantern/graph') && scrollY === 200");
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// Without a free stream, pages poll once a minute.
#[test]
fn pages_poll_without_a_free_stream() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&["--poll-interval", "100ms"]);
    let streams: Vec<BufReader<TcpStream>> = (0..256)
        .map(|_| {
            let mut one = stream(&server);
            assert!(next(&mut one).is_some());
            one
        })
        .collect();
    let browser = Browser::start(Setup::default());
    // Here a minute takes half a second.
    let hurry = "const later = window.setTimeout; window.setTimeout = (work, time, ...rest) => later(work, time === 60000 ? 500 : time, ...rest);";
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": hurry}));
    browser.open(&server.address("/p/lantern"));
    workspace.write("catalog/lantern.json", &example().replace("Lights", "Shines"));
    browser.wait("return document.getElementById('live').textContent.startsWith('The catalog changed')");
    drop(streams);
}

/// Returns the private memory of a process, in megabytes.
fn memory(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// How much more memory a server may use under load, and after all readers have disconnected, in megabytes; and when.
///
/// Before updates were encoded once for all streams, it was 40 more; before freed memory was released, nearly all of it
/// stayed. When idle threads lived for a second, polls kept four to eight of them alive in turn, and 7 to 9 stayed.
///
/// 4.6 to 5.0 remained on two cores. Pages with live data are 0.7 of that. The rest is free memory that `malloc_trim`
/// does not release: 3 at the ends of glibc's 15 arenas, of which each core adds 8, and 1.5 in caches of live threads.
const MAXIMUM_GROWTH: f64 = 24.0;
const REMAINING_GROWTH: f64 = 8.0;
const RELEASED_AFTER: Duration = Duration::from_secs(75);

/// Returns the memory of a server once it has released what it allocated since `before`, or after the timeout.
fn memory_after_release(server: &Server, before: f64) -> f64 {
    let (start, mut after) = (Instant::now(), memory(server));
    while after > before + REMAINING_GROWTH && start.elapsed() < RELEASED_AFTER {
        std::thread::sleep(Duration::from_millis(500));
        after = memory(server);
    }
    after
}

/// C-15: 300 streams and 50 readers while the catalog is swapped every second, for `OPM_CONSOLE_SECONDS` seconds.
#[test]
fn c15_swaps_under_load_fail_no_page_mix_no_catalogs_and_release_memory() {
    let seconds: u64 = std::env::var("OPM_CONSOLE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let workspace = Workspace::with_example();
    std::fs::remove_dir_all(workspace.path("previous")).unwrap();
    let beacon = std::fs::read_to_string(workspace.path("catalog/beacon.json")).unwrap();
    std::fs::remove_file(workspace.path("catalog/beacon.json")).unwrap();
    std::fs::remove_file(workspace.path("catalog/lantern.json")).unwrap();
    let put = |number: u64| {
        let lantern = example()
            .replace("\"defaultChannel\"", &format!("\"description\":\"mark {number}.\",\"defaultChannel\""))
            .replace(",\"description\":\"Lights\"", "");
        let beacon = beacon
            .replace("\"displayName\":\"Beacon\"", &format!("\"displayName\":\"Beacon {number}.\""))
            .replace("Shows where things are", &format!("mark {number}."));
        workspace.write("aside/all.json", &format!("{lantern}{beacon}"));
        std::fs::rename(workspace.path("aside/all.json"), workspace.path("catalog/all.json")).unwrap();
    };
    put(0);
    let server = workspace.serve(&["--poll-interval", "200ms"]);
    let _ = server.get("/");
    let before = memory(&server);
    let mut streams: Vec<BufReader<TcpStream>> = (0..300).map(|_| stream(&server)).collect();
    let opened = streams.iter_mut().filter_map(next).count();
    assert_eq!(opened, 256, "the limit of streams is 256");
    let (pages, swaps) = (AtomicUsize::new(0), AtomicU64::new(1));
    let load = || {
        let end = Instant::now() + Duration::from_secs(seconds);
        std::thread::scope(|scope| {
            for reader in 0..50 {
                let (server, pages) = (&server, &pages);
                scope.spawn(move || {
                    let paths = [
                        "/",
                        "/p/beacon",
                        "/p/lantern",
                        "/p/lantern/v/lantern.v1.1.0",
                        "/apis",
                        "/p/lantern/path?from=1.0.0",
                    ];
                    for path in paths.iter().cycle().skip(reader) {
                        let page = server.get(path);
                        assert_eq!(page.status, 200, "{path}");
                        let revision = page.body.split("data-rev=\"").nth(1).unwrap().split('"').next().unwrap();
                        assert!(
                            page.body.contains(&format!("Revision <code>{revision}</code>")),
                            "{path} is of one revision"
                        );
                        if *path == "/" || *path == "/p/beacon" {
                            let numbers = |start: &str| -> std::collections::BTreeSet<String> {
                                let found = page.body.split(start).skip(1);
                                found.filter_map(|rest| Some(rest.split_once('.')?.0.to_owned())).collect()
                            };
                            let (titles, texts) = (numbers("Beacon "), numbers("mark "));
                            assert!(titles.union(&texts).count() == 1, "{path} mixes {titles:?} and {texts:?}");
                        }
                        pages.fetch_add(1, Ordering::Relaxed);
                        if Instant::now() > end {
                            return;
                        }
                    }
                });
            }
            while Instant::now() < end {
                std::thread::sleep(Duration::from_secs(1));
                put(swaps.fetch_add(1, Ordering::Relaxed));
            }
        });
        memory(&server)
    };
    let maximum = load();
    drop(streams);
    assert!(pages.into_inner() > 200);
    // Idle threads of pages end, and memory of resolver queries is released.
    let after = memory_after_release(&server, before);
    assert!(
        maximum <= before + MAXIMUM_GROWTH && after <= before + REMAINING_GROWTH,
        "{before:.1} MB before, {maximum:.1} under load, {after:.1} MB after"
    );
}

/// Returns a catalog that takes some time to load: 200 packages with 40 versions each.
fn large() -> String {
    let mut text = String::new();
    for package in 0..200 {
        let name = |version: i32| format!("p{package}.v{version}.0.0");
        let entries: Vec<Value> = (0..40)
            .map(|version| json!({"name": name(version), "replaces": (version > 0).then(|| name(version - 1))}))
            .collect();
        let mut blobs = vec![
            json!({"schema": "olm.package", "name": format!("p{package}"), "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": format!("p{package}"), "name": "stable", "entries": entries}),
        ];
        blobs.extend((0..40).map(|version| {
            let kinds = (0..10).map(|kind| {
                let kind = json!({"group": format!("g{package}.example.com"), "kind": format!("Kind{kind}"), "version": "v1"});
                json!({"type": "olm.gvk", "value": kind})
            });
            let own = json!({"packageName": format!("p{package}"), "version": format!("{version}.0.0")});
            let own = json!({"type": "olm.package", "value": own});
            json!({"schema": "olm.bundle", "package": format!("p{package}"), "name": name(version), "image": "quay.io/a/b:1",
                "properties": std::iter::once(own).chain(kinds).collect::<Vec<_>>()})
        }));
        text.extend(blobs.iter().map(|blob| format!("{blob}\n")));
    }
    text
}

/// Memory of resolver queries is kept for a minute, and then released to the system.
#[test]
#[ignore = "waits for more than a minute"]
fn memory_of_resolver_queries_is_released_to_the_system() {
    let workspace = Workspace::new();
    workspace.write("catalog/all.json", &large());
    let server = workspace.serve(&[]);
    assert_eq!(server.get("/").status, 200);
    // Memory for loading is released first.
    std::thread::sleep(Duration::from_secs(2));
    let before = memory(&server);
    for package in ["p0", "p7", "p199"] {
        assert_eq!(server.get(&format!("/p/{package}/why")).status, 200);
    }
    let maximum = memory(&server);
    let after = memory_after_release(&server, before);
    assert!(
        maximum > before + 2.0 * REMAINING_GROWTH && after <= before + REMAINING_GROWTH,
        "{before:.1} MB before, {maximum:.1} MB with results, {after:.1} MB after their release"
    );
}
