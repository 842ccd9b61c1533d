//! What is ours on a cluster: what a run has made and changed, so that it can be rolled back, and nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::request::{Named, Requests, is_of_run, prepared, uid};
use crate::run::names;
use crate::run::planned::Planned;
use crate::{Cluster, Error, Kind, Watcher};

/// Rolling back may take so long, whatever time the run itself had.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something to roll back.
#[derive(Debug, Clone)]
enum Entry {
    /// An object of this run, perhaps: it is noted before it is asked for, and by its uid when it is there.
    Made(Named, Option<String>),
    /// An InstallPlan that this run approves, and what OLM makes because of it.
    Planned(Box<Planned>),
    /// An object that was there before, as it was.
    Changed(Named, Box<Value>),
}

impl Entry {
    fn object(&self) -> &Named {
        match self {
            Entry::Made(object, _) | Entry::Changed(object, _) => object,
            Entry::Planned(planned) => &planned.plan,
        }
    }
}

/// Everything that a run has made and changed, in order.
#[derive(Debug)]
pub struct Ledger {
    run: String,
    entries: Mutex<Vec<Entry>>,
    traffic: watch::Sender<Traffic>,
}

/// Requests of a run that change the cluster.
#[derive(Debug, Default)]
struct Traffic {
    /// How many are on their way.
    sent: usize,
    /// Whether no other may follow.
    closed: bool,
}

/// A request on its way, until it is answered or given up.
pub(crate) struct Sent<'a>(&'a Ledger);

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.traffic.send_modify(|traffic| traffic.sent -= 1);
    }
}

/// What became of what was to be rolled back.
#[derive(Debug, Default)]
pub struct RolledBack {
    /// What could not be rolled back, and why.
    pub failed: Vec<String>,
    /// What stays because others need it, and who.
    pub kept: Vec<String>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { run: names::run_id(), entries: Mutex::default(), traffic: watch::Sender::default() }
    }
}

impl Ledger {
    /// Returns the name of the run, which its objects carry as a label.
    pub fn run(&self) -> &str {
        &self.run
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what would have to be rolled back now.
    pub fn left(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.object().to_string()).collect()
    }

    /// Forgets everything: it stays.
    pub fn settle(&self) {
        self.entries().clear();
    }

    /// Lets no request follow that changes the cluster, and waits for the answers to those on their way.
    ///
    /// The API server carries out what it has received, whether or not somebody waits for the answer: an object that was
    /// rolled back before it was there would be left.
    pub async fn close(&self) {
        self.traffic.send_modify(|traffic| traffic.closed = true);
        // The sender is ours, so that this cannot fail.
        let _ = self.traffic.subscribe().wait_for(|traffic| traffic.sent == 0).await;
    }

