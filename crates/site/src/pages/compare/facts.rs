//! The differences of two versions, in words.

use std::collections::BTreeSet;

use edit::diff::changes::{BundleChange, ChangeKind, PermissionScope, PropertyDifference};
use fbc::property;
use serde_json::Value;

use super::{ComparisonSection, DifferenceLine};
use crate::csv::text;
use crate::manifest::VersionManifest;
use crate::permissions::Permissions;
use crate::summary::{PackageSummary, VersionSummary};

/// The maximum number of lines per section.
const LINES: usize = 300;

/// A version with its manifests.
type Side<'a> = (&'a PackageSummary, &'a VersionSummary, &'a VersionManifest);

/// Compares two versions, the older one first.
pub fn differences(old: Side<'_>, new: Side<'_>) -> Vec<ComparisonSection> {
    let change = BundleChange::between(&old.2.contents(), &new.2.contents());
    let mut sections = vec![
        permissions(&change, old.2, new.2),
        properties("Kinds", &change, &[property::GVK], (false, true)),
        served(&change, old.2, new.2),
        fields(&change),
        verdicts(&change),
        images(&change, old.1, new.1),
        properties("Dependencies", &change, &NEEDS, (true, false)),
        set("Install modes", modes(old.2), modes(new.2), false, true),
        single("Kubernetes", &old.1.kube, &new.1.kube, true),
        set("Upgrade edges", edges(old), edges(new), false, false),
        set("Annotations", annotations(old.2), annotations(new.2), false, false),
        others(&change),
    ];
    for section in &mut sections {
        section.lines.sort_by_key(|line| (!line.notable, line.what));
    }
    // A text keeps its order.
    sections.push(description(old.2, new.2));
    for section in &mut sections {
        if section.lines.len() > LINES {
            let more = section.lines.len() - LINES;
            section.lines.truncate(LINES);
            section.lines.push(DifferenceLine {
                what: ChangeKind::Changed,
                notable: false,
                text: format!("and {more} more"),
            });
        }
    }
    sections
}

/// Returns the permissions that only the newer of two versions has; `None` if they are unknown.
pub fn gained(old: Side<'_>, new: Side<'_>) -> Option<Vec<String>> {
    let change = BundleChange::between(&old.2.contents(), &new.2.contents());
    let section = permissions(&change, old.2, new.2);
    let added = section.lines.into_iter().filter(|line| line.what == ChangeKind::Added);
    section.unknown.is_none().then(|| added.map(|line| line.text).collect())
}

/// The types of properties that declare requirements.
const NEEDS: [&str; 4] = [property::PACKAGE_REQUIRED, property::GVK_REQUIRED, "olm.constraint", "olm.label.required"];

/// Describes a property in words, if it has a description.
fn worded(property: &PropertyDifference) -> String {
    let value: Value = serde_json::from_str(&property.value).unwrap_or_default();
    let part = |name: &str| text(&value[name]);
    match property.kind.as_str() {
        property::GVK | property::GVK_REQUIRED => format!("{} {}/{}", part("kind"), part("group"), part("version")),
        property::PACKAGE_REQUIRED => format!("package {} {}", part("packageName"), part("versionRange")),
        kind => format!("{kind} {}", property.value),
    }
}

fn properties(
    title: &'static str,
    change: &BundleChange,
    kinds: &[&str],
    (added, removed): (bool, bool),
) -> ComparisonSection {
    let mut lines = Vec::new();
    for (what, notable, list) in [
        (ChangeKind::Added, added, &change.properties.added),
        (ChangeKind::Removed, removed, &change.properties.removed),
    ] {
        let of_kind = list.iter().filter(|property| kinds.contains(&property.kind.as_str()));
        lines.extend(of_kind.map(|property| DifferenceLine { what, notable, text: worded(property) }));
    }
    ComparisonSection { title, lines, unknown: None }
}

/// Properties that no other section covers.
fn others(change: &BundleChange) -> ComparisonSection {
    let known = |kind: &str| kind == property::GVK || NEEDS.contains(&kind);
    let all = change.properties.added.iter().chain(&change.properties.removed);
    let kinds: BTreeSet<&str> = all.map(|property| property.kind.as_str()).filter(|kind| !known(kind)).collect();
    properties("Properties", change, &kinds.into_iter().collect::<Vec<_>>(), (false, false))
}

