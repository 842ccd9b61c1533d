//! Checks before anything is created.

use std::collections::BTreeMap;

use super::objects::{Carried, Extension, InstallerAccount};
use super::{offer, other_olm};
use crate::context::WorkContext;
use crate::request::{ObjectName, Requests};
use crate::run::preflight::{NeededRight, missing};
use crate::{Error, ResourceKind};

/// The permissions that a run needs.
const RIGHTS: [NeededRight; 6] = [
    ("create", ResourceKind::CLUSTER_CATALOG),
    ("get", ResourceKind::CLUSTER_CATALOG),
    ("create", ResourceKind::CLUSTER_EXTENSION),
    ("get", ResourceKind::CLUSTER_EXTENSION),
    ("list", ResourceKind::CLUSTER_EXTENSION),
    ("list", ResourceKind::DEPLOYMENT),
];
const ROLLBACK_RIGHTS: [NeededRight; 2] =
    [("delete", ResourceKind::CLUSTER_CATALOG), ("delete", ResourceKind::CLUSTER_EXTENSION)];
const ACCOUNT: [NeededRight; 2] =
    [("create", ResourceKind::SERVICE_ACCOUNT), ("create", ResourceKind::CLUSTER_ROLE_BINDING)];
const ACCOUNT_UNDO: [NeededRight; 2] =
    [("delete", ResourceKind::SERVICE_ACCOUNT), ("delete", ResourceKind::CLUSTER_ROLE_BINDING)];
const ROLE: [NeededRight; 1] = [("create", ResourceKind::CLUSTER_ROLE)];
const ROLE_UNDO: [NeededRight; 1] = [("delete", ResourceKind::CLUSTER_ROLE)];
const NAMESPACE: [NeededRight; 1] = [("create", ResourceKind::NAMESPACE)];
const NAMESPACE_UNDO: [NeededRight; 1] = [("delete", ResourceKind::NAMESPACE)];

/// Checks the preconditions of an installation with OLM v1, and of its rollback unless `keep` is set: permissions,
/// the namespace, the kinds of the bundle, and conflicting objects.
///
/// # Errors
/// Fails with all missing permissions or the conflict. Nothing is changed.
pub(super) async fn check(context: &WorkContext<'_>, extension: &Extension, keep: bool) -> Result<(), Error> {
    let requests = context.requests();
    let missing = missing(&requests, &extension.namespace, &rights(extension, keep)).await?;
    if !missing.is_empty() {
        return Err(Error::refused(format!("not allowed: {}; nothing was created", missing.join(", "))));
    }
    namespace(&requests, extension).await?;
    let package = &extension.package;
    if let Some(other) = other_olm::runs_in_v0(&requests, package, &extension.bundle).await? {
        return Err(Error::refused(format!(
            "package {package:?} runs under OLM v0 already: {other}; nothing was created"
        )));
    }
    check_conflicts(&requests, extension).await?;
    check_kinds(&requests, extension).await?;
    definitions(&requests, extension).await
}

fn rights(extension: &Extension, keep: bool) -> Vec<NeededRight> {
    let mut needed = vec![&RIGHTS[..], &ROLLBACK_RIGHTS];
    if extension.account != InstallerAccount::None {
        needed.extend([&ACCOUNT[..], &ACCOUNT_UNDO]);
    }
    if matches!(extension.account, InstallerAccount::Derived(_)) {
        needed.extend([&ROLE[..], &ROLE_UNDO]);
    }
    if extension.create_namespace {
        needed.extend([&NAMESPACE[..], &NAMESPACE_UNDO]);
    }
    let mut rights = needed.concat();
    if extension.adopt_crds {
        rights.extend([("get", ResourceKind::CRD), ("update", ResourceKind::CRD)]);
    }
    rights.retain(|(verb, _)| !keep || *verb != "delete");
    rights
}

async fn namespace(requests: &Requests<'_>, extension: &Extension) -> Result<(), Error> {
    let namespace = &extension.namespace;
    match requests.metadata(&ObjectName::new(ResourceKind::NAMESPACE, "", namespace)).await {
        Ok(None) if !extension.create_namespace => Err(Error::refused(format!(
            "namespace {namespace:?} does not exist: create it first, or add --create-namespace"
        ))),
        Ok(_) => Ok(()),
        // The user may lack the permission to read namespaces.
        Err(error) if error.is_forbidden() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that no object to be created exists.
async fn check_conflicts(requests: &Requests<'_>, extension: &Extension) -> Result<(), Error> {
    let package = &extension.package;
    let help = format!("'opm cleanup {package} --olm v1' removes the objects of an earlier run; nothing was created");
    if let Some(other) = other_olm::runs_in_v1(requests, package).await? {
        return Err(Error::refused(format!("{other} of package {package:?} already exists: {help}")));
    }
    let nothing =
        Carried { image: String::new(), registry: String::new(), index_image: String::new(), items: Vec::new() };
    for (kind, object) in extension.objects(&nothing) {
        let name = ObjectName::of(kind, &object)?;
        if kind == ResourceKind::NAMESPACE {
            continue;
        }
        match requests.metadata(&name).await {
            Ok(None) => {}
            Ok(Some(_)) => return Err(Error::refused(format!("{name} already exists: {help}"))),
            Err(error) if error.is_forbidden() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks that the cluster serves all kinds of the bundle.
async fn check_kinds(requests: &Requests<'_>, extension: &Extension) -> Result<(), Error> {
    let mut served: BTreeMap<&str, Option<Vec<String>>> = BTreeMap::new();
    let mut missing = Vec::new();
    for (version, kind) in &extension.kinds {
        if !served.contains_key(version.as_str()) {
            served.insert(version, offer::served_kinds(requests, version).await?);
        }
        let known = served.get(version.as_str()).and_then(Option::as_ref);
        if !known.is_some_and(|kinds| kinds.contains(kind)) {
            missing.push(format!("{version} {kind}"));
        }
    }
    missing.dedup();
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let help = match missing.iter().any(|one| one.contains("cert-manager.io/")) {
                true => "\n  help: install cert-manager, which issues the certificates of webhooks",
                false => "",
            };
            let missing = missing.join(", ");
            Err(Error::refused(format!("this cluster does not know {missing}; nothing was created{help}")))
        }
    }
}

/// Checks that no CRD exists that would be deleted with the ClusterExtension later.
async fn definitions(requests: &Requests<'_>, extension: &Extension) -> Result<(), Error> {
    let mut there = Vec::new();
    for name in &extension.definitions {
        let crd = ObjectName::new(ResourceKind::CRD, "", name);
        match requests.metadata(&crd).await {
            Ok(None) => {}
            Ok(Some(_)) => there.push(crd.to_string()),
            Err(error) if error.is_forbidden() => {}
            Err(error) => return Err(error),
        }
    }
    if there.is_empty() {
        return Ok(());
    }
    let there = there.join(", ");
    let risk = "OLM v1 deletes the definitions of a ClusterExtension, and all their objects, when it is deleted";
    if extension.adopt_crds {
        requests.watcher.warn(&format!("{there} become part of the installation: {risk}"));
        return Ok(());
    }
    Err(Error::refused(format!(
        "{there} already exist; nothing was created\n  help: add --adopt-crds to make them part of the installation; {risk}"
    )))
}
