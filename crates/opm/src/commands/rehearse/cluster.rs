//! Compares a rehearsal with a cluster: existing objects, unknown kinds and rejected objects.

use std::time::{Duration, Instant};

use bundle::{Finding, Severity};
use cluster::{Access, Compared};
use serde_json::Value;

use super::Rehearsal;
use super::flags::{Generation, RehearseArgs};
use crate::cluster_flags::{block_on, failure};
use crate::exit::Failure;
use crate::live::Live;
use crate::printer::Printer;

/// The timeout of the whole comparison.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of reported custom resources per definition that violate the new schema.
const MAX_RESOURCES: usize = 5;

/// Compares a rehearsal with a cluster, without changing the cluster.
pub(super) fn compared(args: &RehearseArgs, rehearsal: &Rehearsal, printer: &Printer) -> Result<Vec<Finding>, Failure> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let access = Access {
        kubeconfig: args.kubeconfig.clone(),
        context: given(&args.context),
        namespace: Some(rehearsal.namespace.clone()),
    };
    let mut all = Vec::new();
    block_on("", async {
        let cluster = access.connect().await.map_err(failure)?;
        let live = Live::new(printer, false);
        let deadline = Instant::now() + TIMEOUT;
        let seen = cluster::compare_with_cluster(&cluster, &rehearsal.objects, deadline, &live).await;
        all = seen.map_err(failure)?;
        Ok(())
    })?;
    let extension = args.extension(rehearsal);
    let mut found = Vec::new();
    for (object, compared) in rehearsal.objects.iter().zip(&all) {
        judge(object, compared, rehearsal.generation, &extension, &mut found);
    }
    Ok(found)
}

fn judge(object: &Value, compared: &Compared, generation: Generation, extension: &str, found: &mut Vec<Finding>) {
    let shown = bundle::rehearse::display_name(object);
    let mut add = |id: &'static str, severity: Severity, message: String| {
        found.push(Finding::new(id, severity, message).about(shown.clone()));
    };
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    if compared.unknown_kind {
        let message = format!("this cluster does not know {} {}", text("apiVersion"), text("kind"));
        return add("cluster-unknown-kind", Severity::Error, message);
    }
    if let Some(refused) = &compared.refused {
        add("cluster-refused", Severity::Error, format!("this cluster would refuse it: {refused}"));
    }
    let Some(there) = &compared.there else { return };
    let owner = match &*compared.owner {
        "" => "nobody".to_owned(),
        owner => owner.to_owned(),
    };
    if generation == Generation::V1 && compared.owner != format!("ClusterExtension {extension}") {
        let message =
            format!("{shown} exists and belongs to {owner}: OLM v1 installs nothing over what it did not make");
        add("cluster-exists", Severity::Error, message);
    } else if compared.owner.is_empty() {
        add("cluster-exists", Severity::Warning, format!("{shown} exists and belongs to {owner}"));
    }
    if text("kind") != "CustomResourceDefinition" {
        return;
    }
    let changes = bundle::review::crd::compare([there], [object]);
    found.extend(changes.iter().map(|change| change.finding(generation.crd_rules())));
    let mut add = |id: &'static str, severity: Severity, message: String| {
        found.push(Finding::new(id, severity, message).about(shown.clone()));
    };
    let mut unfit = 0;
    for resource in &compared.resources {
        let Some(fault) = first_fault(object, resource) else { continue };
        unfit += 1;
        if unfit <= MAX_RESOURCES {
            let severity = if generation == Generation::V0 { Severity::Error } else { Severity::Warning };
            let message = format!("{} does not fit the new schema: {fault}", bundle::rehearse::display_name(resource));
            add("cluster-stored-resource", severity, message);
        }
    }
}

/// Returns the first violation of the schema that the definition has for the version of a custom resource.
fn first_fault(crd: &Value, resource: &Value) -> Option<String> {
    let version = resource["apiVersion"].as_str()?.rsplit('/').next()?;
    let versions = crd["spec"]["versions"].as_array()?;
    let schema = versions.iter().find(|one| one["name"] == version)?.pointer("/schema/openAPIV3Schema")?;
    bundle::schema_faults(schema, resource)?.into_iter().next()
}
