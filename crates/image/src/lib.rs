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
mod collect;
mod contained;
mod copy;
mod digest;
mod download;
mod environment;
mod error;
mod explain;
mod graph;
mod gzip;
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
mod sparse;
mod store;
pub mod tar;
mod unpack;
mod upload;
mod verify;

pub use app_registry::{AppRegistry, Repository};
pub use auth::{AuthFile, AuthFileError};
pub use blob::{BlobError, BlobReader, FileRange, StoredBlob};
pub use build::{BaseImage, ImagePlan, build, build_index};
pub use catalog_images::{CONFIGS, CONFIGS_LABEL, CatalogImages, Programs};
pub use client::{Client, ClientOptions};
pub use contained::contained;
pub use copy::{CopyPlan, CopySummary};
pub use digest::{Digest, DigestError, Hasher};
pub use environment::Environment;
pub use error::{Error, ErrorKind};
pub use explain::{CredentialsUsed, ExplainedProblem, ExplainedSource, Explanation, SourceCertificates};
pub use http::{Timeouts, presented_certificate};
pub use layer::{BuiltLayer, Layer, LayerModes};
pub use limits::ImageLimits;
pub use location::Location;
pub use manifest::{ConfigFile, Descriptor, ImageConfig, ImageIndex, ImageManifest, Platform, RootFs, media_type};
pub use platform::PlatformError;
pub use policy::StoredImage;
pub use program::{ChosenPrograms, ProgramChoice, ProgramError, find_program};
pub use progress::{NoEvents, TransferEvent, TransferProgress};
pub use pull::Image;
pub use reference::{DigestBeforeBuild, ImageReferenceError, Reference};
pub use registries_conf::{RegistriesConf, RegistriesConfError};
pub use registry::{Challenge, MANIFEST_LIMIT, Retries};
pub use set::{BlobRequest, Parts, Referrer, SurveyedImage};
pub use shared::create_file;
pub use signature::{Judgement, SignatureResult};
pub use sparse::SparseWriter;
pub use store::{BlobWriter, Store};
pub use unpack::{LayerFile, LayerProblem, UnpackError, UnpackLimits, UnpackedImage, unpack, unpack_only};
pub use upload::{BlobPush, BlobPushSummary, BlobSource, ManifestPush};
pub use verify::Verification;
