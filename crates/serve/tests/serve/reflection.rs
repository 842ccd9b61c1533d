//! Abuse of the reflection API.

use std::time::Duration;

use tonic::Request;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::harness::{Server, strings, unary};

fn request(message_request: MessageRequest) -> ServerReflectionRequest {
    ServerReflectionRequest { host: String::new(), message_request: Some(message_request) }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_requests_do_not_delay_other_clients() {
    let server = Server::start(|_| {}).await;
    let channel = server.client().await;
    // Streams that request the largest reply repeatedly, and read none.
    let mut streams = Vec::new();
    for _ in 0..32 {
        let mut client = ServerReflectionClient::new(server.client().await);
        let requests = endless(|| request(MessageRequest::FileContainingSymbol("api.Registry".into())));
        streams.push(client.server_reflection_info(Request::new(requests)).await.unwrap());
    }
    // Names of the maximum request size.
    let long = "x".repeat(1 << 20);
    let mut client = ServerReflectionClient::new(server.client().await).max_decoding_message_size(8 << 20);
    let requests = tokio_stream::iter((0..20).map(move |_| request(MessageRequest::FileByFilename(long.clone()))));
    let mut replies = client.server_reflection_info(Request::new(requests)).await.unwrap().into_inner();
    let mut count = 0;
    while replies.message().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 20);
    for _ in 0..50 {
        let reply = unary(&channel, "/api.Registry/GetPackage", strings(["beta", "", ""]));
        tokio::time::timeout(Duration::from_secs(5), reply).await.expect("other clients wait").unwrap();
    }
    drop(streams);
    assert!(server.end().await.1.is_ok());
}

/// A stream that never ends.
fn endless<T: Send + 'static>(create: impl Fn() -> T + Send + 'static) -> impl tokio_stream::Stream<Item = T> + Send {
    tokio_stream::iter(std::iter::repeat_with(create))
}
