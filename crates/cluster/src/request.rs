//! Requests that outlive restarts of the API server, up to a deadline.

use std::future::Future;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, LogParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::has_code;
use crate::run::names::FIELD_MANAGER;
use crate::run::objects;
use crate::{Cluster, Error, Kind, Watcher};

/// How often is looked whether something has happened.
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// One request may take so long before it is sent again.
const ONE_REQUEST: Duration = Duration::from_secs(30);
/// What is looked at when the time is up, to tell why, may take so long.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// So much of a log is shown.
const LOG_LINES: i64 = 10;
const LOG_BYTES: i64 = 64 << 10;

/// An object, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its kind.
    pub(crate) kind: Kind,
    /// The namespace it is in; not looked at where the kind knows none.
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

/// Talks to a cluster until a deadline, whatever happens to its API server meanwhile.
pub(crate) struct Requests<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) watcher: &'a dyn Watcher,
    pub(crate) deadline: Instant,
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

impl Requests<'_> {
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
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

    /// Waits for the time between two looks.
    pub(crate) async fn pause(&self) {
        sleep_until((Instant::now() + POLL).min(self.deadline)).await;
    }

    fn api(&self, object: &Named) -> Api<DynamicObject> {
        self.cluster.objects_in(object.kind, &object.namespace)
    }

    /// Sends a request until it is answered; `sent` is how often it was sent already.
    async fn persist<T, Answer>(&self, what: &str, mut request: impl FnMut(usize) -> Answer) -> Result<T, Error>
    where
        Answer: Future<Output = Result<T, kube::Error>>,
    {
        const SERVER: &str = "API server";
        let mut last = None;
        for sent in 0.. {
            self.watcher.request(what);
            let now = Instant::now();
            let until = self.deadline.max(now + LAST_LOOK).min(now + ONE_REQUEST);
            let error = match timeout_at(until, request(sent)).await {
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
            if let Some(error) = error {
                self.watcher.state(SERVER, &format!("asking again: {}", crate::error::told(&error)));
                last = Some(error);
            }
            if self.is_over() {
                return Err(match last {
                    Some(error) => Error::api(what)(error),
                    None => Error::Silent { what: what.to_owned() },
                });
            }
            self.pause().await;
        }
        Err(Error::Silent { what: what.to_owned() })
    }

    pub(crate) async fn get(&self, object: &Named) -> Result<Option<Value>, Error> {
        let api = self.api(object);
        let found = self.persist(&format!("reading {object}"), |_| api.get_opt(&object.name)).await?;
        Ok(found.map(value))
    }

    /// Returns the objects of a kind in a namespace, without their content if that may be large.
    pub(crate) async fn list(&self, kind: Kind, namespace: &str, selector: &ListParams) -> Result<Vec<Value>, Error> {
        let api = self.cluster.objects_in(kind, namespace);
        let what = format!("listing {} in namespace {namespace}", kind.plural);
        if kind == Kind::CONFIG_MAP {
            let found = self.persist(&what, |_| api.list_metadata(selector)).await?;
            let items = found.items.into_iter();
            return Ok(items.map(|item| serde_json::to_value(item).unwrap_or_default()).collect());
        }
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
                Err(Error::Api { source, .. }) if has_code(&source, 409) && !self.is_over() => self.pause().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes an object; tells whether there was one.
    pub(crate) async fn delete(&self, object: &Named, uid: Option<&str>) -> Result<bool, Error> {
        let api = self.api(object);
        let preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
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
            self.pause().await;
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
            let text = timeout_at(Instant::now() + Duration::from_secs(5), pods.logs(&pod.name, &parameters)).await;
            if let Ok(Ok(text)) = text
                && !text.trim().is_empty()
            {
                return Some(text.trim_end().to_owned());
            }
        }
        None
    }
}

/// Tells whether an object was made by a run.
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
