//! Connections that end because they are idle or old.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::catalogs::write_large_package;
use crate::harness::Server;
use crate::hostile::{PING, call, frame, open};

const GO_AWAY: u8 = 7;
const ACK: u8 = 1;
const ROOMY: u32 = 8 << 20;

/// Reads frames until the server closes the connection; returns when GOAWAY arrived, and when the connection closed.
fn ended(mut socket: TcpStream, timeout: Duration) -> (Option<Duration>, Option<Duration>) {
    let start = Instant::now();
    let mut warned = None;
    let mut header = [0; 9];
    socket.set_read_timeout(Some(timeout)).unwrap();
    loop {
        if let Err(error) = socket.read_exact(&mut header) {
            let closed = !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            return (warned, closed.then(|| start.elapsed()));
        }
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        socket.read_exact(&mut payload).unwrap();
        match header[3] {
            GO_AWAY => {
                warned.get_or_insert(start.elapsed());
            }
            // The server waits for the reply to its ping, so that no call in flight is dropped.
            PING if header[4] & ACK == 0 => socket.write_all(&frame(PING, ACK, 0, &payload)).unwrap(),
            _ => {}
        }
    }
}

/// Opens a connection, sends one call, and waits until the connection ends.
async fn call_and_wait(server: &Server, window: u32) -> (Option<Duration>, Option<Duration>) {
    let port = server.port;
    let waiting = tokio::task::spawn_blocking(move || {
        let mut socket = open(port, window).unwrap();
        socket.write_all(&call(1, ["large", "stable", "large.v0.0.0"])).unwrap();
        ended(socket, Duration::from_secs(2))
    });
    waiting.await.unwrap()
}

fn catalog(plan: &mut serve::run::ServePlan) {
    write_large_package(&plan.directory.root, "large", 1, 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_ends_after_its_timeout() {
    let server = Server::start(|plan| {
        catalog(plan);
        plan.limits.max_idle = Some(Duration::from_millis(500));
    })
    .await;
    let (warned, closed) = call_and_wait(&server, ROOMY).await;
    assert!(warned.is_some_and(|after| after >= Duration::from_millis(500)), "{warned:?}");
    assert!(closed.is_some(), "the connection stays open");
    // A connection that waits for a reply is not idle.
    let (warned, closed) = call_and_wait(&server, 0).await;
    assert_eq!((warned, closed), (None, None));
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_ends_after_a_grace_period_for_its_calls() {
    let server = Server::start(|plan| {
        catalog(plan);
        plan.limits.max_age = Some(Duration::from_millis(500));
        plan.limits.max_age_grace = Some(Duration::from_millis(600));
    })
    .await;
    let (warned, closed) = call_and_wait(&server, 0).await;
    let (warned, closed) = (warned.expect("a warning"), closed.expect("an end"));
    assert!(warned >= Duration::from_millis(400), "{warned:?}");
    assert!(closed >= warned + Duration::from_millis(500), "{warned:?}, {closed:?}");
    let (warned, closed) = call_and_wait(&server, ROOMY).await;
    assert!(warned.is_some() && closed.is_some(), "{warned:?}, {closed:?}");
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_open_without_limits() {
    let server = Server::start(catalog).await;
    assert_eq!(call_and_wait(&server, ROOMY).await, (None, None));
    assert!(server.end().await.1.is_ok());
}
