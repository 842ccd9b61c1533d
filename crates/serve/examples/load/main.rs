//! A load generator: sends requests as fast as the server answers, and reports throughput and latency.
//!
//! `load ADDRESS METHOD CLIENTS SECONDS`, where METHOD is GetBundle, GetPackage, ListBundles or Provides. Bundles and
//! APIs are those that ListBundles returns, requested in turn.
//!
//! It must be cheap, because it runs beside the server it measures: one thread on one core, requests that are encoded
//! before the clock starts, and replies whose frames are counted, not decoded.

#![allow(clippy::print_stdout, reason = "a tool for a terminal")]

mod http2;

use std::time::{Duration, Instant};

use http2::{Client, Events, Request};
use prost::Message;

#[derive(Clone, PartialEq, prost::Message)]
struct Bundle {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, tag = "3")]
    channel: String,
    #[prost(message, repeated, tag = "7")]
    apis: Vec<Three>,
}

/// Any request of three strings.
#[derive(Clone, PartialEq, prost::Message)]
struct Three {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
    #[prost(string, tag = "3")]
    third: String,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, method, clients, seconds] = arguments.as_slice() else {
        return Err("usage: load ADDRESS METHOD CLIENTS SECONDS".into());
    };
    let (clients, seconds): (usize, f64) = (clients.parse()?, seconds.parse()?);
    http2::stay_on_the_last_core();
    let bundles = list_bundles(address)?;
    let (path, requests) = requests(method, &bundles)?;
    if requests.is_empty() {
        return Err("the server has no bundles to request".into());
    }
    let mut connections: Vec<Client> = Vec::new();
    for _ in 0..clients {
        connections.push(Client::connect(address, path)?);
    }
    let mut events = Events::new(&connections)?;
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let mut next = 0;
    let mut ask = |client: &mut Client| {
        // A stride that shares no divisor with most counts, so that packages alternate.
        next = (next + 7919) % requests.len();
        client.ask(&requests[next])
    };
    for client in &mut connections {
        ask(client)?;
    }
    let (mut times, mut bytes) = (Vec::new(), 0);
    let mut running = clients;
    while running > 0 {
        for place in events.wait()? {
            let client = &mut connections[place];
            let Some(reply) = client.receive()? else { continue };
            times.push(reply.took);
            bytes += reply.bytes;
            if Instant::now() < end {
                ask(client)?;
            } else {
                running -= 1;
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{method} {clients} clients: {:.0} calls/s, p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms; {} KB a reply",
        times.len() as f64 / took,
        at(0.5),
        at(0.99),
        at(1.0),
        bytes / times.len() / 1000
    );
    Ok(())
}

/// Returns the path of a method, and the requests to send in turn.
fn requests(method: &str, bundles: &[Bundle]) -> Result<(&'static str, Vec<Request>), Failure> {
    let three = |first: &str, second: &str, third: &str| {
        Request::new(&Three { first: first.into(), second: second.into(), third: third.into() }.encode_to_vec())
    };
    Ok(match method {
        "GetBundle" => (
            "/api.Registry/GetBundle",
            bundles.iter().map(|bundle| three(&bundle.package, &bundle.channel, &bundle.name)).collect(),
        ),
        "GetPackage" => {
            ("/api.Registry/GetPackage", bundles.iter().map(|bundle| three(&bundle.package, "", "")).collect())
        }
        "ListBundles" => ("/api.Registry/ListBundles", vec![Request::new(&[])]),
        "Provides" => (
            "/api.Registry/GetChannelEntriesThatProvide",
            bundles
                .iter()
                .filter_map(|bundle| bundle.apis.first())
                .map(|api| three(&api.first, &api.second, &api.third))
                .collect(),
        ),
        other => return Err(format!("unknown method: {other}").into()),
    })
}

fn list_bundles(address: &str) -> Result<Vec<Bundle>, Failure> {
    let mut client = Client::connect(address, "/api.Registry/ListBundles")?;
    client.keep();
    let mut events = Events::new(std::slice::from_ref(&client))?;
    client.ask(&Request::new(&[]))?;
    while client.receive()?.is_none() {
        let _ = events.wait()?;
    }
    let mut rest = client.kept();
    let mut bundles = Vec::new();
    while let Some((prefix, behind)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let message = behind.get(..length).ok_or("a message is truncated")?;
        bundles.push(Bundle::decode(message)?);
        rest = &behind[length..];
    }
    Ok(bundles)
}
