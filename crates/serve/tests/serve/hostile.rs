//! Hostile clients in parallel with honest ones.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use prost::Message;

use crate::catalogs::write_large_package;
use crate::harness::{Server, strings, unary};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const LARGE: usize = 3 << 20;
/// One reply in flight, one that each thread produces, their source data, and memory that the allocator retains.
const ONE_CONNECTION: usize = 48 << 20;
/// The limit of all replies, and as much again that the allocator may retain.
const ALL_CONNECTIONS: usize = 128 << 20;

/// The number of attempts in which honest clients may notice hostile ones before the test fails.
const TRIES: usize = 4;
/// A smaller difference is noise: hostile clients and other tests use the same cores.
const NOISE: Duration = Duration::from_millis(20);

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Encodes the headers of a call, none of them indexed.
fn headers(path: &str) -> Vec<u8> {
    let mut out = vec![0x83, 0x86];
    for (name, value) in [(4u8, path), (1, "catalog")] {
        out.extend_from_slice(&[name, value.len() as u8]);
        out.extend_from_slice(value.as_bytes());
    }
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        out.push(0);
        for text in [name, value] {
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Encodes a call of GetBundle.
pub(crate) fn call(stream: u32, bundle: [&str; 3]) -> Vec<u8> {
    let message = strings(bundle).encode_to_vec();
    let mut payload = vec![0];
    payload.extend_from_slice(&(message.len() as u32).to_be_bytes());
    payload.extend_from_slice(&message);
    let mut out = frame(HEADERS, END_HEADERS, stream, &headers("/api.Registry/GetBundle"));
    out.extend(frame(DATA, END_STREAM, stream, &payload));
    out
}

/// Opens a connection whose streams have a window of `window` bytes.
pub(crate) fn open(port: u16, window: u32) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    let mut settings = vec![0, 4];
    settings.extend_from_slice(&window.to_be_bytes());
    socket.write_all(PREFACE)?;
    socket.write_all(&frame(SETTINGS, 0, 0, &settings))?;
    socket.write_all(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000u32.to_be_bytes()))?;
    Ok(socket)
}

/// Returns the anonymous memory of this process, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

