//! Leader election: the replica that holds the lease does the work.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::metrics::ControllerMetrics;
use crate::error::{api_message, has_code};
use crate::views::{self, LeaseSpec, View};
use crate::{Cluster, ClusterObject, Error, ResourceKind};

/// A lease and its candidate.
pub(crate) struct LeaderLease {
    leases: Api<ClusterObject>,
    name: String,
    namespace: String,
    identity: String,
    duration: Duration,
    metrics: Arc<ControllerMetrics>,
    /// The last observed version, and when it was first observed: clocks of other machines are not trusted.
    seen: Option<(Option<String>, Instant)>,
}

impl LeaderLease {
    pub(crate) fn new(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        identity: &str,
        duration: Duration,
        metrics: Arc<ControllerMetrics>,
    ) -> LeaderLease {
        LeaderLease {
            leases: cluster.objects_in(ResourceKind::LEASE, namespace),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            duration,
            metrics,
            seen: None,
        }
    }

    /// Waits until this replica holds the lease.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match self.try_acquire().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "reading the lease failed"),
            }
            self.metrics.beat();
            tokio::time::sleep(self.duration / 5).await;
        }
    }

    /// Renews the lease; returns when it is lost.
    pub(crate) async fn keep(&mut self) {
        let mut kept = Instant::now();
        // This replica must stop before others may start.
        let deadline = self.duration * 2 / 3;
        loop {
            tokio::time::sleep(self.duration / 5).await;
            self.metrics.beat();
            let renewed = tokio::time::timeout(deadline.saturating_sub(kept.elapsed()), self.try_acquire()).await;
            match renewed {
                Ok(Ok(true)) => kept = Instant::now(),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!(%error, "renewing the lease failed"),
                Err(_) => {}
            }
            if kept.elapsed() >= deadline {
                return;
            }
        }
    }

    /// Releases the lease, so that another replica need not wait for its expiry. If this fails, the lease expires.
    pub(crate) async fn release(&self) {
        // A renewal that was in flight when the controller stopped can arrive meanwhile, but not twice.
        for _ in 0..2 {
            let Ok(Some(found)) = self.leases.get_opt(&self.name).await else { return };
            let Ok(mut lease) = views::Lease::of(&found) else { return };
            if lease.spec.holder_identity != self.identity {
                return;
            }
            lease.spec.holder_identity.clear();
            lease.spec.lease_duration_seconds = 1;
            let Ok(released) = object(&lease) else { return };
            let replaced = self.leases.replace(&self.name, &PostParams::default(), &released).await;
            if !matches!(won(replaced), Ok(false)) {
                return;
            }
        }
    }

    /// Acquires or renews the lease; returns whether this replica holds it.
    async fn try_acquire(&mut self) -> Result<bool, Error> {
        let what = || format!("lease {}/{}", self.namespace, self.name);
        let found = self.leases.get_opt(&self.name).await.map_err(Error::api(what()))?;
        self.metrics.reached.store(true, Ordering::Relaxed);
        let now = Timestamp::now();
        let now = format!("{}.{:06}Z", now.strftime("%Y-%m-%dT%H:%M:%S"), now.subsec_microsecond());
        let Some(found) = found else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            };
            let lease = object(&views::Lease::new(metadata, self.spec(LeaseSpec::default(), &now)))?;
            return won(self.leases.create(&PostParams::default(), &lease).await).map_err(Error::api(what()));
        };
        let mut lease = views::Lease::of(&found)?;
        let holder = &lease.spec.holder_identity;
        let version = lease.metadata.resource_version.clone();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => Instant::now(),
        };
        self.seen = Some((version, since));
        let theirs = Duration::from_secs(lease.spec.lease_duration_seconds);
        if *holder != self.identity && !holder.is_empty() && since.elapsed() <= theirs.max(self.duration) {
            return Ok(false);
        }
        lease.spec = self.spec(lease.spec, &now);
        let replaced = self.leases.replace(&self.name, &PostParams::default(), &object(&lease)?).await;
        won(replaced).map_err(Error::api(what()))
    }

    /// Returns the spec with which this replica takes or renews the lease.
    fn spec(&self, before: LeaseSpec, now: &str) -> LeaseSpec {
        let ours = before.holder_identity == self.identity;
        let is_new = before == LeaseSpec::default();
        LeaseSpec {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: self.duration.as_secs().max(1),
            acquire_time: Some(before.acquire_time).filter(|time| ours && !time.is_empty()).unwrap_or(now.to_owned()),
            renew_time: now.to_owned(),
            lease_transitions: before.lease_transitions + u64::from(!ours && !is_new),
            rest: before.rest,
        }
    }
}

/// Returns the object of a lease.
fn object(lease: &views::Lease) -> Result<ClusterObject, Error> {
    serde_json::from_value(json!(lease)).map_err(|error| Error::Failed(error.to_string()))
}

/// Returns whether a write won against concurrent ones.
fn won(written: Result<ClusterObject, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if has_code(&error, 409) => {
            tracing::debug!(error = api_message(&error), "another replica was faster");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_renewal_in_flight_does_not_prevent_the_release() {
        let lease = json!({
            "apiVersion": ResourceKind::LEASE.api_version(), "kind": ResourceKind::LEASE.kind,
            "metadata": {"name": "lease", "namespace": "ns"}, "spec": {"holderIdentity": "us"},
        });
        // The answers to writes: the first one conflicts with a renewal that arrived in between.
        let statuses = Arc::new(Mutex::new(vec![200, 409]));
        let answers = Arc::clone(&statuses);
        let service = tower::service_fn(move |request: Request<Body>| {
            let status = match request.method() {
                &Method::PUT => answers.lock().unwrap().pop().unwrap(),
                _ => 200,
            };
            let conflict = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"});
            let text = if status == 409 { conflict.to_string() } else { lease.to_string() };
            let response = Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let cluster = Cluster {
            client: kube::Client::new(service, "ns"),
            namespace: "ns".into(),
            server: crate::access::ApiServer::default(),
        };
        let metrics = Arc::new(ControllerMetrics::new(Duration::from_secs(2)));
        LeaderLease::new(&cluster, "ns", "lease", "us", Duration::from_secs(2), metrics).release().await;
        assert!(statuses.lock().unwrap().is_empty(), "the release was not tried again");
    }
}
