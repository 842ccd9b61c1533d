//! The ledger of a run: the objects it created and changed, so that exactly these can be rolled back.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::request::{self, ObjectName, Requests, is_of_run};
use crate::run::names::{self, RUN_LABEL};
use crate::run::planned::Planned;
use crate::views::{View, described};
use crate::{Cluster, ClusterObject, Error, ResourceKind, Watcher};

/// The timeout of a rollback, independent of the run's deadline.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An entry to roll back.
#[derive(Debug, Clone)]
enum LedgerEntry {
    /// An object created by this run: recorded before the request, and with its uid after the response.
    Created(ObjectName, Option<String>),
    /// An InstallPlan that this run approves, and the objects that OLM creates from it.
    Planned(Box<Planned>),
    /// The previous state of an object that existed before.
    Changed(ObjectName, Box<ClusterObject>),
}

impl LedgerEntry {
    fn object(&self) -> &ObjectName {
        match self {
            LedgerEntry::Created(object, _) | LedgerEntry::Changed(object, _) => object,
            LedgerEntry::Planned(planned) => &planned.plan,
        }
    }
}

/// Everything that a run created and changed, in order.
#[derive(Debug)]
pub struct Ledger {
    run: String,
    entries: Mutex<LedgerEntries>,
    traffic: watch::Sender<InFlight>,
}

#[derive(Debug, Default)]
struct LedgerEntries {
    /// What a rollback undoes.
    open: Vec<LedgerEntry>,
    /// What stays.
    settled: Vec<LedgerEntry>,
}

/// What a run wrote, in order.
pub(crate) struct Written {
    /// The created objects.
    pub(crate) created: Vec<String>,
    /// The objects that existed before.
    pub(crate) changed: Vec<String>,
}

/// The writing requests of a run.
#[derive(Debug, Default)]
struct InFlight {
    /// The number of requests in flight.
    sent: usize,
    /// Whether new requests are rejected.
    closed: bool,
}

/// A request in flight, until its response or cancellation.
pub(crate) struct InFlightRequest<'a>(&'a Ledger);

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.0.traffic.send_modify(|traffic| traffic.sent -= 1);
    }
}

/// The result of a rollback.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    /// What could not be rolled back, and why.
    pub failed: Vec<String>,
    /// What stays because others need it, with the users.
    pub kept: Vec<String>,
}

/// What a failed run leaves on the cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AfterFailure {
    /// Nothing, because it changed nothing.
    Nothing,
    /// Everything, as requested.
    Kept {
        /// The ID of the run.
        run: String,
        /// What it created and changed.
        objects: Vec<String>,
    },
    /// What the rollback did not remove.
    RolledBack(RolledBack),
}

impl fmt::Display for AfterFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, objects) = match self {
            AfterFailure::Nothing => return Ok(()),
            AfterFailure::Kept { run, objects } => {
                (format!("kept these objects, with the label {RUN_LABEL}={run}:"), objects.clone())
            }
            AfterFailure::RolledBack(RolledBack { failed, kept }) => match (failed.is_empty(), kept.is_empty()) {
                (true, true) => ("all created objects were rolled back".to_owned(), Vec::new()),
                (true, false) => ("all created objects were rolled back, except:".to_owned(), kept.clone()),
                (false, _) => ("failed to roll back:".to_owned(), [&failed[..], kept].concat()),
            },
        };
        write!(f, "\n{what}")?;
        objects.iter().try_for_each(|object| write!(f, "\n  {object}"))
    }
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { run: names::run_id(), entries: Mutex::default(), traffic: watch::Sender::default() }
    }
}

impl Ledger {
    /// Returns the ID of the run, which its objects carry as a label.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    fn entries(&self) -> MutexGuard<'_, LedgerEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a rollback would have to undo now.
    pub(crate) fn left(&self) -> Vec<String> {
        self.entries().open.iter().map(|entry| entry.object().to_string()).collect()
    }

    /// Excludes all entries from a rollback: everything stays.
    pub(crate) fn settle(&self) {
        let LedgerEntries { open, settled } = &mut *self.entries();
        settled.append(open);
    }

    /// Returns what the run wrote, whether it stays or not.
    pub(crate) fn written(&self) -> Written {
        let entries = self.entries();
        let mut written = Written { created: Vec::new(), changed: Vec::new() };
        for entry in entries.settled.iter().chain(&entries.open) {
            let list = match entry {
                LedgerEntry::Created(..) => &mut written.created,
                LedgerEntry::Changed(..) => &mut written.changed,
                LedgerEntry::Planned(_) => continue,
            };
            let object = entry.object().to_string();
            if !list.contains(&object) {
                list.push(object);
            }
        }
        written
    }

