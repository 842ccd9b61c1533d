//! Validates a bundle as OLM v1 does before rendering it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{CertificateProvider, V1Install, webhooks};
use crate::pointer::{list, text};
use crate::rehearse::ClusterRefusal;
use crate::rehearse::input::RehearsalInput;
use crate::rehearse::modes::{self, InstallModeType};
use crate::rehearse::served;

/// Rejects bundles that OLM v1 does not support.
pub(super) fn supported(bundle: &RehearsalInput, options: &V1Install) -> Result<(), ClusterRefusal> {
    let refuse = |id, message: &str| Err(ClusterRefusal { id, message: message.to_owned() });
    if !list(&bundle.csv, "/spec/apiservicedefinitions/owned").is_empty() {
        return refuse("olmv1-api-services", "unsupported bundle: apiServiceDefintions are not supported");
    }
    if !bundle.webhooks.is_empty() && options.certificates == CertificateProvider::None {
        return refuse(
            "olmv1-webhooks",
            "unsupported bundle: webhookDefinitions are not supported: certificate provider is nil",
        );
    }
    if !options.profile.single_own_namespace && !bundle.supports(InstallModeType::AllNamespaces) {
        return refuse(
            "olmv1-all-namespaces",
            "unsupported bundle: bundle does not support AllNamespaces install mode",
        );
    }
    if bundle.modes.iter().all(|mode| *mode == InstallModeType::MultiNamespace) {
        return refuse(
            "olmv1-install-modes",
            "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] \
             install modes",
        );
    }
    Ok(())
}

/// Runs all checks and joins the faults with newlines.
pub(super) fn check(bundle: &RehearsalInput) -> Result<(), ClusterRefusal> {
    let checks: [fn(&RehearsalInput, &mut Vec<String>); 5] =
        [deployments, crds, webhook_names, conversions, other_kinds];
    let mut faults = Vec::new();
    for check in checks {
        check(bundle, &mut faults);
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(ClusterRefusal { id: "olmv1-invalid", message: faults.join("\n") })
}

/// Returns the duplicates, sorted.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}

/// Returns why a name is not a DNS subdomain, in the words of Kubernetes.
pub(crate) fn subdomain_faults(name: &str) -> Vec<String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&byte| inner(byte))
            && bytes.last().is_some_and(|&byte| inner(byte))
            && bytes.iter().all(|&byte| inner(byte) || byte == b'-')
    };
    let mut faults = Vec::new();
    if !name.split('.').all(good) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    if name.len() > 253 {
        faults.push("must be no more than 253 characters".into());
    }
    faults
}

fn deployments(bundle: &RehearsalInput, faults: &mut Vec<String>) {
    let names = || bundle.deployments.iter().map(|deployment| text(deployment, "/name"));
    faults.extend(
        repeated(names())
            .into_iter()
            .map(|name| format!("cluster service version contains duplicate strategy deployment spec '{name}'")),
    );
    for name in names().collect::<BTreeSet<_>>() {
        let why = subdomain_faults(name);
        if !why.is_empty() {
            faults
                .push(format!("invalid cluster service version strategy deployment name '{name}': {}", why.join(", ")));
        }
    }
}

fn crds(bundle: &RehearsalInput, faults: &mut Vec<String>) {
    let names = || bundle.crds.iter().map(|crd| text(crd, "/metadata/name"));
    let repeated = repeated(names());
    faults.extend(
        repeated.into_iter().map(|name| format!("bundle contains duplicate custom resource definition '{name}'")),
    );
    let present: BTreeSet<&str> = names().collect();
    let owned = owned(bundle);
    faults.extend(owned.difference(&present).map(|name| {
        format!("cluster service definition references owned custom resource definition '{name}' not found in bundle")
    }));
    if bundle.package.is_empty() {
        faults.push("package name is empty".into());
    }
}

