//! Requests that survive restarts of the API server, up to a deadline.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams, Preconditions};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::has_code;
use crate::run::names::{FIELD_MANAGER, RUN_LABEL};
use crate::views::{AnyObject, Stored, View, decode, label};
use crate::watch::Watch;
use crate::{Cluster, ClusterObject, Error, ResourceKind, Watcher};

/// The backoff between attempts, first and maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// The timeout of a single attempt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections to an API server that has never answered are retried: its address is probably wrong.
const FIRST_ANSWER: Duration = Duration::from_millis(2500);
/// The part of the time reserved, at most, for finding the cause of a timeout.
const DIAGNOSIS_TIME: Duration = Duration::from_secs(3);
/// The lines of a log to show.
const LOG_LINES: i64 = 10;
const LOG_BYTES: i64 = 64 << 10;

/// An object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// Its kind.
    pub(crate) kind: ResourceKind,
    /// Its namespace; ignored for cluster-scoped kinds.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

impl ObjectName {
    pub(crate) fn new(kind: ResourceKind, namespace: &str, name: &str) -> ObjectName {
        ObjectName { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the name of an object from its metadata.
    pub(crate) fn named(kind: ResourceKind, metadata: &ObjectMeta) -> ObjectName {
        ObjectName::new(kind, metadata.namespace(), metadata.name())
    }

    /// Returns the name of an object from its JSON.
    pub(crate) fn of(kind: ResourceKind, object: &Value) -> Result<ObjectName, Error> {
        Ok(ObjectName::named(kind, &AnyObject::of(object)?.metadata))
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind.namespaced {
            true => write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name),
            false => write!(f, "{} {}", self.kind.kind, self.name),
        }
    }
}

/// Sends requests to a cluster until a deadline, through restarts of its API server. No request outlives the
/// deadline.
pub(crate) struct Requests<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) watcher: &'a dyn Watcher,
    deadline: Instant,
    /// When waiting ends; the rest of the time is for finding the cause.
    end: Instant,
    /// The objects that these requests deleted.
    deleted: Mutex<Vec<ObjectName>>,
}

/// Returns whether an error is transient.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
        // The response was truncated, or came from a proxy.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => true,
        _ => false,
    }
}

/// Returns whether there was no response because there is no connection.
fn is_unconnected(error: &kube::Error) -> bool {
    matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_))
}

/// Returns the delay that the API server asks for.
fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// Growing delays.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let pause = BACKOFF.0.saturating_mul(1 << self.0.min(8)).min(BACKOFF.1);
        self.0 += 1;
        pause
    }
}

impl<'a> Requests<'a> {
    pub(crate) fn new(cluster: &'a Cluster, watcher: &'a dyn Watcher, deadline: std::time::Instant) -> Requests<'a> {
        let deadline = Instant::from(deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        let end = deadline - DIAGNOSIS_TIME.min(left / 10);
        Requests { cluster, watcher, deadline, end, deleted: Mutex::default() }
    }

