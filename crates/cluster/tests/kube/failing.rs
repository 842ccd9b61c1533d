//! An API server that fails or never responds: real servers do so too rarely for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::{Access, AnyCatalogPlan, CatalogPlan, Cluster};
use serde_json::json;

/// The response to a request, by its number: a status and the seconds of `Retry-After`, or `None` for no response.
type Respond = fn(usize) -> Option<(u16, u32)>;

/// The time, method and path of each request.
type Requests = Arc<Mutex<Vec<(Instant, String)>>>;

/// Starts a server, and returns a cluster that uses it.
async fn failing_server(respond: Respond) -> (Cluster, Requests) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let requests = Requests::default();
    let recorded = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let recorded = recorded.clone();
            std::thread::spawn(move || serve(stream, respond, &recorded));
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
    (access.connect().await.expect("a cluster"), requests)
}

fn serve(stream: TcpStream, respond: Respond, requests: &Requests) {
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
            let mut requests = requests.lock().expect("a lock");
            requests.push((Instant::now(), request.split(' ').take(2).collect::<Vec<_>>().join(" ")));
            requests.len()
        };
        let Some((code, wait)) = respond(count) else {
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

fn plan() -> AnyCatalogPlan {
    let plan = CatalogPlan { name: "a".into(), image: "r.test/a:v1".into(), ..CatalogPlan::default() };
    AnyCatalogPlan::Source(Box::new(plan))
}

#[tokio::test]
async fn failed_requests_are_retried_with_backoff() {
    let (cluster, requests) = failing_server(|_| Some((500, 0))).await;
    let start = Instant::now();
    let error = plan().apply(&cluster, false, start + Duration::from_secs(8)).await.unwrap_err();
    assert!(error.to_string().contains("not now"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let requests = requests.lock().unwrap();
    assert!((4..=8).contains(&requests.len()), "{} requests", requests.len());
    let pauses: Vec<Duration> = requests.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(pauses[..3].windows(2).all(|two| two[1] > two[0]), "{pauses:?}");
}

#[tokio::test]
async fn retries_wait_as_long_as_the_server_demands() {
    let (cluster, requests) = failing_server(|count| Some((if count == 1 { 429 } else { 403 }, 2))).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    plan().apply(&cluster, false, deadline).await.unwrap_err();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].0 - requests[0].0 >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_retry_after_the_deadline_ends_the_command() {
    let (cluster, requests) = failing_server(|_| Some((500, 600))).await;
    let start = Instant::now();
    plan().apply(&cluster, false, start + Duration::from_secs(10)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn no_request_outlives_the_timeout_of_its_command() {
    let (cluster, _requests) = failing_server(|_| None).await;
    let (start, time) = (Instant::now(), Duration::from_secs(3));
    let error = plan().wait(&cluster, time, start + time).await.unwrap_err();
    assert!(error.to_string().contains("the API server did not respond in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
