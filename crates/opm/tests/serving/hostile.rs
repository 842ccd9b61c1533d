//! Hostile clients in parallel with honest ones.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::{Scratch, Server, Strings, bundle, get, stream, unary};

const HONEST: usize = 32;
const ALL: &[u8] = b"GET /catalogs/test/api/v1/all HTTP/1.1\r\nHost: x\r\n\r\n";
/// A smaller difference is noise.
const NOISE: Duration = Duration::from_millis(20);
/// The maximum memory of all HTTP connections, as in docs/serve.md.
const ALL_HTTP: u64 = 100 << 20;
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

/// Connects once, sends `text`, and then nothing.
fn silent(port: u16, text: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(text).ok()?;
    Some(stream)
}

/// Sends requests from new clients over HTTP and gRPC in parallel; returns the best median latency of a few attempts.
/// No client may see an error.
fn honest(server: &Server) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let attempt = || {
        let web: Vec<_> = (0..HONEST / 2)
            .map(|_| {
                let port = server.http;
                std::thread::spawn(move || {
                    let start = Instant::now();
                    let response = get(port, "/catalogs/test/api/v1/packages/small", "");
                    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("}\n"), "{response:?}");
                    start.elapsed()
                })
            })
            .collect();
        let mut times = runtime.block_on(async {
            let clients = (0..HONEST / 2).map(|_| async {
                let start = Instant::now();
                bundle(&server.channel().await, "small", "small.v0.0.0").await.unwrap();
                start.elapsed()
            });
            let mut times = Vec::new();
            for client in clients {
                times.push(client.await);
            }
            times
        });
        times.extend(web.into_iter().map(|client| client.join().unwrap()));
        times.sort();
        times[times.len() / 2]
    };
    (0..7).map(|_| attempt()).min().unwrap()
}

struct Attack {
    name: &'static str,
    connections: usize,
    text: &'static [u8],
}

#[test]
fn hostile_clients_do_not_affect_honest_ones() {
    let scratch = Scratch::new();
    scratch.package("small", "first", 1, 1000);
    scratch.package("large", "first", 300, 60_000);
    let server = scratch.serve(&["--poll-interval", "50ms"]).ready();
    let before = server.memory();
    let attacks = [
        Attack { name: "one byte and silence", connections: 600, text: b"G" },
        Attack { name: "half a head", connections: 600, text: b"GET /catalogs/test/api/v1/all HTTP/1.1\r\nHost:" },
        Attack { name: "idle connections", connections: 600, text: HEALTH },
        Attack { name: "stalled downloads", connections: 600, text: ALL },
        Attack { name: "a full budget of silence", connections: 1400, text: b"" },
        Attack { name: "a full budget of idle connections", connections: 1400, text: HEALTH },
    ];
    for Attack { name, connections, text } in attacks {
        let held: Vec<_> = (0..connections).filter_map(|_| silent(server.http, text)).collect();
        server.wait_until_idle();
        let took = honest(&server);
        let more = server.memory().saturating_sub(before);
        assert!(get(server.http, "/readyz", "").starts_with("HTTP/1.1 200"), "{name}");
        assert!(get(server.debug, "/metrics", "").contains("opm_connections"), "{name}");
        assert!(more < ALL_HTTP, "{name}: {} MB more", more >> 20);
        drop(held);
        server.wait_until_idle();
        // The same clients right afterwards, on an equally busy machine.
        let usual = honest(&server);
        let _ = writeln!(std::io::stderr(), "{name}: {took:?} instead of {usual:?}, {} MB more", more >> 20);
        assert!(took <= usual * 2 + NOISE, "{name}: {took:?} instead of {usual:?}");
    }
    // The directory is watched all the time, also during stalled downloads.
    let held: Vec<_> = (0..700).filter_map(|_| silent(server.http, ALL)).collect();
    scratch.package("later", "second", 1, 100);
    server
        .wait_for(server.http, "/catalogs/test/api/v1/packages/later", |response| response.starts_with("HTTP/1.1 200"));
    drop(held);
}

/// The preface of every HTTP/2 client, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Reads an HTTP/2 frame and returns its type and flags.
fn read_frame(stream: &mut TcpStream) -> (u8, u8) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).unwrap();
    (head[3], head[4])
}

