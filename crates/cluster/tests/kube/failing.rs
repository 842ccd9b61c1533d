//! An API server that refuses, or never answers: real ones do so only when nobody can wait for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::{Access, CatalogPlan, Cluster};
use serde_json::json;

/// What the server does with a request: a status and how many seconds to wait, or nothing for silence.
type Answer = fn(usize) -> Option<(u16, u32)>;

/// When each request came, by its method and path.
type Seen = Arc<Mutex<Vec<(Instant, String)>>>;

/// Starts a server, and returns a cluster that talks to it.
async fn failing(answer: Answer) -> (Cluster, Seen) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let seen = Seen::default();
    let notes = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let notes = notes.clone();
            std::thread::spawn(move || serve(stream, answer, &notes));
        }
    });
    let scratch = tempfile::tempdir().expect("scratch directory");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
        "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "ns"}}],
    });
    let path = scratch.path().join("kubeconfig");
    std::fs::write(&path, config.to_string()).expect("kubeconfig");
    let access = Access { kubeconfig: Some(path), ..Access::default() };
    (access.connect().await.expect("a cluster"), seen)
}

fn serve(stream: TcpStream, answer: Answer, seen: &Seen) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) <= 2 {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).expect("a body");
        let count = {
            let mut seen = seen.lock().expect("a lock");
            seen.push((Instant::now(), request.split(' ').take(2).collect::<Vec<_>>().join(" ")));
            seen.len()
        };
        let Some((code, wait)) = answer(count) else {
            std::thread::sleep(Duration::from_secs(60));
            return;
        };
        let body = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": "not now",
            "reason": "ServiceUnavailable", "details": {"retryAfterSeconds": wait},
        })
        .to_string();
        let head = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nRetry-After: {wait}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn plan() -> CatalogPlan {
    CatalogPlan { name: "a".into(), image: "r.test/a:v1".into(), ..CatalogPlan::default() }
}

#[tokio::test]
async fn what_fails_is_tried_again_after_pauses_that_grow() {
    let (cluster, seen) = failing(|_| Some((500, 0))).await;
    let start = Instant::now();
    let error = cluster::apply_catalog(&cluster, &plan(), false, start + Duration::from_secs(8)).await.unwrap_err();
    assert!(error.to_string().contains("not now"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let seen = seen.lock().unwrap();
    assert!((4..=8).contains(&seen.len()), "{} requests", seen.len());
    let pauses: Vec<Duration> = seen.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(pauses[..3].windows(2).all(|two| two[1] > two[0]), "{pauses:?}");
}

#[tokio::test]
async fn the_server_says_when_to_come_again() {
    let (cluster, seen) = failing(|count| Some((if count == 1 { 429 } else { 403 }, 2))).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    cluster::apply_catalog(&cluster, &plan(), false, deadline).await.unwrap_err();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].0 - seen[0].0 >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_server_that_asks_for_more_time_than_there_is_ends_the_command() {
    let (cluster, seen) = failing(|_| Some((500, 600))).await;
    let start = Instant::now();
    cluster::apply_catalog(&cluster, &plan(), false, start + Duration::from_secs(10)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn no_request_outlives_the_time_that_a_command_has() {
    let (cluster, _seen) = failing(|_| None).await;
    let (start, time) = (Instant::now(), Duration::from_secs(3));
    let error = cluster::wait_for_catalog(&cluster, "a", time, start + time).await.unwrap_err();
    assert!(error.to_string().contains("the API server did not respond in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
