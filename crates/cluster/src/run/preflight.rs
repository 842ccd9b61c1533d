//! Checks before anything is created.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::install_mode::Targets;
use super::{names, operator_group};
use crate::request::{ObjectName, Requests, description};
use crate::views::{Subscription, View};
use crate::{Error, ResourceKind};

const ACCESS_REVIEW: ResourceKind = ResourceKind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SelfSubjectAccessReview",
    plural: "selfsubjectaccessreviews",
    namespaced: false,
};

/// The answer about a permission.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessReview {
    metadata: ObjectMeta,
    status: Option<AccessStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

impl View for AccessReview {
    const KIND: ResourceKind = ACCESS_REVIEW;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A permission that a run needs.
pub(crate) type NeededRight = (&'static str, ResourceKind);

/// Checks that the namespace exists, OLM is installed, and the user has the permissions.
pub(crate) async fn check(requests: &Requests<'_>, namespace: &str, rights: &[NeededRight]) -> Result<(), Error> {
    match requests.metadata(&ObjectName::new(ResourceKind::NAMESPACE, "", namespace)).await {
        Ok(Some(_)) => {}
        Ok(None) => return Err(Error::refused(format!("namespace {namespace:?} does not exist: create it first"))),
        // The user may lack the permission to read namespaces.
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error),
    }
    let missing = missing(requests, namespace, rights).await?;
    if !missing.is_empty() {
        return Err(Error::refused(format!(
            "not allowed in namespace {namespace:?}: {}; nothing was created",
            missing.join(", ")
        )));
    }
    has_olm(requests, namespace).await
}

/// Returns the permissions that the user lacks in a namespace.
pub(crate) async fn missing(
    requests: &Requests<'_>,
    namespace: &str,
    rights: &[NeededRight],
) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (verb, kind) in rights {
        if !is_allowed(requests, namespace, verb, *kind).await? {
            let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
            missing.push(format!("{verb} {}{group}", kind.plural));
        }
    }
    Ok(missing)
}

/// Checks that the kinds of OLM exist.
pub(crate) async fn has_olm(requests: &Requests<'_>, namespace: &str) -> Result<(), Error> {
    let one = ListParams::default().limit(1);
    for kind in [ResourceKind::CATALOG_SOURCE, ResourceKind::SUBSCRIPTION, ResourceKind::OPERATOR_GROUP] {
        match requests.list_metadata(kind, namespace, &one).await {
            Err(error) if error.is_missing() => {
                return Err(Error::refused(format!(
                    "OLM is not installed on this cluster: it knows no {}.{}",
                    kind.plural, kind.group
                )));
            }
            Err(error) if error.is_forbidden() => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Checks a permission; if the check itself fails, the permission is assumed.
async fn is_allowed(requests: &Requests<'_>, namespace: &str, verb: &str, kind: ResourceKind) -> Result<bool, Error> {
    let asked = ResourceAttributes {
        namespace: Some(if kind.namespaced { namespace } else { "" }.to_owned()),
        verb: Some(verb.to_owned()),
        group: Some(kind.group.to_owned()),
        resource: Some(kind.plural.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(asked), non_resource_attributes: None };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match requests.create(ACCESS_REVIEW, &description(json!(review))?, "").await {
        Ok(answer) => Ok(AccessReview::of(&answer)?.status.is_none_or(|status| status.allowed)),
        Err(Error::Api { source, .. }) if matches!(&*source, kube::Error::Api(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Checks that no object of a package exists, and decides about the OperatorGroup.
pub(crate) async fn check_conflicts(
    requests: &Requests<'_>,
    namespace: &str,
    package: &str,
    csv: &str,
    targets: &Targets,
) -> Result<Option<Value>, Error> {
    let source = ObjectName::new(ResourceKind::CATALOG_SOURCE, namespace, &names::catalog_source(package));
    let help =
        format!("'opm cleanup {package} -n {namespace}' removes the objects of an earlier run; nothing was changed");
    if requests.metadata(&source).await?.is_some() {
        return Err(Error::refused(format!("error creating catalog source: {source} already exists: {help}")));
    }
    let subscriptions: Vec<Subscription> = requests.list(namespace, &ListParams::default()).await?;
    if let Some(there) = subscriptions.iter().find(|there| there.spec.name == package) {
        let there = there.object_name();
        return Err(Error::refused(format!(
            "error creating subscription: {there} to package {package:?} already exists: {help}"
        )));
    }
    let installed = ObjectName::new(ResourceKind::CSV, namespace, csv);
    if requests.metadata(&installed).await?.is_some() {
        return Err(Error::refused(format!("{installed} already exists: {help}")));
    }
    let groups = requests.list(namespace, &ListParams::default()).await?;
    Ok(operator_group::decide(&groups, targets, namespace)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{fake, watcher::NoReports};

    #[tokio::test]
    async fn an_unreadable_answer_about_a_permission_grants_nothing() {
        let cluster = fake::cluster(|_, _| {
            let metadata = json!({"name": "a"});
            let kind = "SelfSubjectAccessReview";
            let status = json!({"allowed": "perhaps"});
            (
                201,
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "status": status}),
            )
        });
        let requests = Requests::within(&cluster, &NoReports, Duration::from_secs(5));
        let asked = missing(&requests, "ns", &[("delete", ResourceKind::POD)]).await;
        let error = asked.expect_err("an error").to_string();
        assert!(error.contains("the field status") && error.contains("expected a boolean"), "{error}");
    }
}
