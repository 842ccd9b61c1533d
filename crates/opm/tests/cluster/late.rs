//! An API server that receives some requests late, as a busy one does.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A proxy to an API server, which runs as long as the runtime.
pub(crate) struct DelayingProxy {
    port: u16,
    /// Notified when a delayed request arrives.
    pub(crate) arrived: Arc<Notify>,
}

impl DelayingProxy {
    /// Delays requests that create objects of a kind, and forwards them even if the client has disconnected.
    pub(crate) async fn start(client: Client, plural: &'static str, delay: Duration) -> DelayingProxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let arrived = Arc::new(Notify::new());
        let notify = arrived.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, client.clone(), plural, delay, notify.clone()));
            }
        });
        DelayingProxy { port, arrived }
    }

    /// Returns a kubeconfig for the proxy.
    pub(crate) fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
            "clusters": [{"name": "x", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        });
        config.to_string()
    }
}

async fn serve(stream: TcpStream, client: Client, plural: &str, delay: Duration, arrived: Arc<Notify>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        let mut words = first.split(' ');
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
        let (mut length, mut content) = (0, None);
        loop {
            let mut header = String::new();
            if stream.read_line(&mut header).await.unwrap_or(0) <= 2 {
                break;
            }
            let Some((name, value)) = header.split_once(':') else { continue };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().expect("a length"),
                "content-type" => content = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        if method == "POST" && path.split('?').next().is_some_and(|path| path.ends_with(plural)) {
            arrived.notify_one();
            tokio::time::sleep(delay).await;
        }
        let (code, text) = forward(&client, method, path, content, body).await;
        let head =
            format!("HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", text.len());
        if stream.write_all(format!("{head}{text}").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn forward(client: &Client, method: &str, path: &str, content: Option<String>, body: Vec<u8>) -> (u16, String) {
    if path.contains("watch=") {
        // Watches are denied, so clients poll instead.
        let text = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "no watches"});
        return (403, text.to_string());
    }
    let mut request = Request::new("/").get("x", &Default::default()).expect("a request");
    *request.method_mut() = method.parse().expect("a method");
    *request.uri_mut() = path.parse().expect("a path");
    *request.body_mut() = body;
    if let Some(content) = content {
        request.headers_mut().insert("content-type", content.parse().expect("a header"));
    }
    match client.request_text(request).await {
        Ok(text) => (200, text),
        Err(kube::Error::Api(status)) => (status.code, serde_json::to_string(&status).expect("JSON")),
        Err(error) => (500, json!({"kind": "Status", "code": 500, "message": error.to_string()}).to_string()),
    }
}
