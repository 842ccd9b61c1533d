use super::*;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(name: &str, role: PodRole, hash: &str, ready: bool, image: &str) -> Pod {
    Pod {
        name: name.into(),
        role,
        hash: hash.into(),
        ready,
        deleting: false,
        dead: false,
        failed: None,
        why_not: (!ready).then(|| "it waits".into()),
        image_id: Some(image.into()),
        created: at(NOW - 100),
        promoted: None,
    }
}

fn serving(name: &str, ready: bool, image: &str) -> Pod {
    pod(name, PodRole::Serving, "h", ready, image)
}

fn update(name: &str, ready: bool, image: &str) -> Pod {
    Pod { created: at(NOW - 10), ..pod(name, PodRole::Update, "h", ready, image) }
}

fn decided(pods: &[Pod], poll_in: i64) -> PodDecision {
    let desired = Desired {
        hash: "h",
        now: at(NOW),
        poll_at: Some(at(NOW + poll_in)),
        overlap: Duration::from_secs(5),
        retry_at: None,
    };
    decide(pods, &desired)
}

fn steps(pods: &[Pod], poll_in: i64) -> Vec<PodAction> {
    decided(pods, poll_in).steps
}

fn delete(name: &str, grace: u32) -> PodAction {
    PodAction::Delete { name: name.into(), grace }
}

#[test]
fn a_missing_pod_is_started_as_the_serving_pod() {
    assert_eq!(steps(&[], 0), [PodAction::Start]);
    let dead = Pod { dead: true, ..serving("a", false, "1") };
    assert_eq!(steps(std::slice::from_ref(&dead), 0), [delete("a", 0), PodAction::Start]);
    // A pod that ends early is not restarted immediately.
    let young = Pod { created: at(NOW - 5), why_not: Some("it failed: x".into()), ..dead };
    let decision = decided(&[young], 100);
    assert_eq!(decision.steps, [delete("a", 0)]);
    assert_eq!(decision.outcome, Some(PodOutcome::NotStarted));
    assert_eq!(decision.complaint.unwrap().message, "pod a: it failed: x");
    let ending = Pod { deleting: true, ..serving("a", true, "1") };
    assert_eq!(steps(&[ending], 0), [PodAction::Start]);
    assert_eq!(steps(&[update("b", false, "1")], 0), [PodAction::Promote("b".into())]);
}

#[test]
fn an_image_is_polled_when_it_is_due() {
    assert_eq!(steps(&[serving("a", true, "1")], 1), []);
    assert_eq!(steps(&[serving("a", true, "1")], 0), [PodAction::StartBeside { poll: true }]);
    assert_eq!(steps(&[serving("a", true, "1"), update("b", false, "2")], 0), []);
}

#[test]
fn a_newer_image_takes_over_before_the_old_pod_ends() {
    let old = serving("a", true, "1");
    assert_eq!(steps(&[old.clone(), update("b", true, "2")], 9), [PodAction::Promote("b".into())]);
    let fresh = Pod { promoted: Some(at(NOW - 2)), created: at(NOW - 10), ..serving("b", true, "2") };
    let decision = decided(&[old.clone(), fresh.clone()], 0);
    assert_eq!(decision.steps, []);
    assert_eq!(decision.recheck_in, Some(Duration::from_secs(3)));
    let settled = Pod { promoted: Some(at(NOW - 5)), ..fresh.clone() };
    assert_eq!(steps(&[old.clone(), settled], 9), [delete("a", 1)]);
    // The new pod became unready before the old one was deleted: the old one stays.
    let broken = Pod { ready: false, promoted: Some(at(NOW - 50)), ..fresh };
    assert_eq!(steps(&[old, broken], 9), []);
}

#[test]
fn the_same_image_and_an_unknown_one_change_nothing() {
    let old = serving("a", true, "1");
    assert_eq!(steps(&[old.clone(), update("b", true, "1")], 9), [delete("b", 1)]);
    let unknown = Pod { image_id: None, ..update("b", true, "1") };
    assert_eq!(steps(&[old, unknown], 9), [delete("b", 1)]);
}

#[test]
fn a_failing_new_image_does_not_affect_the_old_one() {
    let failed = Pod { failed: Some("it ends again and again".into()), ..update("b", false, "2") };
    let decision = decided(&[serving("a", true, "1"), failed], 9);
    assert_eq!(decision.steps, [delete("b", 1)]);
    assert_eq!(decision.complaint.unwrap().message, "update pod b: it ends again and again");
    assert!(decision.served);
    let late = Pod { created: at(NOW - 601), ..update("b", false, "2") };
    assert_eq!(steps(&[serving("a", true, "1"), late], 9), [delete("b", 1)]);
}

#[test]
fn a_pod_with_another_spec_starts_before_it_replaces_the_old_one() {
    let old = Pod { hash: "before".into(), ..serving("a", true, "1") };
    assert_eq!(steps(std::slice::from_ref(&old), 9), [PodAction::StartBeside { poll: false }]);
    assert_eq!(steps(&[old.clone(), update("b", false, "2")], 9), []);
    // Even with the same image, whose configuration differs.
    assert_eq!(steps(&[old.clone(), update("b", true, "1")], 9), [PodAction::Promote("b".into())]);
    let stale = Pod { hash: "between".into(), ..update("c", true, "2") };
    assert_eq!(steps(&[old.clone(), stale], 9), [delete("c", 1), PodAction::StartBeside { poll: false }]);
    let desired =
        Desired { hash: "h", now: at(NOW), poll_at: None, overlap: Duration::ZERO, retry_at: Some(at(NOW + 7)) };
    let decision = decide(&[old], &desired);
    assert_eq!(decision.steps, []);
    assert_eq!(decision.recheck_in, Some(Duration::from_secs(7)));
}

#[test]
fn a_pod_that_never_becomes_ready_is_replaced() {
    let stuck = Pod { failed: Some("image cannot be pulled".into()), ..serving("a", false, "1") };
    let decision = decided(std::slice::from_ref(&stuck), 9);
    assert_eq!(decision.steps, []);
    assert_eq!(decision.complaint.unwrap().message, "pod a: image cannot be pulled");
    assert!(!decision.served);
    assert_eq!(steps(std::slice::from_ref(&stuck), 0), [PodAction::StartBeside { poll: true }]);
    assert_eq!(steps(&[stuck, update("b", true, "1")], 9), [PodAction::Promote("b".into())]);
}

#[test]
fn one_of_two_concurrently_started_pods_is_deleted() {
    let (a, b) = (serving("a", true, "1"), Pod { created: at(NOW - 99), ..serving("b", true, "1") });
    assert_eq!(steps(&[a.clone(), b.clone()], 9), [delete("a", 1)]);
    let (a, b) = (Pod { ready: false, ..a }, b);
    assert_eq!(steps(&[a.clone(), b.clone()], 9), [delete("a", 1)]);
    assert_eq!(steps(&[a, Pod { ready: false, ..b }], 9), []);
}
