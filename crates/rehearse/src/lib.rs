//! What clusters make of a registry+v1 bundle, without a cluster.
//!
//! Two generations of cluster software install bundles: OLM v0 (Subscriptions) and OLM v1
//! (ClusterExtensions). [`v1::install`] and [`v0::install`] give the objects that each would create, in
//! order, or its refusal in its own words. A map, in reading order: [`bundle`](Bundle) is what both start
//! from, passed through the types of Kubernetes by `typed`; `modes` and [`config`] say where an operator
//! watches; `names` makes names; `limits` counts sizes; `installer` derives the rights that an installer
//! needs; `upgrade` compares two installations. Nothing here reads files.

mod input;
mod installer;
mod limits;
mod modes;
mod names;
mod quantity;
mod served;
mod typed;
mod upgrade;

pub mod config;
pub mod v0;
pub mod v1;

pub use input::{Bundle, UnknownField};
pub use installer::{Installer, installer};
pub use limits::{For, Level, Limit, check_bundle, check_limits, check_limits_of};
pub use modes::Mode;
pub use upgrade::{Change, Effect, FIELDS, upgrade};

/// Why a cluster would not install a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the reason, for programs.
    pub id: &'static str,
    /// The words of the cluster's software.
    pub message: String,
}

/// Something that deserves a look, though the cluster installs the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The name of the reason, for programs.
    pub id: &'static str,
    /// Whether the cluster refuses the object once it is applied.
    pub refused: bool,
    /// What is to be seen.
    pub message: String,
    /// The object that it is about, as `KIND NAMESPACE/NAME`.
    pub object: String,
}

/// Returns how an object is called in messages: `KIND NAMESPACE/NAME`, or `KIND NAME`.
///
/// A name that the cluster makes up ends with `*`.
pub fn called(object: &serde_json::Value) -> String {
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
