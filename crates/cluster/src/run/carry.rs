//! A catalog brought to the cluster, and a pod that serves it.

use kube::api::ListParams;
use serde_json::{Value, json};

use super::bundle::Serving;
use super::pod::{self, Content, KEY, config_map_name};
use super::{names, objects, wait};
use crate::ledger::Ledger;
use crate::request::{Named, Requests, uid};
use crate::{Error, Kind};

/// Creates what a catalog is served by, and waits until it runs; returns the pod and its address.
pub(crate) async fn serve(
    requests: &Requests<'_>,
    ledger: &Ledger,
    source: &Value,
    serving: &Serving,
) -> Result<(Named, String), Error> {
    let named = Named::of(Kind::CATALOG_SOURCE, source);
    if let Content::ConfigMaps { parts, .. } = &serving.content {
        config_maps(requests, ledger, source, parts).await?;
    }
    let mut pod = Named::new(Kind::POD, &named.namespace, &names::pod(&serving.bundle_image));
    if requests.get(&pod).await?.is_some() {
        // The same name is that of the same image, perhaps of one that was pushed anew.
        let name = format!("{}-{}", pod.name, &ledger.run()[..6]);
        pod.name = names::trim63(&name).to_owned();
    }
    let description =
        pod::pod(&pod.namespace, &named.name, &pod.name, &serving.items, &serving.content, &serving.settings);
    let created = ledger.create(requests, Kind::POD, description, Some(source)).await;
    created.map_err(|error| Error::message(format!("error creating pod: {error}")))?;
    let ip = wait::for_pod(requests, &pod).await?;
    requests.watcher.done(&format!("Created registry pod: {}", pod.name));
    Ok((pod, ip))
}

async fn config_maps(requests: &Requests<'_>, ledger: &Ledger, source: &Value, parts: &[Vec<u8>]) -> Result<(), Error> {
    let named = Named::of(Kind::CATALOG_SOURCE, source);
    for (index, part) in parts.iter().enumerate() {
        let map = objects::config_map(&named.namespace, &config_map_name(&named.name, index + 1), part);
        let name = Named::of(Kind::CONFIG_MAP, &map);
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

/// Puts content into a ConfigMap that is there already.
fn fill(there: &mut Value, content: &Value, source: &Value) {
    if let Some(there) = there.as_object_mut() {
        there.remove("data");
    }
    there["binaryData"] = json!({KEY: content[KEY]});
    // What belongs to nobody that is left would be removed by the garbage collector.
    if !objects::is_owned(there, &source["metadata"]["uid"]) {
        objects::own(there, source);
    }
}

/// Returns the ConfigMaps of an earlier, larger catalog of ours.
async fn stale(requests: &Requests<'_>, source: &Value, count: usize) -> Result<Vec<Named>, Error> {
    let named = Named::of(Kind::CATALOG_SOURCE, source);
    let prefix = names::config_map_prefix(&named.name);
    let maps = requests.list(Kind::CONFIG_MAP, &named.namespace, &ListParams::default()).await?;
    let is_stale = |map: &&Value| {
        let name = map["metadata"]["name"].as_str().unwrap_or_default();
        let number = name.strip_prefix(&prefix).and_then(|number| number.parse::<usize>().ok());
        let ours = map["metadata"]["labels"][names::RUN_LABEL].is_string()
            || objects::is_owned(map, &source["metadata"]["uid"]);
        ours && number.is_some_and(|number| number > count)
    };
    let stale = maps.iter().filter(is_stale).map(|map| Named::of(Kind::CONFIG_MAP, map));
    Ok(stale.map(|map| Named { namespace: named.namespace.clone(), ..map }).collect())
}

/// Deletes the pods and ConfigMaps that belong to a CatalogSource; a garbage collector does the same.
pub(crate) async fn clear(requests: &Requests<'_>, source: &Value) -> Result<(), Error> {
    let named = Named::of(Kind::CATALOG_SOURCE, source);
    for kind in [Kind::POD, Kind::CONFIG_MAP] {
        for object in requests.list(kind, &named.namespace, &ListParams::default()).await? {
            if objects::is_owned(&object, &source["metadata"]["uid"]) {
                let name = Named { namespace: named.namespace.clone(), ..Named::of(kind, &object) };
                if requests.delete(&name, uid(&object)).await? {
                    requests.watcher.done(&deleted(&name));
                }
                requests.wait_until_gone(&name, uid(&object)).await?;
            }
        }
    }
    Ok(())
}

/// Says that an object was deleted.
pub(crate) fn deleted(object: &Named) -> String {
    format!("{} \"{}\" deleted", object.kind.kind.to_lowercase(), object.name)
}
