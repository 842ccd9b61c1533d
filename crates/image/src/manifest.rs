//! The documents an image is made of. Fields that are not named here are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Digest;

/// The types of content, as registries name them.
pub mod media_type {
    /// An image for one platform.
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// Images for several platforms.
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// What an image is started with.
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A layer.
    pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// A layer, compressed with gzip.
    pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// A layer, compressed with zstd.
    pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
    /// An image for one platform, as Docker has it.
    pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Images for several platforms, as Docker has it.
    pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// What an image is started with, as Docker has it.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// A layer, compressed with gzip, as Docker has it.
    pub(crate) const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    /// The first form of images, which nobody reads any more.
    pub(crate) const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+json";
    /// The same, signed.
    pub(crate) const DOCKER_SCHEMA_1_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";
}

/// Refers to content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What the content is.
    #[serde(default)]
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// For which platform it is, in an [`Index`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Notes on it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Descriptor {
    /// Describes `content`.
    pub fn of(media_type: &str, content: &[u8]) -> Descriptor {
        Descriptor::new(media_type, Digest::of(content), content.len() as u64)
    }

    /// Describes content that is not at hand.
    pub fn new(media_type: &str, digest: Digest, size: u64) -> Descriptor {
        Descriptor {
            media_type: media_type.into(),
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
            other: Map::new(),
        }
    }
}

/// What a program runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The architecture, in Go's words: `amd64`, `arm64`, ...
    #[serde(default)]
    pub architecture: String,
    /// The operating system.
    #[serde(default)]
    pub os: String,
    /// The variant of the architecture: `v7`, ...
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An image for one platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// What this document is; absent in some OCI manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What the image is started with: a [`Config`].
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// Notes on the image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Images for several platforms, or the list of all that a layout holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// What this document is; absent in some OCI indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The images.
    pub manifests: Vec<Descriptor>,
    /// Notes on the index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What an image is, beside its layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The architecture it is for.
    #[serde(default)]
    pub architecture: String,
    /// The operating system it is for.
    #[serde(default)]
    pub os: String,
    /// The variant of the architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// How it is started.
    #[serde(default)]
    pub config: Option<ImageConfig>,
    /// The digests of the layers, uncompressed.
    #[serde(default)]
    pub rootfs: RootFs,
    /// How it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Config {
    /// Returns the labels, which say what an image is for.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.config.as_ref().and_then(|config| config.labels.clone()).unwrap_or_default()
    }
}

/// How an image is started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageConfig {
    /// The user that runs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The ports it listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_ports: Option<BTreeMap<String, Value>>,
    /// Its environment: `NAME=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// The arguments, unless others are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// What the image says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The layers of an image, uncompressed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RootFs {
    /// Always `layers`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The digests of the uncompressed layers, lowest first.
    #[serde(default)]
    pub diff_ids: Vec<String>,
}
