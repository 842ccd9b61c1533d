//! Every question of the registry API, and what its answers are.

use std::fmt;
use std::sync::Arc;

use fbc::quote::quote;

/// A reply: a protobuf message, encoded.
pub type Message = Vec<u8>;
/// One reply, or why there is none.
pub type Answer = Result<Message, QueryError>;
/// Replies that are made one after the other, as the asker takes them.
///
/// They keep what they are made from: a catalog that is replaced meanwhile stays until the last
/// of them is taken.
pub type Rows = Box<dyn Iterator<Item = Answer> + Send>;

/// A catalog that answers the questions of the registry API.
///
/// Answers are encoded messages of that API ([`crate::message`] writes them), in the order that
/// the methods name, which never changes from call to call.
pub trait Query: Send + Sync + 'static {
    /// Lists the names of the packages: `PackageName`, by name.
    fn packages(self: Arc<Self>) -> Rows;

    /// Describes a package: `Package`, its channels by name.
    ///
    /// # Errors
    /// Fails when there is no such package.
    fn package(&self, name: &str) -> Answer;

    /// Returns a `Bundle` as a member of a channel, without `replaces` and `skips`.
    ///
    /// # Errors
    /// Fails when there is no such package, channel or bundle.
    fn bundle(&self, package: &str, channel: &str, name: &str) -> Answer;

    /// Returns the `Bundle` at the head of a channel, as [`Query::bundle`] does.
    ///
    /// # Errors
    /// Fails when there is no such package or channel.
    fn head(&self, package: &str, channel: &str) -> Answer;

    /// Lists what replaces or skips `name`, anywhere: `ChannelEntry` by package, channel, bundle.
    ///
    /// # Errors
    /// Fails when there is nothing.
    fn replacements(self: Arc<Self>, name: &str) -> Result<Rows, QueryError>;

    /// Returns a `Bundle` that replaces or skips `name` in a channel.
    ///
    /// One that replaces it goes before one that skips it, then the highest version, then the name.
    ///
    /// # Errors
    /// Fails when there is no such package or channel, or nothing replaces `name` there.
    fn replacement(&self, name: &str, package: &str, channel: &str) -> Answer;

    /// Lists the entries that provide an API: `ChannelEntry` by package, channel, bundle; for each
    /// what it replaces, then what it skips.
    ///
    /// # Errors
    /// Fails when there is nothing.
    fn providers(self: Arc<Self>, api: &Api) -> Result<Rows, QueryError>;

    /// Lists the heads of channels that provide an API, as [`Query::providers`] does, without
    /// skips that are no entries of their channel.
    ///
    /// # Errors
    /// Fails when there is nothing.
    fn latest_providers(self: Arc<Self>, api: &Api) -> Result<Rows, QueryError>;

    /// Returns the head of the first default channel, by package, that provides an API.
    ///
    /// # Errors
    /// Fails when no head provides it, or only heads of other channels do.
    fn default_provider(&self, api: &Api) -> Answer;

    /// Lists all bundles, once for each channel: `Bundle` by channel, package and name.
    ///
    /// Those with an image come without their objects.
    fn bundles(self: Arc<Self>) -> Rows;

    /// Lists the blobs of a custom schema that belong to a package, or to none if it is empty:
    /// `google.protobuf.Struct` as loaded.
    fn custom(self: Arc<Self>, schema: &str, package: &str) -> Rows;

    /// Returns how much there is.
    fn counts(&self) -> Counts;
}

/// A kind of resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Its group, maybe empty.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group:{} version:{} kind:{}", quote(&self.group), quote(&self.version), quote(&self.kind))
    }
}

/// How much there is of everything in a catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packages.
    pub packages: usize,
    /// Channels of all packages.
    pub channels: usize,
    /// Bundles of all packages.
    pub bundles: usize,
}

/// Why a question has no answer. The texts are those that clients know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// What was asked for does not exist.
    Absent(String),
    /// What the answer is made from cannot be read; the text says how.
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
    /// Says that there is no such package.
    pub fn no_package(package: &str) -> QueryError {
        QueryError::Absent(format!("package {} not found", quote(package)))
    }

    /// Says that there is no such package, as [`Query::replacement`] always said it.
    pub fn no_package_unquoted(package: &str) -> QueryError {
        QueryError::Absent(format!("package {package} not found"))
    }

    /// Says that there is no such channel.
    pub fn no_channel(package: &str, channel: &str) -> QueryError {
        QueryError::Absent(format!("package {}, channel {} not found", quote(package), quote(channel)))
    }

    /// Says that there is no such bundle.
    pub fn no_bundle(package: &str, channel: &str, name: &str) -> QueryError {
        let (package, channel, name) = (quote(package), quote(channel), quote(name));
        QueryError::Absent(format!("package {package}, channel {channel}, bundle {name} not found"))
    }

    /// Says that nothing replaces a bundle.
    pub fn no_replacements(name: &str) -> QueryError {
        QueryError::Absent(format!("no channel entries found that replace {name}"))
    }

    /// Says that nothing replaces a bundle in a channel.
    pub fn no_replacement(package: &str, channel: &str) -> QueryError {
        QueryError::Absent(format!("no entry found for package {}, channel {}", quote(package), quote(channel)))
    }

    /// Says that nothing provides an API.
    pub fn no_providers(api: &Api) -> QueryError {
        QueryError::Absent(format!("no channel entries found that provide {api}"))
    }

    /// Says that no default channel provides an API.
    pub fn no_default_provider(api: &Api) -> QueryError {
        QueryError::Absent(format!("no entry found that provides {api}"))
    }
}
