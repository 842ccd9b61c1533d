//! Uploads a catalog to the cluster and starts a pod that serves it.

use kube::api::ListParams;
use serde_json::{Value, json};

use super::bundle::Serving;
use super::pod::{self, Content, KEY, config_map_name};
use super::{names, objects, wait};
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests, uid};
use crate::{Error, Kind};

/// Creates the objects that serve a catalog, and waits until the pod runs; returns the pod and its address.
pub(crate) async fn serve(
    requests: &Requests<'_>,
    ledger: &Ledger,
    source: &Value,
    serving: &Serving,
) -> Result<(ObjectName, String), Error> {
    let named = ObjectName::of(Kind::CATALOG_SOURCE, source);
    if let Content::ConfigMaps { parts, .. } = &serving.content {
        config_maps(requests, ledger, source, parts).await?;
    }
    let mut pod = ObjectName::new(Kind::POD, &named.namespace, &names::pod(&serving.bundle_image));
    if requests.get(&pod).await?.is_some() {
        // The same name means the same image reference, which may have been pushed again.
        let name = format!("{}-{}", pod.name, &ledger.run()[..6]);
        pod.name = names::trim63(&name).to_owned();
    }
    let description =
        pod::pod(&pod.namespace, &named.name, &pod.name, &serving.items, &serving.content, &serving.settings);
    let created = ledger.create(requests, Kind::POD, description, Some(source)).await;
    created.map_err(|error| Error::refused(format!("error creating pod: {error}")))?;
    let ip = wait::for_pod(requests, &pod).await?;
    requests.watcher.done(&format!("Created registry pod: {}", pod.name));
    Ok((pod, ip))
}

async fn config_maps(requests: &Requests<'_>, ledger: &Ledger, source: &Value, parts: &[Vec<u8>]) -> Result<(), Error> {
    let named = ObjectName::of(Kind::CATALOG_SOURCE, source);
    for (index, part) in parts.iter().enumerate() {
        let map = objects::config_map(&named.namespace, &config_map_name(&named.name, index + 1), part);
        let name = ObjectName::of(Kind::CONFIG_MAP, &map);
        requests.watcher.state("ConfigMaps", &format!("{} of {}", index + 1, parts.len()));
        let content = map["binaryData"].clone();
        match ledger.create(requests, Kind::CONFIG_MAP, map, Some(source)).await {
            Ok(_) => {}
            Err(Error::Exists { .. }) => {
                ledger.change(requests, &name, |there| fill(there, &content, source)).await?;
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
fn fill(there: &mut Value, content: &Value, source: &Value) {
    if let Some(there) = there.as_object_mut() {
        there.remove("data");
    }
    there["binaryData"] = json!({KEY: content[KEY]});
    // Without an owner, the garbage collector would remove it.
    if !objects::is_owned(there, &source["metadata"]["uid"]) {
        objects::own(there, source);
    }
}

/// Returns the ConfigMaps of an earlier, larger catalog of this CatalogSource.
async fn stale(requests: &Requests<'_>, source: &Value, count: usize) -> Result<Vec<ObjectName>, Error> {
    let named = ObjectName::of(Kind::CATALOG_SOURCE, source);
    let prefix = names::config_map_prefix(&named.name);
    let maps = requests.list(Kind::CONFIG_MAP, &named.namespace, &ListParams::default()).await?;
    let is_stale = |map: &&Value| {
        let name = map["metadata"]["name"].as_str().unwrap_or_default();
        let number = name.strip_prefix(&prefix).and_then(|number| number.parse::<usize>().ok());
        let ours = map["metadata"]["labels"][names::RUN_LABEL].is_string()
            || objects::is_owned(map, &source["metadata"]["uid"]);
        ours && number.is_some_and(|number| number > count)
    };
    let stale = maps.iter().filter(is_stale).map(|map| ObjectName::of(Kind::CONFIG_MAP, map));
    Ok(stale.map(|map| ObjectName { namespace: named.namespace.clone(), ..map }).collect())
}

/// Deletes the pods and ConfigMaps of a CatalogSource, as a garbage collector would.
pub(crate) async fn clear(requests: &Requests<'_>, source: &Value) -> Result<(), Error> {
    let named = ObjectName::of(Kind::CATALOG_SOURCE, source);
    for kind in [Kind::POD, Kind::CONFIG_MAP] {
        for object in requests.list(kind, &named.namespace, &ListParams::default()).await? {
            if objects::is_owned(&object, &source["metadata"]["uid"]) {
                let name = ObjectName { namespace: named.namespace.clone(), ..ObjectName::of(kind, &object) };
                if requests.delete(&name, uid(&object)).await? {
                    requests.watcher.done(&deleted(&name));
                }
                requests.wait_until_gone(&name, uid(&object)).await?;
            }
        }
    }
    Ok(())
}

/// Returns the message for a deleted object.
pub(crate) fn deleted(object: &ObjectName) -> String {
    format!("{} \"{}\" deleted", object.kind.kind.to_lowercase(), object.name)
}