    /// Returns requests with a timeout from now.
    pub(crate) fn within(cluster: &'a Cluster, watcher: &'a dyn Watcher, time: Duration) -> Requests<'a> {
        let now = std::time::Instant::now();
        Requests::new(cluster, watcher, now.checked_add(time).unwrap_or(now + Duration::from_secs(365 * 86400)))
    }

    /// Returns whether the time for waiting is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Returns when waiting ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Returns requests with the reserved time, for finding the cause of a timeout.
    pub(crate) fn diagnosis(&self) -> Requests<'a> {
        Requests {
            cluster: self.cluster,
            watcher: self.watcher,
            deadline: self.deadline,
            end: self.deadline,
            deleted: Mutex::default(),
        }
    }

    /// Fails if there is no time left to start anything.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.is_over() {
            true => Err(Error::Timeout {
                what: "preparing the catalog".into(),
                cause: "the timeout covers everything, including pulls; nothing was created".into(),
            }),
            false => Ok(()),
        }
    }

    fn api(&self, object: &ObjectName) -> Api<ClusterObject> {
        self.cluster.objects_in(object.kind, &object.namespace)
    }

    /// Sends a request until it gets a response, with backoff or the delay that the API server asks for; the request
    /// receives the number of earlier attempts.
    pub(crate) async fn retry<T, Answer>(
        &self,
        what: &str,
        mut request: impl FnMut(usize) -> Answer,
    ) -> Result<T, Error>
    where
        Answer: Future<Output = Result<T, kube::Error>>,
    {
        const SERVER: &str = "API server";
        let (mut pauses, mut last) = (Backoff::default(), None);
        let server = &self.cluster.server;
        let give_up = server.first_request() + FIRST_ANSWER;
        for sent in 0.. {
            self.watcher.request(what);
            let error = match timeout_at(self.deadline.min(Instant::now() + REQUEST_TIMEOUT), request(sent)).await {
                Ok(Ok(answer)) => {
                    server.answered();
                    if last.is_some() {
                        self.watcher.state(SERVER, "");
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) if !is_transient(&error) => {
                    server.answered();
                    return Err(Error::api(what)(error));
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let now = Instant::now();
            let cause = error.as_ref().filter(|error| is_unconnected(error));
            match cause {
                // A server that answered before is probably restarting.
                Some(cause) if !server.has_answered() && now + BACKOFF.0 >= give_up => {
                    let certificate = timeout_at(now + FIRST_ANSWER / 2, server.certificate()).await.ok().flatten();
                    return Err(Error::Unreachable {
                        what: what.to_owned(),
                        server: server.to_string(),
                        cause: crate::error::root_cause(cause),
                        certificate,
                    });
                }
                None if error.is_some() => server.answered(),
                _ => {}
            }
            let asked = error.as_ref().and_then(retry_after);
            let next = now + asked.unwrap_or_else(|| pauses.next());
            let is_late = now >= self.end || (asked.is_some() && next >= self.end);
            let text = error.as_ref().map_or_else(|| "no response".to_owned(), crate::error::api_message);
            let error = error.map_or_else(|| Error::NoResponse { what: what.to_owned() }, Error::api(what));
            if is_late {
                // The last error may say less than an earlier one.
                return Err(match (error, last) {
                    (Error::NoResponse { .. }, Some(last)) => last,
                    (error, _) => error,
                });
            }
            self.watcher.state(SERVER, &format!("retrying: {text}"));
            last = Some(error);
            sleep_until(next.min(self.end)).await;
        }
        Err(Error::NoResponse { what: what.to_owned() })
    }

    /// Sends a request that must not be sent twice, because its response may be lost.
    pub(crate) async fn once<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        self.watcher.request(what);
        match timeout_at(self.deadline.min(Instant::now() + REQUEST_TIMEOUT), request).await {
            Ok(answer) => answer.map_err(Error::api(what)),
            Err(_) => Err(Error::NoResponse { what: what.to_owned() }),
        }
    }

    /// Reads an object as it is.
    pub(crate) async fn get(&self, object: &ObjectName) -> Result<Option<ClusterObject>, Error> {
        let api = self.api(object);
        self.retry(&format!("reading {object}"), |_| api.get_opt(&object.name)).await
    }

    /// Reads the metadata of an object.
    pub(crate) async fn metadata(&self, object: &ObjectName) -> Result<Option<ObjectMeta>, Error> {
        Ok(self.get(object).await?.map(|found| found.metadata))
    }

    /// Reads the view of an object.
    pub(crate) async fn read<K: View>(&self, object: &ObjectName) -> Result<Option<K>, Error> {
        self.get(object).await?.as_ref().map(K::of).transpose()
    }

    /// Lists the objects of a kind in a namespace.
    pub(crate) async fn list<K: View>(&self, namespace: &str, selector: &ListParams) -> Result<Vec<K>, Error> {
        let api = self.cluster.objects_in(K::KIND, namespace);
        let found = self.retry(&listing(K::KIND, namespace), |_| api.list(selector)).await?;
        found.items.iter().map(K::of).collect()
    }

    /// Lists the objects of a kind in all namespaces.
    pub(crate) async fn list_everywhere<K: View>(&self) -> Result<Vec<K>, Error> {
        let api: Api<ClusterObject> = Api::all_with(self.cluster.client.clone(), &K::KIND.resource());
        let what = format!("listing {} in all namespaces", K::KIND.plural);
        let all = ListParams::default();
        let found = self.retry(&what, |_| api.list(&all)).await?;
        found.items.iter().map(K::of).collect()
    }

    /// Lists the metadata of the objects of a kind in a namespace; an empty namespace means all.
    pub(crate) async fn list_metadata(
        &self,
        kind: ResourceKind,
        namespace: &str,
        selector: &ListParams,
    ) -> Result<Vec<ObjectMeta>, Error> {
        let (api, what) = match kind.namespaced && namespace.is_empty() {
            true => (
                Api::<ClusterObject>::all_with(self.cluster.client.clone(), &kind.resource()),
                format!("listing {} in all namespaces", kind.plural),
            ),
            false => (self.cluster.objects_in(kind, namespace), listing(kind, namespace)),
        };
        let found = self.retry(&what, |_| api.list_metadata(selector)).await?;
        Ok(found.items.into_iter().map(|item| item.metadata).collect())
    }

    /// Creates an object. If a response was lost, the label of the run identifies the created object.
    pub(crate) async fn create(
        &self,
        kind: ResourceKind,
        object: &ClusterObject,
        run: &str,
    ) -> Result<ClusterObject, Error> {
        let name = ObjectName::named(kind, &object.metadata);
        let api = self.api(&name);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let again = std::sync::atomic::AtomicBool::new(false);
        let created = self
            .retry(&format!("creating {name}"), |sent| {
                again.store(sent > 0, std::sync::atomic::Ordering::Relaxed);
                api.create(&parameters, object)
            })
            .await;
        match created {
            Ok(created) => Ok(created),
            Err(Error::Api { source, .. })
                if has_code(&source, 409) && again.load(std::sync::atomic::Ordering::Relaxed) =>
            {
                let there = self.get(&name).await?.filter(|there| is_of_run(&there.metadata, run));
                there.ok_or_else(|| Error::Exists { object: name.to_string() })
            }
            Err(Error::Api { source, .. }) if has_code(&source, 409) => Err(Error::Exists { object: name.to_string() }),
            Err(error) => Err(error),
        }
    }

    /// Changes an object, reading it again after each conflict.
    ///
    /// Sends nothing if the change has no effect.
    pub(crate) async fn change(&self, object: &ObjectName, change: impl Fn(&mut Value)) -> Result<Value, Error> {
        self.try_change(object, |object| {
            change(object);
            Ok(())
        })
        .await
    }

    async fn try_change(
        &self,
        object: &ObjectName,
        change: impl Fn(&mut Value) -> Result<(), Error>,
    ) -> Result<Value, Error> {
        let api = self.api(object);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let mut pauses = Backoff::default();
        loop {
            let before = self.get(object).await?.ok_or_else(|| Error::Deleted { object: object.to_string() })?;
            let before = json!(before);
            let mut after = before.clone();
            change(&mut after)?;
            if after == before {
                return Ok(after);
            }
            let description = description(after)?;
            let what = format!("updating {object}");
            match self.retry(&what, |_| api.replace(&object.name, &parameters, &description)).await {
                Ok(changed) => return Ok(json!(changed)),
                Err(Error::Api { source, .. }) if has_code(&source, 409) && !self.is_over() => {
                    // Another client won; it is probably done now.
                    sleep_until((Instant::now() + pauses.next() / 10).min(self.end)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Changes the view of an object, reading it again after each conflict.
    pub(crate) async fn update<K: View + Serialize + Clone + PartialEq>(
        &self,
        object: &ObjectName,
        change: impl Fn(&mut K),
    ) -> Result<K, Error> {
        self.try_update(object, |object| {
            change(object);
            Ok(())
        })
        .await
    }

    /// Changes the view of an object, unless its current state does not allow that.
    pub(crate) async fn try_update<K: View + Serialize + Clone + PartialEq>(
        &self,
        object: &ObjectName,
        change: impl Fn(&mut K) -> Result<(), Error>,
    ) -> Result<K, Error> {
        let changed = self.try_change(object, |object| {
            let before: K = decode(object.clone())?;
            let mut after = before.clone();
            change(&mut after)?;
            if after != before {
                *object = json!(after);
            }
            Ok(())
        });
        decode(changed.await?)
    }

    /// Deletes an object; returns whether it existed.
    ///
    /// A ClusterExtension is deleted in the foreground, after its dependents.
    pub(crate) async fn delete(&self, object: &ObjectName, uid: Option<&str>) -> Result<bool, Error> {
        let api = self.api(object);
        let preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let how = match object.kind == ResourceKind::CLUSTER_EXTENSION {
            true => DeleteParams::foreground(),
            false => DeleteParams::background(),
        };
        let parameters = DeleteParams { preconditions, ..how };
        let deleted = self
            .retry(&format!("deleting {object}"), |_| async {
                match api.delete(&object.name, &parameters).await {
                    Ok(_) => Ok(true),
                    // Already deleted, or replaced by another object.
                    Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(false),
                    Err(error) => Err(error),
                }
            })
            .await?;
        if deleted {
            self.deleted.lock().unwrap_or_else(PoisonError::into_inner).push(object.clone());
        }
        Ok(deleted)
    }

    /// Returns the names of the objects that these requests deleted, in order.
    pub(crate) fn deleted(&self) -> Vec<String> {
        let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.iter().map(ToString::to_string).collect()
    }

    /// Waits until an object is deleted, or another one has its name.
    pub(crate) async fn wait_until_gone(&self, object: &ObjectName, uid: Option<&str>) -> Result<(), Error> {
        let mut watch = Watch::objects(self, &[object]);
        loop {
            let there = self.metadata(object).await?;
            let Some(there) = there.filter(|there| uid.is_none() || there.uid.as_deref() == uid) else {
                return Ok(());
            };
            if self.is_over() {
                let why = match there.finalizers.as_deref() {
                    None | Some([]) => "it still exists".to_owned(),
                    Some(finalizers) => format!("blocked by finalizers: {}", finalizers.join(", ")),
                };
                return Err(Error::Timeout { what: format!("deleting {object}"), cause: why });
            }
            watch.changed().await;
        }
    }

    /// Returns the last lines of a container's log, of its previous run if that has ended.
    pub(crate) async fn log(&self, pod: &ObjectName, container: &str) -> Option<String> {
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

fn listing(kind: ResourceKind, namespace: &str) -> String {
    match kind.namespaced {
        true => format!("listing {} in namespace {namespace}", kind.plural),
        false => format!("listing {}", kind.plural),
    }
}

/// Returns whether a run created an object.
pub(crate) fn is_of_run(object: &ObjectMeta, run: &str) -> bool {
    label(object, RUN_LABEL) == Some(run)
}

/// Returns an object from its JSON.
pub(crate) fn description(object: Value) -> Result<ClusterObject, Error> {
    AnyObject::of(&object)?;
    serde_json::from_value(object).map_err(|error| Error::Failed(error.to_string()))
}
