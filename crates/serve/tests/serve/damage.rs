//! A cache that is damaged while it is served.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serve::cache::store::file_in;
use tonic::Code;

use crate::harness::{Server, strings, unary};

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_and_then_mended() {
    let server = Server::start(|plan| {
        plan.cache_dir = Some(plan.directory.root.with_file_name("cache"));
    })
    .await;
    let channel = server.client().await;
    let bundle = || unary(&channel, "/api.Registry/GetBundle", strings(["beta", "stable", "beta.v7.0.0"]));
    let whole = bundle().await.unwrap();
    // Everything behind the header and before the tables is data; flipping a good part of it hits every bundle.
    let file = OpenOptions::new().write(true).open(file_in(&server.root().with_file_name("cache"))).unwrap();
    file.write_all_at(&[0xa5; 2000], 800).unwrap();
    let told = bundle().await.unwrap_err();
    assert_eq!(told.code(), Code::DataLoss, "{told}");
    for _ in 0..300 {
        if let Ok(again) = bundle().await {
            assert_eq!(again, whole);
            assert!(server.end().await.1.is_ok());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the damage stays");
}
