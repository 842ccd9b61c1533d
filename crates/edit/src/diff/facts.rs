//! The parts of a bundle that are compared: images, properties, and the content of manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bundle::review::facts::{BundleFacts, Crd, PermissionRule};
use fbc::blob::TextBuffer;
use fbc::bundle_eq::related_images;
use fbc::json::Raw;
use fbc::{Blob, BlobContent, Fbc, Limits, property};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::changes::{ImageDifference, PropertyDifference};

/// A rule that covers more combinations of groups and resources than this is not expanded.
const MAX_RESOURCES_PER_RULE: usize = 1024;

/// The scope of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionScope {
    /// The whole cluster.
    Cluster,
    /// The namespaces that the operator watches.
    Namespace,
}

impl From<bundle::review::facts::RightScope> for PermissionScope {
    fn from(scope: bundle::review::facts::RightScope) -> PermissionScope {
        match scope {
            bundle::review::facts::RightScope::Cluster => PermissionScope::Cluster,
            bundle::review::facts::RightScope::Namespaces => PermissionScope::Namespace,
        }
    }
}

/// The scope, service account and resource of a permission.
pub(super) type Grant = (PermissionScope, String, String);

/// The parts of a bundle that are compared.
#[derive(Debug, Clone, Default)]
pub struct ComparedBundle {
    pub related_images: BTreeSet<ImageDifference>,
    /// The properties, except manifests.
    pub properties: BTreeSet<PropertyDifference>,
    /// The facts from the manifests.
    pub facts: BundleFacts,
    /// The objects and metadata, in canonical form.
    pub(super) manifests: Vec<String>,
}

impl ComparedBundle {
    /// Combines the parts of a bundle.
    pub fn new(
        related_images: BTreeSet<ImageDifference>,
        properties: BTreeSet<PropertyDifference>,
        facts: BundleFacts,
    ) -> ComparedBundle {
        ComparedBundle { related_images, properties, facts, manifests: Vec::new() }
    }

    /// Reads a bundle, including its manifests if `limits` are given.
    pub(super) fn of(fbc: &Fbc, blob: &Blob, limits: Option<&Limits>) -> io::Result<ComparedBundle> {
        let mut buffer = TextBuffer::default();
        let text = fbc.text(blob, &mut buffer)?;
        let images = related_images(text).into_iter();
        let properties = fbc.plain_properties(blob, text)?.into_iter();
        let mut contents = ComparedBundle {
            related_images: images.map(|it| ImageDifference { name: it.name, image: it.image }).collect(),
            properties: properties.map(|it| PropertyDifference { kind: it.kind, value: it.value }).collect(),
            ..ComparedBundle::default()
        };
        if let (Some(limits), BlobContent::Bundle(_)) = (limits, &blob.content) {
            contents.manifests = fbc.objects(blob, text, limits);
            let objects: Vec<Value> =
                contents.manifests.iter().filter_map(|object| serde_json::from_str(object).ok()).collect();
            let metadata: Vec<Raw<'_>> = property::of(text)
                .filter(|(kind, _)| kind == property::CSV_METADATA)
                .filter_map(|(_, value)| value)
                .collect();
            let first = metadata.first().and_then(|metadata| serde_json::from_str(metadata.text()).ok());
            contents.facts = BundleFacts::of(&objects, first.as_ref());
            contents.manifests.extend(metadata.into_iter().map(super::changes::canonical));
        }
        Ok(contents)
    }
}

/// Returns the verbs of each grant.
pub(super) fn grants(rules: &[PermissionRule]) -> BTreeMap<Grant, BTreeSet<String>> {
    let mut grants: BTreeMap<Grant, BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        let only = if rule.names.is_empty() { String::new() } else { format!(" [{}]", rule.names.join(", ")) };
        let mut what: Vec<String> = rule.urls.clone();
        if rule.groups.len().saturating_mul(rule.resources.len()) > MAX_RESOURCES_PER_RULE {
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

/// Versions by CRD name.
pub(super) type ComparedCrds = BTreeMap<String, BTreeSet<String>>;

/// Returns the served versions of CRDs.
pub(super) fn served(crds: &[Crd]) -> ComparedCrds {
    let mut all = ComparedCrds::new();
    for crd in crds {
        all.entry(crd.name.clone()).or_default().extend(crd.served.iter().cloned());
    }
    all
}
