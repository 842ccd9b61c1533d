//! What of two versions differs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Change, Line, Section};
use crate::csv::{items, text};
use crate::manifest::Manifest;
use crate::permissions::Permissions;
use crate::shelf::{Bundle, Package};

/// The most lines of one part.
const LINES: usize = 300;
/// How deep fields of schemas are compared.
const DEEPEST: usize = 12;

/// A version with what is known of it.
type Side<'a> = (&'a Package, &'a Bundle, &'a Manifest);

/// Compares two versions, the older one first.
pub fn differences(old: Side<'_>, new: Side<'_>) -> Vec<Section> {
    let mut sections = vec![
        permissions(old.2, new.2),
        kinds(old.1, new.1),
        served(old.2, new.2),
        fields(old.2, new.2),
        set("Images", images(old), images(new), false, false),
        set("Dependencies", needs(old.1), needs(new.1), true, false),
        set("Install modes", modes(old.2), modes(new.2), false, true),
        single("Kubernetes", &old.1.kube, &new.1.kube, true),
        set("Upgrade edges", edges(old), edges(new), false, false),
        set("Annotations", annotations(old.2), annotations(new.2), false, false),
        description(old.2, new.2),
    ];
    for section in &mut sections {
        section.lines.sort_by_key(|line| (!line.notable, line.change));
        if section.lines.len() > LINES {
            let more = section.lines.len() - LINES;
            section.lines.truncate(LINES);
            section.lines.push(Line { change: Change::Changed, notable: false, text: format!("and {more} more") });
        }
    }
    sections
}

fn set(title: &'static str, old: BTreeSet<String>, new: BTreeSet<String>, added: bool, removed: bool) -> Section {
    let mut lines: Vec<Line> = Vec::new();
    lines.extend(new.difference(&old).map(|one| Line { change: Change::Added, notable: added, text: one.clone() }));
    lines.extend(old.difference(&new).map(|one| Line { change: Change::Removed, notable: removed, text: one.clone() }));
    Section { title, lines, unknown: None }
}

fn single(title: &'static str, old: &str, new: &str, notable: bool) -> Section {
    let lines = match old == new {
        true => Vec::new(),
        false => vec![Line { change: Change::Changed, notable, text: format!("from {} to {}", said(old), said(new)) }],
    };
    Section { title, lines, unknown: None }
}

fn said(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// Every single right, so that moving it between rules is no change.
fn rights(permissions: &Permissions) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in &permissions.rules {
        let scope = if rule.cluster { "cluster" } else { "namespace" };
        let names = if rule.names.is_empty() { String::new() } else { format!(" named {}", rule.names.join(", ")) };
        for verb in &rule.verbs {
            for resource in &rule.resources {
                for group in &rule.groups {
                    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
                    all.insert(format!("{scope}: {verb} {resource}{group}{names} ({})", rule.account));
                }
            }
            all.extend(rule.urls.iter().map(|url| format!("{scope}: {verb} {url} ({})", rule.account)));
        }
    }
    all
}

fn permissions(old: &Manifest, new: &Manifest) -> Section {
    let title = "Permissions";
    match (Permissions::of(old), Permissions::of(new)) {
        (Some(old), Some(new)) => {
            let mut section = set(title, rights(&old), rights(&new), true, false);
            for flag in new.flags.iter().filter(|flag| !old.flags.contains(flag)) {
                section.lines.push(Line { change: Change::Added, notable: true, text: flag.sentence().to_owned() });
            }
            section
        }
        _ => Section {
            title,
            lines: Vec::new(),
            unknown: Some("the catalog does not carry the manifests of both versions."),
        },
    }
}

fn kinds(old: &Bundle, new: &Bundle) -> Section {
    let of = |bundle: &Bundle| -> BTreeSet<String> {
        let values = bundle.values(fbc::property::GVK);
        values
            .iter()
            .map(|gvk| format!("{} {}/{}", text(&gvk["kind"]), text(&gvk["group"]), text(&gvk["version"])))
            .collect()
    };
    set("Kinds", of(old), of(new), false, true)
}

