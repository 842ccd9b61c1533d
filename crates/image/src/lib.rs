//! OCI images as values: what they are named, where they come from, what is in them.
//!
//! Everything that is pulled or built lies in a [`Store`]: a directory of blobs by digest, laid
//! out as an OCI image layout. Pulling fills it, unpacking and pushing read from it, building
//! writes to it; so these never meet.

mod contained;
#![allow(dead_code, reason = "pushing and explaining use the rest")]

mod digest;
mod error;
mod location;
mod manifest;
mod platform;
mod reference;
mod store;
mod unpack;

pub use contained::contained;
pub use digest::{Digest, DigestError, Hasher};
pub use error::{Error, ErrorKind};
pub use location::Location;
pub use manifest::{Config, Descriptor, ImageConfig, Index, Manifest, Platform, RootFs, media_type};
pub use platform::PlatformError;
pub use reference::{Reference, ReferenceError};
pub use store::{BlobWriter, Store};
pub use unpack::{LayerFile, LayerProblem, UnpackError, UnpackLimits, Unpacked, unpack, unpack_only};