#[test]
fn idle_connections_cost_little_and_can_send_calls_later() {
    const COUNT: usize = 1000;
    let scratch = Scratch::new();
    scratch.package("small", "first", 1, 1000);
    let server = scratch.serve(&[]).ready();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // These connections are opened now, and used last.
    let early = runtime.block_on(server.channel());
    server.wait_until_idle();
    let before = server.memory();
    let mut held: Vec<_> = (0..COUNT).filter_map(|_| silent(server.grpc, PREFACE)).collect();
    assert_eq!(held.len(), COUNT);
    for stream in &mut held {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server sends its settings, and acknowledges ours.
        assert_eq!(read_frame(stream), (4, 0), "the first frame is not SETTINGS");
        while read_frame(stream) != (4, 1) {}
        stream.write_all(b"\0\0\x08\x06\0\0\0\0\0abcdefgh").unwrap();
        while read_frame(stream) != (6, 1) {}
    }
    server.wait_until_idle();
    let each = server.memory().saturating_sub(before) / COUNT as u64;
    // All 4,096 connections of the default limit together: 150 MB.
    assert!(each < 150_000_000 / 4096, "{each} bytes for each");
    let _ = writeln!(std::io::stderr(), "{each} bytes for each");
    runtime.block_on(async { bundle(&early, "small", "small.v0.0.0").await.unwrap() });
}

#[test]
fn health_checks_work_while_downloads_use_the_whole_budget() {
    let scratch = Scratch::new();
    scratch.package("large", "first", 300, 60_000);
    let server = scratch.serve(&["--max-http-connections", "32"]).ready();
    // These clients read their replies, so none of them is evicted.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let readers: Vec<_> = (0..32)
        .map(|_| {
            let (port, stop) = (server.http, std::sync::Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut stream = silent(port, ALL).unwrap();
                let mut buffer = vec![0; 4 << 10];
                let mut taken = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) && stream.read(&mut buffer).is_ok_and(|n| n > 0)
                {
                    taken += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
                taken
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    assert!(get(server.http, "/readyz", "").starts_with("HTTP/1.1 200"));
    assert!(get(server.http, "/metrics", "").contains("opm_connections"));
    let response = get(server.http, "/catalogs/test/api/v1/all", "");
    assert!(
        response.starts_with("HTTP/1.1 503") && response.contains("retry-after"),
        "{}",
        &response[..response.len().min(300)]
    );
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 20, "a client that reads its reply was evicted");
    }
}

#[test]
fn silent_clients_are_disconnected() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let server = scratch.serve(&[]).ready();
    let start = Instant::now();
    let mut streams: Vec<_> =
        [b"".as_slice(), b"G", HEALTH].iter().map(|text| silent(server.http, text).unwrap()).collect();
    streams[2].write_all(b"GET /half").unwrap();
    for mut stream in streams {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        assert!(start.elapsed() < Duration::from_secs(15), "after {:?}", start.elapsed());
    }
}

#[test]
fn idle_http_connections_leave_files_for_grpc() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let command = scratch.command(&["serve", "catalog", "-t", ""]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    limited.current_dir(scratch.path("")).env("TMPDIR", scratch.path("tmp"));
    let server = Server::start(limited, &[]).ready();
    let held: Vec<_> = (0..400).filter_map(|_| silent(server.http, HEALTH)).collect();
    std::thread::sleep(Duration::from_millis(200));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(new_calls(&server));
    assert!(!server.log().contains("Too many open files"), "{}", server.log());
    drop(held);
}

#[test]
fn silent_grpc_connections_are_evicted_for_new_calls() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let server = scratch.serve(&["--max-connections", "64"]).ready();
    let held: Vec<_> = (0..200).filter_map(|_| silent(server.grpc, b"PRI")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(new_calls(&server));
    drop(held);
}

/// Sends gRPC calls on new connections, one after the other.
async fn new_calls(server: &Server) {
    for _ in 0..20 {
        let request = async { bundle(&server.channel().await, "foo", "foo.v0.0.0").await.unwrap() };
        tokio::time::timeout(Duration::from_secs(20), request).await.expect("a response");
    }
}

