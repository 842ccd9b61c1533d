//! The offline resolver compared with the real one: OLM's catalog operator and `opm resolve` resolve random namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::stage::Stage;

/// The variable with the number of namespaces.
const ROUNDS: &str = "OPM_RESOLVE_ROUNDS";
/// Fits into a full test run.
const DEFAULT: usize = 6;
/// How many namespaces are resolved in parallel; OLM handles one after the other.
const IN_PARALLEL: usize = 20;
/// How long to wait for an upgrade where none is expected.
const NO_UPGRADE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long OLM may take for a namespace among others.
const TIMEOUT: Duration = Duration::from_secs(240);
const PACKAGES: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// The catalogs and Subscriptions of a namespace.
struct Case {
    /// Catalogs: name, priority, content.
    catalogs: Vec<(String, u64, String)>,
    /// Subscriptions: package, catalog, channel, startingCSV.
    wishes: Vec<(String, String, String, Option<String>)>,
}

/// Returns the version of a package with its CSV, so that OLM need not unpack it. It has no deployment: OLM polls a CSV
/// without pause until its deployments run.
fn bundle(package: &str, number: u64, dice: &mut Dice) -> String {
    let (name, version) = (format!("{package}.v{number}.0.0"), format!("{number}.0.0"));
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"version": version, "displayName": package, "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    let mut encoded = Vec::new();
    fbc::base64::encode(csv.to_string().as_bytes(), &mut encoded);
    let mut text = format!(
        "---\nschema: olm.bundle\nname: {name}\npackage: {package}\nproperties:\n\
         - {{type: olm.package, value: {{packageName: {package}, version: {version}}}}}\n\
         - {{type: olm.bundle.object, value: {{data: {}}}}}\n",
        String::from_utf8(encoded).expect("base64")
    );
    let other = PACKAGES[dice.roll(PACKAGES.len() as u64) as usize];
    if other != package && dice.one_in(3) {
        let range = [">=1.0.0", ">=2.0.0", "<2.0.0", "9.0.0"][dice.roll(4) as usize];
        let _ = writeln!(
            text,
            "- {{type: olm.package.required, value: {{packageName: {other}, versionRange: '{range}'}}}}"
        );
    }
    if dice.one_in(12) {
        text += "- {type: olm.deprecated, value: {}}\n";
    }
    text
}

/// Returns a catalog of some packages; a package has the same content in every catalog.
fn catalog(dice: &mut Dice) -> String {
    let mut text = String::new();
    for package in PACKAGES {
        if dice.one_in(5) {
            continue;
        }
        let count = 1 + dice.roll(4);
        let _ = write!(text, "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n");
        for channel in ["stable", "fast"] {
            if channel == "fast" && dice.one_in(2) {
                continue;
            }
            let _ = write!(text, "---\nschema: olm.channel\npackage: {package}\nname: {channel}\nentries:\n");
            let mut leap = false;
            for number in 1..=count {
                let _ = writeln!(text, "- name: {package}.v{number}.0.0");
                if number > 1 {
                    // An entry sometimes skips the previous one and replaces the one before; two in a row would strand
                    // another.
                    leap = number > 2 && !leap && dice.one_in(4);
                    let _ = writeln!(text, "  replaces: {package}.v{}.0.0", if leap { number - 2 } else { number - 1 });
                    if leap {
                        let _ = writeln!(text, "  skips: [{package}.v{}.0.0]", number - 1);
                    }
                    if dice.one_in(4) {
                        let _ = writeln!(text, "  skipRange: '<{number}.0.0'");
                    }
                }
            }
        }
        for number in 1..=count {
            text += &bundle(package, number, dice);
        }
    }
    text
}

fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let count = 1 + dice.roll(2);
    let catalogs: Vec<(String, u64, String)> =
        (0..count).map(|number| (format!("c{number}"), dice.roll(3) * 10, catalog(&mut dice))).collect();
    let mut wishes: Vec<(String, String, String, Option<String>)> = Vec::new();
    for _ in 0..1 + dice.roll(2) {
        let package = PACKAGES[dice.roll(4) as usize].to_owned();
        let (name, _, content) = &catalogs[dice.roll(count) as usize];
        let known = content.contains(&format!("\nname: {package}\n"));
        if !known || wishes.iter().any(|(wished, ..)| *wished == package) {
            continue;
        }
        let fast = content.contains(&format!("package: {package}\nname: fast\n"));
        let channel = if fast && dice.one_in(3) { "fast" } else { "stable" };
        let starting = dice.one_in(2).then(|| format!("{package}.v1.0.0"));
        wishes.push((package, name.clone(), channel.to_owned(), starting));
    }
    Case { catalogs, wishes }
}