    fn send(&self) -> Result<Sent<'_>, Error> {
        let mut closed = false;
        self.traffic.send_modify(|traffic| {
            closed = traffic.closed;
            traffic.sent += usize::from(!closed);
        });
        if closed { Err(Error::message("interrupted")) } else { Ok(Sent(self)) }
    }

    /// Creates an object that carries the label of the run and belongs to `owner`.
    pub(crate) async fn create(
        &self,
        requests: &Requests<'_>,
        kind: Kind,
        object: Value,
        owner: Option<&Value>,
    ) -> Result<Value, Error> {
        let _sent = self.send()?;
        let object = prepared(object, &self.run, owner);
        let name = Named::of(kind, &object);
        // Noted first: an answer may get lost, or nobody may be left to hear it.
        self.entries().push(Entry::Made(name.clone(), None));
        let created = requests.create(kind, &object, &self.run).await;
        match &created {
            Ok(created) => self.is_made(&name, uid(created)),
            Err(Error::Exists { .. }) => {
                self.entries().retain(|entry| !matches!(entry, Entry::Made(made, _) if *made == name));
            }
            Err(_) => {}
        }
        created
    }

    fn is_made(&self, name: &Named, uid: Option<&str>) {
        for entry in self.entries().iter_mut() {
            if let Entry::Made(made, known) = entry
                && made == name
            {
                *known = uid.map(str::to_owned);
            }
        }
    }

    /// Changes an object, and notes what it was.
    pub(crate) async fn change(
        &self,
        requests: &Requests<'_>,
        object: &Named,
        change: impl Fn(&mut Value),
    ) -> Result<Value, Error> {
        let _sent = self.send()?;
        let before = requests.get(object).await?.ok_or_else(|| Error::Gone { object: object.to_string() })?;
        let known = self.entries().iter().any(|entry| entry.object() == object);
        if !known {
            self.entries().push(Entry::Changed(object.clone(), Box::new(before)));
        }
        requests.change(object, change).await
    }

    /// Deletes an object, and notes what it was.
    pub(crate) async fn delete(&self, requests: &Requests<'_>, object: &Named, before: Value) -> Result<(), Error> {
        let _sent = self.send()?;
        let which = uid(&before).map(str::to_owned);
        self.entries().push(Entry::Changed(object.clone(), Box::new(before)));
        requests.delete(object, which.as_deref()).await.map(|_| ())
    }

    /// Notes an InstallPlan before it is approved, which it is while the caller keeps what is returned.
    pub(crate) fn approves(&self, planned: Planned) -> Result<Sent<'_>, Error> {
        let sent = self.send()?;
        self.entries().push(Entry::Planned(Box::new(planned)));
        Ok(sent)
    }

    /// Rolls everything back, what came last first.
    pub async fn roll_back(&self, cluster: &Cluster, watcher: &dyn Watcher) -> RolledBack {
        let requests = Requests::within(cluster, watcher, PATIENCE);
        let mut outcome = RolledBack::default();
        loop {
            let Some(entry) = self.entries().last().cloned() else { return outcome };
            if let Err(error) = self.roll_one_back(&requests, &entry, &mut outcome).await {
                outcome.failed.push(format!("{}: {error}", entry.object()));
            }
            self.entries().pop();
        }
    }

    async fn roll_one_back(
        &self,
        requests: &Requests<'_>,
        entry: &Entry,
        outcome: &mut RolledBack,
    ) -> Result<(), Error> {
        let done = |object: &Named| requests.watcher.done(&format!("Rolled back: {object}"));
        match entry {
            Entry::Made(object, made) => {
                let ours = |there: &Value| {
                    is_of_run(there, &self.run) && made.as_deref().is_none_or(|made| uid(there) == Some(made))
                };
                let Some(there) = requests.get(object).await?.filter(ours) else { return Ok(()) };
                requests.delete(object, uid(&there)).await?;
                requests.wait_until_gone(object, uid(&there)).await?;
                done(object);
            }
            Entry::Planned(planned) => {
                // The plan goes with its Subscription, so that it is read first.
                let steps = planned.steps(requests).await?;
                // OLM would go on with what the Subscription asks for.
                let subscriptions: Vec<Entry> =
                    self.entries().iter().filter(|entry| entry.object().kind == Kind::SUBSCRIPTION).cloned().collect();
                for subscription in &subscriptions {
                    Box::pin(self.roll_one_back(requests, subscription, outcome)).await?;
                }
                planned.remove(requests, &steps, outcome, &done).await?;
            }
            Entry::Changed(object, before) => {
                let Some(now) = requests.get(object).await? else {
                    self.make_again(requests, object, before).await?;
                    done(object);
                    return Ok(());
                };
                let differs = PARTS.iter().any(|(holder, key)| part(&now, *holder, key) != part(before, *holder, key));
                requests.change(object, |object| restore(object, before)).await?;
                if differs {
                    done(object);
                }
            }
        }
        Ok(())
    }

    async fn make_again(&self, requests: &Requests<'_>, object: &Named, before: &Value) -> Result<(), Error> {
        let mut again = before.clone();
        if let Some(metadata) = again["metadata"].as_object_mut() {
            metadata.retain(|key, _| {
                matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations" | "ownerReferences")
            });
        }
        if let Some(again) = again.as_object_mut() {
            again.remove("status");
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

/// Gives an object back what runs change of it.
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
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_closed_ledger_waits_for_answers_and_lets_nothing_follow() {
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
    fn an_object_gets_back_what_it_was() {
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
