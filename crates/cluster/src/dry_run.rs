//! Compares objects with a cluster: existing objects, unknown kinds, and objects that the cluster would reject.
//!
//! The cluster is not changed: objects are read and sent as dry runs.

use std::collections::BTreeMap;

use bundle::rehearse::OnCluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::context::WorkContext;
use crate::error::has_code;
use crate::request::Requests;
use crate::views::{AnyObject, Definition, DefinitionSpec, Stored, annotation, decode, label};
use crate::{Error, ResourceKind};

/// The field manager of dry runs.
const MANAGER: &str = "opm-rehearse";
/// Maximum number of custom resources to read per definition.
const RESOURCES: u32 = 500;

/// Compares objects with a cluster, one by one.
///
/// # Errors
/// Fails if the API server is unreachable until the deadline. Forbidden requests count as rejected objects.
pub async fn compare_with_cluster(context: &WorkContext<'_>, objects: &[Value]) -> Result<Vec<OnCluster>, Error> {
    let requests = context.requests();
    let mut kinds = Kinds { requests: &requests, known: BTreeMap::new() };
    let mut all = Vec::new();
    for object in objects {
        all.push(kinds.compare(object).await?);
    }
    Ok(all)
}

/// A cache of the cluster's kinds.
struct Kinds<'a> {
    requests: &'a Requests<'a>,
    known: BTreeMap<String, Vec<(ApiResource, bool)>>,
}

