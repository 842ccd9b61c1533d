//! Formats changes as crdify does, for programs that read its JSON.

use serde_json::{Map, Value, json};

use super::CrdDifference;

/// Returns what crdify would report with the settings of OLM v1.
pub(super) fn crdify(changes: &[CrdDifference]) -> Value {
    let refused: Vec<&CrdDifference> = changes.iter().filter(|change| change.blocks).collect();
    let of = |wanted: fn(&CrdDifference) -> bool| -> Vec<&CrdDifference> {
        refused.iter().copied().filter(|change| wanted(change)).collect()
    };
    let mut out = Map::new();
    let mut put = |name: &str, list: Vec<Value>| {
        if !list.is_empty() {
            out.insert(name.into(), list.into());
        }
    };
    put("crdValidation", results(&of(|change| change.version.is_empty())));
    put("sameVersionValidation", versions(&of(|change| !change.version.is_empty() && !change.version.contains(' '))));
    put("servedVersionValidation", versions(&of(|change| change.version.contains(' '))));
    Value::Object(out)
}

/// Groups consecutive changes.
fn grouped<'a, K: PartialEq>(
    changes: &[&'a CrdDifference],
    key: impl Fn(&'a CrdDifference) -> K,
) -> Vec<(K, Vec<&'a CrdDifference>)> {
    let mut groups: Vec<(K, Vec<&'a CrdDifference>)> = Vec::new();
    for change in changes {
        let key = key(change);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(change),
            None => groups.push((key, vec![change])),
        }
    }
    groups
}

fn results(changes: &[&CrdDifference]) -> Vec<Value> {
    let groups = grouped(changes, CrdDifference::olm_rule);
    let result = |(name, group): (&str, Vec<&CrdDifference>)| {
        let errors: Vec<&str> = group.iter().map(|change| change.words.as_str()).collect();
        json!({"name": name, "errors": errors})
    };
    groups.into_iter().map(result).collect()
}

fn versions(changes: &[&CrdDifference]) -> Vec<Value> {
    let groups = grouped(changes, |change| change.version.as_str());
    let properties = |group: &[&CrdDifference]| -> Vec<Value> {
        let mut paths = grouped(group, |change| change.path.as_str());
        paths.sort_by_key(|(path, _)| *path);
        let property = |(path, group): (&str, Vec<&CrdDifference>)| json!({"property": path, "comparisonResults": results(&group)});
        paths.into_iter().map(property).collect()
    };
    let version = |(version, group): (&str, Vec<&CrdDifference>)| json!({"version": version, "propertyComparisons": properties(&group)});
    groups.into_iter().map(version).collect()
}