async fn large() -> Server {
    Server::start(|plan| write_large_package(&plan.directory.root, "large", 4, LARGE)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_a_closed_window_hold_requests_and_no_replies() {
    let server = large().await;
    let channel = server.client().await;
    let get_package = || unary(&channel, "/api.Registry/GetPackage", strings(["beta", "", ""]));
    get_package().await.unwrap();
    let before = memory();
    for window in [0, 1] {
        let mut socket = open(server.port, window).unwrap();
        for number in 0..200 {
            let name = format!("large.v{}.0.0", number % 4);
            socket.write_all(&call(1 + 2 * number, ["large", "stable", &name])).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        get_package().await.unwrap();
        let held = memory().saturating_sub(before);
        assert!(held < ONE_CONNECTION, "window {window}: {held} bytes");
    }
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_arrives_completely_while_its_window_opens_slowly() {
    let server = large().await;
    let port = server.port;
    let received = tokio::task::spawn_blocking(move || {
        let mut socket = open(port, 0).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(&call(1, ["large", "stable", "large.v1.0.0"])).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let (mut data, mut header) = (0, [0; 9]);
        let mut given = 0;
        loop {
            if given <= data {
                given += 100_000;
                socket.write_all(&frame(WINDOW_UPDATE, 0, 1, &100_000u32.to_be_bytes())).unwrap();
            }
            socket.read_exact(&mut header).unwrap();
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let mut payload = vec![0; length];
            socket.read_exact(&mut payload).unwrap();
            if header[3] == DATA {
                data += length;
            }
            if header[3] == HEADERS && header[4] & END_STREAM != 0 {
                return data;
            }
        }
    });
    let received = received.await.unwrap();
    assert!(received > LARGE, "{received}");
    assert!(server.end().await.1.is_ok());
}

/// The behaviour of a hostile client, repeated until `done`.
type Hostile = fn(u16, &AtomicBool) -> std::io::Result<()>;

#[tokio::test(flavor = "multi_thread")]
async fn honest_clients_do_not_notice_hostile_ones() {
    let kinds: [(&str, Hostile); 6] = [
        ("window 0", window_closed),
        ("slow reader", slow_reader),
        ("half a preface", half_a_preface),
        ("rapid reset", rapid_reset),
        ("ping flood", ping_flood),
        ("endless headers", endless_headers),
    ];
    let server = large().await;
    honest(&server).await;
    let before = memory();
    for (kind, hostile) in kinds {
        let mut latencies = Vec::new();
        for _ in 0..TRIES {
            let (attacked, held) = honest_under_attack(&server, hostile).await;
            assert!(held.saturating_sub(before) < ALL_CONNECTIONS, "{kind}: {held} bytes, {before} before");
            // The same clients right afterwards, on an equally busy machine.
            let alone = honest(&server).await;
            latencies.push((attacked, alone));
            if attacked <= alone * 2 + NOISE {
                break;
            }
        }
        let noticed = latencies.iter().all(|(attacked, alone)| *attacked > *alone * 2 + NOISE);
        assert!(!noticed, "{kind}: latencies under attack and alone: {latencies:?}");
    }
    assert!(server.end().await.1.is_ok());
}

/// Runs honest clients in parallel with hostile ones; returns their latency, and the peak memory.
async fn honest_under_attack(server: &Server, hostile: Hostile) -> (Duration, usize) {
    let (done, port) = (Arc::new(AtomicBool::new(false)), server.port);
    let tries = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (done, tries) = (Arc::clone(&done), Arc::clone(&tries));
            std::thread::spawn(move || {
                while !done.load(Relaxed) {
                    tries.fetch_add(1, Relaxed);
                    // The server may close the connection.
                    let _ = hostile(port, &done);
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let attacked = honest(server).await;
    let held = memory();
    done.store(true, Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    assert!(tries.load(Relaxed) > 0);
    (attacked, held)
}

/// Runs 32 new clients; returns their median latency. None of them may fail.
async fn honest(server: &Server) -> Duration {
    let mut tasks = Vec::new();
    for _ in 0..32 {
        let channel = server.client().await;
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            for version in 0..8 {
                let start = Instant::now();
                let name = format!("beta.v{version}.0.0");
                let bundle = unary(&channel, "/api.Registry/GetBundle", strings(["beta", "stable", &name])).await;
                assert_eq!(bundle.unwrap().first, name);
                times.push(start.elapsed());
            }
            times
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times.sort();
    times[times.len() / 2]
}

fn hold(done: &AtomicBool) {
    while !done.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn large_calls(socket: &mut TcpStream) -> std::io::Result<()> {
    for number in 0..100 {
        let name = format!("large.v{}.0.0", number % 4);
        socket.write_all(&call(1 + 2 * number, ["large", "stable", &name]))?;
    }
    Ok(())
}

fn window_closed(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = open(port, 0)?;
    large_calls(&mut socket)?;
    hold(done);
    Ok(())
}

fn slow_reader(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = open(port, 0x7fff_0000)?;
    large_calls(&mut socket)?;
    let mut byte = [0];
    while !done.load(Relaxed) {
        socket.read_exact(&mut byte)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn half_a_preface(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.write_all(&PREFACE[..12])?;
    hold(done);
    Ok(())
}

fn rapid_reset(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = open(port, 65_535)?;
    for number in 0.. {
        if done.load(Relaxed) {
            break;
        }
        let stream = 1 + 2 * number;
        let mut out = frame(HEADERS, END_HEADERS, stream, &headers("/api.Registry/GetBundle"));
        out.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
        socket.write_all(&out)?;
        if number % 50 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn ping_flood(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = open(port, 65_535)?;
    // The client reads none of the replies.
    socket.set_write_timeout(Some(Duration::from_millis(100)))?;
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(100);
    while !done.load(Relaxed) {
        socket.write_all(&pings)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn endless_headers(port: u16, done: &AtomicBool) -> std::io::Result<()> {
    let mut socket = open(port, 65_535)?;
    socket.write_all(&frame(HEADERS, 0, 1, &headers("/api.Registry/GetBundle")))?;
    let mut more = vec![0, 1, b'x', 0x7f, 0x81, 0x1e];
    more.extend_from_slice(&[b'y'; 4000]);
    more.truncate(4006);
    let more = frame(CONTINUATION, 0, 1, &more);
    while !done.load(Relaxed) {
        socket.write_all(&more)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