fn owned(bundle: &RehearsalInput) -> BTreeSet<&str> {
    list(&bundle.csv, "/spec/customresourcedefinitions/owned").iter().map(|owned| text(owned, "/name")).collect()
}

fn is_conversion(webhook: &Value) -> bool {
    text(webhook, "/type") == "ConversionWebhook"
}

fn webhook_names(bundle: &RehearsalInput, faults: &mut Vec<String>) {
    let only_all = bundle.modes == [InstallModeType::AllNamespaces];
    if !only_all {
        let mut names: Vec<&str> = conversion_webhooks(bundle).map(|webhook| text(webhook, "/generateName")).collect();
        names.sort_unstable();
        faults.extend(names.into_iter().map(|name| {
            format!(
                "bundle contains conversion webhook {name:?} and supports install modes {} - conversion webhooks are \
                 only supported for bundles that only support AllNamespaces install mode",
                modes::shown(&bundle.modes)
            )
        }));
    }
    let deployments: BTreeSet<&str> = bundle.deployments.iter().map(|deployment| text(deployment, "/name")).collect();
    let mut missing: Vec<(&str, &str, &str)> = bundle
        .webhooks
        .iter()
        .map(|webhook| (text(webhook, "/deploymentName"), text(webhook, "/type"), text(webhook, "/generateName")))
        .filter(|(deployment, ..)| !deployments.contains(deployment))
        .collect();
    missing.sort_unstable();
    faults.extend(missing.into_iter().map(|(deployment, kind, name)| {
        format!("webhook of type '{kind}' with name '{name}' references non-existent deployment '{deployment}'")
    }));
    let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for webhook in &bundle.webhooks {
        by_type.entry(text(webhook, "/type")).or_default().push(text(webhook, "/generateName"));
    }
    for (kind, names) in &by_type {
        let repeated = repeated(names.iter().copied());
        faults.extend(repeated.into_iter().map(|name| format!("duplicate webhook '{name}' of type '{kind}'")));
    }
    for (kind, names) in &by_type {
        for name in names.iter().copied().collect::<BTreeSet<_>>() {
            let why = subdomain_faults(name);
            if !why.is_empty() {
                faults.push(format!("webhook of type '{kind}' has invalid name '{name}': {}", why.join(",")));
            }
        }
    }
}

fn conversion_webhooks(bundle: &RehearsalInput) -> impl Iterator<Item = &Value> {
    bundle.webhooks.iter().filter(|webhook| is_conversion(webhook))
}

fn conversions(bundle: &RehearsalInput, faults: &mut Vec<String>) {
    let mut by_crd: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
    for webhook in conversion_webhooks(bundle) {
        for crd in list(webhook, "/conversionCRDs").iter().filter_map(Value::as_str) {
            by_crd.entry(crd).or_default().push(text(webhook, "/generateName"));
            named.insert((text(webhook, "/generateName"), crd));
        }
    }
    for (crd, mut webhooks) in by_crd.into_iter().filter(|(_, webhooks)| webhooks.len() > 1) {
        webhooks.sort_unstable();
        faults.push(format!(
            "conversion webhooks [{}] reference same custom resource definition '{crd}'",
            webhooks.join(",")
        ));
    }
    let owned = owned(bundle);
    faults.extend(named.into_iter().filter(|(_, crd)| !owned.contains(crd)).map(|(webhook, crd)| {
        format!("conversion webhook '{webhook}' references custom resource definition '{crd}' not owned bundle")
    }));
    for webhook in bundle.webhooks.iter().filter(|webhook| !is_conversion(webhook)) {
        faults.extend(webhooks::forbidden_rules(webhook));
    }
}

fn other_kinds(bundle: &RehearsalInput, faults: &mut Vec<String>) {
    for other in &bundle.others {
        let kind = text(other, "/kind");
        if served::namespaced(kind).is_none() {
            faults.push(format!("unsupported resource {:?} with kind {kind:?}", text(other, "/metadata/name")));
        }
    }
}
