//! `opm crd-diff` compared with operator-controller: changes of CRDs, and whether it refuses an upgrade.

use serde_json::{Value, json};
use testkit::published::BUNDLES;

use crate::crd_cases::{Case, compared};
use crate::stage_v1::StageV1;

/// The variable with the number of changes to try.
const ROUNDS: &str = "OPM_CRD_CHANGES";
/// Fits into a full test run.
const DEFAULT: usize = 6;
/// The variable that enables published bundles, starting with this pair of versions; they take many minutes.
const PUBLISHED: &str = "OPM_CRD_PUBLISHED";

/// A change of one field: its description, the old and the new schema.
type Change = (&'static str, Value, Value);

/// Returns changes of every kind, with and without a rule in OLM v1.
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
    // The same changes below a list, a map and another field.
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

fn case(stage: &StageV1, number: usize, change: &Change) -> Case {
    let package = format!("c{number}");
    let operator = stage.stage.operator(&package, "1.0.0");
    let crds = [&change.1, &change.2].map(|schema| {
        let mut crd = operator.crd();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"field": schema}}},
        });
        vec![crd]
    });
    Case { package, what: format!("{}: {} -> {}", change.0, change.1, change.2), crds }
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_of_crds_are_refused_as_crd_diff_predicts() {
    let Some(stage) = StageV1::shared().await else { return };
    let all = changes();
    let count = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT).min(all.len());
    // A few evenly spaced changes, or all.
    let step = all.len() / count.max(1);
    let some = all.iter().step_by(step).take(count).enumerate();
    let cases: Vec<Case> = some.map(|(at, change)| case(&stage, at, change)).collect();
    let found = compared(&stage, &cases).await;
    assert!(found.differences.is_empty(), "{found}");
    assert!(found.refused > 0 && found.refused < found.compared, "{found}");
}

/// Returns the CRDs of a bundle, as OLM v1 parses them.
fn crds_of(directory: &std::path::Path) -> Vec<Value> {
    let whole = bundle::read_whole(directory, &fbc::Limits::default()).expect("a bundle");
    let crds = whole.of_kind("CustomResourceDefinition").map(|crd| crd.value.clone());
    crds.filter(|crd| crd["apiVersion"] == "apiextensions.k8s.io/v1").collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "the counts are reported")]
async fn upgrades_of_published_operators_are_refused_as_crd_diff_predicts() {
    let Some(first) = std::env::var(PUBLISHED).ok() else { return };
    let first: usize = first.parse().expect("the number of a pair, from 1");
    let Some(stage) = StageV1::shared().await else { return };
    let Some(unpacked) = BUNDLES.unpack() else { return };
    let inside = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
        let mut all: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        all.sort();
        all
    };
    let mut cases = Vec::new();
    for operator in inside(&unpacked.path().join("operators")) {
        let mut versions = inside(&operator);
        versions.sort_by_key(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let parsed = fbc::version::Version::parse_tolerant(&name).ok();
            (parsed.map(|version| (version.major(), version.minor(), version.patch())), name)
        });
        for pair in versions.windows(2) {
            let crds = [crds_of(&pair[0]), crds_of(&pair[1])];
            if !crds[0].is_empty() && !crds[1].is_empty() {
                let what = format!("{} -> {}", pair[0].display(), pair[1].display());
                cases.push(Case { package: format!("q{}", cases.len()), what, crds });
            }
        }
    }
    cases.drain(..first.saturating_sub(1).min(cases.len()));
    let found = compared(&stage, &cases).await;
    eprintln!("{found}");
    assert!(found.differences.is_empty(), "{found}");
}
