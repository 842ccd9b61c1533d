//! `opm bundle extract`: writes a bundle directory to a ConfigMap.

use std::path::{Path, PathBuf};

use cluster::{Access, BundleMapPlan};

use crate::cluster_flags::block_on;
use crate::exit::{CommandResult, Failure};
use crate::limits;
use crate::printer::Printer;

/// The default namespace of OLM's ConfigMaps.
const NAMESPACE: &str = "openshift-operator-lifecycle-manager";

/// Write a bundle to a ConfigMap on a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Write a bundle to a ConfigMap on a cluster.\n\n\
        OLM runs this command to unpack a bundle image. The ConfigMap must exist; the command replaces its data and \
        keeps its labels. Each file in manifests and metadata becomes a key, except annotations.yaml, which becomes \
        annotations. The environment variable CONTAINER_IMAGE names the image of the bundle.",
    after_help = "Examples:\n  \
        opm bundle extract -m ./bundle -n olm -c my-bundle --gzip\n  \
        CONTAINER_IMAGE=quay.io/me/foo-bundle:v1.0.0 opm bundle extract -m ./bundle -n olm -c my-bundle"
)]
pub(crate) struct ExtractArgs {
    /// Bundle directory, with manifests and metadata below it
    #[arg(short, long, value_name = "DIR", default_value = "/")]
    pub(crate) manifestsdir: PathBuf,
    #[command(flatten)]
    pub(crate) to: ToArgs,
}

/// The target of a bundle.
#[derive(clap::Args)]
pub(crate) struct ToArgs {
    /// ConfigMap to write to
    #[arg(short, long, value_name = "NAME")]
    configmapname: String,
    /// Namespace of the ConfigMap
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// Path to the kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Maximum total size of the values, in bytes
    #[arg(short = 'l', long, value_name = "BYTES", default_value_t = 1 << 20)]
    datalimit: usize,
    /// Compress the files
    #[arg(short = 'z', long)]
    gzip: bool,
    /// Print the keys that are written
    #[arg(long)]
    debug: bool,
}

pub(super) fn run(args: &ExtractArgs, printer: &Printer) -> CommandResult {
    write(&args.manifestsdir, &args.to, printer)
}

/// Writes the bundle in a directory to a ConfigMap.
pub(crate) fn write(root: &Path, to: &ToArgs, printer: &Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let source_image = std::env::var("CONTAINER_IMAGE").ok();
    let plan = BundleMapPlan {
        root,
        name: &to.configmapname,
        gzip: to.gzip,
        limit: to.datalimit,
        source_image: source_image.as_deref(),
    };
    let access = Access {
        kubeconfig: to.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty()),
        context: to.context.clone(),
        namespace: Some(to.namespace.clone()),
    };
    block_on("the ConfigMap is unchanged unless it was already written", async {
        let config_failed =
            |error| Failure::message(format!("cluster config failed: Cannot load config for REST client: {error}"));
        let cluster = access.connect().await.map_err(config_failed)?;
        let written = cluster::write_bundle(&cluster, &plan, &limits).await;
        let written =
            written.map_err(|error| Failure::message(format!("error loading manifests from directory: {error}")))?;
        for file in &written.lost {
            let text = format!("{}: not stored: another file has the same key", file.display());
            printer.warning(&text);
        }
        if to.debug {
            let count = written.keys.len();
            printer.report(&format!("{count} files, {} bytes: {}", written.size, written.keys.join(" ")));
        }
        Ok(())
    })
}
