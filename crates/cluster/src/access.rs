//! Connects to a cluster: kubeconfig, context and namespace.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::{Client, Config};

use tokio::time::Instant;

use crate::{Error, ResourceKind, kubeconfig};

/// An object of any kind.
pub type ClusterObject = DynamicObject;

/// How to reach a cluster; unset fields default to `KUBECONFIG`, `~/.kube/config` or, in a pod, the in-cluster
/// configuration.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// The namespace, instead of that of the context.
    pub namespace: Option<String>,
}

/// A cluster connection and the current namespace.
#[derive(Clone)]
pub struct Cluster {
    /// The API client.
    pub client: Client,
    /// The current namespace.
    pub namespace: String,
    /// The API server that the client is for.
    pub(crate) server: ApiServer,
}

/// The address of an API server, and whether it has answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiServer(Arc<ApiServerState>);

#[derive(Debug, Default)]
struct ApiServerState {
    url: String,
    /// The context of the kubeconfig.
    context: Option<String>,
    first_request: OnceLock<Instant>,
    has_answered: AtomicBool,
}

impl ApiServer {
    fn new(config: &Config, context: Option<String>) -> ApiServer {
        let url = config.cluster_url.to_string();
        ApiServer(Arc::new(ApiServerState { url, context, ..ApiServerState::default() }))
    }

    /// Returns when the first request was sent, which is now if there was none.
    pub(crate) fn first_request(&self) -> Instant {
        *self.0.first_request.get_or_init(Instant::now)
    }

    /// Records a response.
    pub(crate) fn answered(&self) {
        self.0.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns whether there was a response.
    pub(crate) fn has_answered(&self) -> bool {
        self.0.has_answered.load(Ordering::Relaxed)
    }

    /// Returns the certificate that the server presents, for an error message.
    pub(crate) async fn certificate(&self) -> Option<String> {
        image::presented_certificate(&self.0.url).await
    }
}

impl Display for ApiServer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.url.trim_end_matches('/'))?;
        match &self.0.context {
            Some(context) => write!(f, " (context {context:?})"),
            None => Ok(()),
        }
    }
}

impl Access {
    /// Loads the configuration without sending a request.
    pub async fn connect(&self) -> Result<Cluster, Error> {
        let (mut config, context) = self.config().await?;
        let server = ApiServer::new(&config, context);
        // A server that accepts connections but never responds must not block a command forever; bookmarks keep
        // watches alive.
        config.read_timeout = Some(Duration::from_secs(295));
        config.reset_reader_on_write = true;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(Error::api("preparing the connection to the cluster"))?;
        Ok(Cluster { client, namespace, server })
    }

    /// Returns the configuration and the name of its context, which a pod does not have.
    async fn config(&self) -> Result<(Config, Option<String>), Error> {
        match kubeconfig::load(self.kubeconfig.as_deref(), self.context.as_deref()).await {
            Ok((mut config, context)) => {
                if self.kubeconfig.is_none() && self.context.is_none() {
                    config.apply_debug_overrides();
                }
                Ok((config, Some(context)))
            }
            Err(error) if self.kubeconfig.is_some() || self.context.is_some() => Err(error.into()),
            // In a pod the configuration is that of its service account.
            Err(error) => {
                let mut config = Config::incluster().map_err(|_| error)?;
                config.apply_debug_overrides();
                Ok((config, None))
            }
        }
    }
}

impl Cluster {
    /// Returns the API for a kind in the current namespace, or in the whole cluster if the kind is cluster-scoped.
    pub fn objects(&self, kind: ResourceKind) -> Api<DynamicObject> {
        self.objects_in(kind, &self.namespace)
    }

    /// Reads an object of the current namespace.
    ///
    /// # Errors
    /// Fails if the object does not exist, or the API server refuses or is unreachable.
    pub async fn get(&self, kind: ResourceKind, name: &str) -> Result<ClusterObject, Error> {
        let what = match kind.namespaced {
            true => format!("{} {}/{name}", kind.kind, self.namespace),
            false => format!("{} {name}", kind.kind),
        };
        self.objects(kind).get(name).await.map_err(Error::api(what))
    }

    /// Returns the API for a kind in another namespace.
    pub fn objects_in(&self, kind: ResourceKind, namespace: &str) -> Api<DynamicObject> {
        match kind.namespaced {
            true => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
            false => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }
}
