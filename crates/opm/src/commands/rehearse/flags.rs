//! The flags of `opm rehearse`.

use std::path::PathBuf;

use bundle::rehearse::v1::{CertificateProvider, Profile, Runtime};
use bundle::rehearse::{Installer, OlmGeneration, Rehearse, config};
use clap::builder::TypedValueParser;
use serde_json::Value;
use source::{RehearsedBundles, RehearsedSource};

use crate::choice::choice;
use crate::cluster_flags::ClusterFlags;
use crate::commands::catalog::generation;
use crate::exit::{Failure, in_path};
use crate::findings;
use crate::images::PullFlags;
use resolve::request::{self, InstallRequest};

/// Show the objects that OLM would create for a bundle, without a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Show the objects that OLM would create for a bundle, without a cluster.\n\n\
        opm lists the objects in the order of the Operator Lifecycle Manager: OLM v1 for a ClusterExtension, OLM v0 for a \
        Subscription. If OLM would refuse the bundle, opm prints OLM's own message. It compares sizes with the limits of \
        clusters and shows the differences between OLM v0 and v1. The exit code is 1 if OLM would refuse the bundle or one \
        of its objects. docs/rehearse.md explains how it works.",
    after_help = "Examples:\n  \
        opm rehearse ./bundle\n  \
        opm rehearse ./bundle --olm v0 --namespace operators --watch-namespace team-a\n  \
        opm rehearse quay.io/me/foo-bundle:v1.1.0 -o yaml > objects.yaml\n  \
        opm rehearse ./bundle --output-dir ./objects\n  \
        opm rehearse ./bundle --from quay.io/me/foo-bundle:v1.0.0      # what an upgrade changes and restarts\n  \
        opm rehearse ./bundle --set watchNamespace=team-a\n  \
        opm rehearse ./bundle --installer > role.yaml                  # permissions for an installer\n  \
        opm rehearse my-catalog etcd@stable --from 0.9.2               # a bundle of a catalog\n  \
        opm rehearse ./bundle --against-cluster -n foo                 # compare with the current cluster\n  \
        opm rehearse my-catalog --all                                  # which OLM installs which bundle"
)]
pub(crate) struct RehearseArgs {
    /// Bundle (directory or image) or catalog (directory, image or file)
    #[arg(value_name = "BUNDLE|CATALOG")]
    source: String,
    /// Bundle of the catalog; defaults to the head of the default channel
    #[arg(value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    package: Option<InstallRequest>,
    /// Rehearse every bundle of a catalog for OLM v0 and v1, and report which ones install
    #[arg(long, conflicts_with_all = ["package", "from", "installer", "output_dir"])]
    all: bool,
    /// With --all, pull no images: where objects are only in them, the metadata in the catalog decides what it can
    #[arg(long, requires = "all")]
    no_pull: bool,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions
    #[arg(long, value_name = "GENERATION", default_value = "v1", value_parser = generation())]
    olm: OlmGeneration,
    /// Release of OLM v1, from 1.6 to 1.11; defaults to the newest
    #[arg(long, value_name = "VERSION", value_parser = release)]
    olm_version: Option<Profile>,
    /// Runtime with which OLM v1 applies objects
    #[arg(long, value_name = "RUNTIME", default_value = "helm", value_parser = runtime())]
    runtime: Runtime,
    /// Feature gate of OLM v1 to enable; can be repeated
    #[arg(long, value_name = "GATE", value_delimiter = ',', value_parser = gate())]
    gate: Vec<Gate>,
    /// Namespace to install in; defaults to the bundle's suggested namespace, or PACKAGE-system
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Namespace that the operator watches; can be repeated for OLM v0
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Vec<String>,
    /// Set a configuration field, such as watchNamespace=team-a; can be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Configuration file: spec.config.inline of a ClusterExtension
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Certificate provider for webhooks in OLM v1
    #[arg(long, value_name = "PROVIDER", default_value = "cert-manager", value_parser = certificates())]
    certificates: CertificateProvider,
    /// Name of the ClusterExtension; defaults to the package
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Previous bundle, or version in the catalog; shows what the upgrade changes, deletes and restarts
    #[arg(long, value_name = "BUNDLE")]
    pub(super) from: Option<String>,
    /// Print the minimal ClusterRole of an installer account: every permission (every), or bind and escalate (short)
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "every", require_equals = true, value_parser = installer())]
    pub(super) installer: Option<Installer>,
    /// Compare with a cluster, without changing it: existing objects and their owners, missing kinds, changes of
    /// definitions, stored custom resources, and a dry run of every object
    #[arg(long, conflicts_with = "all")]
    pub(super) against_cluster: bool,
    /// Path to the kubeconfig file; defaults to KUBECONFIG, ~/.kube/config or, in a pod, its cluster
    #[arg(long, value_name = "FILE", requires = "against_cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", requires = "against_cluster")]
    context: Option<String>,
    /// Write each object to its own file in this directory, which must be empty or absent
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) output_dir: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    pub(super) output: RehearsalOutput,
    #[command(flatten)]
    pub(super) pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RehearsalOutput {
    Text,
    Yaml,
    Json,
    /// Only the findings.
    Findings(findings::FindingsOutput),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    SingleOwnNamespace,
    DeploymentConfig,
}

