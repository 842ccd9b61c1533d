//! Objects that OLM creates again after their removal.
//!
//! OLM works from caches: it may execute an InstallPlan that has just become complete, or was just deleted, once more.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use tokio::time::Instant;

use super::planned::{self, InUse, is_only_for};
use crate::ledger::RolledBack;
use crate::request::{ObjectName, Requests};
use crate::views::Subscription;
use crate::watch::Watch;
use crate::{Error, ResourceKind};

/// How long OLM may take to notice that a plan is complete or deleted.
const RECREATE_WAIT: Duration = Duration::from_secs(3);

/// Removed objects of a package, and how to tell them from those of other users.
pub(crate) struct Recreated<'a> {
    pub(crate) package: &'a str,
    /// The catalog of the run. Subscriptions of other users name another one.
    pub(crate) source: &'a str,
    /// The objects, with the uids of the removed ones.
    pub(crate) objects: Vec<(ObjectName, Option<String>)>,
    /// The versions that CRDs were created for, each with its namespace.
    pub(crate) versions: Vec<String>,
}

impl Recreated<'_> {
    /// Removes objects that OLM creates again, until it has created nothing for a while.
    pub(crate) async fn remove(
        &self,
        requests: &Requests<'_>,
        in_use: InUse,
        outcome: &mut RolledBack,
        done: &(dyn Fn(&ObjectName) + Sync),
    ) -> Result<(), Error> {
        let names: Vec<&ObjectName> = self.objects.iter().map(|(object, _)| object).collect();
        let mut watch = Watch::objects(requests, &names);
        let mut end = Instant::now() + RECREATE_WAIT;
        loop {
            let mut again = Vec::new();
            for (object, removed) in &self.objects {
                let created = self.created(requests, object).await?.filter(|uid| removed.as_ref() != Some(uid));
                again.extend(created.map(|uid| (object.clone(), uid)));
            }
            if !again.is_empty() {
                if self.is_resubscribed(requests).await? {
                    return Ok(());
                }
                planned::remove(requests, &again, in_use, &[], outcome, done).await?;
                end = Instant::now() + RECREATE_WAIT;
            }
            if requests.is_over() || tokio::time::timeout_at(end, watch.changed()).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Returns the uid of an object, if OLM created it from the plan.
    async fn created(&self, requests: &Requests<'_>, object: &ObjectName) -> Result<Option<String>, Error> {
        if object.kind == ResourceKind::SUBSCRIPTION {
            let there: Option<Subscription> = requests.read(object).await?;
            return Ok(there.filter(|there| there.spec.source == self.source).and_then(|there| there.metadata.uid));
        }
        let ours = |there: &ObjectMeta| match object.kind {
            ResourceKind::CRD => is_only_for(there, &self.versions),
            // Others may have created it meanwhile.
            ResourceKind::PRIORITY_CLASS => false,
            _ => true,
        };
        Ok(requests.metadata(object).await?.filter(ours).and_then(|there| there.uid))
    }

    /// Returns whether another user subscribed to the package meanwhile: its objects then belong to that Subscription.
    async fn is_resubscribed(&self, requests: &Requests<'_>) -> Result<bool, Error> {
        let all: Vec<Subscription> = requests.list(&requests.cluster.namespace, &ListParams::default()).await?;
        let subscribed =
            |one: &Subscription| one.spec.name == self.package && one.metadata.deletion_timestamp.is_none();
        Ok(all.iter().any(subscribed))
    }
}
