//! `opm resolve --olm v1` compared with operator-controller: random catalogs and requests, the result and the reason.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::stage_v1::{StageV1, condition};

/// The variable with the number of requests.
const ROUNDS: &str = "OPM_RESOLVE_ROUNDS";
/// Fits into a full test run.
const DEFAULT: u64 = 4;
const RANGES: [&str; 10] =
    ["", "", "", ">=2.0.0", "1.x", "~2.1", "<1.0.0", "^1.1", ">=1.0.0, <2.0.0", "1.0.0 || 2.0.0"];

/// The request of a ClusterExtension.
#[derive(Debug, Clone)]
struct Request {
    channels: Vec<&'static str>,
    range: &'static str,
    any_version: bool,
}

struct Case {
    /// Catalogs: name, priority, content.
    catalogs: Vec<(String, u64, String)>,
    /// The first request, and the second one after its installation.
    requests: [Request; 2],
}

fn versions(count: u64) -> Vec<String> {
    (0..count).map(|number| format!("{}.{}.0", 1 + number / 2, number % 2)).collect()
}

/// Returns a catalog of the package; all its bundles have the same image.
fn catalog(dice: &mut Dice, image: &str) -> String {
    let versions = versions(2 + dice.roll(5));
    let mut text = "schema: olm.package\nname: quux\ndefaultChannel: stable\n".to_owned();
    for channel in ["stable", "fast"] {
        if channel == "fast" && dice.one_in(2) {
            continue;
        }
        let _ = write!(text, "---\nschema: olm.channel\npackage: quux\nname: {channel}\nentries:\n");
        let mut before: Option<&str> = None;
        for version in &versions {
            let _ = writeln!(text, "- name: quux.v{version}");
            if let Some(before) = before {
                let _ = writeln!(text, "  replaces: quux.v{before}");
            }
            match dice.roll(5) {
                0 => drop(writeln!(text, "  skipRange: '<{version}'")),
                1 => drop(writeln!(text, "  skips: [quux.v{}]", versions[0])),
                _ => {}
            }
            before = Some(version);
        }
    }
    for version in &versions {
        let _ = write!(
            text,
            "---\nschema: olm.bundle\nname: quux.v{version}\npackage: quux\nimage: {image}\nproperties:\n\
             - {{type: olm.package, value: {{packageName: quux, version: {version}}}}}\n"
        );
    }
    let mut deprecated = String::new();
    for version in &versions {
        if dice.one_in(4) {
            let _ = write!(
                deprecated,
                "- reference: {{schema: olm.bundle, name: quux.v{version}}}\n  message: quux.v{version} is old\n"
            );
        }
    }
    if dice.one_in(3) {
        deprecated += "- reference: {schema: olm.channel, name: stable}\n  message: stable is old\n";
    }
    if dice.one_in(4) {
        deprecated += "- reference: {schema: olm.package}\n  message: quux is old\n";
    }
    if !deprecated.is_empty() {
        let _ = write!(text, "---\nschema: olm.deprecations\npackage: quux\nentries:\n{deprecated}");
    }
    text
}

fn case(seed: u64, image: &str) -> Case {
    let mut dice = Dice::new(seed);
    let count = 1 + dice.roll(2);
    let catalogs =
        (0..count).map(|number| (format!("c{number}"), dice.roll(2) * 10, catalog(&mut dice, image))).collect();
    let mut request = |is_first: bool| Request {
        channels: [vec![], vec!["stable"], vec!["fast"], vec!["fast", "stable"]][dice.roll(4) as usize].clone(),
        range: match (is_first, dice.one_in(2)) {
            // An old version, so that a newer one exists.
            (true, true) => "1.x",
            _ => RANGES[dice.roll(RANGES.len() as u64) as usize],
        },
        any_version: !is_first && dice.one_in(4),
    };
    Case { catalogs, requests: [request(true), request(false)] }
}

/// The name of the chosen bundle, or the reason why there is none.
type Outcome = Result<String, String>;