/// The release of OLM v1 is unknown.
#[derive(Debug, thiserror::Error)]
#[error("expected 1.{} to 1.{}", Profile::OLDEST, Profile::NEWEST)]
struct UnknownRelease;

/// Parses a release of OLM v1 to its defaults.
fn release(text: &str) -> Result<Profile, UnknownRelease> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let minor = text.strip_prefix("1.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.and_then(Profile::of).ok_or(UnknownRelease)
}

fn runtime() -> impl TypedValueParser<Value = Runtime> {
    choice([("helm", Runtime::Helm), ("boxcutter", Runtime::Boxcutter)])
}

fn gate() -> impl TypedValueParser<Value = Gate> {
    choice([
        ("SingleOwnNamespaceInstallSupport", Gate::SingleOwnNamespace),
        ("DeploymentConfig", Gate::DeploymentConfig),
    ])
}

fn certificates() -> impl TypedValueParser<Value = CertificateProvider> {
    choice([
        ("cert-manager", CertificateProvider::CertManager),
        ("openshift", CertificateProvider::OpenShift),
        ("none", CertificateProvider::None),
    ])
}

fn installer() -> impl TypedValueParser<Value = Installer> {
    choice([("every", Installer::Every), ("short", Installer::Short)])
}

fn output() -> impl TypedValueParser<Value = RehearsalOutput> {
    choice([
        ("text", RehearsalOutput::Text),
        ("yaml", RehearsalOutput::Yaml),
        ("json", RehearsalOutput::Json),
        ("sarif", RehearsalOutput::Findings(findings::FindingsOutput::Sarif)),
        ("github", RehearsalOutput::Findings(findings::FindingsOutput::Github)),
        ("markdown", RehearsalOutput::Findings(findings::FindingsOutput::Markdown)),
    ])
}

impl RehearseArgs {
    /// Returns the request.
    pub(super) fn request(&self) -> Result<Rehearse, Failure> {
        let mut profile = self.olm_version.clone().unwrap_or_default();
        profile.runtime = self.runtime;
        profile.single_own_namespace |= self.gate.contains(&Gate::SingleOwnNamespace);
        profile.deployment_config |= self.gate.contains(&Gate::DeploymentConfig);
        Ok(Rehearse {
            generation: self.olm,
            profile,
            namespace: self.namespace.clone(),
            watch: self.watch_namespace.clone(),
            extension: self.name.clone(),
            certificates: self.certificates,
            config: self.config()?,
        })
    }

    /// Returns the bundles to rehearse.
    pub(super) fn source(&self) -> RehearsedSource<'_> {
        let bundles = match &self.package {
            _ if self.all => RehearsedBundles::All { pull: !self.no_pull },
            Some(package) => RehearsedBundles::One(package),
            None => RehearsedBundles::Source,
        };
        RehearsedSource { source: &self.source, bundles, from: self.from.as_deref() }
    }

    /// Returns the cluster to compare with.
    pub(super) fn cluster(&self, namespace: &str) -> ClusterFlags {
        ClusterFlags {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: Some(namespace.to_owned()),
        }
    }

    /// Combines the configuration file and `--set` flags.
    fn config(&self) -> Result<Option<Value>, Failure> {
        let mut config = match &self.config {
            None => Value::Null,
            Some(path) => {
                let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
                config::parse(&text).map_err(|error| Failure::message(error).context(path.display()))?
            }
        };
        for given in &self.set {
            let (field, value) =
                given.split_once('=').ok_or_else(|| Failure::usage(format!("--set {given}: expected FIELD=VALUE")))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            config::set(&mut config, field, value);
        }
        Ok(Some(config).filter(|config| !config.is_null()))
    }
}
