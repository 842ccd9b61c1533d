//! Database indexes, the format of catalogs before file-based catalogs, and the tools of their time.
//!
//! In reading order: [`error`] has the errors; `schema` is the newest schema, and `migrate` upgrades older ones to
//! it; [`open`] opens files, `change` makes atomic changes, `copy` copies databases in use, `defend` bounds what
//! databases of others can do. [`target`] is the database that an operation changes. [`add`] adds bundles in
//! one of its modes, [`load`] loads manifests without an image, [`remove`] and [`shrink`] remove content; `graph` is
//! a channel in memory. `members` and `row` read the content for [`query`], which serves the registry API,
//! [`convert`], which writes a file-based catalog, and [`inspect`]. [`image_list`] is what an index is rebuilt from,
//! [`export`] writes it as directories, [`index_image`] builds its image, [`app_registry`] downloads what predates
//! bundle images. Images come through [`Fetch`], and nothing here prints.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod add;
pub mod app_registry;
mod change;
pub mod convert;
mod copy;
mod defend;
pub mod error;
pub mod export;
mod fetch;
mod graph;
pub mod image_list;
pub mod index_image;
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
pub mod target;
mod value;

pub use add::{AddError, AddMode, AddOptions, AddRefusal, BundleToAdd, ModeError};
pub use change::Changed;
pub use convert::ManifestConversion;
pub use error::{Error, OperationError, bounded};
pub use fetch::{Fetch, FetchError};
pub use image_list::{ImageList, ImageListError};
pub use inspect::{BundleInfo, ChannelInfo, IndexSources, PackageInfo};
pub use open::Database;
pub use query::{DatabaseIndex, EmptyIndex};
pub use remove::Strictness;
pub use schema::VERSION;
pub use shrink::Shrink;
pub use target::{DatabaseTarget, IfMissing};
