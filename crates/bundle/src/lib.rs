//! Reads registry+v1 bundle directories and converts them to catalog blobs.
//!
//! A bundle is a directory `manifests/` of Kubernetes objects, one of them a ClusterServiceVersion (CSV), and a
//! directory `metadata/` that declares its package. The modules, in reading order: `file` reads files and `document`
//! parses them to JSON; `manifests` and `metadata` read the two directories; `apis`, `properties` and `images` extract
//! the facts for catalogs; `template` builds image references; `render` combines everything into one `olm.bundle` blob,
//! and `contents` returns it in parts, as database indexes store it. `check` validates bundles before they are
//! published, `generate` creates the files that turn manifests into a bundle, and `whole` reads every document, as OLM
//! v1 does. [`rehearse`] predicts what clusters do with a bundle, and [`review`] what it may do there.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

#[macro_use]
mod reported;

mod document;
mod error;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the only module that reads bundle files")]
mod file;

mod annotations;
mod apis;
mod check;
mod contents;
mod directories;
mod dockerfile;
mod finding;
mod generate;
mod images;
mod loaded;
mod manifests;
mod metadata;
mod packed;
mod pointer;
mod properties;
pub mod rehearse;
mod render;
pub mod review;
pub mod rules;
mod template;
mod whole;

#[cfg(test)]
mod testing;

pub use annotations::{AnnotationsError, BundleAnnotations, find_annotations};
pub use apis::ApiKey;
pub use check::{
    BASELINE_CAPABILITIES, BundleCheck, BundleDirectory, Categories, CategoriesError, CategoriesFault, CheckError,
    CheckedBundle, ConfigurationError, MediaType, OperatorDirectory, Optional, Platforms, PlatformsError, PodSecurity,
    Previous, RepositoryFileError, SUITES, VALIDATORS, Validator, check, check_catalog, check_package_manifest,
    media_type, pod_security, read_categories,
};
pub use contents::{BundleSummary, of_objects, read, read_manifests};
pub use directories::directories;
pub use dockerfile::{BundleDockerfile, BundleDockerfileError, Copied};
pub use document::DocumentError;
pub use error::{AnnotationError, ApiError, DeriveError, Error, PropertyError, ReadError};
pub use file::Unreadable;
pub use finding::{Finding, FindingCounts, Findings, Severity, Waived};
pub use generate::{Annotations, FileError, InferError, Inferred, LayoutFault, infer};
pub use loaded::LoadedBundle;
pub use properties::BundleProperty;
pub use render::{BundleBlob, RenderOptions, render, render_and_read};
pub use template::{ImageTemplate, TemplateSyntaxError};
pub use whole::{BundleFile, BundleObject, ObjectListError, ParsedBundle, Position, objects_of, read_whole};
