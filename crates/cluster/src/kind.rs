//! The kinds of objects that opm reads or writes.

use kube::discovery::ApiResource;

/// A kind of object and its API resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResourceKind {
    /// The group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// The kind, as written in objects.
    pub kind: &'static str,
    /// The plural, as used in URLs.
    pub plural: &'static str,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

impl ResourceKind {
    /// A pod.
    pub const POD: ResourceKind = ResourceKind::core("Pod", "pods");
    /// A ConfigMap.
    pub const CONFIG_MAP: ResourceKind = ResourceKind::core("ConfigMap", "configmaps");
    /// A secret.
    pub const SECRET: ResourceKind = ResourceKind::core("Secret", "secrets");
    /// A service.
    pub const SERVICE: ResourceKind = ResourceKind::core("Service", "services");
    /// A service account.
    pub const SERVICE_ACCOUNT: ResourceKind = ResourceKind::core("ServiceAccount", "serviceaccounts");
    /// An event.
    pub const EVENT: ResourceKind = ResourceKind::core("Event", "events");
    /// A namespace.
    pub const NAMESPACE: ResourceKind =
        ResourceKind { namespaced: false, ..ResourceKind::core("Namespace", "namespaces") };
    /// A deployment.
    pub const DEPLOYMENT: ResourceKind =
        ResourceKind { group: "apps", ..ResourceKind::core("Deployment", "deployments") };
    /// A job.
    pub const JOB: ResourceKind = ResourceKind { group: "batch", ..ResourceKind::core("Job", "jobs") };
    /// A lease for leader election.
    pub const LEASE: ResourceKind =
        ResourceKind { group: "coordination.k8s.io", ..ResourceKind::core("Lease", "leases") };
    /// A priority class of pods.
    pub const PRIORITY_CLASS: ResourceKind = ResourceKind {
        group: "scheduling.k8s.io",
        namespaced: false,
        ..ResourceKind::core("PriorityClass", "priorityclasses")
    };
    /// A custom resource definition.
    pub const CRD: ResourceKind = ResourceKind {
        group: "apiextensions.k8s.io",
        namespaced: false,
        ..ResourceKind::core("CustomResourceDefinition", "customresourcedefinitions")
    };
    /// A catalog that OLM installs operators from.
    pub const CATALOG_SOURCE: ResourceKind = ResourceKind::olm("v1alpha1", "CatalogSource", "catalogsources");
    /// A request for an operator.
    pub const SUBSCRIPTION: ResourceKind = ResourceKind::olm("v1alpha1", "Subscription", "subscriptions");
    /// The objects that OLM is going to create.
    pub const INSTALL_PLAN: ResourceKind = ResourceKind::olm("v1alpha1", "InstallPlan", "installplans");
    /// An operator version.
    pub const CSV: ResourceKind = ResourceKind::olm("v1alpha1", "ClusterServiceVersion", "clusterserviceversions");
    /// The namespaces that operators of a namespace watch.
    pub const OPERATOR_GROUP: ResourceKind = ResourceKind::olm("v1", "OperatorGroup", "operatorgroups");

    /// A catalog of OLM v1.
    pub const CLUSTER_CATALOG: ResourceKind = ResourceKind {
        group: "olm.operatorframework.io",
        version: "v1",
        namespaced: false,
        ..ResourceKind::core("ClusterCatalog", "clustercatalogs")
    };

    /// A request for an operator, in OLM v1.
    pub const CLUSTER_EXTENSION: ResourceKind =
        ResourceKind { kind: "ClusterExtension", plural: "clusterextensions", ..ResourceKind::CLUSTER_CATALOG };
    /// Permissions in the whole cluster.
    pub const CLUSTER_ROLE: ResourceKind = ResourceKind {
        group: "rbac.authorization.k8s.io",
        namespaced: false,
        ..ResourceKind::core("ClusterRole", "clusterroles")
    };
    /// The binding of cluster-wide permissions.
    pub const CLUSTER_ROLE_BINDING: ResourceKind =
        ResourceKind { kind: "ClusterRoleBinding", plural: "clusterrolebindings", ..ResourceKind::CLUSTER_ROLE };
    /// A certificate issued by cert-manager.
    pub const CERTIFICATE: ResourceKind =
        ResourceKind { group: "cert-manager.io", ..ResourceKind::core("Certificate", "certificates") };

    /// A package that OLM's package server lists.
    pub const PACKAGE_MANIFEST: ResourceKind = ResourceKind {
        group: "packages.operators.coreos.com",
        version: "v1",
        ..ResourceKind::olm("v1", "PackageManifest", "packagemanifests")
    };
    /// A network policy.
    pub const NETWORK_POLICY: ResourceKind =
        ResourceKind { group: "networking.k8s.io", ..ResourceKind::core("NetworkPolicy", "networkpolicies") };

    const fn core(kind: &'static str, plural: &'static str) -> ResourceKind {
        ResourceKind { group: "", version: "v1", kind, plural, namespaced: true }
    }

    const fn olm(version: &'static str, kind: &'static str, plural: &'static str) -> ResourceKind {
        ResourceKind { group: "operators.coreos.com", version, kind, plural, namespaced: true }
    }

    /// Returns the `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    pub(crate) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}
