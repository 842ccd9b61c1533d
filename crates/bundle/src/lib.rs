//! registry+v1 bundle directories, read and turned into catalog entries.
//!
//! A bundle is a directory `manifests/` of Kubernetes objects, one of them a
//! ClusterServiceVersion (CSV), and a directory `metadata/` that says which
//! package it belongs to. A map, in reading order: `file` opens what is there
//! and `document` turns a file into JSON; `manifests` and `metadata` read the
//! two directories; `csv`, `apis`, `properties` and `images` find what a
//! catalog wants to know; `template` names images; `render` puts all of it
//! into one `olm.bundle` blob, and `contents` hands it out in parts, as
//! database indexes keep it. `check` judges bundles before they are published,
//! `generate` makes the files that turn manifests into a bundle, and `whole`
//! reads all that is there, as OLM v1 does.

mod document;
mod error;
mod file;

mod annotations;
mod apis;
mod check;
mod contents;
mod finding;
mod generate;
mod images;
mod manifests;
mod metadata;
mod properties;
mod render;
mod template;
mod whole;

#[cfg(test)]
mod testing;

pub use annotations::{Annotated, annotated};
pub use apis::ApiKey;
pub use check::json_type;
pub use check::{
    Asked, BASELINE_CAPABILITIES, CI, Categories, Findings, Given, MediaType, Optional, Platforms, PodSecurity,
    RELEASE_CONFIG, Sibling, VALIDATORS, Validator, WITHOUT_CATALOG, check_ci, check_content, check_content_of,
    check_format, check_format_of, check_more, check_package_manifest, check_release_config, check_siblings,
    media_type, pod_security, schema_faults, uses_catalog,
};
pub use contents::{Contents, of_objects, read, read_manifests};
pub use error::Error;
pub use finding::{Finding, Severity};
pub use generate::{Annotations, Inferred, infer};
pub use properties::Property;
pub use render::{Options, Rendered, render};
pub use template::{ImageTemplate, TemplateError};
pub use whole::{Object, Position, Sized, Whole, objects_of, positions, read_whole};
