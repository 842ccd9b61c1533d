//! OCI images as values: their names, locations and content.
//!
//! Everything pulled or built is in a [`Store`]: a directory of blobs by digest in the form of an OCI image layout.
//! Pulling fills the store, unpacking and pushing read from it, and building writes to it. These parts do not depend
//! on each other.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod app_registry;
mod archive;
mod auth;
mod blob;
mod build;
mod cache;
mod catalog_images;
mod client;
mod contained;
mod copy;
mod deliver;
mod digest;
mod download;
mod environment;
mod error;
mod explain;
mod gather;
mod graph;
mod gzip;
mod holes;
mod http;
mod layer;
mod layout;
mod limits;
mod location;
mod manifest;
mod partial;
mod platform;
mod policy;
mod program;
mod progress;
mod pull;
mod push;
mod rate_limit;
mod reference;
mod registries_conf;
mod registry;
mod scheduler;
mod scratch;
mod set;
mod shared;
pub mod signature;
mod store;
pub mod tar;
mod unpack;
mod verify;

pub use app_registry::{AppRegistry, Repository};
pub use auth::{AuthFile, AuthFileError};
pub use blob::{Blob, BlobError, BlobReader, Piece};
pub use build::{Base, ImagePlan, build, build_index};
pub use catalog_images::{CatalogImages, Programs};
pub use client::{Client, Options};
pub use contained::contained;
pub use copy::{CopyPlan, CopySummary};
pub use deliver::{BlobPush, BlobPushSummary, BlobSource, ManifestPush};
pub use digest::{Digest, DigestError, Hasher};
pub use environment::Environment;
pub use error::{Error, ErrorKind};
pub use explain::{Certificates, CredentialsUsed, Explanation, Place, Problem};
pub use holes::SparseWriter;
pub use http::Timeouts;
pub use layer::{BuiltLayer, Layer, Modes};
pub use limits::Limits;
pub use location::Location;
pub use manifest::{Config, Descriptor, ImageConfig, Index, Manifest, Platform, RootFs, media_type};
pub use platform::PlatformError;
pub use policy::StoredImage;
pub use program::{ProgramError, find_program};
pub use progress::{Event, Progress, Silent};
pub use pull::Image;
pub use reference::{Reference, ReferenceError};
pub use registries_conf::{RegistriesConf, RegistriesConfError};
pub use registry::{Challenge, Retries};
pub use set::{Parts, Referrer, SurveyedImage, Wanted};
pub use shared::create_file;
pub use signature::{Finding, Judgement};
pub use store::{BlobWriter, Store};
pub use unpack::{LayerFile, LayerProblem, UnpackError, UnpackLimits, Unpacked, unpack, unpack_only};
pub use verify::Verification;