/// The result for a namespace: the versions to install, or a refusal.
type Outcome = Option<BTreeSet<String>>;

/// Resolves a namespace offline, with these Subscriptions and installed versions; unchanged versions do not count.
fn offline(stage: &Stage, case: &Case, objects: &[Value]) -> (Outcome, String) {
    let mut command = stage.env.command();
    command.args(["resolve", "-o", "json"]);
    for (name, priority, _) in &case.catalogs {
        command.arg(format!("{name}={name}")).arg("--priority").arg(format!("{name}={priority}"));
    }
    // In the format of kubectl: the catalog of a Subscription matters.
    let state = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    stage.env.file("state.json", state.to_string());
    let output = command.args(["--state", "state.json"]).output().expect("opm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let resolution: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {shown}"));
    if resolution["resolved"] != true {
        return (None, shown);
    }
    let bundles = resolution["bundles"].as_array().expect("a list of bundles");
    let changed = bundles.iter().filter(|one| one["action"] != "keep");
    (Some(changed.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()), shown)
}

fn subscription(stage: &Stage, request: &(String, String, String, Option<String>)) -> Value {
    let (package, catalog, channel, starting) = request;
    let mut spec = json!({
        "name": package, "channel": channel, "source": catalog, "sourceNamespace": stage.namespace(),
        "installPlanApproval": "Manual",
    });
    if let Some(starting) = starting {
        spec["startingCSV"] = json!(starting);
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": package, "namespace": stage.namespace()}, "spec": spec,
    })
}

/// Returns a refusal; a catalog that is not connected yet, or has no known packages, does not count.
fn refusal(subscriptions: &[Value]) -> Option<String> {
    let conditions = subscriptions.iter().flat_map(|one| one["status"]["conditions"].as_array().cloned());
    let failed = conditions.flatten().find(|one| {
        let passing = one["message"].as_str().unwrap_or_default().contains("error using catalogsource");
        one["type"] == "ResolutionFailed" && one["status"] == "True" && !passing
    })?;
    Some(failed["message"].to_string())
}

