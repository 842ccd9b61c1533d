//! The sqlite index: the database of packages, channels and bundles that catalogs were before they were files.
//!
//! A map, in reading order: [`error`] says what can go wrong; `schema` is the newest form, and `migrate` leads to
//! it from every older one; [`open`] opens files, `change` changes them whole or not at all, `copy` copies them while
//! others write. [`add`] puts bundles
//! in by one of its modes, [`load`] manifests that are in no image, [`remove`] and [`shrink`] take things out;
//! `graph` is a channel on the way. `members` and `row` read what is there for [`query`], which answers servers,
//! [`convert`], which makes a file-based catalog of it, and [`inspect`].
//! Nothing here pulls an image or prints.

pub mod add;
mod change;
pub mod convert;
mod copy;
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

pub use add::{AddError, AddOptions, Added, Mode, NewBundle, Refusal};
pub use change::{Changed, date};
pub use convert::Manifests;
pub use error::Error;
pub use inspect::{BundleInfo, ChannelInfo, Manifest, PackageInfo};
pub use open::Database;
pub use query::Index;
pub use remove::Strictness;
pub use schema::VERSION;
pub use shrink::{Shrink, Unpack};