    /// Rejects new writing requests, and waits for the responses of those in flight.
    ///
    /// The API server processes received requests even if no client waits for the response: an object rolled back
    /// before its creation would remain.
    pub async fn close(&self) {
        self.traffic.send_modify(|traffic| traffic.closed = true);
        // This ledger owns the sender, so this cannot fail.
        let _ = self.traffic.subscribe().wait_for(|traffic| traffic.sent == 0).await;
    }

    fn send(&self) -> Result<InFlightRequest<'_>, Error> {
        let mut closed = false;
        self.traffic.send_modify(|traffic| {
            closed = traffic.closed;
            traffic.sent += usize::from(!closed);
        });
        if closed { Err(Error::refused("interrupted")) } else { Ok(InFlightRequest(self)) }
    }

    /// Creates an object with the label of the run, owned by `owner`.
    pub(crate) async fn create(
        &self,
        requests: &Requests<'_>,
        kind: ResourceKind,
        object: Value,
        owner: Option<&OwnerReference>,
    ) -> Result<ClusterObject, Error> {
        let _sent = self.send()?;
        let mut object = request::description(object)?;
        object.metadata.labels.get_or_insert_default().insert(RUN_LABEL.to_owned(), self.run.clone());
        if let Some(owner) = owner {
            object.metadata.owner_references = Some(vec![owner.clone()]);
        }
        let name = ObjectName::named(kind, &object.metadata);
        // Record first: the response may be lost, or the caller cancelled.
        self.entries().open.push(LedgerEntry::Created(name.clone(), None));
        let created = requests.create(kind, &object, &self.run).await;
        match &created {
            Ok(created) => self.record_uid(&name, created.metadata.uid.as_ref()),
            Err(Error::Exists { .. }) => {
                self.entries().open.retain(|entry| !matches!(entry, LedgerEntry::Created(made, _) if *made == name));
            }
            Err(_) => {}
        }
        created
    }

    fn record_uid(&self, name: &ObjectName, uid: Option<&String>) {
        for entry in &mut self.entries().open {
            if let LedgerEntry::Created(made, known) = entry
                && made == name
            {
                *known = uid.cloned();
            }
        }
    }

    /// Changes an object, and records its previous state.
    pub(crate) async fn change<K: View + Serialize + Clone + PartialEq>(
        &self,
        requests: &Requests<'_>,
        object: &ObjectName,
        change: impl Fn(&mut K),
    ) -> Result<K, Error> {
        let _sent = self.send()?;
        let before = requests.get(object).await?.ok_or_else(|| Error::Deleted { object: object.to_string() })?;
        let known = self.entries().open.iter().any(|entry| entry.object() == object);
        if !known {
            self.entries().open.push(LedgerEntry::Changed(object.clone(), Box::new(before)));
        }
        requests.update(object, change).await
    }

    /// Deletes an object, and records its previous state.
    pub(crate) async fn delete(
        &self,
        requests: &Requests<'_>,
        object: &ObjectName,
        before: ClusterObject,
    ) -> Result<(), Error> {
        let _sent = self.send()?;
        let which = before.metadata.uid.clone();
        self.entries().open.push(LedgerEntry::Changed(object.clone(), Box::new(before)));
        requests.delete(object, which.as_deref()).await.map(|_| ())
    }

    /// Records an InstallPlan before its approval; the approval is in flight while the caller holds the result.
    pub(crate) fn approves(&self, planned: Planned) -> Result<InFlightRequest<'_>, Error> {
        let sent = self.send()?;
        self.entries().open.push(LedgerEntry::Planned(Box::new(planned)));
        Ok(sent)
    }

    /// Rolls everything back after a failure, unless `keep` is set; `interrupted` ends the rollback.
    pub async fn after_failure(
        &self,
        cluster: &Cluster,
        keep: bool,
        error: &str,
        watcher: &dyn Watcher,
        interrupted: impl Future<Output = ()>,
    ) -> AfterFailure {
        let left = self.left();
        if left.is_empty() {
            return AfterFailure::Nothing;
        }
        if keep {
            return AfterFailure::Kept { run: self.run.clone(), objects: left };
        }
        watcher.warn(&format!("{}; rolling back created objects", error.lines().next().unwrap_or_default()));
        tokio::select! {
            outcome = self.roll_back(cluster, watcher) => AfterFailure::RolledBack(outcome),
            () = interrupted => {
                let failed = self.left().into_iter().map(|object| format!("{object}: interrupted")).collect();
                AfterFailure::RolledBack(RolledBack { failed, kept: Vec::new() })
            }
        }
    }

    /// Rolls everything back, last entry first.
    async fn roll_back(&self, cluster: &Cluster, watcher: &dyn Watcher) -> RolledBack {
        let requests = Requests::within(cluster, watcher, TIMEOUT);
        let mut outcome = RolledBack::default();
        loop {
            let Some(entry) = self.entries().open.last().cloned() else { return outcome };
            if let Err(error) = self.roll_one_back(&requests, &entry, &mut outcome).await {
                outcome.failed.push(format!("{}: {error}", entry.object()));
            }
            self.entries().open.pop();
        }
    }

    async fn roll_one_back(
        &self,
        requests: &Requests<'_>,
        entry: &LedgerEntry,
        outcome: &mut RolledBack,
    ) -> Result<(), Error> {
        let done = |object: &ObjectName| requests.watcher.done(&format!("Rolled back: {object}"));
        match entry {
            LedgerEntry::Created(object, made) => {
                let ours = |there: &ObjectMeta| is_of_run(there, &self.run) && (made.is_none() || there.uid == *made);
                let Some(there) = requests.metadata(object).await?.filter(ours) else { return Ok(()) };
                requests.delete(object, there.uid.as_deref()).await?;
                requests.wait_until_gone(object, there.uid.as_deref()).await?;
                done(object);
            }
            LedgerEntry::Planned(planned) => {
                // The plan is deleted with its Subscription, so read it first.
                let state = requests.read(&planned.plan).await?;
                // Delete the Subscription first, or OLM would continue the installation.
                let subscriptions: Vec<LedgerEntry> = self
                    .entries()
                    .open
                    .iter()
                    .filter(|entry| entry.object().kind == ResourceKind::SUBSCRIPTION)
                    .cloned()
                    .collect();
                for subscription in &subscriptions {
                    Box::pin(self.roll_one_back(requests, subscription, outcome)).await?;
                }
                planned.remove(requests, state.as_ref(), outcome, &done).await?;
            }
            LedgerEntry::Changed(object, before) => {
                let Some(now) = requests.get(object).await? else {
                    self.recreate(requests, object, before).await?;
                    done(object);
                    return Ok(());
                };
                let (now, before) = (json!(now), json!(before));
                let differs = PARTS.iter().any(|(holder, key)| part(&now, *holder, key) != part(&before, *holder, key));
                requests.change(object, |object| restore(object, &before)).await?;
                if differs {
                    done(object);
                }
            }
        }
        Ok(())
    }

    async fn recreate(
        &self,
        requests: &Requests<'_>,
        object: &ObjectName,
        before: &ClusterObject,
    ) -> Result<(), Error> {
        let mut again = before.clone();
        let owner_references = again.metadata.owner_references.take();
        again.metadata = ObjectMeta { owner_references, ..described(&again.metadata) };
        if let Some(fields) = again.data.as_object_mut() {
            fields.remove("status");
        }
        requests.create(object.kind, &again, &self.run).await.map(|_| ())
    }
}

