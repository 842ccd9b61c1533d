//! What a run installed or upgraded.

use std::fmt;

use bundle::rehearse::OlmGeneration;
use schemars::JsonSchema;
use serde::Serialize;

use super::install_mode::InstallMode;
use crate::ledger::{Ledger, Written};
use crate::request::{ObjectName, Requests};

/// What a run installed or upgraded. Objects are written as `KIND NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The generation of OLM.
    pub olm: OlmGeneration,
    pub package: String,
    pub version: String,
    /// The name of the version: of its ClusterServiceVersion, with OLM v1 of its bundle.
    pub csv: String,
    /// The namespace of the operator.
    pub namespace: String,
    /// The install mode, as `--install-mode` writes it; absent if opm does not read it: an upgrade with OLM v0 keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_mode: Option<String>,
    /// The CatalogSource or ClusterCatalog that the operator comes from.
    pub catalog: String,
    /// Whether an installed operator was upgraded.
    pub upgraded: bool,
    /// The name of the version that was installed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The objects that opm created, in order.
    pub created: Vec<String>,
    /// The existing objects that opm changed, in order.
    pub changed: Vec<String>,
    /// The objects that opm deleted, in order.
    pub deleted: Vec<String>,
    /// What OLM v0 created that outlives an InstallPlan: versions, definitions, priority classes, and Subscriptions to
    /// dependencies; absent if opm cannot read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_olm: Option<Vec<String>>,
}

/// The operator of a run.
pub(crate) struct RunOperator<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) csv: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) mode: Option<InstallMode>,
    pub(crate) catalog: &'a ObjectName,
}

impl RunReport {
    /// Returns the report of an installation.
    pub(crate) fn installed(
        olm: OlmGeneration,
        operator: RunOperator<'_>,
        ledger: &Ledger,
        requests: &Requests<'_>,
    ) -> RunReport {
        let Written { created, mut changed } = ledger.written();
        let deleted = requests.deleted();
        changed.retain(|object| !deleted.contains(object));
        RunReport {
            olm,
            package: operator.package.to_owned(),
            version: operator.version.to_owned(),
            csv: operator.csv.to_owned(),
            namespace: operator.namespace.to_owned(),
            install_mode: operator.mode.map(|mode| mode.to_string()),
            catalog: operator.catalog.to_string(),
            upgraded: false,
            previous: None,
            created,
            changed,
            deleted,
            created_by_olm: None,
        }
    }

    /// Returns the same as the report of an upgrade.
    pub(crate) fn upgrade_from(self, previous: &str) -> RunReport {
        RunReport { upgraded: true, previous: (!previous.is_empty()).then(|| previous.to_owned()), ..self }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.upgraded, self.olm) {
            (true, _) => write!(f, "Successfully upgraded to \"{}\"", self.csv),
            (false, OlmGeneration::V0) => write!(f, "OLM has successfully installed \"{}\"", self.csv),
            (false, OlmGeneration::V1) => write!(f, "OLM v1 has successfully installed \"{}\"", self.csv),
        }
    }
}
