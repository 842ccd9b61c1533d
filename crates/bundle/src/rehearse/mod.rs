//! Predicts what clusters do with a registry+v1 bundle, without a cluster.
//!
//! Two generations of OLM install bundles: OLM v0 (Subscriptions) and OLM v1 (ClusterExtensions). [`v1::install`] and
//! [`v0::install`] return the objects that each would create, in order, or its error message. The modules, in reading
//! order: `bundle` is the common input, which `typed` converts to Kubernetes types; `modes` and [`config`]
//! determine the watched namespaces; `names` builds names; `limits` checks sizes; `installer` derives the rights that
//! an installer needs; `upgrade` compares two installations. [`rehearse`] answers the command, and [`Rehearse::predict`]
//! all who ask whether OLM installs a bundle.

mod input;
mod installer;
pub(crate) mod limits;
mod modes;
mod names;
mod quantity;
mod rehearsal;
mod served;
mod text;
mod typed;
mod upgrade;

pub mod config;
pub mod v0;
pub mod v1;

pub use input::{DroppedField, RehearsalInput};
pub use installer::{Installer, installer};
pub use limits::{Level, Limit};
pub use modes::InstallModeType;
pub use rehearsal::{
    InstallDecision, NoObjectsError, OlmGeneration, OnCluster, Prediction, Rehearsal, Rehearse, rehearse,
};
pub use upgrade::{Effect, FIELDS, ObjectChange, upgrade};

use schemars::JsonSchema;
use serde::Serialize;

/// The reason why a cluster would reject a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClusterRefusal {
    /// A machine-readable identifier.
    pub id: &'static str,
    /// The message of the cluster software.
    pub message: String,
}

/// A note about an object of a bundle that the cluster installs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// A machine-readable identifier.
    pub id: &'static str,
    /// Whether the cluster rejects the object when it is applied.
    pub refused: bool,
    pub message: String,
    /// The object, as `KIND NAMESPACE/NAME`.
    pub object: String,
}

/// Returns the display name of an object: `KIND NAMESPACE/NAME`, or `KIND NAME`.
///
/// A generated name ends with `*`.
pub fn display_name(object: &serde_json::Value) -> String {
    fbc::step_counter::step();
    let field = |pointer| object.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    let name = match (field("/metadata/name"), field("/metadata/generateName")) {
        ("", "") => String::new(),
        ("", generated) => format!("{generated}*"),
        (name, _) => name.to_owned(),
    };
    match field("/metadata/namespace") {
        "" => format!("{} {name}", field("/kind")),
        namespace => format!("{} {namespace}/{name}", field("/kind")),
    }
}
