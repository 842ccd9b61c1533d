//! GraphQL queries of a catalog.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The body of a request, or a query alone.
    let body = match bytes.first() {
        Some(b'{') => bytes.to_vec(),
        _ => serde_json::to_vec(&serde_json::json!({"query": String::from_utf8_lossy(bytes)})).expect("a request"),
    };
    let start = Instant::now();
    let Some(answer) = serve::graphql::try_out(&body) else { return };
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    let failed = answer.get("errors").is_some();
    assert!(answer.get("data").is_some_and(|data| data.is_null() == failed), "{answer}");
    // The same query has the same answer.
    let again = serve::graphql::try_out(&body).expect("an answer");
    assert_eq!(answer, serde_json::from_slice::<serde_json::Value>(&again).expect("an answer is JSON"));
});
