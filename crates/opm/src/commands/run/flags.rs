//! The flags that the commands for clusters have in common.

use std::time::{Duration, Instant};

use clap::builder::TypedValueParser;
use cluster::run::pod::{Item, PodSettings, Security};
use image::Reference;

use crate::choice::choice;
use crate::cluster_flags::ClusterFlags;
use crate::commands::serve::duration;
use crate::exit::Failure;
use crate::fetch::or_latest;
use crate::images::{PullFlags, TlsFlags};

/// The index image that means that there is none; it has the program that serves catalogs.
pub(super) const NO_INDEX: &str = "quay.io/operator-framework/opm:latest";
/// The image that unpacks catalogs.
pub(super) const DECOMPRESSION_IMAGE: &str = "registry.access.redhat.com/ubi9/ubi:9.8";
/// Index images that start like this get bundles by their versions.
const BY_VERSION: &str = "quay.io/operator-framework/opm:";

/// Which cluster, and for how long.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct WorkFlags {
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    /// Time that the command may take
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = duration)]
    timeout: Duration,
    /// Show every request
    #[arg(long)]
    pub(crate) verbose: bool,
}

impl WorkFlags {
    /// Returns the namespace that objects are shown in where no cluster is asked.
    pub(super) fn shown_namespace(&self) -> String {
        self.cluster.access().namespace.unwrap_or_else(|| "default".to_owned())
    }

    /// Returns when the time is up.
    pub(crate) fn deadline(&self) -> Instant {
        const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        now.checked_add(self.timeout).unwrap_or(now + LONG)
    }
}

/// How the catalog of a run is made and served.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ServeFlags {
    /// Service account of the registry pod
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(super) service_account: String,
    /// How 'opm registry add' puts the bundle into a database index (semver|replaces)
    #[arg(long, value_name = "MODE", default_value = "", hide = true)]
    pub(super) mode: String,
    /// Secret of type kubernetes.io/dockerconfigjson with credentials for the cluster's pulls
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true)]
    pub(super) pull_secret_name: String,
    /// Secret with a certificate as cert.pem, for a registry pod that pulls the bundle itself
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true)]
    pub(super) ca_secret_name: String,
    /// When the image of the registry pod is pulled (Always|IfNotPresent|Never)
    #[arg(long, value_name = "POLICY", default_value = "Always", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(super) image_pull_policy: String,
    /// How strictly pods are confined
    #[arg(long, value_name = "CONTEXT", default_value = "legacy", value_parser = security())]
    pub(super) security_context_config: Security,
    /// Say that the registry pod must not run as root, as restricted namespaces ask for
    #[arg(long)]
    pub(super) run_as_non_root: bool,
    /// User that the registry pod runs as, where images would run as root; implies --run-as-non-root
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) run_as_user: Option<u32>,
    /// What becomes of a database index: the pod adds the bundle to it, or it is migrated to a file-based
    /// catalog; defaults to pod
    #[arg(long, value_name = "HOW", value_parser = database())]
    pub(super) sqlite: Option<Database>,
    /// Push the catalog as an image of this name, and run that, instead of bringing it to the cluster by ConfigMaps
    #[arg(long, value_name = "REF", value_parser = crate::commands::build::reference)]
    pub(super) registry: Option<Reference>,
    /// Image that the pushed image is based on; defaults to scratch
    #[arg(long, value_name = "REF", requires = "registry")]
    pub(super) registry_base: Option<String>,
    /// Put whole manifests into the catalog, instead of what consoles show of them
    #[arg(long)]
    pub(super) bundle_objects: bool,
    /// Whether the catalog names the bundle by the digest that its tag has now, beside the tag
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = crate::cli::parse_bool, action = clap::ArgAction::Set)]
    pub(super) pin: bool,
    /// Leave what was created when something fails
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

    /// Refuses a mode that does not exist.
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
        Ok(())
    }

    /// Returns how a bundle is put into an index.
    pub(super) fn item(&self, image: &str, index_image: &str) -> Item {
        let mode = match self.mode.as_str() {
            "" if index_image.starts_with(BY_VERSION) => "semver",
            "" => "replaces",
            mode => mode,
        };
        Item { image: image.to_owned(), mode: mode.to_owned() }
    }
}

/// What becomes of a database index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    /// The pod adds bundles to it and serves it.
    Pod,
    /// It becomes a file-based catalog.
    Migrate,
}

fn database() -> impl TypedValueParser<Value = Database> {
    choice([("pod", Database::Pod), ("migrate", Database::Migrate)])
}

fn security() -> impl TypedValueParser<Value = Security> {
    choice([("legacy", Security::Legacy), ("restricted", Security::Restricted)])
}

/// Reads the name of an image that a cluster can pull.
pub(super) fn image_name(text: &str) -> Result<String, String> {
    let text = or_latest(text)?;
    Reference::parse(&text).map(|_| text).map_err(|error| error.to_string())
}
