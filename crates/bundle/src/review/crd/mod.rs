//! Decides whether CRDs can replace others: the verdict of OLM v1, and the actual effect.
//!
//! Every command and page that compares CRDs asks [`compare`], [`findings`] or [`fields`](fn@fields), so that all of them give one
//! verdict.

mod crdify;
mod fields;
mod node;
mod rules;
mod versions;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::pointer::{list, text, texts};
use crate::{BundleObject, Finding, Findings, ParsedBundle, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub use fields::{CrdFieldChange, FieldChangeKind, fields};
use versions::order;

/// A change between two CRDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdDifference {
    pub crd: String,
    /// The version, or a pair such as `v1 -> v2`; empty for the whole CRD.
    pub version: String,
    /// The path of the schema, such as `^.spec.size`; empty for the whole CRD.
    pub path: String,
    pub rule: &'static str,
    /// The message of OLM v1, or of opm if OLM does not report the change.
    pub words: String,
    /// Whether OLM v1 rejects the upgrade because of it.
    pub blocks: bool,
    /// The actual severity; `None` if it is harmless.
    pub meaning: Option<Severity>,
}

/// Rules with the names of their findings.
pub const IDS: &[(&str, &str)] = &[
    ("scope", "crd-upgrade-scope"),
    ("storedVersionRemoval", "crd-upgrade-stored-version"),
    ("existingFieldRemoval", "crd-upgrade-field-removed"),
    ("type", "crd-upgrade-type"),
    ("required", "crd-upgrade-required"),
    ("default", "crd-upgrade-default"),
    ("enum", "crd-upgrade-enum"),
    ("maximum", "crd-upgrade-maximum"),
    ("maxItems", "crd-upgrade-max-items"),
    ("maxLength", "crd-upgrade-max-length"),
    ("maxProperties", "crd-upgrade-max-properties"),
    ("minimum", "crd-upgrade-minimum"),
    ("minItems", "crd-upgrade-min-items"),
    ("minLength", "crd-upgrade-min-length"),
    ("minProperties", "crd-upgrade-min-properties"),
    ("pattern", "crd-upgrade-pattern"),
    ("nullable", "crd-upgrade-nullable"),
    ("oneOf", "crd-upgrade-one-of"),
    ("unhandled", "crd-upgrade-unhandled"),
    ("crdRemoval", "crd-upgrade-crd-removed"),
    ("servedVersionRemoval", "crd-upgrade-served-version"),
    ("storageVersion", "crd-upgrade-storage-version"),
    ("printerColumnRemoval", "crd-upgrade-printer-column"),
    ("subresourceRemoval", "crd-upgrade-subresource"),
    ("names", "crd-upgrade-names"),
    ("conversion", "crd-upgrade-conversion"),
];

impl CrdDifference {
    /// Returns the name of the finding.
    pub fn id(&self) -> &'static str {
        IDS.iter().find(|(rule, _)| *rule == self.rule).map_or("crd-upgrade-unhandled", |(_, id)| id)
    }

    /// Returns the rule that OLM v1 reports. Between two versions of an API, OLM treats a removed field as one without
    /// a type.
    pub fn olm_rule(&self) -> &'static str {
        if self.rule == "existingFieldRemoval" && self.words.starts_with("type ") { "type" } else { self.rule }
    }

    /// Returns the message of OLM v1 for the rejection.
    pub fn olm_message(&self) -> String {
        format!("validating upgrade for CRD \"{}\": {}{}: {}", self.crd, self.place(), self.olm_rule(), self.words)
    }

    fn place(&self) -> String {
        if self.version.is_empty() { String::new() } else { format!("{}: {}: ", self.version, self.path) }
    }

    /// Returns whether the change is refused under `rules`.
    pub fn is_refused(&self, rules: Rules) -> bool {
        match rules {
            Rules::Olm | Rules::ClusterV1 => self.blocks,
            // OLM v0 compares nothing else before it looks at stored custom resources.
            Rules::ClusterV0 => self.rule == "storedVersionRemoval",
            Rules::Meaning => self.meaning >= Some(Severity::Error),
        }
    }

    /// Returns the severity of the change under `rules`.
    pub fn severity(&self, rules: Rules) -> Severity {
        let meaning = self.meaning.unwrap_or(Severity::Info);
        match rules {
            _ if self.is_refused(rules) => Severity::Error,
            Rules::ClusterV0 | Rules::ClusterV1 => meaning.min(Severity::Warning),
            Rules::Olm | Rules::Meaning => meaning,
        }
    }

    /// Converts the change to a finding with both verdicts.
    pub fn finding(&self, rules: Rules) -> Finding {
        let meaning = match self.meaning {
            Some(severity) if severity >= Severity::Error => "breaks custom resources",
            Some(_) => "deserves a look",
            None => "harms nobody",
        };
        let olm = if self.blocks { "OLM v1 refuses the upgrade" } else { "OLM v1 does not look at it" };
        let words = format!("{}{}: {} ({olm}; the change {meaning})", self.place(), self.rule, self.words);
        Finding::new(self.id(), self.severity(rules), words).about(format!("{KIND} {}", self.crd))
    }

    /// Returns the JSON pointer of the change: the schema of its version, or the whole spec.
    fn pointer(&self, crd: &Value) -> String {
        // A pair `old -> new` refers to the second version.
        let version = self.version.rsplit(" -> ").next().unwrap_or_default();
        match list(crd, "/spec/versions").iter().position(|one| text(one, "/name") == version) {
            Some(at) => format!("/spec/versions/{at}/schema/openAPIV3Schema"),
            None => "/spec".into(),
        }
    }
}