fn set(
    title: &'static str,
    old: BTreeSet<String>,
    new: BTreeSet<String>,
    added: bool,
    removed: bool,
) -> ComparisonSection {
    let mut lines: Vec<DifferenceLine> = Vec::new();
    lines.extend(new.difference(&old).map(|one| DifferenceLine {
        what: ChangeKind::Added,
        notable: added,
        text: one.clone(),
    }));
    lines.extend(old.difference(&new).map(|one| DifferenceLine {
        what: ChangeKind::Removed,
        notable: removed,
        text: one.clone(),
    }));
    ComparisonSection { title, lines, unknown: None }
}

fn single(title: &'static str, old: &str, new: &str, notable: bool) -> ComparisonSection {
    let lines = match old == new {
        true => Vec::new(),
        false => vec![DifferenceLine {
            what: ChangeKind::Changed,
            notable,
            text: format!("from {} to {}", or_nothing(old), or_nothing(new)),
        }],
    };
    ComparisonSection { title, lines, unknown: None }
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

fn permissions(change: &BundleChange, old: &VersionManifest, new: &VersionManifest) -> ComparisonSection {
    let title = "Permissions";
    let Some(grown) = Permissions::grown(old, new) else {
        let unknown = Some("the catalog does not carry the manifests of both versions.");
        return ComparisonSection { title, lines: Vec::new(), unknown };
    };
    let mut lines = Vec::new();
    for permission in &change.permissions {
        let scope = match permission.scope {
            PermissionScope::Cluster => "cluster",
            PermissionScope::Namespace => "namespace",
        };
        for (what, verbs) in
            [(ChangeKind::Added, &permission.verbs.added), (ChangeKind::Removed, &permission.verbs.removed)]
        {
            if !verbs.is_empty() {
                let (verbs, resource) = (verbs.join(", "), &permission.resource);
                let text = format!("{scope}: {verbs} {resource} ({})", permission.service_account);
                lines.push(DifferenceLine { what, notable: what == ChangeKind::Added, text });
            }
        }
    }
    lines.extend(grown.into_iter().map(|text| DifferenceLine { what: ChangeKind::Added, notable: true, text }));
    ComparisonSection { title, lines, unknown: None }
}

/// Versions of kinds that were added, or are no longer served.
fn served(change: &BundleChange, old: &VersionManifest, new: &VersionManifest) -> ComparisonSection {
    let mut lines = Vec::new();
    for crd in &change.crds {
        let (name, versions) = (&crd.name, &crd.versions);
        let of = |what, notable, list: &[String], other: &[String]| -> Vec<DifferenceLine> {
            let only = list.iter().filter(|version| !other.contains(version));
            only.map(|version| DifferenceLine { what, notable, text: format!("{name} serves {version}") }).collect()
        };
        lines.extend(of(ChangeKind::Added, false, &versions.new, &versions.old));
        lines.extend(of(ChangeKind::Removed, true, &versions.old, &versions.new));
        if let Some(stored) = &crd.stored {
            let [old, new] = [&stored.old, &stored.new].map(|version| version.as_deref().unwrap_or("nothing"));
            let text = format!("{name} is stored as {new} instead of {old}");
            lines.push(DifferenceLine { what: ChangeKind::Changed, notable: false, text });
        }
    }
    let known = |manifest: &VersionManifest| manifest.facts.crds.is_some() || manifest.facts.owned.is_some();
    let unknown = (!known(old) || !known(new)).then_some("the catalog does not carry the definitions.");
    ComparisonSection { title: "CRD versions", lines, unknown }
}

fn fields(change: &BundleChange) -> ComparisonSection {
    let line = |field: &edit::diff::changes::FieldDifference| {
        let name = format!("{} {}", field.crd, field.path);
        let text = match field.what {
            ChangeKind::Added => format!("{name} ({})", field.detail),
            ChangeKind::Removed => name,
            ChangeKind::Changed => format!("{name} {}", field.detail),
        };
        DifferenceLine { what: field.what, notable: field.narrows, text }
    };
    ComparisonSection { title: "CRD fields", lines: change.fields.iter().map(line).collect(), unknown: None }
}

/// The verdicts on changed CRDs.
fn verdicts(change: &BundleChange) -> ComparisonSection {
    let line = |change: &bundle::review::crd::CrdDifference| DifferenceLine {
        what: ChangeKind::Changed,
        notable: change.blocks || change.meaning.is_some(),
        text: match change.blocks {
            true => format!("OLM v1 refuses the upgrade: {}", change.olm_message()),
            false => format!("{} {}: {}", change.crd, change.rule, change.words),
        },
    };
    ComparisonSection { title: "CRD upgrade", lines: change.crd_verdicts.iter().map(line).collect(), unknown: None }
}

fn images(change: &BundleChange, old: &VersionSummary, new: &VersionSummary) -> ComparisonSection {
    let mut lines = single("", &old.image, &new.image, false).lines;
    for (what, list) in
        [(ChangeKind::Added, &change.related_images.added), (ChangeKind::Removed, &change.related_images.removed)]
    {
        for image in list {
            let name = if image.name.is_empty() { String::new() } else { format!("{}: ", image.name) };
            lines.push(DifferenceLine { what, notable: false, text: format!("{name}{}", image.image) });
        }
    }
    ComparisonSection { title: "Images", lines, unknown: None }
}

fn modes(manifest: &VersionManifest) -> BTreeSet<String> {
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

fn annotations(manifest: &VersionManifest) -> BTreeSet<String> {
    let long = |name: &str| name == "alm-examples" || name == "createdAt" || name.contains("initialization-resource");
    let all = manifest.csv.annotations.iter().filter(|(name, _)| !long(name));
    all.map(|(name, value)| format!("{name}: {}", crate::text::summary(value, 200))).collect()
}

/// Lines of the description that were added or removed.
fn description(old: &VersionManifest, new: &VersionManifest) -> ComparisonSection {
    let text = |manifest: &VersionManifest| match manifest.csv.description.as_str() {
        long if long.len() > crate::markdown::LONGEST => String::new(),
        text => text.to_owned(),
    };
    let (old, new) = (text(old), text(new));
    let differing = super::lines::differing(&old, &new).into_iter();
    let lines = differing.map(|(what, line)| DifferenceLine { what, notable: false, text: line.to_owned() }).collect();
    ComparisonSection { title: super::TEXT, lines, unknown: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bundle::ParsedBundle;
    use serde_json::json;

    fn manifest(rules: Value, crd: Value) -> VersionManifest {
        let csv = json!({"kind": "ClusterServiceVersion",
            "spec": {"install": {"spec": {"clusterPermissions": [{"serviceAccountName": "a", "rules": rules}]}}}});
        let facts = bundle::review::facts::BundleFacts::of([&csv, &crd], None);
        VersionManifest { objects: ParsedBundle::of_values([csv, crd]), facts, ..VersionManifest::default() }
    }

    fn crd(served: bool, required: Value, kind: &str) -> Value {
        json!({"kind": "CustomResourceDefinition", "metadata": {"name": "things.x"}, "spec": {"names": {"kind": "Thing"}, "versions": [
            {"name": "v1", "served": served, "schema": {"openAPIV3Schema": {"properties": {"spec": {
                "required": required, "properties": {"a": {"type": kind}, "mode": {"type": "string", "enum": ["x", "y"]}}}}}}}]}})
    }

    #[test]
    fn additional_requirements_and_removals_are_notable() {
        let old = manifest(
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
            crd(true, json!([]), "string"),
        );
        let rules = json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]}]);
        let new = manifest(rules.clone(), crd(true, json!(["a"]), "integer"));
        let (package, bundle) = (PackageSummary::default(), VersionSummary::default());
        let notable = |new: &VersionManifest, title: &str| -> Vec<String> {
            let sections = differences((&package, &bundle, &old), (&package, &bundle, new));
            let section = sections.iter().find(|section| section.title == title).unwrap();
            section.lines.iter().filter(|line| line.notable).map(|line| line.text.clone()).collect()
        };
        assert_eq!(notable(&new, "Permissions").len(), 2);
        assert!(notable(&new, "Permissions").contains(&"cluster: get secrets (a)".to_owned()));
        assert_eq!(
            notable(&new, "CRD fields"),
            ["things.x v1.spec.a is integer instead of string", "things.x v1.spec.a is required now"]
        );
        // No client uses the fields of a version that is not served: that it is gone is what they notice.
        let unserved = manifest(rules, crd(false, json!(["a"]), "integer"));
        assert_eq!(notable(&unserved, "CRD versions"), ["things.x serves v1"]);
        assert_eq!(notable(&unserved, "CRD fields"), [""; 0]);
        let upgrade = notable(&new, "CRD upgrade");
        assert!(
            upgrade.contains(
                &"OLM v1 refuses the upgrade: validating upgrade for CRD \"things.x\": v1: ^.spec.a: type: type changed : \
                  \"string\" -> \"integer\""
                    .to_owned()
            ),
            "{upgrade:?}"
        );
        let same = differences((&package, &bundle, &old), (&package, &bundle, &old));
        assert!(same.iter().all(|section| section.lines.is_empty()));
    }
}
