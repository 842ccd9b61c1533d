//! `opm crd-diff` beside operator-controller: changes of CRDs, and whether an upgrade is refused for them.

use serde_json::{Value, json};

use crate::stage_v1::{StageV1, condition};

/// Names the number of changes that are tried.
const ROUNDS: &str = "OPM_CRD_CHANGES";
/// What fits into a run of all tests.
const DEFAULT: usize = 6;
/// So many extensions are installed at a time.
const TOGETHER: usize = 25;

/// A change of one field: what it was, and what it becomes.
type Change = (&'static str, Value, Value);

/// Returns changes of every kind that OLM v1 has a rule for, or none.
fn changes() -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    let mut add = |name, old: Value, new: Value| all.push((name, old, new));
    let text = || json!({"type": "string"});
    let with = |base: Value, more: Value| {
        let mut schema = base;
        schema.as_object_mut().expect("a schema").extend(more.as_object().expect("fields").clone());
        schema
    };
    let map = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let list = || json!({"type": "array", "items": {"type": "string"}});
    for (bases, low, high) in [
        (json!({"type": "integer"}), "minimum", "maximum"),
        (text(), "minLength", "maxLength"),
        (list(), "minItems", "maxItems"),
        (map(), "minProperties", "maxProperties"),
    ] {
        for bound in [low, high] {
            let of = |number: u64| with(bases.clone(), json!({bound: number}));
            for (old, new) in [
                (bases.clone(), of(5)),
                (of(5), bases.clone()),
                (of(5), of(4)),
                (of(5), of(6)),
                (bases.clone(), of(0)),
                (of(0), bases.clone()),
                (of(0), of(1)),
            ] {
                add(bound, old, new);
            }
        }
    }
    let of = |values: &[&str]| with(text(), json!({"enum": values}));
    for (old, new) in [
        (text(), of(&["a", "b"])),
        (of(&["a", "b"]), text()),
        (of(&["a", "b"]), of(&["a", "b", "c"])),
        (of(&["a", "b"]), of(&["a"])),
        (of(&["a", "b"]), of(&["a", "c"])),
        (of(&["a", "b"]), of(&["b", "a"])),
    ] {
        add("enum", old, new);
    }
    let mut three = |name: &'static str, base: Value, one: Value, two: Value| {
        let of = |value: &Value| with(base.clone(), json!({name: value}));
        add(name, base.clone(), of(&one));
        add(name, of(&one), base.clone());
        add(name, of(&one), of(&two));
    };
    three("pattern", text(), json!("^a"), json!("^b"));
    three("default", text(), json!("a"), json!("b"));
    three("default", json!({"type": "integer"}), json!(1), json!(2));
    three("default", json!({"type": "boolean"}), json!(true), json!(false));
    three("default", map(), json!({"a": "b"}), json!({"a": "c"}));
    three("default", list(), json!(["a"]), json!([]));
    three("nullable", text(), json!(true), json!(false));
    three("title", text(), json!("a"), json!("b"));
    three("description", text(), json!("a"), json!("b"));
    three("example", text(), json!("a"), json!("b"));
    three("format", text(), json!("date"), json!("date-time"));
    three("format", json!({"type": "integer"}), json!("int32"), json!("int64"));
    three("x-kubernetes-list-type", list(), json!("set"), json!("atomic"));
    three("x-kubernetes-map-type", map(), json!("granular"), json!("atomic"));
    three("x-kubernetes-validations", text(), json!([{"rule": "self != 'a'"}]), json!([{"rule": "self != 'b'"}]));
    three("externalDocs", text(), json!({"url": "https://a.example"}), json!({"url": "https://b.example"}));
    three("oneOf", text(), json!([{"pattern": "^a"}]), json!([{"pattern": "^a"}, {"pattern": "^b"}]));
    three("oneOf", text(), json!([{"pattern": "^a"}, {"pattern": "^b"}]), json!([{"pattern": "^b"}]));
    three("anyOf", text(), json!([{"pattern": "^a"}]), json!([{"pattern": "^b"}]));
    three("allOf", text(), json!([{"pattern": "^a"}]), json!([{"pattern": "^b"}]));
    three("not", text(), json!({"pattern": "^a"}), json!({"pattern": "^b"}));
    add(
        "x-kubernetes-validations",
        with(text(), json!({"x-kubernetes-validations": [{"rule": "self != 'a'", "message": "a"}]})),
        with(text(), json!({"x-kubernetes-validations": [{"rule": "self != 'a'", "message": "b"}]})),
    );
    let kinds = ["string", "integer", "number", "boolean"];
    for old in kinds {
        for new in kinds.into_iter().filter(|new| *new != old) {
            add("type", json!({"type": old}), json!({"type": new}));
        }
    }
    let either = || json!({"x-kubernetes-int-or-string": true});
    add("type", text(), either());
    add("type", either(), text());
    add("type", map(), text());
    add("type", list(), map());
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    add("preserve", json!({"type": "object"}), open());
    add("preserve", open(), json!({"type": "object"}));
    let numbers = || json!({"type": "object", "additionalProperties": {"type": "integer"}});
    add("additionalProperties", map(), numbers());
    add("additionalProperties", map(), open());
    let fields =
        |fields: Value, required: &[&str]| json!({"type": "object", "properties": fields, "required": required});
    let (a, b) = (json!({"a": text()}), json!({"b": text()}));
    let both = json!({"a": text(), "b": text()});
    add("required", fields(both.clone(), &["a"]), fields(both.clone(), &["a", "b"]));
    add("required", fields(both.clone(), &["a", "b"]), fields(both.clone(), &["a"]));
    add("required", fields(both.clone(), &["a", "b"]), fields(both.clone(), &["b", "a"]));
    add("field", fields(a.clone(), &[]), fields(both.clone(), &[]));
    add("field", fields(both, &[]), fields(a.clone(), &[]));
    add("field", fields(a, &[]), fields(b, &[]));
    // The same below a list, a map and another field.
    let mut below: Vec<Change> = Vec::new();
    for (name, old, new) in all.iter().step_by(3) {
        below.push((name, json!({"type": "array", "items": old}), json!({"type": "array", "items": new})));
    }
    for (name, old, new) in all.iter().skip(1).step_by(3) {
        let inside = |schema: &Value| json!({"type": "object", "properties": {"inner": schema}});
        below.push((name, inside(old), inside(new)));
    }
    // Defaults below a map are not allowed.
    for (name, old, new) in all.iter().skip(2).step_by(3).filter(|(name, ..)| *name != "default") {
        let inside = |schema: &Value| json!({"type": "object", "additionalProperties": schema});
        below.push((name, inside(old), inside(new)));
    }
    all.extend(below);
    all
}