/// A change in reports.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CrdDifference")]
struct DifferenceReport<'a> {
    /// The name of the finding.
    id: &'a str,
    /// The name of the CRD.
    crd: &'a str,
    /// The version, or a pair as `old -> new`; empty for a change of the whole CRD.
    version: &'a str,
    /// The field.
    path: &'a str,
    /// The rule of OLM v1.
    rule: &'a str,
    message: &'a str,
    /// Whether OLM v1 refuses the upgrade.
    blocks: bool,
    /// The message of OLM v1, if it refuses the upgrade.
    olm_says: Option<String>,
    /// What the change means for custom resources; `null` if it harms nobody.
    meaning: Option<Severity>,
}

impl<'a> From<&'a CrdDifference> for DifferenceReport<'a> {
    fn from(change: &'a CrdDifference) -> DifferenceReport<'a> {
        DifferenceReport {
            id: change.id(),
            crd: &change.crd,
            version: &change.version,
            path: &change.path,
            rule: change.rule,
            message: &change.words,
            blocks: change.blocks,
            olm_says: change.blocks.then(|| change.olm_message()),
            meaning: change.meaning,
        }
    }
}

reported_as!(CrdDifference, DifferenceReport<'_>);

/// The changes between CRDs: the report of `opm crd-diff`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CrdChanges {
    /// Whether the rules refuse none of them.
    pub passed: bool,
    pub changes: Vec<CrdDifference>,
    #[serde(skip)]
    rules: Rules,
}

impl CrdChanges {
    /// Judges changes by `rules`.
    pub fn new(changes: Vec<CrdDifference>, rules: Rules) -> CrdChanges {
        CrdChanges { passed: !changes.iter().any(|change| change.is_refused(rules)), changes, rules }
    }

    /// Returns the changes as findings.
    pub fn findings(&self) -> Findings {
        let found = self.changes.iter().map(|change| change.finding(self.rules)).collect();
        Findings { passed: self.passed, ..Findings::new(found, |_| false) }
    }

    /// Returns what crdify would report with the settings of OLM v1.
    ///
    /// Checks without findings and checks unique to opm are omitted.
    pub fn crdify(&self) -> Value {
        crdify::crdify(&self.changes)
    }
}

/// The rules that decide the severity of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// For authors: what OLM v1 refuses, and what breaks custom resources, is an error.
    Olm,
    /// For authors: only what breaks custom resources is an error.
    Meaning,
    /// For rehearsals: what OLM v0 refuses is an error, anything else at most a warning.
    ClusterV0,
    /// For rehearsals: what OLM v1 refuses is an error, anything else at most a warning.
    ClusterV1,
}

const KIND: &str = "CustomResourceDefinition";

/// Returns the messages with which OLM v1 refuses an upgrade because of its CRDs; none if it accepts them.
pub fn refusals<'a>(old: impl IntoIterator<Item = &'a Value>, new: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    compare(old, new).iter().filter(|change| change.blocks).map(CrdDifference::olm_message).collect()
}

