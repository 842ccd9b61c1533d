//! Database indexes, the format of catalogs before file-based catalogs, and the tools of their time.
//!
//! In reading order: [`error`] has the errors; `schema` is the newest schema, and `migrate` upgrades older ones to
//! it; [`open`] opens files, `change` makes atomic changes, `copy` copies databases in use, `defend` bounds what
//! databases of others can do. [`add`] adds bundles in
//! one of its modes, [`load`] loads manifests without an image, [`remove`] and [`shrink`] remove content; `graph` is
//! a channel in memory. `members` and `row` read the content for [`query`], which serves the registry API,
//! [`convert`], which writes a file-based catalog, and [`inspect`]. Nothing here pulls an image or prints.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod add;
mod change;
pub mod convert;
mod copy;
mod defend;
pub mod error;
mod graph;
pub mod inspect;
pub mod load;
mod members;
mod migrate;
pub mod open;
mod order;
pub mod query;
pub mod remove;
mod row;
mod schema;
pub mod shrink;
mod value;

pub use add::{AddError, AddOptions, Added, Mode, ModeError, NewBundle, Refusal};
pub use change::{Changed, date};
pub use convert::Manifests;
pub use error::Error;
pub use inspect::{BundleInfo, ChannelInfo, Manifest, PackageInfo};
pub use open::Database;
pub use query::Index;
pub use remove::Strictness;
pub use schema::VERSION;
pub use shrink::{Shrink, Unpack};
