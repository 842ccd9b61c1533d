//! A cache that is damaged while it is served.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serve::cache::store::{Integrity, file_in, prepare};
use tonic::Code;

use crate::catalogs::{directory, write_catalog};
use crate::harness::{Server, strings, unary};

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_reported_and_then_repaired() {
    let server = Server::start(|plan| {
        plan.cache_dir = Some(plan.directory.root.with_file_name("cache"));
    })
    .await;
    let channel = server.client().await;
    let bundle = || unary(&channel, "/api.Registry/GetBundle", strings(["beta", "stable", "beta.v7.0.0"]));
    let whole = bundle().await.unwrap();
    // Only data is between the header and the tables; flipping a large part of it affects every bundle.
    let file = OpenOptions::new().write(true).open(file_in(&server.root().with_file_name("cache"))).unwrap();
    file.write_all_at(&[0xa5; 2000], 800).unwrap();
    let error = bundle().await.unwrap_err();
    assert_eq!(error.code(), Code::DataLoss, "{error}");
    for _ in 0..300 {
        if let Ok(again) = bundle().await {
            assert_eq!(again, whole);
            assert!(server.end().await.1.is_ok());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the cache is not repaired");
}

/// No change to the cache file ends the server, or causes a wrong reply.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_truncated_or_overwritten_in_place_does_no_harm() {
    for harm in [truncate, overwrite] {
        let server = Server::start(|plan| {
            plan.cache_dir = Some(plan.directory.root.with_file_name("cache"));
        })
        .await;
        let channel = server.client().await;
        let bundle = |name| unary(&channel, "/api.Registry/GetBundle", strings(["beta", "stable", name]));
        let whole = bundle("beta.v7.0.0").await.unwrap();
        harm(&file_in(&server.root().with_file_name("cache")));
        let error = bundle("beta.v7.0.0").await.unwrap_err();
        assert_eq!(error.code(), Code::DataLoss, "{error}");
        let mut repaired = false;
        for _ in 0..300 {
            match bundle("beta.v7.0.0").await {
                Ok(again) => {
                    assert_eq!(again, whole);
                    repaired = true;
                    break;
                }
                Err(error) => assert_eq!(error.code(), Code::DataLoss, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(repaired, "the cache is not repaired");
        assert!(server.end().await.1.is_ok());
    }
}

fn truncate(cache: &Path) {
    OpenOptions::new().write(true).open(cache).unwrap().set_len(100).unwrap();
}

/// Overwrites it with the cache of another catalog.
fn overwrite(cache: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let (root, other) = (scratch.path().join("catalog"), scratch.path().join("cache"));
    write_catalog(&root, "two");
    prepare(&directory(&root), Some(&other), Integrity::Rebuild).unwrap();
    std::fs::copy(file_in(&other), cache).unwrap();
}
