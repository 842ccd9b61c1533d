//! The differences between releases of OLM v1.

/// How objects are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// As a Helm release.
    Helm,
    /// As a ClusterObjectSet, in phases.
    Boxcutter,
}

/// A release of OLM v1 and its enabled features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The minor version: 11 for 1.11.
    pub minor: u32,
    /// How objects are applied.
    pub runtime: Runtime,
    /// Whether bundles without AllNamespaces are accepted.
    pub single_own_namespace: bool,
    /// Whether `spec.config.inline.deploymentConfig` is supported.
    pub deployment_config: bool,
}

impl Profile {
    /// The newest supported release.
    pub const NEWEST: u32 = 11;
    /// The oldest release with the rendering implemented here.
    pub const OLDEST: u32 = 6;

    /// Returns the defaults of a release; `None` if it is not supported.
    pub fn of(minor: u32) -> Option<Profile> {
        (Profile::OLDEST..=Profile::NEWEST).contains(&minor).then_some(Profile {
            minor,
            runtime: Runtime::Helm,
            single_own_namespace: minor == 8,
            deployment_config: false,
        })
    }

    /// Returns whether pods are annotated with the namespace of their operator.
    pub(crate) fn operator_namespace(&self) -> bool {
        self.minor >= 11
    }

    /// Returns whether requests to the cluster use the account of the ClusterExtension.
    pub fn needs_account(&self) -> bool {
        self.minor <= 10
    }

    /// Describes what matters to bundles in this release.
    pub fn differences(&self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if self.single_own_namespace {
            notes.push("installs bundles without AllNamespaces");
        }
        if self.minor >= 11 {
            notes.push("works as cluster-admin; spec.serviceAccount is ignored");
        } else {
            notes.push("works with the rights of spec.serviceAccount");
        }
        if self.operator_namespace() {
            notes.push("annotates pods with olm.operatorNamespace");
        }
        notes
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile { minor: Self::NEWEST, runtime: Runtime::Helm, single_own_namespace: false, deployment_config: false }
    }
}
