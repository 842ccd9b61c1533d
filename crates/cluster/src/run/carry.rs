//! Uploads a catalog to the cluster and starts a pod that serves it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::ListParams;

use super::bundle::Serving;
use super::names::{self, RUN_LABEL};
use super::pod::{self, CatalogPodContent, KEY, config_map_name};
use super::{objects, wait};
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::views::{CatalogSource, ConfigMap, View, is_owned, label};
use crate::{Error, ResourceKind};

/// Creates the objects that serve a catalog, and waits until the pod runs; returns the pod and its address.
pub(crate) async fn serve(
    requests: &Requests<'_>,
    ledger: &Ledger,
    source: &CatalogSource,
    serving: &Serving,
) -> Result<(ObjectName, String), Error> {
    let named = source.object_name();
    if let CatalogPodContent::ConfigMaps { parts, .. } = &serving.content {
        config_maps(requests, ledger, source, parts).await?;
    }
    let mut pod = ObjectName::new(ResourceKind::POD, &named.namespace, &names::pod(&serving.bundle_image));
    if requests.metadata(&pod).await?.is_some() {
        // The same name means the same image reference, which may have been pushed again.
        let name = format!("{}-{}", pod.name, &ledger.run()[..6]);
        pod.name = names::trim63(&name).to_owned();
    }
    let description =
        pod::pod(&pod.namespace, &named.name, &pod.name, &serving.items, &serving.content, &serving.settings);
    let created = ledger.create(requests, ResourceKind::POD, description, Some(&source.owner_reference())).await;
    created.map_err(|error| Error::refused(format!("error creating pod: {error}")))?;
    let ip = wait::for_pod(requests, &pod).await?;
    requests.watcher.done(&format!("Created registry pod: {}", pod.name));
    Ok((pod, ip))
}

async fn config_maps(
    requests: &Requests<'_>,
    ledger: &Ledger,
    source: &CatalogSource,
    parts: &[Vec<u8>],
) -> Result<(), Error> {
    let (named, owner) = (source.object_name(), source.owner_reference());
    for (index, part) in parts.iter().enumerate() {
        let map = objects::config_map(&named.namespace, &config_map_name(&named.name, index + 1), part);
        let name = ObjectName::of(ResourceKind::CONFIG_MAP, &map)?;
        requests.watcher.state("ConfigMaps", &format!("{} of {}", index + 1, parts.len()));
        match ledger.create(requests, ResourceKind::CONFIG_MAP, map, Some(&owner)).await {
            Ok(_) => {}
            Err(Error::Exists { .. }) => {
                let content = objects::base64(part);
                ledger.change(requests, &name, |there| fill(there, &content, &owner)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    for stale in stale(requests, source, parts.len()).await? {
        if let Some(before) = requests.get(&stale).await? {
            ledger.delete(requests, &stale, before).await?;
        }
    }
    requests.watcher.state("ConfigMaps", "");
    Ok(())
}

/// Updates an existing ConfigMap with new content.
fn fill(there: &mut ConfigMap, content: &str, owner: &OwnerReference) {
    there.data.clear();
    there.binary_data = BTreeMap::from([(KEY.to_owned(), content.to_owned())]);
    // Without an owner, the garbage collector would remove it.
    if !is_owned(&there.metadata, Some(&owner.uid)) {
        there.metadata.owner_references = Some(vec![owner.clone()]);
    }
}

/// Returns the ConfigMaps of an earlier, larger catalog of this CatalogSource.
async fn stale(requests: &Requests<'_>, source: &CatalogSource, count: usize) -> Result<Vec<ObjectName>, Error> {
    let named = source.object_name();
    let prefix = names::config_map_prefix(&named.name);
    let maps = requests.list_metadata(ResourceKind::CONFIG_MAP, &named.namespace, &ListParams::default()).await?;
    let is_stale = |map: &&ObjectMeta| {
        let number = map.name.as_deref().and_then(|name| name.strip_prefix(&prefix)?.parse::<usize>().ok());
        let ours = label(map, RUN_LABEL).is_some() || is_owned(map, source.metadata.uid.as_deref());
        ours && number.is_some_and(|number| number > count)
    };
    let stale = maps.iter().filter(is_stale).map(|map| ObjectName::named(ResourceKind::CONFIG_MAP, map));
    Ok(stale.map(|map| ObjectName { namespace: named.namespace.clone(), ..map }).collect())
}

/// Deletes the pods and ConfigMaps of a CatalogSource, as a garbage collector would.
pub(crate) async fn clear(requests: &Requests<'_>, source: &CatalogSource) -> Result<(), Error> {
    let named = source.object_name();
    for kind in [ResourceKind::POD, ResourceKind::CONFIG_MAP] {
        for object in requests.list_metadata(kind, &named.namespace, &ListParams::default()).await? {
            if is_owned(&object, source.metadata.uid.as_deref()) {
                let name = ObjectName { namespace: named.namespace.clone(), ..ObjectName::named(kind, &object) };
                if requests.delete(&name, object.uid.as_deref()).await? {
                    requests.watcher.done(&deleted(&name));
                }
                requests.wait_until_gone(&name, object.uid.as_deref()).await?;
            }
        }
    }
    Ok(())
}

/// Returns the message for a deleted object.
pub(crate) fn deleted(object: &ObjectName) -> String {
    format!("{} \"{}\" deleted", object.kind.kind.to_lowercase(), object.name)
}
