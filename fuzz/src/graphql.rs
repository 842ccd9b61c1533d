//! GraphQL queries of a catalog.

use std::time::{Duration, Instant};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    // The input is the body of a request, or a query alone.
    let body = match bytes.first() {
        Some(b'{') => bytes.to_vec(),
        _ => serde_json::to_vec(&serde_json::json!({"query": String::from_utf8_lossy(bytes)})).expect("a request"),
    };
    let start = Instant::now();
    let Some(reply) = serve::graphql::try_out(&body) else { return };
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    let reply: serde_json::Value = serde_json::from_slice(&reply).expect("the reply is JSON");
    let failed = reply.get("errors").is_some();
    assert!(reply.get("data").is_some_and(|data| data.is_null() == failed), "{reply}");
    // The same query gets the same reply.
    let second = serve::graphql::try_out(&body).expect("a reply");
    assert_eq!(reply, serde_json::from_slice::<serde_json::Value>(&second).expect("the reply is JSON"));
}
