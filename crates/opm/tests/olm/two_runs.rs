//! Two runs of one operator at once, of which one is killed: the other succeeds, and nothing of others is touched.

use std::time::Duration;

use cluster::Kind;

use crate::stage::{Running, Stage};

/// Names how often it is done.
const ROUNDS: &str = "OPM_RUN_ROUNDS";
/// What fits into a run of all tests.
const DEFAULT: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_leaves_another_alone() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of rounds"));
    for round in 0..rounds {
        let (Some(one), Some(other)) = (Stage::shared().await, Stage::shared().await) else { return };
        let before = one.everything().await;
        // Both own the same API.
        let main = one.operator("foo", "1.0.0");
        let (first, second) = (one.bundle(&main), other.bundle(&main));
        let killed = Running::start(&mut one.command(&["run", "bundle", &first]));
        let lives = Running::start(&mut other.command(&["run", "bundle", &second]));
        // Anywhere between the first object and the end, by a signal that can be handled or not.
        let moment = round.wrapping_mul(7919).wrapping_add(u64::from(std::process::id())) % 16;
        tokio::time::sleep(Duration::from_millis(1500 + moment * 800)).await;
        killed.signal(if moment % 2 == 0 { "-KILL" } else { "-INT" });
        let end = tokio::task::spawn_blocking(move || (killed.end(), lives.end())).await.expect("no panic");
        let told = other.shown(end.1);
        assert!(told.starts_with("exit 0"), "round {round}, moment {moment}:\n{}\n{told}", one.shown(end.0));
        let made = other.resources(&main).create(&Default::default(), &other.resource(&main, "theirs")).await;
        let made = made.expect("an object");
        // What a killed run left, cleanup removes; what the other made stays.
        let cleaned = one.opm(&["cleanup", "foo"]).await;
        assert!(cleaned.starts_with("exit 0"), "round {round}, moment {moment}:\n{cleaned}");
        let kept = other.resources(&main).get("theirs").await.expect("it is still there");
        assert_eq!(kept.metadata.uid, made.metadata.uid);
        let csv = other.get(Kind::CSV, "foo.v1.0.0").await.expect("a CSV");
        assert_eq!(csv["status"]["phase"], "Succeeded");
        // The definition is in the name of the first, and the second needs it.
        let definition = format!("CustomResourceDefinition {}", main.crd_name());
        let expected: Vec<String> = before.iter().cloned().chain([definition]).collect();
        one.only(&expected).await;
        let told = other.opm(&["cleanup", "foo"]).await;
        assert!(told.starts_with("exit 0"), "{told}");
        let definitions = one.cluster.objects(Kind::CRD);
        // It went with whoever made it, or it stays.
        let _ = definitions.delete(&main.crd_name(), &Default::default()).await;
    }
}
