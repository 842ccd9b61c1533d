//! The offline resolver beside the real one: made-up namespaces, each resolved by OLM's catalog operator and by
//! `opm resolve`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cluster::Kind;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::stage::{Stage, until};

/// Names the number of namespaces.
const ROUNDS: &str = "OPM_RESOLVE_ROUNDS";
/// What fits into a run of all tests.
const DEFAULT: usize = 6;
/// How many are resolved at a time.
const AT_A_TIME: usize = 1;
const PACKAGES: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// What a namespace sees and asks for.
struct Case {
    /// Catalogs: name, priority, content.
    catalogs: Vec<(String, u64, String)>,
    /// Subscriptions: package, catalog, channel, startingCSV.
    wishes: Vec<(String, String, String, Option<String>)>,
}

/// Returns the version of a package, with its CSV inside, so that it need not be unpacked.
fn bundle(package: &str, number: u64, dice: &mut Dice) -> String {
    let (name, version) = (format!("{package}.v{number}.0.0"), format!("{number}.0.0"));
    let labels = json!({"app": package});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"version": version, "displayName": package, "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": package, "spec": {
                "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
                    "containers": [{"name": "c", "image": "registry.example.com/c:v1"}]}}}}]}}},
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

/// Returns a catalog of some packages; what is in it is the same wherever the same package is.
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
            for number in 1..=count {
                let _ = writeln!(text, "- name: {package}.v{number}.0.0");
                if number > 1 {
                    // Sometimes past the one before, which is then skipped.
                    let leap = number > 2 && dice.one_in(4);
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
        let starting = dice.one_in(4).then(|| format!("{package}.v1.0.0"));
        wishes.push((package, name.clone(), channel.to_owned(), starting));
    }
    Case { catalogs, wishes }
}

/// What came of a namespace: the versions to install, or a refusal.
type Outcome = Option<BTreeSet<String>>;

/// Resolves a case offline.
fn offline(stage: &Stage, case: &Case) -> (Outcome, String) {
    let mut command = stage.env.command();
    command.args(["resolve", "-o", "json"]);
    for (name, priority, content) in &case.catalogs {
        stage.env.file(&format!("{name}/catalog.yaml"), content.trim_start_matches("---\n"));
        command.arg(format!("{name}={name}")).arg("--priority").arg(format!("{name}={priority}"));
    }
    // As kubectl prints them: which catalog a Subscription names counts.
    let subscriptions: Vec<Value> = case.wishes.iter().map(|wish| subscription(stage, wish)).collect();
    let state = json!({"apiVersion": "v1", "kind": "List", "items": subscriptions});
    stage.env.file("state.json", state.to_string());
    let output = command.args(["--state", "state.json"]).output().expect("opm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: Value = serde_json::from_str(&text).unwrap_or_default();
    let shown = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    if told["resolved"] != true {
        return (None, shown);
    }
    let bundles = told["bundles"].as_array().cloned().unwrap_or_default();
    (Some(bundles.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()), shown)
}

fn subscription(stage: &Stage, wish: &(String, String, String, Option<String>)) -> Value {
    let (package, catalog, channel, starting) = wish;
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

/// Lets OLM resolve a case.
async fn by_olm(stage: &Stage, case: &Case) -> (Outcome, String) {
    let mut servers = Vec::new();
    for (name, priority, _) in &case.catalogs {
        let (server, address) = stage.serve(name).await;
        servers.push(server);
        stage.source(name, &address, json!({"priority": priority})).await;
    }
    stage.group().await;
    for wish in &case.wishes {
        stage.create(Kind::SUBSCRIPTION, &subscription(stage, wish)).await;
    }
    until("OLM has decided", || async {
        let plans = stage.list(Kind::INSTALL_PLAN).await;
        let planned: BTreeSet<String> = plans
            .iter()
            .flat_map(|plan| plan["spec"]["clusterServiceVersionNames"].as_array().cloned().unwrap_or_default())
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let subscriptions = stage.list(Kind::SUBSCRIPTION).await;
        if subscriptions.iter().all(|one| one["status"]["installPlanRef"]["name"].is_string()) {
            return Some((Some(planned), String::new()));
        }
        let conditions = subscriptions.iter().flat_map(|one| one["status"]["conditions"].as_array().cloned());
        let failed = conditions.flatten().find(|one| {
            // A catalog that is not connected yet is no refusal, nor is one whose packages nobody has seen.
            let passing = one["message"].as_str().unwrap_or_default().contains("error using catalogsource");
            one["type"] == "ResolutionFailed" && one["status"] == "True" && !passing
        })?;
        Some((None, failed["message"].to_string()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_resolve_as_olm_resolves_them() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of namespaces"));
    let seeds: Vec<u64> = (0..).filter(|seed| !case(*seed).wishes.is_empty()).take(rounds).collect();
    let (mut refused, mut wrong) = (0, Vec::new());
    for together in seeds.chunks(AT_A_TIME) {
        let mut compared = tokio::task::JoinSet::new();
        for seed in together {
            let Some(stage) = Stage::shared().await else { return };
            compared.spawn(compare(stage, *seed));
        }
        while let Some(outcome) = compared.join_next().await {
            let (is_refused, difference) = outcome.expect("no panic");
            refused += usize::from(is_refused);
            wrong.extend(difference);
        }
    }
    assert!(wrong.is_empty(), "{} of {rounds} differ:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refused < rounds, "all of them are refused");
}

/// Resolves a case both ways; returns whether OLM refused it, and what differs.
async fn compare(stage: Stage, seed: u64) -> (bool, Option<String>) {
    let case = case(seed);
    let (expected, said) = by_olm_after(&stage, &case).await;
    let (resolved, shown) = offline(&stage, &case);
    let difference = (resolved != expected)
        .then(|| format!("namespace {seed}: OLM {expected:?} {said}\nopm {resolved:?}\n{shown}\n{:?}", case.wishes));
    (expected.is_none(), difference)
}

/// Writes the catalogs of a case, and lets OLM resolve it.
async fn by_olm_after(stage: &Stage, case: &Case) -> (Outcome, String) {
    for (name, _, content) in &case.catalogs {
        stage.env.file(&format!("{name}/catalog.yaml"), content.trim_start_matches("---\n"));
    }
    by_olm(stage, case).await
}
