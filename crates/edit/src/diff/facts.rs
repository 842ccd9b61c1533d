//! What a bundle asks of a cluster and brings to it, by its manifests.

use std::collections::{BTreeMap, BTreeSet};

use fbc::json::Raw;
use fbc::{Blob, Content, Fbc, Limits, property};
use serde::Serialize;

/// A rule that spans more groups and resources than this is not taken apart.
const MOST_RESOURCES_OF_A_RULE: usize = 1024;

/// Where a permission holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespaces that the operator is for.
    Namespace,
}

/// Who may do something, and with what.
pub(super) type Grant = (Scope, String, String);

/// Versions by the names of CRDs.
pub(super) type Crds = BTreeMap<String, BTreeSet<String>>;

/// What the manifests of a bundle hold. What is nothing is not known.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The verbs of each grant.
    pub(super) permissions: Option<BTreeMap<Grant, BTreeSet<String>>>,
    /// The versions that its CRDs serve.
    pub(super) served: Option<Crds>,
    /// The versions of CRDs that it says it owns.
    pub(super) owned: Option<Crds>,
}

impl Facts {
    /// Reads the manifests of a bundle, or what stands for them; `text` is what [`Fbc::text`] gave for `blob`.
    pub(super) fn of(fbc: &Fbc, blob: &Blob, text: Raw<'_>, limits: &Limits) -> Facts {
        let mut facts = Facts::default();
        let Content::Bundle(bundle) = &blob.content else { return facts };
        if bundle.objects > 0 {
            facts.served = Some(Crds::new());
            for object in fbc.objects(blob, text, limits) {
                if let Ok(object) = Raw::parse(&object, limits.depth) {
                    facts.read_object(object);
                }
            }
        }
        if facts.owned.is_none() {
            let metadata = property::of(text).find(|(kind, _)| kind == property::CSV_METADATA);
            let metadata = metadata.and_then(|(_, value)| value);
            facts.owned = metadata.map(|metadata| owned(metadata.get("crdDescriptions")));
        }
        facts
    }

    fn read_object(&mut self, object: Raw<'_>) {
        match &*text(object, "kind") {
            "ClusterServiceVersion" if self.permissions.is_none() => {
                let spec = object.get("spec");
                self.owned = Some(owned(spec.and_then(|spec| spec.get("customresourcedefinitions"))));
                let install = spec.and_then(|spec| spec.get("install")?.get("spec"));
                let mut permissions = BTreeMap::new();
                for (scope, name) in [(Scope::Cluster, "clusterPermissions"), (Scope::Namespace, "permissions")] {
                    for account in install.into_iter().flat_map(|install| list(install, name)) {
                        let name = text(account, "serviceAccountName");
                        list(account, "rules").for_each(|rule| grant(scope, &name, rule, &mut permissions));
                    }
                }
                self.permissions = Some(permissions);
            }
            "CustomResourceDefinition" => {
                let name = object.get("metadata").map(|metadata| text(metadata, "name")).unwrap_or_default();
                let Some(spec) = object.get("spec") else { return };
                let served = list(spec, "versions")
                    .filter(|version| version.get("served").and_then(Raw::as_bool) != Some(false))
                    .map(|version| text(version, "name"));
                let mut versions: BTreeSet<String> = served.collect();
                // The first form of CRDs has one version, beside the list or in place of it.
                if versions.is_empty() {
                    versions.extend(Some(text(spec, "version")).filter(|version| !version.is_empty()));
                }
                self.served.get_or_insert_default().entry(name).or_default().extend(versions);
            }
            _ => {}
        }
    }
}

/// Adds what a rule allows.
fn grant(scope: Scope, account: &str, rule: Raw<'_>, permissions: &mut BTreeMap<Grant, BTreeSet<String>>) {
    let strings = |name| list(rule, name).filter_map(Raw::as_str).map(|text| text.into_owned()).collect::<Vec<_>>();
    let (groups, resources, names) = (strings("apiGroups"), strings("resources"), strings("resourceNames"));
    let only = if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) };
    let mut what: Vec<String> = strings("nonResourceURLs");
    if groups.len().saturating_mul(resources.len()) > MOST_RESOURCES_OF_A_RULE {
        what.push(format!("({}).({}){only}", resources.join(", "), groups.join(", ")));
    } else {
        for resource in &resources {
            what.extend(groups.iter().map(|group| match group.as_str() {
                "" => format!("{resource}{only}"),
                group => format!("{resource}.{group}{only}"),
            }));
        }
    }
    let verbs = strings("verbs");
    for what in what {
        permissions.entry((scope, account.to_owned(), what)).or_default().extend(verbs.iter().cloned());
    }
}

fn owned(descriptions: Option<Raw<'_>>) -> Crds {
    let mut crds = Crds::new();
    for crd in descriptions.into_iter().flat_map(|descriptions| list(descriptions, "owned")) {
        crds.entry(text(crd, "name")).or_default().insert(text(crd, "version"));
    }
    crds
}

fn text(value: Raw<'_>, name: &str) -> String {
    value.get(name).and_then(Raw::as_str).unwrap_or_default().into_owned()
}

fn list<'a>(value: Raw<'a>, name: &str) -> impl Iterator<Item = Raw<'a>> {
    value.get(name).into_iter().flat_map(Raw::items)
}