/// Versions of kinds that are no longer served.
fn served(old: &Manifest, new: &Manifest) -> Section {
    let of = |manifest: &Manifest| -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for crd in &manifest.crds {
            let name = text(&crd["metadata"]["name"]);
            for version in items(&crd["spec"]["versions"]).iter().filter(|version| version["served"] != false) {
                all.insert(format!("{name} serves {}", text(&version["name"])));
            }
            for version in items(&crd["spec"]["versions"]).iter().filter(|version| version["storage"] == true) {
                all.insert(format!("{name} is stored as {}", text(&version["name"])));
            }
        }
        all
    };
    let mut section = set("CRD versions", of(old), of(new), false, true);
    section.unknown =
        (old.crds.is_empty() && new.crds.is_empty()).then_some("the catalog does not carry the definitions.");
    section
}

/// A field of a schema, as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    kind: String,
    required: bool,
    values: BTreeSet<String>,
}

fn fields(old: &Manifest, new: &Manifest) -> Section {
    let of = |manifest: &Manifest| -> BTreeMap<String, Field> {
        let mut all = BTreeMap::new();
        for crd in &manifest.crds {
            let kind = text(&crd["spec"]["names"]["kind"]);
            for version in items(&crd["spec"]["versions"]) {
                let start = format!("{kind} {}", text(&version["name"]));
                collect(&version["schema"]["openAPIV3Schema"], &start, 0, &mut all);
            }
        }
        all
    };
    let (old, new) = (of(old), of(new));
    let mut lines = Vec::new();
    for (path, field) in &new {
        match old.get(path) {
            None if old.is_empty() => {}
            None => {
                let required = if field.required { ", required" } else { "" };
                lines.push(Line {
                    change: Change::Added,
                    notable: field.required,
                    text: format!("{path} ({}{required})", field.kind),
                });
            }
            Some(before) => {
                if before.kind != field.kind {
                    let text = format!("{path} is {} instead of {}", field.kind, before.kind);
                    lines.push(Line { change: Change::Changed, notable: true, text });
                }
                if field.required && !before.required {
                    lines.push(Line {
                        change: Change::Changed,
                        notable: true,
                        text: format!("{path} is required now"),
                    });
                }
                let gone: Vec<&str> = before.values.difference(&field.values).map(String::as_str).collect();
                if !field.values.is_empty() && (!gone.is_empty() || before.values.is_empty()) {
                    let text = match gone.as_slice() {
                        [] => format!("{path} allows only some values now"),
                        gone => format!("{path} no longer allows {}", gone.join(", ")),
                    };
                    lines.push(Line { change: Change::Changed, notable: true, text });
                }
            }
        }
    }
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        // A field below one that is gone is gone with it.
        let parent = path.rsplit_once('.').map(|(parent, _)| parent);
        if new.is_empty() || parent.is_some_and(|parent| old.contains_key(parent) && !new.contains_key(parent)) {
            continue;
        }
        lines.push(Line { change: Change::Removed, notable: true, text: path.clone() });
    }
    Section { title: "CRD fields", lines, unknown: None }
}

fn collect(schema: &Value, path: &str, depth: usize, all: &mut BTreeMap<String, Field>) {
    if depth > DEEPEST || all.len() > 20_000 {
        return;
    }
    let members = schema["properties"].as_object().or_else(|| schema["items"]["properties"].as_object());
    let required =
        items(if schema["properties"].is_object() { &schema["required"] } else { &schema["items"]["required"] });
    for (name, field) in members.into_iter().flatten() {
        if depth == 0 && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let path = format!("{path}.{name}");
        let values =
            items(&field["enum"]).iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let kind = match (field["type"].as_str(), field["items"]["type"].as_str()) {
            (Some("array"), Some(inner)) => format!("list of {inner}"),
            (kind, _) => kind.unwrap_or("anything").to_owned(),
        };
        let found = Field { kind, required: required.iter().any(|one| one == name.as_str()), values: values.collect() };
        all.insert(path.clone(), found);
        collect(field, &path, depth + 1, all);
    }
}

