//! What of a bundle is compared: its images, its properties, and what its manifests hold.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fbc::blob::TextBuffer;
use fbc::json::Raw;
use fbc::same::related_images;
use fbc::{Blob, Content, Fbc, Limits, property};
use review::facts::{Crd, Facts, Rule};
use serde::Serialize;
use serde_json::Value;

use super::changes::{Property, RelatedImage};

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

impl From<review::facts::Scope> for Scope {
    fn from(scope: review::facts::Scope) -> Scope {
        match scope {
            review::facts::Scope::Cluster => Scope::Cluster,
            review::facts::Scope::Namespaces => Scope::Namespace,
        }
    }
}

/// Who may do something, and with what.
pub(super) type Grant = (Scope, String, String);

/// What of a bundle is compared.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The images that it uses.
    pub related_images: BTreeSet<RelatedImage>,
    /// Its properties, but for manifests.
    pub properties: BTreeSet<Property>,
    /// What its manifests hold.
    pub facts: Facts,
    /// Its objects and metadata, canonical.
    pub(super) manifests: Vec<String>,
}

impl Contents {
    /// Puts together what is known of a bundle.
    pub fn new(related_images: BTreeSet<RelatedImage>, properties: BTreeSet<Property>, facts: Facts) -> Contents {
        Contents { related_images, properties, facts, manifests: Vec::new() }
    }

    /// Reads a bundle, with its manifests if there are `limits` for those.
    pub(super) fn of(fbc: &Fbc, blob: &Blob, limits: Option<&Limits>) -> io::Result<Contents> {
        let mut buffer = TextBuffer::default();
        let text = fbc.text(blob, &mut buffer)?;
        let images = related_images(text).into_iter();
        let properties = fbc.plain_properties(blob, text)?.into_iter();
        let mut contents = Contents {
            related_images: images.map(|it| RelatedImage { name: it.name, image: it.image }).collect(),
            properties: properties.map(|it| Property { kind: it.kind, value: it.value }).collect(),
            ..Contents::default()
        };
        if let (Some(limits), Content::Bundle(_)) = (limits, &blob.content) {
            contents.manifests = fbc.objects(blob, text, limits);
            let objects: Vec<Value> =
                contents.manifests.iter().filter_map(|object| serde_json::from_str(object).ok()).collect();
            let metadata: Vec<Raw<'_>> = property::of(text)
                .filter(|(kind, _)| kind == property::CSV_METADATA)
                .filter_map(|(_, value)| value)
                .collect();
            let first = metadata.first().and_then(|metadata| serde_json::from_str(metadata.text()).ok());
            contents.facts = Facts::of(&objects, first.as_ref());
            contents.manifests.extend(metadata.into_iter().map(super::changes::canonical));
        }
        Ok(contents)
    }
}

/// Returns the verbs of each grant.
pub(super) fn grants(rules: &[Rule]) -> BTreeMap<Grant, BTreeSet<String>> {
    let mut grants: BTreeMap<Grant, BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        let only = if rule.names.is_empty() { String::new() } else { format!(" [{}]", rule.names.join(", ")) };
        let mut what: Vec<String> = rule.urls.clone();
        if rule.groups.len().saturating_mul(rule.resources.len()) > MOST_RESOURCES_OF_A_RULE {
            what.push(format!("({}).({}){only}", rule.resources.join(", "), rule.groups.join(", ")));
        } else {
            for resource in &rule.resources {
                what.extend(rule.groups.iter().map(|group| match group.as_str() {
                    "" => format!("{resource}{only}"),
                    group => format!("{resource}.{group}{only}"),
                }));
            }
        }
        for what in what {
            let grant = (rule.scope.into(), rule.account.clone(), what);
            grants.entry(grant).or_default().extend(rule.verbs.iter().cloned());
        }
    }
    grants
}

/// Versions by the names of CRDs.
pub(super) type Crds = BTreeMap<String, BTreeSet<String>>;

/// Returns the versions that CRDs serve.
pub(super) fn served(crds: &[Crd]) -> Crds {
    let mut all = Crds::new();
    for crd in crds {
        all.entry(crd.name.clone()).or_default().extend(crd.served.iter().cloned());
    }
    all
}