fn offline(stage: &StageV1, case: &Case, request: &Request, installed: Option<&str>) -> Outcome {
    let mut command = stage.stage.env.command();
    command.args(["resolve", "--olm", "v1", "-o", "json"]);
    for (name, priority, _) in &case.catalogs {
        // Catalogs have the same names as on the cluster, because messages contain them.
        let known = stage.name(name);
        command.arg(format!("{known}={name}")).arg("--priority").arg(format!("{known}={priority}"));
    }
    let channels = if request.channels.is_empty() { String::new() } else { format!("@{}", request.channels.join(",")) };
    let range = if request.range.is_empty() { String::new() } else { format!("={}", request.range) };
    command.args(["--install", &format!("quux{channels}{range}")]);
    if let Some(installed) = installed {
        command.args(["--installed", installed]);
    }
    if request.any_version {
        command.arg("--self-certified");
    }
    let output = command.output().expect("opm runs");
    let shown: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let bundle = &shown["bundles"][0];
    match bundle["name"].as_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err(bundle["message"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the fields of the source of a ClusterExtension.
fn source(request: &Request) -> Value {
    json!({
        "channels": if request.channels.is_empty() { Value::Null } else { json!(request.channels) },
        "version": if request.range.is_empty() { Value::Null } else { json!(request.range) },
        "upgradeConstraintPolicy": if request.any_version { "SelfCertified" } else { "CatalogProvided" },
    })
}

/// Waits for the decision of operator-controller about the latest request.
async fn by_olm(stage: &StageV1, name: &str) -> Outcome {
    let status = stage
        .decided(name, |status| {
            let progressing = condition(status, "Progressing");
            // It decides before it has read a catalog that is served already, and again afterwards.
            let message = progressing["message"].as_str().unwrap_or_default();
            let has_catalogs = !(message.contains("cache for catalog") && message.ends_with("not found"));
            matches!(progressing["reason"].as_str(), Some("Succeeded" | "Retrying" | "Blocked")) && has_catalogs
        })
        .await;
    let progressing = condition(&status, "Progressing");
    match progressing["reason"] == "Succeeded" {
        true => Ok(status["install"]["bundle"]["name"].as_str().unwrap_or_default().to_owned()),
        false => Err(progressing["message"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the image of an operator without objects that could conflict between extensions.
fn image(stage: &StageV1) -> String {
    let mut operator = stage.stage.operator("quux", "1.0.0");
    operator.more = json!({
        "installModes": [{"type": "AllNamespaces", "supported": true}], "customresourcedefinitions": {},
        "install": {"strategy": "deployment", "spec": {"deployments": []}},
    });
    let mut files = operator.files();
    files.retain(|(path, _)| path != "/manifests/crd.json");
    stage.stage.push("quux-bundle:v1", &files, &operator.labels())
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_resolve_like_operator_controller() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of requests"));
    let Some(stage) = StageV1::shared().await else { return };
    let image = image(&stage);
    stage.account().await;
    let (mut chosen, mut refused, mut wrong) = (0, 0, Vec::new());
    for seed in 0..rounds {
        let case = case(seed, &image);
        let name = format!("quux{seed}");
        let mut known = Vec::new();
        for (catalog, priority, content) in &case.catalogs {
            let directory = format!("{catalog}-{seed}");
            stage.stage.env.file(&format!("{directory}/catalog.yaml"), content);
            stage.catalog(&directory, json!({"priority": priority})).await;
            known.push((directory, *priority, content.clone()));
        }
        let case = Case { catalogs: known, ..case };
        let [first, second] = case.requests.clone();
        stage.extension(&name, "quux", source(&first)).await;
        let mut installed: Option<String> = None;
        for request in [first, second] {
            stage.change(&name, source(&request)).await;
            let expected = by_olm(&stage, &name).await;
            let resolved = offline(&stage, &case, &request, installed.as_deref());
            match &expected {
                Ok(name) => {
                    chosen += 1;
                    installed = Some(name.clone());
                }
                Err(_) => refused += 1,
            }
            if resolved != expected {
                let contents: Vec<&str> = case.catalogs.iter().map(|(_, _, content)| content.as_str()).collect();
                wrong.push(format!(
                    "{seed} {request:?}: OLM {expected:?}\nopm {resolved:?}\n{}",
                    contents.join("\n===\n")
                ));
            }
        }
        let catalogs: Vec<&str> = case.catalogs.iter().map(|(name, ..)| name.as_str()).collect();
        stage.remove(&[&name], &catalogs).await;
    }
    assert!(wrong.is_empty(), "{} differ ({chosen} chosen, {refused} refused):\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(chosen > 0, "every request was refused");
}
