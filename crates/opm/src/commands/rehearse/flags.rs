//! The flags of `opm rehearse`.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use rehearse::v1::{Certificates, Profile, Runtime};
use rehearse::{Bundle, Installer};
use serde_json::{Map, Value};

use super::Rehearsal;
use crate::choice::choice;
use crate::exit::{Failure, in_path};
use crate::findings;
use crate::images::PullFlags;
use resolve::request::{self, Request};

/// Show what a cluster would make of a bundle, without a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Show what a cluster would make of a bundle, without a cluster.\n\n\
        The objects are those that the Operator Lifecycle Manager would create, in its order: OLM v1 for a \
        ClusterExtension, OLM v0 for a Subscription. A refusal comes in OLM's own words, sizes are \
        compared with the limits of clusters, and differences between both generations are named. The exit code is 1 if \
        the bundle or one of its objects would be refused. docs/rehearse.md says how it is done.",
    after_help = "Examples:\n  \
        opm rehearse ./bundle\n  \
        opm rehearse ./bundle --olm v0 --namespace operators --watch-namespace team-a\n  \
        opm rehearse quay.io/me/foo-bundle:v1.1.0 -o yaml > objects.yaml\n  \
        opm rehearse ./bundle --output-dir ./objects\n  \
        opm rehearse ./bundle --from quay.io/me/foo-bundle:v1.0.0      # what an upgrade changes and restarts\n  \
        opm rehearse ./bundle --set watchNamespace=team-a\n  \
        opm rehearse ./bundle --installer > role.yaml                  # the rights that an installer needs\n  \
        opm rehearse my-catalog etcd@stable --from 0.9.2               # a bundle of a catalog\n  \
        opm rehearse ./bundle --against-cluster -n foo                 # and what the cluster of the kubeconfig has against it\n  \
        opm rehearse my-catalog --all                                  # which bundles which OLM installs"
)]
pub(crate) struct RehearseArgs {
    /// Directory or image of the bundle, or a catalog (directory, image or file)
    #[arg(value_name = "BUNDLE|CATALOG")]
    pub(super) source: String,
    /// Which bundle of a catalog: the head of the default channel unless a channel or version is given
    #[arg(value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    pub(super) package: Option<Request>,
    /// Rehearse every bundle of a catalog for both generations of OLM, and report which are installed
    #[arg(long, conflicts_with_all = ["package", "from", "installer", "output_dir"])]
    pub(super) all: bool,
    /// With --all, leave out bundles whose objects are in their images only, instead of pulling these
    #[arg(long, requires = "all")]
    pub(super) no_pull: bool,
    /// Which OLM installs it: v0 is the one with Subscriptions, v1 the one with ClusterExtensions
    #[arg(long, value_name = "GENERATION", default_value = "v1", value_parser = generation())]
    pub(super) olm: Generation,
    /// Release of OLM v1, 1.6 to 1.11; defaults to the newest
    #[arg(long, value_name = "VERSION", value_parser = minor)]
    olm_version: Option<u32>,
    /// What applies the objects in OLM v1
    #[arg(long, value_name = "RUNTIME", default_value = "helm", value_parser = runtime())]
    runtime: Runtime,
    /// Feature of OLM v1 that is switched on; can be given several times
    #[arg(long, value_name = "GATE", value_delimiter = ',', value_parser = gate())]
    gate: Vec<Gate>,
    /// Namespace to install in; defaults to the one that the bundle suggests, or PACKAGE-system
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Namespace that the operator watches; can be given several times for OLM v0
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) watch_namespace: Vec<String>,
    /// Set a field of the configuration, as in watchNamespace=team-a; can be given several times
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// File with the configuration: spec.config.inline of a ClusterExtension
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Who makes certificates for webhooks in OLM v1
    #[arg(long, value_name = "PROVIDER", default_value = "cert-manager", value_parser = certificates())]
    pub(super) certificates: Certificates,
    /// Name of the ClusterExtension; defaults to the package
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Bundle, or version in the catalog, that is installed before, to show what the upgrade changes, deletes and restarts
    #[arg(long, value_name = "BUNDLE")]
    pub(super) from: Option<String>,
    /// Print the least ClusterRole that an installer account needs: every right (every), or bind and escalate (short)
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "every", require_equals = true, value_parser = installer())]
    pub(super) installer: Option<Installer>,
    /// Compare with a cluster, and change nothing there: what exists and whose it is, kinds that are missing, changes of
    /// definitions, stored custom resources, and a dry run of every object
    #[arg(long, conflicts_with = "all")]
    pub(super) against_cluster: bool,
    /// File that says how to reach the cluster; defaults to KUBECONFIG, ~/.kube/config or, in a pod, its cluster
    #[arg(long, value_name = "FILE", requires = "against_cluster")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context in that file
    #[arg(long, value_name = "NAME", requires = "against_cluster")]
    pub(super) context: Option<String>,
    /// Write each object to a file of its own in this directory, which must be empty or not exist
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) output_dir: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) pull: PullFlags,
}

