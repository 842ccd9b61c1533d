//! Many clients while the catalog changes, every second time to an invalid one.
//!
//! `OPM_SOAK_SECONDS` sets the duration; it defaults to a few seconds.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::catalogs::write_package;
use crate::harness::{Server, streaming, strings, unary};

const CLIENTS: usize = 64;
const BUNDLES: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_and_no_reply_mixes_catalogs() {
    let seconds = std::env::var("OPM_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let server = Server::start(|plan| plan.watch = Some(Duration::from_millis(50))).await;
    write_generation(&server, 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (done, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let newest = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let (channel, done, calls, newest) =
            (server.client().await, Arc::clone(&done), Arc::clone(&calls), Arc::clone(&newest));
        clients.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                if number % 2 == 0 {
                    let request = strings(["", "", ""]);
                    one_generation(&streaming(&channel, "/api.Registry/ListBundles", request).await.unwrap());
                } else {
                    let request = strings(["soak", "stable", "soak.v3.0.0"]);
                    match unary(&channel, "/api.Registry/GetBundle", request).await {
                        Ok(bundle) => {
                            newest.fetch_max(generation_of(&bundle.fourth), Ordering::Relaxed);
                        }
                        // The first change is loaded.
                        Err(error) => assert!(error.message().contains("not found"), "{error}"),
                    }
                }
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut last_good = 0;
    let mut generation = 1;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(150)).await;
        if generation % 2 == 0 {
            fs::write(server.root().join("soak/catalog.yaml"), "schema: olm.package\nname: [broken\n").unwrap();
        } else {
            write_generation(&server, generation);
            last_good = generation;
        }
        generation += 1;
    }
    write_generation(&server, generation);
    // The last valid catalog is served in the end.
    for _ in 0..200 {
        if newest.load(Ordering::Relaxed) == generation {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    done.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(newest.load(Ordering::Relaxed), generation);
    assert!(calls.load(Ordering::Relaxed) > CLIENTS && last_good > 0);
    assert!(server.end().await.1.is_ok());
}

/// The fields of a bundle that identify its catalog.
#[derive(Clone, PartialEq, prost::Message)]
struct Bundle {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, tag = "6")]
    image: String,
}

/// Writes the package of a generation, whose number is in each CSV and in the name of each image.
fn write_generation(server: &Server, generation: usize) {
    let temporary = server.scratch.path().join("aside");
    write_package(&temporary, "soak", BUNDLES, &format!("generation-{generation}."));
    let written = fs::read_to_string(temporary.join("soak/catalog.yaml")).unwrap();
    fs::create_dir_all(server.root().join("soak")).unwrap();
    let images = format!("image: registry.test/soak-{generation}:");
    fs::write(server.root().join("soak/catalog.yaml"), written.replace("image: registry.test/soak:", &images)).unwrap();
}

/// Parses the generation number in a CSV.
fn generation_of(csv: &str) -> usize {
    let number = csv.split_once("generation-").and_then(|(_, rest)| rest.split_once('.')).map(|(number, _)| number);
    number.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no generation in {csv}"))
}

/// Asserts that either all bundles of the package are present, or none, and that all are of one generation.
fn one_generation(all: &[Bundle]) {
    let of: Vec<&str> = all
        .iter()
        .filter(|bundle| bundle.package == "soak")
        .filter_map(|bundle| bundle.image.rsplit_once(':').map(|(of, _)| of))
        .collect();
    assert!(of.is_empty() || of.len() == BUNDLES, "{of:?}");
    assert!(of.windows(2).all(|pair| pair[0] == pair[1]), "{of:?}");
}
