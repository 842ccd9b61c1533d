//! The registry API, independent of the backend: [`Query`] has its queries, and [`message`] encodes the replies.
//!
//! A server answers from its cache, `legacy` from a database; both return the same messages.

pub mod message;

use std::fmt;
use std::sync::Arc;

use fbc::quote::quote;

/// A reply: an encoded protobuf message.
pub type QueryMessage = Vec<u8>;
/// One reply, or an error.
pub type QueryAnswer = Result<QueryMessage, QueryError>;
/// Replies that are computed one by one as the caller iterates.
///
/// The iterator holds its catalog: one that is replaced meanwhile stays in memory until the iterator is dropped.
pub type Rows = Box<dyn Iterator<Item = QueryAnswer> + Send>;

/// A catalog that answers the queries of the registry API.
///
/// Answers are encoded messages of that API ([`message`] writes them), in the order that the methods name, which
/// never changes from call to call.
pub trait Query: Send + Sync + 'static {
    /// Lists the names of the packages: `PackageName`, by name.
    fn packages(self: Arc<Self>) -> Rows;

    /// Describes a package: `Package`, its channels by name.
    ///
    /// # Errors
    /// Fails when there is no such package.
    fn package(&self, name: &str) -> QueryAnswer;

    /// Returns a `Bundle` as a member of a channel, without `replaces` and `skips`.
    ///
    /// # Errors
    /// Fails when there is no such package, channel or bundle.
    fn bundle(&self, package: &str, channel: &str, name: &str) -> QueryAnswer;

    /// Returns the `Bundle` at the head of a channel, as [`Query::bundle`] does.
    ///
    /// # Errors
    /// Fails when there is no such package or channel.
    fn head(&self, package: &str, channel: &str) -> QueryAnswer;

    /// Lists the entries that replace or skip `name`, in any package: `ChannelEntry` by package, channel, bundle.
    ///
    /// # Errors
    /// Fails when there are none.
    fn replacements(self: Arc<Self>, name: &str) -> Result<Rows, QueryError>;

    /// Returns a `Bundle` that replaces or skips `name` in a channel.
    ///
    /// An entry that replaces it is preferred to one that skips it, then the highest version, then the name.
    ///
    /// # Errors
    /// Fails when there is no such package or channel, or no entry of it replaces `name`.
    fn replacement(&self, name: &str, package: &str, channel: &str) -> QueryAnswer;

    /// Lists the entries that provide an API: `ChannelEntry` by package, channel, bundle; for each entry the bundle it
    /// replaces, then those it skips.
    ///
    /// # Errors
    /// Fails when there are none.
    fn providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError>;

    /// Lists the heads of channels that provide an API, as [`Query::providers`] does, without skips that are not
    /// entries of their channel.
    ///
    /// # Errors
    /// Fails when there are none.
    fn latest_providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError>;

    /// Returns the head of the first default channel, by package, that provides an API.
    ///
    /// # Errors
    /// Fails when no head provides it, or only heads of other channels do.
    fn default_provider(&self, api: &ApiType) -> QueryAnswer;

    /// Lists all bundles, once for each channel: `Bundle` by channel, package and name.
    ///
    /// Bundles with an image come without their objects.
    fn bundles(self: Arc<Self>) -> Rows;

    /// Lists the blobs of a custom schema that belong to a package, or to none if it is empty:
    /// `google.protobuf.Struct` as loaded.
    fn custom(self: Arc<Self>, schema: &str, package: &str) -> Rows;

    /// Returns the size of the catalog.
    fn counts(&self) -> CatalogCounts;
}

/// A kind of Kubernetes resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiType {
    /// Its group, maybe empty.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}

impl fmt::Display for ApiType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group:{} version:{} kind:{}", quote(&self.group), quote(&self.version), quote(&self.kind))
    }
}

/// The numbers of packages, channels and bundles in a catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogCounts {
    /// Packages.
    pub packages: usize,
    /// Channels of all packages.
    pub channels: usize,
    /// Bundles of all packages.
    pub bundles: usize,
}

/// The reason why a query has no answer. Clients match on the texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// The requested object does not exist.
    Absent(String),
    /// The answer cannot be read from storage; the text has the cause.
    Damaged(String),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Absent(text) | QueryError::Damaged(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for QueryError {}

impl QueryError {
    /// The package does not exist.
    pub fn no_package(package: &str) -> QueryError {
        QueryError::Absent(format!("package {} not found", quote(package)))
    }

    /// The package does not exist, in the wording of [`Query::replacement`].
    pub fn no_package_unquoted(package: &str) -> QueryError {
        QueryError::Absent(format!("package {package} not found"))
    }

    /// The channel does not exist.
    pub fn no_channel(package: &str, channel: &str) -> QueryError {
        QueryError::Absent(format!("package {}, channel {} not found", quote(package), quote(channel)))
    }

    /// The bundle does not exist.
    pub fn no_bundle(package: &str, channel: &str, name: &str) -> QueryError {
        let (package, channel, name) = (quote(package), quote(channel), quote(name));
        QueryError::Absent(format!("package {package}, channel {channel}, bundle {name} not found"))
    }

    /// No entry replaces the bundle.
    pub fn no_replacements(name: &str) -> QueryError {
        QueryError::Absent(format!("no channel entries found that replace {name}"))
    }

    /// No entry of the channel replaces the bundle.
    pub fn no_replacement(package: &str, channel: &str) -> QueryError {
        QueryError::Absent(format!("no entry found for package {}, channel {}", quote(package), quote(channel)))
    }

    /// No entry provides the API.
    pub fn no_providers(api: &ApiType) -> QueryError {
        QueryError::Absent(format!("no channel entries found that provide {api}"))
    }

    /// No head of a default channel provides the API.
    pub fn no_default_provider(api: &ApiType) -> QueryError {
        QueryError::Absent(format!("no entry found that provides {api}"))
    }
}