/// Returns the versions of InstallPlans, except for the plans in `without`.
fn planned(plans: &[Value], without: &BTreeSet<String>) -> BTreeSet<String> {
    let name = |plan: &Value| plan["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let new = plans.iter().filter(|plan| !without.contains(&name(plan)));
    let versions = new.flat_map(|plan| plan["spec"]["clusterServiceVersionNames"].as_array().cloned());
    versions.flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Waits for the InstallPlan of a namespace without installed versions.
async fn first_decision(stage: &Stage) -> (Outcome, String) {
    let decided = within(TIMEOUT, || async {
        let plans = stage.list(ResourceKind::INSTALL_PLAN).await;
        let subscriptions = stage.list(ResourceKind::SUBSCRIPTION).await;
        if subscriptions.iter().all(|one| one["status"]["installPlanRef"]["name"].is_string()) {
            return Some((Some(planned(&plans, &BTreeSet::new())), String::new()));
        }
        refusal(&subscriptions).map(|message| (None, message))
    });
    decided.await.expect("OLM resolves the namespace")
}

/// Waits for the decision of OLM in a namespace with installed versions. Without an upgrade nothing happens, so the
/// timeout is longer if one is expected.
async fn next_decision(stage: &Stage, before: &BTreeSet<String>, expected: &Outcome) -> (Outcome, String) {
    let patience = if expected.as_ref().is_some_and(BTreeSet::is_empty) { NO_UPGRADE_TIMEOUT } else { TIMEOUT };
    let decided = within(patience, || async {
        let versions = planned(&stage.list(ResourceKind::INSTALL_PLAN).await, before);
        if !versions.is_empty() {
            return Some((Some(versions), String::new()));
        }
        refusal(&stage.list(ResourceKind::SUBSCRIPTION).await).map(|message| (None, message))
    });
    decided.await.unwrap_or_else(|| (Some(BTreeSet::new()), String::new()))
}

/// Polls until `poll` returns a value, or the timeout ends.
async fn within<T, F: Future<Output = Option<T>>>(time: Duration, mut poll: impl FnMut() -> F) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < time {
        if let Some(found) = poll().await {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    None
}

/// Approves all InstallPlans, waits until their versions are installed, and returns the names of the plans.
async fn install(stage: &Stage) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for plan in stage.list(ResourceKind::INSTALL_PLAN).await {
        let name = plan["metadata"]["name"].as_str().expect("a name").to_owned();
        let patch = Patch::Merge(json!({"spec": {"approved": true}}));
        let plans = stage.cluster.objects(ResourceKind::INSTALL_PLAN);
        plans.patch(&name, &PatchParams::default(), &patch).await.expect("approved");
        names.insert(name);
    }
    let installed = within(TIMEOUT, || async {
        let all = stage.list(ResourceKind::SUBSCRIPTION).await;
        all.iter().all(|one| one["status"]["installedCSV"].is_string()).then_some(())
    });
    installed.await.expect("OLM installs the approved versions");
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_resolve_like_olm() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of namespaces"));
    let seeds: Vec<u64> = (0..).filter(|seed| !case(*seed).wishes.is_empty()).take(rounds).collect();
    let Some(first) = Stage::shared().await else { return };
    let (mut counts, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for together in seeds.chunks(IN_PARALLEL) {
        let mut compared = tokio::task::JoinSet::new();
        for seed in together {
            let stage = first.in_another_namespace().await.expect("the cluster runs");
            compared.spawn(compare(stage, *seed));
        }
        while let Some(outcomes) = compared.join_next().await {
            for (kind, difference) in outcomes.expect("no panic") {
                *counts.entry(kind).or_default() += 1;
                wrong.extend(difference);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rounds} differ ({counts:?}):\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(counts.contains_key("installed"), "nothing was installed: {counts:?}");
    first.end().await;
}

/// The decision of OLM, and the difference, if any.
type Compared = (&'static str, Option<String>);

/// Resolves a case both ways, and again after the first result is installed.
async fn compare(stage: Stage, seed: u64) -> Vec<Compared> {
    let case = case(seed);
    let mut servers = Vec::new();
    for (name, priority, content) in &case.catalogs {
        stage.env.file(&format!("{name}/catalog.yaml"), content.trim_start_matches("---\n"));
        let (server, address) = stage.serve(name).await;
        servers.push(server);
        stage.source(name, &address, json!({"priority": priority})).await;
    }
    stage.group().await;
    let subscriptions: Vec<Value> = case.wishes.iter().map(|request| subscription(&stage, request)).collect();
    // A Subscription that is created late would be resolved separately.
    let all = join_all(subscriptions.iter().map(|one| stage.create(ResourceKind::SUBSCRIPTION, one)).collect());
    all.await;
    let difference = |what: &str, (expected, reply): &(Outcome, String), (resolved, shown): &(Outcome, String)| {
        (resolved != expected).then(|| {
            format!("namespace {seed}, {what}: OLM {expected:?} {reply}\nopm {resolved:?}\n{shown}\n{:?}", case.wishes)
        })
    };
    let expected = first_decision(&stage).await;
    let resolved = offline(&stage, &case, &subscriptions);
    let kind = if expected.0.is_some() { "installed" } else { "refused" };
    let mut compared = vec![(kind, difference("nothing installed", &expected, &resolved))];
    if expected.0.is_some() && compared[0].1.is_none() {
        let before = install(&stage).await;
        let mut objects = stage.list(ResourceKind::SUBSCRIPTION).await;
        objects.extend(stage.list(ResourceKind::CSV).await);
        let resolved = offline(&stage, &case, &objects);
        let expected = next_decision(&stage, &before, &resolved.0).await;
        let kind = match &expected.0 {
            None => "upgrade refused",
            Some(versions) if versions.is_empty() => "up to date",
            Some(_) => "upgraded",
        };
        compared.push((kind, difference("installed", &expected, &resolved)));
    }
    stage.end().await;
    compared
}

/// Waits for all futures in parallel.
async fn join_all<F: Future>(all: Vec<F>) {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
