//! Changes while a server starts.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{Scratch, Strings, TIMEOUT, package, unary};

/// Starts servers while files change, and waits until each serves the last change.
///
/// A change may come before, during or after the first read of the catalog; it may keep the size of a file, and be made
/// in place or by renaming.
fn rounds(count: u64) {
    let scratch = Scratch::new();
    for name in ["aaa", "zzz"] {
        scratch.package(name, "filler", 20, 20_000);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut whole = Duration::from_millis(500);
    for round in 0..count {
        let mark = |change: u64| format!("r{round:05}c{change}");
        scratch.package("mmm", &mark(0), 10, 2000);
        let cached = ["--cache-dir", "cache", "--cache-enforce-integrity=false", "--poll-interval", "20ms"];
        let start = Instant::now();
        let server = scratch.serve(if round % 3 == 0 { &cached } else { &cached[3..] });
        let changes = 1 + round % 3;
        for change in 1..=changes {
            std::thread::sleep(whole.mul_f64((round * 37 % 100) as f64 / 100.0 / changes as f64));
            let (file, text) = (scratch.path("catalog/mmm.json"), package("mmm", &mark(change), 10, 2000));
            match round % 2 {
                0 => fs::write(&file, text).unwrap(),
                _ => {
                    let aside = scratch.path("aside.json");
                    fs::write(&aside, text).unwrap();
                    fs::rename(&aside, &file).unwrap();
                }
            }
        }
        let last = mark(changes);
        let path = "/catalogs/test/api/v1/metas?schema=olm.package&name=mmm";
        server.wait_for(server.http, path, |response| response.contains(&last));
        let deadline = Instant::now() + TIMEOUT;
        runtime.block_on(async {
            let channel = server.channel().await;
            loop {
                let request = Strings { first: "mmm".into(), second: "stable".into(), ..Strings::default() };
                let head = unary(&channel, "/api.Registry/GetBundleForChannel", request).await.unwrap();
                if head.fourth.contains(&last) || format!("{head:?}").contains(&last) {
                    break;
                }
                assert!(Instant::now() < deadline, "round {round}: HTTP serves {last}, gRPC does not: {head:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        if round == 0 {
            whole = start.elapsed();
        }
    }
}

/// `OPM_TEST_STARTS` sets the number of rounds.
#[test]
fn no_change_is_lost_while_a_server_starts() {
    rounds(std::env::var("OPM_TEST_STARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(12));
}
