//! Requests that outlive restarts of the API server, up to a deadline.

use std::future::Future;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::has_code;
use crate::run::names::FIELD_MANAGER;
use crate::run::objects;
use crate::watch::Watch;
use crate::{Cluster, Error, Kind, Watcher};

/// How long is paused before a request is sent again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// One request may take so long before it is sent again.
const ONE_REQUEST: Duration = Duration::from_secs(30);
/// So much of the time is kept, at most, to find out why something did not happen.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// So much of a log is shown.
const LOG_LINES: i64 = 10;
const LOG_BYTES: i64 = 64 << 10;

/// An object, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its kind.
    pub(crate) kind: Kind,
    /// The namespace it is in; ignored where the kind knows none.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl Named {
    pub(crate) fn new(kind: Kind, namespace: &str, name: &str) -> Named {
        Named { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns which object a description is of.
    pub(crate) fn of(kind: Kind, object: &Value) -> Named {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        Named::new(kind, text("namespace"), text("name"))
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind.namespaced {
            true => write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name),
            false => write!(f, "{} {}", self.kind.kind, self.name),
        }
    }
}

/// Talks to a cluster until a deadline, whatever happens to its API server meanwhile. No request outlives the deadline.
pub(crate) struct Requests<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) watcher: &'a dyn Watcher,
    deadline: Instant,
    /// When waiting ends; what is left of the time is for finding out why.
    end: Instant,
}

/// Whether an answer may be another one next time.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
        // The answer broke off, or came from something in between.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => true,
        _ => false,
    }
}

/// Returns how long the API server asks to be left alone.
fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// Pauses that grow.
#[derive(Debug, Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    pub(crate) fn next(&mut self) -> Duration {
        let pause = PAUSE.0.saturating_mul(1 << self.0.min(8)).min(PAUSE.1);
        self.0 += 1;
        pause
    }
}

impl<'a> Requests<'a> {
    pub(crate) fn new(cluster: &'a Cluster, watcher: &'a dyn Watcher, deadline: std::time::Instant) -> Requests<'a> {
        let deadline = Instant::from(deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        Requests { cluster, watcher, deadline, end: deadline - LAST_LOOK.min(left / 10) }
    }

