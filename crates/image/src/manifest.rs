//! The documents of an image. Unknown fields are preserved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Digest;

/// Media types.
pub mod media_type {
    /// An image for one platform.
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// Images for several platforms.
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// The config of an image.
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A layer.
    pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// A layer, compressed with gzip.
    pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// A layer, compressed with zstd.
    pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
    /// An image for one platform, in Docker's format.
    pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Images for several platforms, in Docker's format.
    pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// The config of an image, in Docker's format.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// A layer, compressed with gzip, in Docker's format.
    pub(crate) const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    /// The obsolete first manifest format, which opm does not support.
    pub(crate) const DOCKER_SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+json";
    /// The same, signed.
    pub(crate) const DOCKER_SCHEMA_1_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";
}

/// A reference to content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type of the content.
    #[serde(default)]
    pub media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
    /// The platform, in an [`ImageIndex`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Descriptor {
    /// Returns the descriptor of `content`.
    pub fn of(media_type: &str, content: &[u8]) -> Descriptor {
        Descriptor::new(media_type, Digest::of(content), content.len() as u64)
    }

    /// Creates a descriptor from its parts.
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

/// A platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The architecture, as in Go: `amd64`, `arm64`, ...
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
pub struct ImageManifest {
    /// Always 2.
    pub schema_version: u32,
    /// The media type of this document; absent in some OCI manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The descriptor of the [`ConfigFile`].
    pub config: Descriptor,
    /// The layers, base first.
    pub layers: Vec<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Images for several platforms, or the images of a layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageIndex {
    /// Always 2.
    pub schema_version: u32,
    /// The media type of this document; absent in some OCI indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub manifests: Vec<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The config of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// The creation time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default)]
    pub architecture: String,
    /// The operating system.
    #[serde(default)]
    pub os: String,
    /// The variant of the architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// The runtime settings.
    #[serde(default)]
    pub config: Option<ImageConfig>,
    /// The digests of the layers, uncompressed.
    #[serde(default)]
    pub rootfs: RootFs,
    /// The build history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ConfigFile {
    /// Returns the labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.config.as_ref().and_then(|config| config.labels.clone()).unwrap_or_default()
    }

    /// Returns whether a container of the image starts something; an image without a program only holds data.
    pub fn has_program(&self) -> bool {
        let given = |words: &Option<Vec<String>>| words.as_ref().is_some_and(|words| !words.is_empty());
        self.config.as_ref().is_some_and(|config| given(&config.entrypoint) || given(&config.cmd))
    }
}

/// The runtime settings of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageConfig {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_ports: Option<BTreeMap<String, Value>>,
    /// Environment variables: `NAME=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// The default arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
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
    /// The digests of the uncompressed layers, base first.
    #[serde(default)]
    pub diff_ids: Vec<String>,
}
