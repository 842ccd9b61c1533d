//! Objects that OLM creates again after their removal.
//!
//! OLM works from caches: it may execute an InstallPlan that has just become complete, or was just deleted, once more.

use std::time::Duration;

use kube::api::ListParams;
use serde_json::Value;
use tokio::time::Instant;

use super::planned::{self, InUse, is_only_for};
use crate::ledger::RolledBack;
use crate::request::{ObjectName, Requests, uid};
use crate::watch::Watch;
use crate::{Error, Kind};

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
                let there = requests.get(object).await?.filter(|there| self.is_ours(object.kind, there));
                let created = there.as_ref().and_then(uid).filter(|uid| removed.as_deref() != Some(uid));
                again.extend(created.map(|uid| (object.clone(), uid.to_owned())));
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

    fn is_ours(&self, kind: Kind, there: &Value) -> bool {
        match kind {
            Kind::SUBSCRIPTION => there["spec"]["source"] == self.source,
            Kind::CRD => is_only_for(there, &self.versions),
            // Others may have created it meanwhile.
            Kind::PRIORITY_CLASS => false,
            _ => true,
        }
    }

    /// Returns whether another user subscribed to the package meanwhile: its objects then belong to that Subscription.
    async fn is_resubscribed(&self, requests: &Requests<'_>) -> Result<bool, Error> {
        let all = requests.list(Kind::SUBSCRIPTION, &requests.cluster.namespace, &ListParams::default()).await?;
        let subscribed =
            |one: &Value| one["spec"]["name"] == self.package && one["metadata"]["deletionTimestamp"].is_null();
        Ok(all.iter().any(subscribed))
    }
}
