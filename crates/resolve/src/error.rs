//! Why a query has no answer, and why a request or the content of a namespace is invalid.

use catalog::chain::ChainError;
use catalog::needs::NeedError;
use fbc::fault::{Class, Fault};
use olm_cel::{RuleError, TooLong};

use crate::masterminds::MastermindsError;
use crate::resolver::ResolutionRefusal;

/// Why a query of a [`crate::pool::Pool`] has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A channel has no order.
    #[error("{}", error.message(package, channel))]
    NoOrder {
        package: String,
        channel: String,
        /// Why.
        error: ChainError,
    },
    /// A requirement cannot be read.
    #[error(transparent)]
    Need(#[from] NeedError),
    /// The rule of a requirement is invalid.
    #[error("convert olm.constraint to resolver predicate: {0}")]
    Rule(#[from] RuleError),
    /// The rule of a requirement takes too long.
    #[error(transparent)]
    RuleTooLong(#[from] TooLong),
    /// It is unknown whether a bundle meets this requirement.
    #[error("{0}")]
    Undecided(String),
    /// The query reached a limit of opm.
    #[error("{}", ResolutionRefusal::GaveUp)]
    GaveUp,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It violates the syntax.
    #[error("expected PACKAGE, PACKAGE@CHANNEL, PACKAGE=VERSION, PACKAGE@CHANNEL=VERSION or a bundle name")]
    Syntax,
    /// The catalogs have no package or bundle of this name.
    #[error("no package or bundle {name:?} in {}{}", catalogs.join(", "), similar(alike))]
    NoPackage {
        name: String,
        catalogs: Vec<String>,
        /// Similar names.
        alike: Vec<String>,
    },
    /// The package has no such channel.
    #[error("package {package} has no channel {channel:?}, only {}", channels.join(", "))]
    NoChannel {
        package: String,
        channel: String,
        /// The channels that it has.
        channels: Vec<String>,
    },
    /// The package has no such version.
    #[error("package {package} has no version {version}, only {}", some(versions))]
    NoVersion {
        package: String,
        version: String,
        /// The versions that it has, the highest first.
        versions: Vec<String>,
    },
    /// The channel has no such version, but others have.
    #[error("channel {channel} of package {package} has no version {version}; it is in {}", elsewhere.join(", "))]
    InOtherChannel {
        package: Box<str>,
        channel: Box<str>,
        version: Box<str>,
        /// The channels that have it.
        elsewhere: Vec<String>,
    },
    /// The text is neither a version nor a bundle of the package.
    #[error("{text:?} is neither a version nor a bundle of {package}")]
    NotOfPackage { text: String, package: String },
    /// The version of an installed bundle is missing.
    #[error("which version of {0} is installed? Write {0}=VERSION or the name of the bundle")]
    VersionMissing(String),
    /// A version is requested of a package that already has a Subscription.
    #[error(
        "{package} is subscribed to already, so that {version} cannot be requested: clusters choose by the channel"
    )]
    Subscribed { package: String, version: String },
    /// The version is not a range.
    #[error("{text}: expected a range like '1.2.x', '~1.2' or '>=1, <3': {error}")]
    Range { text: String, error: MastermindsError },
}

/// Why objects do not have the content of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// A document has no kind.
    #[error("expected Kubernetes objects, but one has no kind")]
    NoKind,
    /// No object is a Subscription or a ClusterServiceVersion.
    #[error("the objects contain no Subscriptions or ClusterServiceVersions")]
    Empty,
    /// The namespace has none; others have.
    #[error(
        "namespace {name:?} has no Subscriptions or ClusterServiceVersions; these have: {}",
        others.join(", ")
    )]
    NoNamespace {
        /// The namespace.
        name: String,
        /// The namespaces that have some.
        others: Vec<String>,
    },
    /// Several namespaces have some.
    #[error("several namespaces have Subscriptions or ClusterServiceVersions, choose one of {}", .0.join(", "))]
    Several(Vec<String>),
    /// A Subscription uses a catalog that is not given.
    #[error(
        "Subscription {subscription} uses catalog {catalog:?}, but the given catalogs are named {}\nhelp: add the catalog \
         with its name: {catalog}=SOURCE",
        known.join(", ")
    )]
    UnknownCatalog {
        subscription: String,
        catalog: String,
        /// The names of the given catalogs.
        known: Vec<String>,
    },
}

impl Fault for RequestError {
    fn class(&self) -> Class {
        match self {
            RequestError::Syntax | RequestError::VersionMissing(_) | RequestError::Range { .. } => Class::Usage,
            _ => Class::Refused,
        }
    }
}

impl Fault for NamespaceError {
    fn class(&self) -> Class {
        match self {
            NamespaceError::NoKind | NamespaceError::Empty => Class::Refused,
            NamespaceError::NoNamespace { .. } | NamespaceError::Several(_) | NamespaceError::UnknownCatalog { .. } => {
                Class::Usage
            }
        }
    }
}

fn similar(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("\nhelp: there is {}", names.join(", ")) }
}

/// Returns the first ten of a list, and the number of the others.
fn some(versions: &[String]) -> String {
    match versions.split_at_checked(10) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => versions.join(", "),
    }
}
