//! Common flags of the cluster commands.

use std::time::{Duration, Instant};

use clap::builder::TypedValueParser;
use cluster::run::pod::{PodSettings, Security};
use cluster::run::{CatalogOptions, DatabaseHandling};
use image::{ImageReferenceError, Reference};
use source::Images;

use crate::choice::choice;
use crate::cluster_flags::ClusterFlags;
use crate::commands::build::{self, CatalogImageBuilder};
use crate::commands::serve::duration;
use crate::exit::Failure;
use crate::images::{PullFlags, TlsFlags, latest};
use crate::limits;

/// The image that unpacks catalogs.
pub(super) const DECOMPRESSION_IMAGE: &str = "registry.access.redhat.com/ubi9/ubi:9.8";

/// Cluster and timeout flags.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct WorkFlags {
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    /// Timeout of the command
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = duration)]
    timeout: Duration,
    /// Print every request
    #[arg(long)]
    pub(crate) verbose: bool,
}

impl WorkFlags {
    /// Returns the namespace to print in objects without a cluster.
    pub(super) fn shown_namespace(&self) -> String {
        self.cluster.access().namespace.unwrap_or_else(|| "default".to_owned())
    }

    /// Returns the deadline.
    pub(crate) fn deadline(&self) -> Instant {
        const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        now.checked_add(self.timeout).unwrap_or(now + LONG)
    }
}

/// Catalog and registry pod flags.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ServeFlags {
    /// Service account of the registry pod
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service_account: String,
    /// Mode of 'opm registry add' for a database index (semver|replaces)
    #[arg(long, value_name = "MODE", default_value = "", hide = true)]
    mode: String,
    /// Secret of type kubernetes.io/dockerconfigjson with pull credentials for the cluster
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true)]
    pull_secret_name: String,
    /// Secret with a CA certificate as cert.pem, for a registry pod that pulls the bundle
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true)]
    ca_secret_name: String,
    /// Pull policy of the registry pod image
    #[arg(long, value_name = "POLICY", default_value = "Always", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,
    /// Security context of pods
    #[arg(long, value_name = "CONTEXT", default_value = "legacy", value_parser = security())]
    security_context_config: Security,
    /// Set runAsNonRoot for the registry pod, as restricted namespaces require
    #[arg(long)]
    run_as_non_root: bool,
    /// User ID of the registry pod, for images that would run as root; implies --run-as-non-root
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).range(1..))]
    run_as_user: Option<u32>,
    /// How to handle a database index: add the bundle in the pod (pod), or migrate to a file-based catalog (migrate);
    /// defaults to pod
    #[arg(long, value_name = "HOW", value_parser = database())]
    sqlite: Option<DatabaseHandling>,
    /// Push the catalog as this image and run it, instead of sending the catalog in ConfigMaps
    #[arg(long, value_name = "REF", value_parser = build::reference)]
    registry: Option<Reference>,
    /// Base image of the pushed image; defaults to scratch
    #[arg(long, value_name = "REF", requires = "registry")]
    registry_base: Option<String>,
    /// Include complete manifests in the catalog, instead of only CSV metadata
    #[arg(long)]
    bundle_objects: bool,
    /// Pin the bundle image in the catalog to its current digest
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = crate::cli::parse_bool, action = clap::ArgAction::Set)]
    pin: bool,
    /// Keep created objects after a failure
    #[arg(long)]
    pub(super) keep: bool,
    #[command(flatten)]
    pub(super) pull: PullFlags,
}

impl ServeFlags {
    pub(super) fn settings(&self) -> PodSettings {
        PodSettings {
            service_account: self.service_account.clone(),
            pull_policy: self.image_pull_policy.clone(),
            security: self.security_context_config,
            non_root: self.run_as_non_root,
            user: self.run_as_user,
            pull_secret: self.pull_secret_name.clone(),
            ca_secret: self.ca_secret_name.clone(),
        }
    }

    /// Refuses an unknown mode.
    pub(super) fn check(&self, tls: &TlsFlags) -> Result<(), Failure> {
        if !matches!(self.mode.as_str(), "" | "semver" | "replaces") {
            return Err(Failure::message(format!(
                "bundle add mode {:?} does not exist, must be one of: [\"semver\" \"replaces\"]",
                self.mode
            )));
        }
        if tls.skips_verification() && self.pull.ca_file.is_some() {
            return Err(Failure::message("--skip-tls-verify must be false when --ca-file is set"));
        }
        match &self.registry {
            Some(registry) => build::check_to_build("--registry", registry),
            None => Ok(()),
        }
    }

    /// Refuses flags for the registry pod of OLM v0.
    pub(super) fn check_for_v1(&self) -> Result<(), Failure> {
        let pod = [
            ("--service-account", !self.service_account.is_empty()),
            ("--pull-secret-name", !self.pull_secret_name.is_empty()),
            ("--ca-secret-name", !self.ca_secret_name.is_empty()),
            ("--image-pull-policy", self.image_pull_policy != "Always"),
            ("--security-context-config", self.security_context_config != Security::Legacy),
            ("--run-as-non-root", self.run_as_non_root),
            ("--run-as-user", self.run_as_user.is_some()),
            ("--registry-base", self.registry_base.is_some()),
        ];
        match pod.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Failure::usage(format!("{flag} requires --olm v0: with v1, no pod serves the catalog")))
            }
            None => Ok(()),
        }
    }

    /// Returns the builder of the pushed image.
    pub(super) fn builder<'a>(&'a self, images: &'a Images) -> CatalogImageBuilder<'a> {
        CatalogImageBuilder { base: self.registry_base.as_deref().map(|base| (base, images)) }
    }

    /// Returns how to build the catalog.
    pub(super) fn catalog<'a>(
        &self,
        images: &'a Images,
        builder: &'a CatalogImageBuilder<'a>,
        decompression_image: &str,
    ) -> Result<CatalogOptions<'a>, Failure> {
        Ok(CatalogOptions {
            mode: self.mode.clone(),
            database: self.sqlite,
            registry: self.registry.clone(),
            has_base: self.registry_base.is_some(),
            decompression_image: decompression_image.to_owned(),
            bundle_objects: self.bundle_objects,
            pin: self.pin,
            images,
            builder,
            running: std::env::current_exe()?,
            limits: limits::from_env()?,
        })
    }
}

fn database() -> impl TypedValueParser<Value = DatabaseHandling> {
    choice([("pod", DatabaseHandling::Pod), ("migrate", DatabaseHandling::Migrate)])
}

fn security() -> impl TypedValueParser<Value = Security> {
    choice([("legacy", Security::Legacy), ("restricted", Security::Restricted)])
}

/// Parses an image reference that a cluster can pull.
pub(super) fn image_name(text: &str) -> Result<String, ImageReferenceError> {
    let text = latest(text);
    Reference::parse(&text).map(|_| text)
}