/// The parts of objects that runs change.
const PARTS: [(Option<&str>, &str); 6] = [
    (Some("metadata"), "annotations"),
    (Some("metadata"), "labels"),
    (None, "spec"),
    (None, "data"),
    (None, "binaryData"),
    (None, "rules"),
];

fn part<'a>(object: &'a Value, holder: Option<&str>, key: &str) -> Option<&'a Value> {
    holder.map_or(Some(object), |holder| object.get(holder))?.get(key)
}

/// Restores the parts of an object that runs change.
fn restore(object: &mut Value, before: &Value) {
    for (holder, key) in PARTS {
        let was = part(before, holder, key).cloned();
        let place = match holder {
            Some(holder) => &mut object[holder],
            None => &mut *object,
        };
        if let Some(place) = place.as_object_mut() {
            match was {
                Some(was) => drop(place.insert(key.to_owned(), was)),
                None => drop(place.remove(key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_ledger_waits_for_responses_and_accepts_no_requests() {
        let ledger = Ledger::default();
        let sent = ledger.send().unwrap();
        let mut closing = std::pin::pin!(ledger.close());
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut closing).await.is_err());
        assert!(ledger.send().is_err());
        drop(sent);
        closing.await;
        ledger.close().await;
    }

    #[test]
    fn a_rollback_restores_an_object() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"image": "x"}});
        let mut after = json!({"metadata": {"name": "a", "resourceVersion": "2", "annotations": {"a": "b"}},
            "spec": {"address": "y"}, "status": {"reason": "z"}});
        restore(&mut after, &before);
        assert_eq!(
            after,
            json!({"metadata": {"name": "a", "resourceVersion": "2"}, "spec": {"image": "x"}, "status": {"reason": "z"}})
        );
    }
}