/// Sends a GraphQL query, and returns the connection without reading the answer.
fn query(port: u16, query: &str) -> TcpStream {
    let body = format!("{{\"query\":\"{query}\"}}");
    let length = body.len();
    let request = format!(
        "POST /catalogs/test/api/v1/graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    silent(port, request.as_bytes()).unwrap()
}

/// A short query that reads every bundle as often as the limits of a query allow.
fn expensive_query() -> String {
    let fields: String =
        (0..50).map(|alias| format!("a{alias}: olmbundles(limit: 300) {{ name properties {{ type }} }} ")).collect();
    format!("{{ {fields} }}")
}

#[test]
fn hostile_queries_do_not_delay_downloads() {
    let scratch = Scratch::new();
    scratch.package("large", "first", 300, 60_000);
    let server = scratch.serve(&[]).ready();
    let download = || {
        let start = Instant::now();
        let response = get(server.http, "/catalogs/test/api/v1/all", "");
        assert!(response.len() > 18_000_000, "{}", response.len());
        start.elapsed()
    };
    let usual = download();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let attackers: Vec<_> = (0..8)
        .map(|_| {
            let (port, stop) = (server.http, std::sync::Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut answer = Vec::new();
                    query(port, &expensive_query()).read_to_end(&mut answer).unwrap();
                    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let took = download();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
    let _ = writeln!(std::io::stderr(), "{took:?} instead of {usual:?}");
    // The queries keep both cores busy, so a download gets half of them.
    assert!(took < usual * 5 + Duration::from_millis(500), "{took:?} instead of {usual:?}");
}

#[test]
fn answers_that_nobody_reads_leave_room_on_the_disk() {
    let scratch = Scratch::new();
    scratch.package("large", "first", 300, 60_000);
    let server = scratch.serve(&[]).ready();
    // An answer of 30 MB.
    let fields: String =
        (0..5).map(|i| format!("a{i}: olmbundles(limit: 100) {{ properties {{ value }} }} ")).collect();
    let held: Vec<_> = (0..16).map(|_| query(server.http, &format!("{{ {fields} }}"))).collect();
    // Every query is answered, or refused because the others' answers use up the budget.
    for stream in &held {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head = [0; 12];
        stream.peek(&mut head).unwrap();
        assert!([b"HTTP/1.1 200", b"HTTP/1.1 503"].contains(&&head), "{}", String::from_utf8_lossy(&head));
    }
    let spooled = server.deleted_files();
    assert!(spooled < 200 << 20, "{} MB of temporary files", spooled >> 20);
    drop(held);
}

#[test]
fn connections_that_never_call_make_room_and_health_checks_have_a_reserve() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let server = scratch.serve(&["--max-connections", "64"]).ready();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let held: Vec<_> = (0..200).filter_map(|_| silent(server.grpc, PREFACE)).collect();
    runtime.block_on(new_calls(&server));
    drop(held);
    // These connections wait for the health of the server to change, so none of them is idle.
    let watching = runtime.block_on(async {
        let mut watching = Vec::new();
        for _ in 0..64 {
            watching.push(stream(&server.channel().await, "/grpc.health.v1.Health/Watch").await);
        }
        watching
    });
    for _ in 0..20 {
        let probe = scratch.command(&["grpc_health_probe", "-addr", &format!("127.0.0.1:{}", server.grpc)]).output();
        let probe = probe.unwrap();
        assert!(probe.status.success(), "{}", String::from_utf8_lossy(&probe.stderr));
    }
    runtime.block_on(async {
        let refused = bundle(&server.channel().await, "foo", "foo.v0.0.0").await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (tonic::Code::Unavailable, "too many connections"));
    });
    drop(watching);
    // The server notices the end of these connections a moment later.
    runtime.block_on(async {
        let start = Instant::now();
        while let Err(refused) = bundle(&server.channel().await, "foo", "foo.v0.0.0").await {
            assert!(start.elapsed() < Duration::from_secs(20), "{refused}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn floods_of_failed_calls_do_not_flood_the_log() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let server = scratch.serve(&[]).ready();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // HTTP/2 ends a connection after a thousand calls that are refused before their request is read.
        for _ in 0..5 {
            let channel = server.channel().await;
            for _ in 0..400 {
                let failed = unary(&channel, "/api.Registry/NoSuchMethod", Strings::default()).await.unwrap_err();
                assert_eq!(failed.code(), tonic::Code::Unimplemented, "{failed:?}");
            }
        }
    });
    server.wait_for_log("too many failed calls");
    let lines = server.log().lines().filter(|line| line.contains("NoSuchMethod")).count();
    assert!((1..1000).contains(&lines), "{lines} lines");
}
