//! The kinds of objects that opm reads or writes.

use kube::discovery::ApiResource;

/// A kind of object and its API resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind, as written in objects.
    pub kind: &'static str,
    /// The plural, as used in URLs.
    pub plural: &'static str,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

impl Kind {
    /// A pod.
    pub const POD: Kind = Kind::core("Pod", "pods");
    /// A ConfigMap.
    pub const CONFIG_MAP: Kind = Kind::core("ConfigMap", "configmaps");
    /// A secret.
    pub const SECRET: Kind = Kind::core("Secret", "secrets");
    /// A service.
    pub const SERVICE: Kind = Kind::core("Service", "services");
    /// A service account.
    pub const SERVICE_ACCOUNT: Kind = Kind::core("ServiceAccount", "serviceaccounts");
    /// An event.
    pub const EVENT: Kind = Kind::core("Event", "events");
    /// A namespace.
    pub const NAMESPACE: Kind = Kind { namespaced: false, ..Kind::core("Namespace", "namespaces") };
    /// A deployment.
    pub const DEPLOYMENT: Kind = Kind { group: "apps", ..Kind::core("Deployment", "deployments") };
    /// A job.
    pub const JOB: Kind = Kind { group: "batch", ..Kind::core("Job", "jobs") };
    /// A lease for leader election.
    pub const LEASE: Kind = Kind { group: "coordination.k8s.io", ..Kind::core("Lease", "leases") };
    /// A priority class of pods.
    pub const PRIORITY_CLASS: Kind =
        Kind { group: "scheduling.k8s.io", namespaced: false, ..Kind::core("PriorityClass", "priorityclasses") };
    /// A custom resource definition.
    pub const CRD: Kind = Kind {
        group: "apiextensions.k8s.io",
        namespaced: false,
        ..Kind::core("CustomResourceDefinition", "customresourcedefinitions")
    };
    /// A catalog that OLM installs operators from.
    pub const CATALOG_SOURCE: Kind = Kind::olm("v1alpha1", "CatalogSource", "catalogsources");
    /// A request for an operator.
    pub const SUBSCRIPTION: Kind = Kind::olm("v1alpha1", "Subscription", "subscriptions");
    /// The objects that OLM is going to create.
    pub const INSTALL_PLAN: Kind = Kind::olm("v1alpha1", "InstallPlan", "installplans");
    /// An operator version.
    pub const CSV: Kind = Kind::olm("v1alpha1", "ClusterServiceVersion", "clusterserviceversions");
    /// The namespaces that operators of a namespace watch.
    pub const OPERATOR_GROUP: Kind = Kind::olm("v1", "OperatorGroup", "operatorgroups");

    /// A catalog of OLM v1.
    pub const CLUSTER_CATALOG: Kind = Kind {
        group: "olm.operatorframework.io",
        version: "v1",
        namespaced: false,
        ..Kind::core("ClusterCatalog", "clustercatalogs")
    };

    /// A request for an operator, in OLM v1.
    pub const CLUSTER_EXTENSION: Kind =
        Kind { kind: "ClusterExtension", plural: "clusterextensions", ..Kind::CLUSTER_CATALOG };
    /// Permissions in the whole cluster.
    pub const CLUSTER_ROLE: Kind =
        Kind { group: "rbac.authorization.k8s.io", namespaced: false, ..Kind::core("ClusterRole", "clusterroles") };
    /// The binding of cluster-wide permissions.
    pub const CLUSTER_ROLE_BINDING: Kind =
        Kind { kind: "ClusterRoleBinding", plural: "clusterrolebindings", ..Kind::CLUSTER_ROLE };
    /// A certificate issued by cert-manager.
    pub const CERTIFICATE: Kind = Kind { group: "cert-manager.io", ..Kind::core("Certificate", "certificates") };

    /// A package that OLM's package server lists.
    pub const PACKAGE_MANIFEST: Kind = Kind {
        group: "packages.operators.coreos.com",
        version: "v1",
        ..Kind::olm("v1", "PackageManifest", "packagemanifests")
    };
    /// A network policy.
    pub const NETWORK_POLICY: Kind =
        Kind { group: "networking.k8s.io", ..Kind::core("NetworkPolicy", "networkpolicies") };

    const fn core(kind: &'static str, plural: &'static str) -> Kind {
        Kind { group: "", version: "v1", kind, plural, namespaced: true }
    }

    const fn olm(version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
        Kind { group: "operators.coreos.com", version, kind, plural, namespaced: true }
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