    /// Returns requests that may take so long from now.
    pub(crate) fn within(cluster: &'a Cluster, watcher: &'a dyn Watcher, time: Duration) -> Requests<'a> {
        let now = std::time::Instant::now();
        Requests::new(cluster, watcher, now.checked_add(time).unwrap_or(now + Duration::from_secs(365 * 86400)))
    }

    /// Returns whether the time for waiting is up.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Returns when waiting ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Returns what is left of the time, for finding out why something did not happen.
    pub(crate) fn last_look(&self) -> Requests<'a> {
        Requests { cluster: self.cluster, watcher: self.watcher, deadline: self.deadline, end: self.deadline }
    }

    /// Fails if there is no time left to begin anything.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.is_over() {
            true => Err(Error::Late {
                what: "preparing the catalog".into(),
                cause: "the time is for everything together, pulling included; nothing was created".into(),
            }),
            false => Ok(()),
        }
    }

    fn api(&self, object: &Named) -> Api<DynamicObject> {
        self.cluster.objects_in(object.kind, &object.namespace)
    }

    /// Sends a request until it is answered, with growing pauses or those that the API server asks for; the request
    /// gets how often it was sent already.
    pub(crate) async fn persist<T, Answer>(
        &self,
        what: &str,
        mut request: impl FnMut(usize) -> Answer,
    ) -> Result<T, Error>
    where
        Answer: Future<Output = Result<T, kube::Error>>,
    {
        const SERVER: &str = "API server";
        let (mut pauses, mut last) = (Pauses::default(), None);
        for sent in 0.. {
            self.watcher.request(what);
            let error = match timeout_at(self.deadline.min(Instant::now() + ONE_REQUEST), request(sent)).await {
                Ok(Ok(answer)) => {
                    if last.is_some() {
                        self.watcher.state(SERVER, "");
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) if !is_passing(&error) => return Err(Error::api(what)(error)),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let now = Instant::now();
            let asked = error.as_ref().and_then(retry_after);
            let next = now + asked.unwrap_or_else(|| pauses.next());
            let is_late = now >= self.end || (asked.is_some() && next >= self.end);
            let text = error.as_ref().map_or_else(|| "no answer".to_owned(), crate::error::said);
            let error = error.map_or_else(|| Error::Silent { what: what.to_owned() }, Error::api(what));
            if is_late {
                // What came last may say less than what came before.
                return Err(match (error, last) {
                    (Error::Silent { .. }, Some(last)) => last,
                    (error, _) => error,
                });
            }
            self.watcher.state(SERVER, &format!("asking again: {text}"));
            last = Some(error);
            sleep_until(next.min(self.end)).await;
        }
        Err(Error::Silent { what: what.to_owned() })
    }

    /// Sends a request that must not be sent twice, since its answer may be lost.
    pub(crate) async fn once<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        self.watcher.request(what);
        match timeout_at(self.deadline.min(Instant::now() + ONE_REQUEST), request).await {
            Ok(answer) => answer.map_err(Error::api(what)),
            Err(_) => Err(Error::Silent { what: what.to_owned() }),
        }
    }

    pub(crate) async fn get(&self, object: &Named) -> Result<Option<Value>, Error> {
        let api = self.api(object);
        let found = self.persist(&format!("reading {object}"), |_| api.get_opt(&object.name)).await?;
        Ok(found.map(value))
    }

    /// Returns the objects of a kind in a namespace, without their content if that may be large.
    pub(crate) async fn list(&self, kind: Kind, namespace: &str, selector: &ListParams) -> Result<Vec<Value>, Error> {
        let api = self.cluster.objects_in(kind, namespace);
        let what = match kind.namespaced {
            true => format!("listing {} in namespace {namespace}", kind.plural),
            false => format!("listing {}", kind.plural),
        };
        if kind == Kind::CONFIG_MAP {
            let found = self.persist(&what, |_| api.list_metadata(selector)).await?;
            let items = found.items.into_iter();
            return Ok(items.map(|item| serde_json::to_value(item).unwrap_or_default()).collect());
        }
        let found = self.persist(&what, |_| api.list(selector)).await?;
        Ok(found.items.into_iter().map(value).collect())
    }

    /// Returns the objects of a kind in all namespaces.
    pub(crate) async fn list_everywhere(&self, kind: Kind) -> Result<Vec<Value>, Error> {
        self.list_everywhere_with(kind, &ListParams::default()).await
    }

    /// Returns those objects of a kind in all namespaces that a selector chooses.
    pub(crate) async fn list_everywhere_with(&self, kind: Kind, selector: &ListParams) -> Result<Vec<Value>, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client.clone(), &kind.resource());
        let what = format!("listing {} in all namespaces", kind.plural);
        let found = self.persist(&what, |_| api.list(selector)).await?;
        Ok(found.items.into_iter().map(value).collect())
    }

    /// Creates an object. One that a lost answer has left behind is taken for it, by the label of the run.
    pub(crate) async fn create(&self, kind: Kind, object: &Value, run: &str) -> Result<Value, Error> {
        let name = Named::of(kind, object);
        let api = self.api(&name);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let description = description(object)?;
        let again = std::sync::atomic::AtomicBool::new(false);
        let created = self
            .persist(&format!("creating {name}"), |sent| {
                again.store(sent > 0, std::sync::atomic::Ordering::Relaxed);
                api.create(&parameters, &description)
            })
            .await;
        match created {
            Ok(created) => Ok(value(created)),
            Err(Error::Api { source, .. })
                if has_code(&source, 409) && again.load(std::sync::atomic::Ordering::Relaxed) =>
            {
                let there = self.get(&name).await?.filter(|there| is_of_run(there, run));
                there.ok_or_else(|| Error::Exists { object: name.to_string() })
            }
            Err(Error::Api { source, .. }) if has_code(&source, 409) => Err(Error::Exists { object: name.to_string() }),
            Err(error) => Err(error),
        }
    }

    /// Changes an object, reading it again as often as somebody else changes it meanwhile.
    ///
    /// Nothing is sent if the change makes no difference.
    pub(crate) async fn change(&self, object: &Named, change: impl Fn(&mut Value)) -> Result<Value, Error> {
        let api = self.api(object);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let mut pauses = Pauses::default();
        loop {
            let before = self.get(object).await?.ok_or_else(|| Error::Gone { object: object.to_string() })?;
            let mut after = before.clone();
            change(&mut after);
            if after == before {
                return Ok(after);
            }
            let description = description(&after)?;
            let what = format!("updating {object}");
            match self.persist(&what, |_| api.replace(&object.name, &parameters, &description)).await {
                Ok(changed) => return Ok(value(changed)),
                Err(Error::Api { source, .. }) if has_code(&source, 409) && !self.is_over() => {
                    // Somebody else was faster, and is likely to be done now.
                    sleep_until((Instant::now() + pauses.next() / 10).min(self.end)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes an object; returns whether there was one.
    ///
    /// A ClusterExtension is gone only when everything that it has made is.
    pub(crate) async fn delete(&self, object: &Named, uid: Option<&str>) -> Result<bool, Error> {
        let api = self.api(object);
        let preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let how = match object.kind == Kind::CLUSTER_EXTENSION {
            true => DeleteParams::foreground(),
            false => DeleteParams::background(),
        };
        let parameters = DeleteParams { preconditions, ..how };
        let deleted = self
            .persist(&format!("deleting {object}"), |_| async {
                match api.delete(&object.name, &parameters).await {
                    Ok(_) => Ok(true),
                    // Gone already, or another has taken its place.
                    Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(false),
                    Err(error) => Err(error),
                }
            })
            .await?;
        Ok(deleted)
    }

    /// Waits until an object is gone, or another one has its name.
    pub(crate) async fn wait_until_gone(&self, object: &Named, uid: Option<&str>) -> Result<(), Error> {
        let mut watch = Watch::objects(self, &[object]);
        loop {
            let there = self.get(object).await?;
            let Some(there) = there.filter(|there| uid.is_none() || there["metadata"]["uid"].as_str() == uid) else {
                return Ok(());
            };
            if self.is_over() {
                let finalizers = there["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                let finalizers: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
                let why = match finalizers.as_slice() {
                    [] => "it is still there".to_owned(),
                    some => format!("finalizers hold it: {}", some.join(", ")),
                };
                return Err(Error::Late { what: format!("deleting {object}"), cause: why });
            }
            watch.changed().await;
        }
    }

    /// Returns the last lines that a container wrote, of its last run if that one is over.
    pub(crate) async fn log(&self, pod: &Named, container: &str) -> Option<String> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.cluster.client.clone(), &pod.namespace);
        for previous in [true, false] {
            let parameters = LogParams {
                container: Some(container.to_owned()),
                previous,
                tail_lines: Some(LOG_LINES),
                limit_bytes: Some(LOG_BYTES),
                ..LogParams::default()
            };
            let text = timeout_at(self.deadline, pods.logs(&pod.name, &parameters)).await;
            if let Ok(Ok(text)) = text
                && !text.trim().is_empty()
            {
                return Some(text.trim_end().to_owned());
            }
        }
        None
    }
}

/// Returns whether an object was made by a run.
pub(crate) fn is_of_run(object: &Value, run: &str) -> bool {
    object["metadata"]["labels"][crate::run::names::RUN_LABEL] == json!(run)
}

pub(crate) fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn description(object: &Value) -> Result<DynamicObject, Error> {
    serde_json::from_value(object.clone()).map_err(|error| Error::Message(error.to_string()))
}

/// Makes an object carry the label of its run, and belong to its owner.
pub(crate) fn prepared(mut object: Value, run: &str, owner: Option<&Value>) -> Value {
    objects::label(&mut object, run);
    if let Some(owner) = owner {
        objects::own(&mut object, owner);
    }
    object
}