/// Compares CRDs of the same name among the objects of an old and a new bundle.
///
/// Removed CRDs are reported too; new ones are harmless. A CSV among the objects decides which CRDs convert by webhook,
/// as OLM writes that into the CRDs that it creates.
pub fn compare<'a>(
    old: impl IntoIterator<Item = &'a Value>,
    new: impl IntoIterator<Item = &'a Value>,
) -> Vec<CrdDifference> {
    let (old, new) = (definitions(old), definitions(new));
    let mut by_name: BTreeMap<&str, &Value> = BTreeMap::new();
    for crd in &new {
        by_name.entry(text(crd, "/metadata/name")).or_insert(crd);
    }
    let mut changes = Vec::new();
    for crd in &old {
        let name = text(crd, "/metadata/name");
        match by_name.get(name) {
            Some(other) => changes.extend(compare_pair(crd, other)),
            None => changes.push(whole(
                name,
                "crdRemoval",
                "the CRD is not in the new bundle: OLM v1 deletes it with all of its resources".into(),
                false,
                Some(Severity::Error),
            )),
        }
    }
    changes
}

/// Returns the findings about the CRDs of two bundles, located in the new one.
pub(crate) fn findings(old: &ParsedBundle, new: &ParsedBundle, rules: Rules) -> Vec<Finding> {
    let by_name: BTreeMap<&str, &BundleObject> = new.of_kind(KIND).map(|crd| (crd.name(), crd)).collect();
    let changes = compare(old.values(), new.values()).into_iter();
    let found = changes.map(|change| match by_name.get(&*change.crd) {
        Some(crd) => change.finding(rules).at(&crd.file, crd.document, change.pointer(&crd.value)),
        None => change.finding(rules),
    });
    found.collect()
}

/// Returns the CRDs among objects, as OLM creates them.
fn definitions<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Vec<Cow<'a, Value>> {
    let (mut crds, mut converted) = (Vec::new(), BTreeSet::new());
    for object in objects {
        match text(object, "/kind") {
            KIND => crds.push(Cow::Borrowed(object)),
            "ClusterServiceVersion" => {
                let webhooks = list(object, "/spec/webhookdefinitions").iter();
                let conversions = webhooks.filter(|webhook| text(webhook, "/type") == "ConversionWebhook");
                converted.extend(conversions.flat_map(|webhook| texts(webhook, "/conversionCRDs")));
            }
            _ => {}
        }
    }
    for crd in &mut crds {
        if converted.contains(text(crd, "/metadata/name")) && crd["spec"].is_object() {
            crd.to_mut()["spec"]["conversion"] = json!({"strategy": "Webhook"});
        }
    }
    crds
}

fn whole(crd: &str, rule: &'static str, words: String, blocks: bool, meaning: Option<Severity>) -> CrdDifference {
    CrdDifference { crd: crd.into(), version: String::new(), path: String::new(), rule, words, blocks, meaning }
}

/// Compares two versions of a CRD.
fn compare_pair(old: &Value, new: &Value) -> Vec<CrdDifference> {
    let name = text(new, "/metadata/name");
    let mut changes = Vec::new();
    let (scope, wanted) = (text(old, "/spec/scope"), text(new, "/spec/scope"));
    if scope != wanted {
        let words = format!("scope changed : \"{scope}\" -> \"{wanted}\"");
        changes.push(whole(name, "scope", words, true, Some(Severity::Error)));
    }
    stored(old, new, name, &mut changes);
    for version in list(new, "/spec/versions") {
        let Some(before) = version_of(old, text(version, "/name")) else { continue };
        let mut found = Vec::new();
        node::compare(schema(before), schema(version), "^", &mut found);
        let served = version.get("served") == Some(&Value::Bool(true));
        for found in found {
            changes.push(found.into_change(name, text(version, "/name"), served));
        }
    }
    changes.extend(pairs(old, new, name));
    ignored_by_olm(old, new, name, &mut changes);
    changes
}

fn schema(version: &Value) -> &Value {
    version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null)
}

fn version_of<'a>(crd: &'a Value, name: &str) -> Option<&'a Value> {
    list(crd, "/spec/versions").iter().find(|version| text(version, "/name") == name)
}