impl Kinds<'_> {
    /// Returns the resource of a kind, and whether it is namespaced.
    async fn find(&mut self, version: &str, kind: &str) -> Result<Option<(ApiResource, bool)>, Error> {
        if !self.known.contains_key(version) {
            let found = self.list(version).await?;
            self.known.insert(version.to_owned(), found);
        }
        let mut known = self.known.get(version).into_iter().flatten();
        Ok(known.find(|(resource, _)| resource.kind == kind).cloned())
    }

    async fn list(&self, version: &str) -> Result<Vec<(ApiResource, bool)>, Error> {
        let client = &self.requests.cluster.client;
        let what = format!("reading the kinds of {version}");
        let found = self.requests.retry(&what, |_| async {
            let listed = match version.contains('/') {
                true => client.list_api_group_resources(version).await,
                false => client.list_core_api_resources(version).await,
            };
            match listed {
                Err(error) if has_code(&error, 404) => Ok(None),
                listed => listed.map(Some),
            }
        });
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let resource = |kind: String, plural: String| ApiResource {
            group: group.to_owned(),
            version: short.to_owned(),
            api_version: version.to_owned(),
            kind,
            plural,
        };
        // The cluster may not have the group.
        let listed = found.await?.into_iter().flat_map(|list| list.resources);
        let whole = listed.filter(|one| !one.name.contains('/'));
        Ok(whole.map(|one| (resource(one.kind, one.name), one.namespaced)).collect())
    }

    async fn compare(&mut self, object: &Value) -> Result<OnCluster, Error> {
        let AnyObject { api_version, kind, metadata } = match AnyObject::of(object) {
            Ok(object) => object,
            Err(error) => return Ok(OnCluster { refused: Some(error.to_string()), ..OnCluster::default() }),
        };
        let (name, namespace) = (metadata.name(), metadata.namespace());
        let Some((resource, namespaced)) = self.find(&api_version, &kind).await? else {
            return Ok(OnCluster { unknown_kind: true, ..OnCluster::default() });
        };
        let api: Api<DynamicObject> = match namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(self.requests.cluster.client.clone(), namespace, &resource),
            false => Api::all_with(self.requests.cluster.client.clone(), &resource),
        };
        let mut compared = OnCluster::default();
        if name.is_empty() {
            return Ok(compared);
        }
        let shown = format!("{} {name}", resource.kind);
        match self.requests.retry(&format!("reading {shown}"), |_| api.get_opt(name)).await {
            Ok(there) => {
                if let Some(there) = there {
                    compared.owner = owner(&there.metadata);
                    compared.there = Some(json!(there));
                }
            }
            Err(error) if error.is_forbidden() => compared.refused = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        let mut how = PatchParams::apply(MANAGER).force();
        how.dry_run = true;
        let patch = Patch::Apply(object);
        let tried = self.requests.retry(&format!("dry run of {shown}"), |_| api.patch(name, &how, &patch)).await;
        match tried {
            Ok(_) => {}
            Err(error @ Error::Api { .. }) => compared.refused = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        if resource.kind == ResourceKind::CRD.kind
            && let Some(crd) = compared.there.clone()
        {
            compared.resources = self.resources(&decode::<Definition>(crd)?.spec).await?;
        }
        Ok(compared)
    }

    /// Returns up to 500 custom resources of a definition, in every served version.
    async fn resources(&self, crd: &DefinitionSpec) -> Result<Vec<Value>, Error> {
        let DefinitionSpec { group, names, versions } = crd;
        let mut all = Vec::new();
        for version in versions.iter().filter(|version| version.served) {
            let resource = ApiResource {
                api_version: format!("{group}/{}", version.name),
                group: group.clone(),
                version: version.name.clone(),
                kind: names.kind.clone(),
                plural: names.plural.clone(),
            };
            let api: Api<DynamicObject> = Api::all_with(self.requests.cluster.client.clone(), &resource);
            let some = ListParams::default().limit(RESOURCES);
            let what = format!("listing {}.{group}", resource.plural);
            match self.requests.retry(&what, |_| api.list(&some)).await {
                Ok(found) => {
                    let items = found.items.into_iter().map(|mut item| {
                        item.types = Some(kube::api::TypeMeta {
                            api_version: resource.api_version.clone(),
                            kind: resource.kind.clone(),
                        });
                        json!(item)
                    });
                    all.extend(items);
                }
                Err(error) if error.is_forbidden() || error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// Returns the owner of an object, for messages.
fn owner(object: &ObjectMeta) -> String {
    let label = |key: &str| label(object, key);
    if let (Some(kind), Some(name)) =
        (label("olm.operatorframework.io/owner-kind"), label("olm.operatorframework.io/owner-name"))
    {
        return format!("{kind} {name}");
    }
    if let Some(name) = label("olm.owner") {
        return format!("ClusterServiceVersion {name}");
    }
    match annotation(object, "meta.helm.sh/release-name") {
        "" => {}
        release => return format!("Helm release {release}"),
    }
    let owner = object.owner_references.as_ref().and_then(|owners| owners.first());
    owner.map_or_else(String::new, |owner| format!("{} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_names_its_owner() {
        let of = |fields: Value| owner(&AnyObject::of(&json!({"metadata": fields})).unwrap().metadata);
        let extension = json!({"labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension",
            "olm.operatorframework.io/owner-name": "foo"}});
        assert_eq!(of(extension), "ClusterExtension foo");
        assert_eq!(of(json!({"labels": {"olm.owner": "foo.v1"}})), "ClusterServiceVersion foo.v1");
        assert_eq!(of(json!({"annotations": {"meta.helm.sh/release-name": "foo"}})), "Helm release foo");
        assert_eq!(
            of(json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u"}]})),
            "Deployment d"
        );
        assert_eq!(of(json!({})), "");
    }
    #[tokio::test]
    async fn an_object_that_cannot_be_read_counts_as_rejected() {
        let cluster = crate::fake::cluster(|method, path| panic!("{method} {path}"));
        let labels = json!({"name": "a", "labels": {"replicas": 3}});
        let objects = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": labels}),
            json!({"apiVersion": 1, "kind": "ConfigMap", "metadata": {"name": "a"}}),
        ];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let context = WorkContext { cluster: &cluster, deadline, watcher: &crate::watcher::NoReports };
        let compared = compare_with_cluster(&context, &objects).await.unwrap();
        let refused: Vec<String> = compared.into_iter().map(|one| one.refused.unwrap_or_default()).collect();
        insta::assert_snapshot!(refused.join("\n"), @"
        ConfigMap a: the field metadata.labels.replicas cannot be read: invalid type: integer `3`, expected a string
        ConfigMap a: the field apiVersion cannot be read: invalid type: integer `1`, expected a string
        ");
    }
}
