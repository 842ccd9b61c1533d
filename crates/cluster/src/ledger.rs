//! What a run has made and changed, so that it can be taken back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::request::{Named, Requests, is_of_run, prepared, uid};
use crate::run::names;
use crate::{Cluster, Error, Kind, Watcher};

/// Taking back may take so long, whatever time the run itself had.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something to take back.
#[derive(Debug, Clone)]
enum Entry {
    /// An object of this run, perhaps: it is noted before it is asked for.
    Made(Named),
    /// An object that somebody makes because of this run, and that was not there before.
    Caused(Named),
    /// An object that was there before, as it was.
    Changed(Named, Box<Value>),
}

impl Entry {
    fn object(&self) -> &Named {
        match self {
            Entry::Made(object) | Entry::Caused(object) | Entry::Changed(object, _) => object,
        }
    }
}

/// Everything that a run has made and changed, in order.
#[derive(Debug)]
pub struct Ledger {
    run: String,
    entries: Mutex<Vec<Entry>>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { run: names::run_id(), entries: Mutex::default() }
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

    /// Returns what would have to be taken back now.
    pub fn left(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.object().to_string()).collect()
    }

    /// Forgets everything: it stays.
    pub fn settle(&self) {
        self.entries().clear();
    }

    /// Creates an object that carries the label of the run and belongs to `owner`.
    pub(crate) async fn create(
        &self,
        requests: &Requests<'_>,
        kind: Kind,
        object: Value,
        owner: Option<&Value>,
    ) -> Result<Value, Error> {
        let object = prepared(object, &self.run, owner);
        let name = Named::of(kind, &object);
        // Noted first: an answer may get lost, or nobody may be left to hear it.
        self.entries().push(Entry::Made(name.clone()));
        let created = requests.create(kind, &object, &self.run).await;
        if let Err(Error::Exists { .. }) = &created {
            self.entries().retain(|entry| !matches!(entry, Entry::Made(made) if *made == name));
        }
        created
    }

    /// Changes an object, and notes what it was.
    pub(crate) async fn change(
        &self,
        requests: &Requests<'_>,
        object: &Named,
        change: impl Fn(&mut Value),
    ) -> Result<Value, Error> {
        let before = requests.get(object).await?.ok_or_else(|| Error::Gone { object: object.to_string() })?;
        let known = self.entries().iter().any(|entry| entry.object() == object);
        if !known {
            self.entries().push(Entry::Changed(object.clone(), Box::new(before)));
        }
        requests.change(object, change).await
    }

    /// Deletes an object, and notes what it was.
    pub(crate) async fn delete(&self, requests: &Requests<'_>, object: &Named, before: Value) -> Result<(), Error> {
        self.entries().push(Entry::Changed(object.clone(), Box::new(before)));
        requests.delete(object, None).await.map(|_| ())
    }

    /// Notes that somebody is going to make an object because of this run.
    pub(crate) fn causes(&self, object: Named) {
        self.entries().push(Entry::Caused(object));
    }

    /// Takes everything back, what came last first, and tells what could not be.
    pub async fn take_back(&self, cluster: &Cluster, watcher: &dyn Watcher) -> Vec<String> {
        let requests = Requests { cluster, watcher, deadline: Instant::now() + PATIENCE };
        let mut failed = Vec::new();
        loop {
            let Some(entry) = self.entries().last().cloned() else { return failed };
            match self.take_one_back(&requests, &entry).await {
                Ok(true) => watcher.done(&format!("Taken back: {}", entry.object())),
                Ok(false) => {}
                Err(error) => failed.push(format!("{}: {error}", entry.object())),
            }
            self.entries().pop();
        }
    }

    /// Takes one thing back; tells whether there was anything to do.
    async fn take_one_back(&self, requests: &Requests<'_>, entry: &Entry) -> Result<bool, Error> {
        match entry {
            Entry::Made(object) | Entry::Caused(object) => {
                let there = requests.get(object).await?;
                let ours = |there: &Value| matches!(entry, Entry::Caused(_)) || is_of_run(there, &self.run);
                let Some(there) = there.filter(ours) else { return Ok(false) };
                requests.delete(object, uid(&there)).await?;
                requests.wait_until_gone(object, uid(&there)).await?;
                Ok(true)
            }
            Entry::Changed(object, before) => {
                if requests.get(object).await?.is_none() {
                    return self.make_again(requests, object, before).await;
                }
                let mut differs = false;
                let now = requests.get(object).await?.unwrap_or_default();
                for (holder, key) in PARTS {
                    differs |= part(&now, holder, key) != part(before, holder, key);
                }
                requests.change(object, |object| restore(object, before)).await?;
                Ok(differs)
            }
        }
    }

    async fn make_again(&self, requests: &Requests<'_>, object: &Named, before: &Value) -> Result<bool, Error> {
        let mut again = before.clone();
        if let Some(metadata) = again["metadata"].as_object_mut() {
            metadata.retain(|key, _| {
                matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations" | "ownerReferences")
            });
        }
        if let Some(again) = again.as_object_mut() {
            again.remove("status");
        }
        requests.create(object.kind, &again, &self.run).await.map(|_| true)
    }
}

/// The parts of objects that runs change.
const PARTS: [(Option<&str>, &str); 5] = [
    (Some("metadata"), "annotations"),
    (Some("metadata"), "labels"),
    (None, "spec"),
    (None, "data"),
    (None, "binaryData"),
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