/// Reports stored versions that are removed.
fn stored(old: &Value, new: &Value, name: &str, changes: &mut Vec<CrdDifference>) {
    let mut stored = texts(old, "/status/storedVersions");
    if stored.is_empty() {
        // Offline, only the storage flag of a version is known.
        let marked =
            list(old, "/spec/versions").iter().filter(|version| version.get("storage") == Some(&Value::Bool(true)));
        stored = marked.map(|version| text(version, "/name")).collect();
    }
    let gone: Vec<&str> = stored.into_iter().filter(|version| version_of(new, version).is_none()).collect();
    if !gone.is_empty() {
        let words = format!("stored versions [{}] removed", gone.join(" "));
        changes.push(whole(name, "storedVersionRemoval", words, true, Some(Severity::Error)));
    }
}

/// Compares the served versions of the new CRD with each other; changes that the old CRD has too are ignored.
fn pairs(old: &Value, new: &Value, name: &str) -> Vec<CrdDifference> {
    if text(new, "/spec/conversion/strategy") == "Webhook" {
        return Vec::new();
    }
    let known: BTreeSet<(String, String, &str, String)> =
        served_pairs(old).into_iter().map(|(pair, found)| (pair, found.path, found.rule, found.words)).collect();
    served_pairs(new)
        .into_iter()
        .filter(|(pair, found)| !known.contains(&(pair.clone(), found.path.clone(), found.rule, found.words.clone())))
        .map(|(pair, found)| found.into_change(name, &pair, true))
        .collect()
}

fn served_pairs(crd: &Value) -> Vec<(String, node::SchemaChange)> {
    let mut served: Vec<&Value> = list(crd, "/spec/versions")
        .iter()
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .collect();
    served.sort_by(|a, b| order(text(a, "/name"), text(b, "/name")));
    let mut found = Vec::new();
    for (at, older) in served.iter().enumerate() {
        for newer in &served[at + 1..] {
            let pair = format!("{} -> {}", text(older, "/name"), text(newer, "/name"));
            let mut changes = Vec::new();
            node::compare(schema(older), schema(newer), "^", &mut changes);
            found.extend(changes.into_iter().map(|change| (pair.clone(), change)));
        }
    }
    found
}

/// Reports the changes that OLM v1 ignores.
fn ignored_by_olm(old: &Value, new: &Value, name: &str, changes: &mut Vec<CrdDifference>) {
    let mut report = |rule, severity, words: String| changes.push(whole(name, rule, words, false, Some(severity)));
    for version in list(old, "/spec/versions") {
        let version_name = text(version, "/name");
        let is = |version: &Value, field: &str| version.get(field) == Some(&Value::Bool(true));
        let now = version_of(new, version_name);
        if is(version, "served") && !now.is_some_and(|now| is(now, "served")) {
            report("servedVersionRemoval", Severity::Error, format!("version {version_name} is no longer served"));
        }
        let Some(now) = now else { continue };
        if is(version, "storage") && !is(now, "storage") {
            report(
                "storageVersion",
                Severity::Warning,
                format!("version {version_name} is no longer the one that is stored"),
            );
        }
        let columns = |version: &Value| -> BTreeSet<String> {
            list(version, "/additionalPrinterColumns").iter().map(|column| text(column, "/name").to_owned()).collect()
        };
        for column in columns(version).difference(&columns(now)) {
            report(
                "printerColumnRemoval",
                Severity::Warning,
                format!("column {column} of version {version_name} is gone"),
            );
        }
        for part in ["status", "scale"] {
            let has = |version: &Value| version.pointer(&format!("/subresources/{part}")).is_some();
            if has(version) && !has(now) {
                report(
                    "subresourceRemoval",
                    Severity::Warning,
                    format!("subresource {part} of version {version_name} is gone"),
                );
            }
        }
    }
    for (field, rule) in [("plural", "names"), ("kind", "names")] {
        let pointer = format!("/spec/names/{field}");
        if text(old, &pointer) != text(new, &pointer) {
            report(
                rule,
                Severity::Error,
                format!("{field} changed: {} -> {}", text(old, &pointer), text(new, &pointer)),
            );
        }
    }
    for field in ["shortNames", "categories"] {
        let pointer = format!("/spec/names/{field}");
        let now = texts(new, &pointer);
        for gone in texts(old, &pointer).iter().filter(|name| !now.contains(name)) {
            report("names", Severity::Warning, format!("{gone} is gone from {field}"));
        }
    }
    let strategy = |crd| match text(crd, "/spec/conversion/strategy") {
        "" => "None".to_owned(),
        strategy => strategy.to_owned(),
    };
    if strategy(old) != strategy(new) {
        report("conversion", Severity::Warning, format!("conversion changed: {} -> {}", strategy(old), strategy(new)));
    }
}