fn images((package, bundle, _): Side<'_>) -> BTreeSet<String> {
    bundle.images.iter().filter_map(|(place, _)| package.detail.images.get(*place as usize).cloned()).collect()
}

fn needs(bundle: &Bundle) -> BTreeSet<String> {
    crate::pages::package::needs(bundle).into_iter().map(|(words, _)| words).collect()
}

fn modes(manifest: &Manifest) -> BTreeSet<String> {
    manifest.csv.supported_modes().into_iter().map(str::to_owned).collect()
}

fn edges((package, bundle, _): Side<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for channel in &package.detail.channels {
        for entry in channel.entries.iter().filter(|entry| entry.name == bundle.name) {
            if !entry.replaces.is_empty() {
                all.insert(format!("{}: replaces {}", channel.name, entry.replaces));
            }
            all.extend(entry.skips.iter().map(|skip| format!("{}: skips {skip}", channel.name)));
            if !entry.skip_range.is_empty() {
                all.insert(format!("{}: skipRange {}", channel.name, entry.skip_range));
            }
        }
    }
    all
}

fn annotations(manifest: &Manifest) -> BTreeSet<String> {
    let long = |name: &str| name == "alm-examples" || name == "createdAt" || name.contains("initialization-resource");
    let all = manifest.csv.annotations.iter().filter(|(name, _)| !long(name));
    all.map(|(name, value)| format!("{name}: {}", crate::text::summary(value, 200))).collect()
}

/// Lines of the description that came or went.
fn description(old: &Manifest, new: &Manifest) -> Section {
    let lines = |manifest: &Manifest| -> BTreeSet<String> {
        let text = &manifest.csv.description;
        if text.len() > crate::markdown::LONGEST {
            return BTreeSet::new();
        }
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    set("Description", lines(old), lines(new), false, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(rules: Value, crd: Value) -> Manifest {
        Manifest {
            whole: Some(
                json!({"spec": {"install": {"spec": {"clusterPermissions": [{"serviceAccountName": "a", "rules": rules}]}}}}),
            ),
            crds: vec![crd],
            ..Manifest::default()
        }
    }

    fn crd(served: bool, required: Value, kind: &str) -> Value {
        json!({"metadata": {"name": "things.x"}, "spec": {"names": {"kind": "Thing"}, "versions": [
            {"name": "v1", "served": served, "schema": {"openAPIV3Schema": {"properties": {"spec": {
                "required": required, "properties": {"a": {"type": kind}, "mode": {"type": "string", "enum": ["x", "y"]}}}}}}}]}})
    }

    #[test]
    fn what_asks_for_more_or_takes_away_is_notable() {
        let old = manifest(
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
            crd(true, json!([]), "string"),
        );
        let new = manifest(
            json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]}]),
            crd(false, json!(["a"]), "integer"),
        );
        let (package, bundle) = (Package::default(), Bundle::default());
        let sections = differences((&package, &bundle, &old), (&package, &bundle, &new));
        let told = |title: &str| -> Vec<String> {
            let section = sections.iter().find(|section| section.title == title).unwrap();
            section.lines.iter().filter(|line| line.notable).map(|line| line.text.clone()).collect()
        };
        assert_eq!(told("Permissions").len(), 2);
        assert!(told("Permissions").contains(&"cluster: get secrets (a)".to_owned()));
        assert_eq!(told("CRD versions"), ["things.x serves v1"]);
        assert_eq!(
            told("CRD fields"),
            ["Thing v1.spec.a is integer instead of string", "Thing v1.spec.a is required now"]
        );
        let same = differences((&package, &bundle, &old), (&package, &bundle, &old));
        assert!(same.iter().all(|section| section.lines.is_empty()));
    }
}