/// A package with two versions, whose CRDs differ in a field.
struct Case {
    package: String,
    change: Change,
    crds: [Value; 2],
}

impl Case {
    fn new(stage: &StageV1, number: usize, change: Change) -> Case {
        let package = format!("c{number}");
        let operator = stage.stage.operator(&package, "1.0.0");
        let crds = [&change.1, &change.2].map(|schema| {
            let mut crd = operator.crd();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"field": schema}}},
            });
            crd
        });
        Case { package, change, crds }
    }

    /// Pushes both bundles, and returns the blobs of the package.
    fn blobs(&self, stage: &StageV1) -> String {
        let package = &self.package;
        let mut text = format!(
            "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: {package}\n\
             name: stable\nentries:\n- name: {package}.v1.0.0\n- name: {package}.v2.0.0\n  replaces: {package}.v1.0.0\n"
        );
        for (version, crd) in ["1.0.0", "2.0.0"].into_iter().zip(&self.crds) {
            let mut operator = stage.stage.operator(package, version);
            // Nothing but the CRD is of interest.
            operator.more = json!({
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "install": {"strategy": "deployment", "spec": {"deployments": []}},
            });
            let mut files = operator.files();
            files.retain(|(path, _)| !path.ends_with("crd.json"));
            files.push(("/manifests/crd.json".into(), crd.to_string().into_bytes()));
            let image = stage.stage.push(&format!("{package}-bundle:v{version}"), &files, &operator.labels());
            text += &format!(
                "---\nschema: olm.bundle\nname: {package}.v{version}\npackage: {package}\nimage: {image}\nproperties:\n\
                 - type: olm.package\n  value: {{packageName: {package}, version: {version}}}\n"
            );
        }
        text
    }
}

/// Returns the message of an upgrade, or nothing once the version is installed.
fn outcome(status: &Value, version: &str) -> Option<Option<String>> {
    if status["install"]["bundle"]["version"] == version {
        return Some(None);
    }
    let progressing = condition(status, "Progressing");
    let retrying = matches!(progressing["reason"].as_str(), Some("Retrying" | "Blocked"));
    retrying.then(|| progressing["message"].as_str().map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_of_crds_are_refused_as_crd_diff_says() {
    let Some(stage) = StageV1::shared().await else { return };
    let all = changes();
    let count = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT).min(all.len());
    // A few of all, or all.
    let step = all.len() / count.max(1);
    let cases: Vec<Case> = all
        .into_iter()
        .step_by(step)
        .take(count)
        .enumerate()
        .map(|(at, change)| Case::new(&stage, at, change))
        .collect();
    let text: String = cases.iter().map(|case| case.blobs(&stage)).collect();
    stage.stage.env.file("catalog/catalog.yaml", text);
    stage.catalog("catalog", json!({})).await;
    stage.account().await;
    let (mut differences, mut compared, mut refused) = (Vec::new(), 0, 0);
    for group in cases.chunks(TOGETHER) {
        for case in group {
            stage.extension(&case.package, &case.package, json!({"version": "1.0.0"})).await;
        }
        for case in group {
            stage.decided(&case.package, |status| outcome(status, "1.0.0") == Some(None)).await;
            stage.change(&case.package, json!({"version": "2.0.0"})).await;
        }
        for case in group {
            let status = stage.decided(&case.package, |status| outcome(status, "2.0.0").is_some()).await;
            let message = outcome(&status, "2.0.0").flatten().unwrap_or_default();
            let theirs = message.contains("validating upgrade for CRD");
            assert!(theirs || message.is_empty(), "{:?}: {message}", case.change);
            let found = review::crd::compare(&case.crds[0], &case.crds[1]);
            let ours = found.iter().any(|change| change.blocks);
            compared += 1;
            refused += usize::from(theirs);
            // Each rule that they name is one that we name.
            let unnamed = found.iter().find(|change| change.blocks && !message.contains(change.rule));
            if ours != theirs || unnamed.is_some() {
                let (name, old, new) = &case.change;
                differences.push(format!("{name}: {old} -> {new}\nopm: {found:?}\noperator-controller: {message}"));
            }
        }
        let names: Vec<&str> = group.iter().map(|case| case.package.as_str()).collect();
        stage.remove(&names, &[]).await;
    }
    stage.remove(&[], &["catalog"]).await;
    assert!(differences.is_empty(), "{} of {compared} differ\n{}", differences.len(), differences.join("\n\n"));
    assert!(refused > 0 && refused < compared, "{refused} of {compared}");
}