/// A generation of OLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    V0,
    V1,
}

impl Generation {
    pub(super) fn other(self) -> Generation {
        match self {
            Generation::V0 => Generation::V1,
            Generation::V1 => Generation::V0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Yaml,
    Json,
    /// The findings alone.
    Findings(findings::Output),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    SingleOwnNamespace,
    DeploymentConfig,
}

fn generation() -> impl TypedValueParser<Value = Generation> {
    choice([("v0", Generation::V0), ("v1", Generation::V1)])
}

fn minor(text: &str) -> Result<u32, String> {
    let known = || format!("expected 1.{} to 1.{}", Profile::OLDEST, Profile::NEWEST);
    let text = text.strip_prefix('v').unwrap_or(text);
    let minor = text.strip_prefix("1.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.filter(|minor| Profile::of(*minor).is_some()).ok_or_else(known)
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

fn certificates() -> impl TypedValueParser<Value = Certificates> {
    choice([
        ("cert-manager", Certificates::CertManager),
        ("openshift", Certificates::OpenShift),
        ("none", Certificates::None),
    ])
}

fn installer() -> impl TypedValueParser<Value = Installer> {
    choice([("every", Installer::Every), ("short", Installer::Short)])
}

fn output() -> impl TypedValueParser<Value = Output> {
    choice([
        ("text", Output::Text),
        ("yaml", Output::Yaml),
        ("json", Output::Json),
        ("sarif", Output::Findings(findings::Output::Sarif)),
        ("github", Output::Findings(findings::Output::Github)),
        ("markdown", Output::Findings(findings::Output::Markdown)),
    ])
}

impl RehearseArgs {
    /// Returns the release of OLM v1 with what is switched on.
    pub(super) fn profile(&self) -> Result<Profile, Failure> {
        let minor = self.olm_version.unwrap_or(Profile::NEWEST);
        let mut profile = Profile::of(minor).ok_or_else(|| Failure::message("this release of OLM v1 is not known"))?;
        profile.runtime = self.runtime;
        profile.single_own_namespace |= self.gate.contains(&Gate::SingleOwnNamespace);
        profile.deployment_config |= self.gate.contains(&Gate::DeploymentConfig);
        Ok(profile)
    }

    /// Returns the namespace to install in.
    pub(super) fn namespace(&self, bundle: &Bundle) -> String {
        const SUGGESTED: &str = "operatorframework.io/suggested-namespace";
        let suggested = || bundle.annotations.get(SUGGESTED).filter(|name| !name.is_empty()).cloned();
        self.namespace.clone().or_else(suggested).unwrap_or_else(|| format!("{}-system", bundle.package))
    }

    /// Returns the name of the ClusterExtension, as the labels of objects have it.
    pub(super) fn extension(&self, rehearsal: &Rehearsal) -> String {
        const OWNER: &str = "/metadata/labels/olm.operatorframework.io~1owner-name";
        let labelled = || rehearsal.objects.first()?.pointer(OWNER)?.as_str().map(str::to_owned);
        self.name.clone().or_else(labelled).unwrap_or_default()
    }

    /// Returns what `--from` says.
    pub(super) fn from(&self) -> &str {
        self.from.as_deref().unwrap_or_default()
    }

    /// Returns the configuration that the flags make together.
    pub(super) fn config(&self) -> Result<Option<Value>, Failure> {
        let mut config = match &self.config {
            None => Value::Null,
            Some(path) => {
                let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
                let mut json = Vec::new();
                let limits = fbc::yaml::Limits { depth: 100, nodes: 100_000, bytes: 1 << 20 };
                fbc::yaml::to_json(&text, &limits, &mut json)
                    .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
                serde_json::from_slice(&json)
                    .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?
            }
        };
        for given in &self.set {
            let (field, value) =
                given.split_once('=').ok_or_else(|| Failure::Usage(format!("--set {given}: expected FIELD=VALUE")))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            set(&mut config, field, value);
        }
        match &*self.watch_namespace {
            [] => {}
            [one] if one.is_empty() => {}
            [one, ..] => set(&mut config, "watchNamespace", one.clone().into()),
        }
        Ok(Some(config).filter(|config| !config.is_null()))
    }
}

/// Sets a field, and makes what it is in.
fn set(config: &mut Value, field: &str, value: Value) {
    let mut at = config;
    for step in field.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[step];
    }
    *at = value;
}
