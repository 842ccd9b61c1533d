//! Asks a server as fast as it answers, and tells how fast that was.
//!
//! `load ADDRESS METHOD CLIENTS SECONDS`, where METHOD is GetBundle, GetPackage, ListBundles or
//! Provides. Bundles and APIs are those that ListBundles names, asked for in turn.

#![allow(clippy::print_stdout, reason = "a tool for a terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct Bundle {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, tag = "3")]
    channel: String,
    #[prost(message, repeated, tag = "7")]
    apis: Vec<Api>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Api {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    kind: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Key {
    #[prost(string, tag = "1")]
    package: String,
    #[prost(string, tag = "2")]
    channel: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn stream<Q, R>(channel: &Channel, method: &'static str, request: Q) -> Result<Vec<R>, Failure>
where
    Q: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
    grpc.ready().await?;
    let codec: ProstCodec<Q, R> = ProstCodec::default();
    let mut replies = grpc
        .server_streaming(tonic::Request::new(request), PathAndQuery::from_static(method), codec)
        .await?
        .into_inner();
    let mut all = Vec::new();
    while let Some(reply) = replies.message().await? {
        all.push(reply);
    }
    Ok(all)
}

async fn unary<Q, R>(channel: &Channel, method: &'static str, request: Q) -> Result<R, Failure>
where
    Q: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
    grpc.ready().await?;
    let codec: ProstCodec<Q, R> = ProstCodec::default();
    Ok(grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec).await?.into_inner())
}

async fn ask(channel: &Channel, method: &str, bundle: &Bundle) -> Result<(), Failure> {
    match method {
        "GetBundle" => {
            let key =
                Key { package: bundle.package.clone(), channel: bundle.channel.clone(), name: bundle.name.clone() };
            unary::<_, Nothing>(channel, "/api.Registry/GetBundle", key).await?;
        }
        "GetPackage" => {
            let key = Key { package: bundle.package.clone(), ..Key::default() };
            unary::<_, Nothing>(channel, "/api.Registry/GetPackage", key).await?;
        }
        "ListBundles" => {
            stream::<_, Nothing>(channel, "/api.Registry/ListBundles", Nothing {}).await?;
        }
        "Provides" => {
            if let Some(api) = bundle.apis.first() {
                stream::<_, Nothing>(channel, "/api.Registry/GetChannelEntriesThatProvide", api.clone()).await?;
            }
        }
        other => return Err(format!("no such method: {other}").into()),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, method, clients, seconds] = arguments.as_slice() else {
        return Err("usage: load ADDRESS METHOD CLIENTS SECONDS".into());
    };
    let (clients, seconds): (usize, f64) = (clients.parse()?, seconds.parse()?);
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let first = endpoint.connect().await?;
    let bundles: Vec<Bundle> = stream(&first, "/api.Registry/ListBundles", Nothing {}).await?;
    let bundles = Arc::new(bundles);
    let next = Arc::new(AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (endpoint, bundles, next, method) =
            (endpoint.clone(), Arc::clone(&bundles), Arc::clone(&next), method.clone());
        tasks.push(tokio::spawn(async move {
            let channel = endpoint.connect().await?;
            let mut times = Vec::new();
            while Instant::now() < end {
                // A step that shares no divisor with most numbers, so that packages alternate.
                let place = next.fetch_add(7919, Ordering::Relaxed) % bundles.len();
                let before = Instant::now();
                ask(&channel, &method, &bundles[place]).await?;
                times.push(before.elapsed());
            }
            Ok::<_, Failure>(times)
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let took = start.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{method} {clients} clients: {:.0} calls/s, p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
        times.len() as f64 / took,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
