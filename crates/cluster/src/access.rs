//! Which cluster, as whom, and in which namespace.

use std::path::PathBuf;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::{Error, Kind};

/// An object of any kind.
pub type Object = DynamicObject;

/// How to reach a cluster; what is not given comes from `KUBECONFIG`, `~/.kube/config` or, in a pod, from the cluster itself.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it.
    pub context: Option<String>,
    /// The namespace to work in, instead of the one of the context.
    pub namespace: Option<String>,
}

/// A cluster to talk to, and the namespace to work in.
#[derive(Clone)]
pub struct Cluster {
    /// Sends requests.
    pub client: Client,
    /// The namespace to work in.
    pub namespace: String,
}

impl Access {
    /// Reads the configuration; nothing is sent yet.
    pub async fn connect(&self) -> Result<Cluster, Error> {
        let mut config = self.config().await?;
        // A server that accepts and never answers must not hold a command up for ever; watches are kept alive by bookmarks.
        config.read_timeout = Some(Duration::from_secs(295));
        config.reset_reader_on_write = true;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(Error::api("preparing the connection to the cluster"))?;
        Ok(Cluster { client, namespace })
    }

    async fn config(&self) -> Result<Config, Error> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        if let Some(path) = &self.kubeconfig {
            let named = |source| Error::Kubeconfig { path: path.clone(), source };
            let kubeconfig = Kubeconfig::read_from(path).map_err(named)?;
            return Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(named);
        }
        let inferred = match &self.context {
            Some(_) => Config::from_kubeconfig(&options).await.map_err(|error| error.to_string()),
            None => Config::infer().await.map_err(|error| error.to_string()),
        };
        inferred.map_err(Error::NoCluster)
    }
}

impl Cluster {
    /// Returns the objects of a kind in the namespace to work in, or in all of the cluster if the kind knows no namespaces.
    pub fn objects(&self, kind: Kind) -> Api<DynamicObject> {
        self.objects_in(kind, &self.namespace)
    }

    /// Reads an object of the namespace to work in.
    ///
    /// # Errors
    /// Fails if there is none of that name, and if the API server refuses or cannot be asked.
    pub async fn get(&self, kind: Kind, name: &str) -> Result<Object, Error> {
        let what = match kind.namespaced {
            true => format!("{} {}/{name}", kind.kind, self.namespace),
            false => format!("{} {name}", kind.kind),
        };
        self.objects(kind).get(name).await.map_err(Error::api(what))
    }

    /// Returns the objects of a kind in another namespace.
    pub fn objects_in(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        match kind.namespaced {
            true => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
            false => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }
}
