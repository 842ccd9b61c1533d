//! `opm bundle extract`: a bundle directory into a ConfigMap.

use std::path::{Path, PathBuf};

use cluster::{Access, BundleMapPlan};

use crate::cluster_flags::block_on;
use crate::exit::{Failure, Outcome};
use crate::limits;
use crate::printer::Printer;

/// The namespace in which OLM keeps ConfigMaps by default.
const NAMESPACE: &str = "openshift-operator-lifecycle-manager";

/// Write a bundle into a ConfigMap of a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Write a bundle into a ConfigMap of a cluster.\n\n\
        OLM runs this to unpack the image of a bundle. The ConfigMap has to exist; what it held is replaced, its labels \
        stay. Every file of manifests and metadata becomes a key, but annotations.yaml, which becomes annotations. \
        CONTAINER_IMAGE in the environment names the image that the bundle is from.",
    after_help = "Examples:\n  \
        opm bundle extract -m ./bundle -n olm -c my-bundle --gzip\n  \
        CONTAINER_IMAGE=quay.io/me/foo-bundle:v1.0.0 opm bundle extract -m ./bundle -n olm -c my-bundle"
)]
pub(crate) struct ExtractArgs {
    /// Directory of the bundle, with manifests and metadata in it
    #[arg(short, long, value_name = "DIR", default_value = "/")]
    pub(crate) manifestsdir: PathBuf,
    #[command(flatten)]
    pub(crate) to: ToArgs,
}

/// Where a bundle is written to.
#[derive(clap::Args)]
pub(crate) struct ToArgs {
    /// ConfigMap to write to
    #[arg(short, long, value_name = "NAME")]
    configmapname: String,
    /// Namespace of the ConfigMap
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// File that says how to reach the cluster; defaults to KUBECONFIG, ~/.kube/config or, in a pod, its cluster
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in that file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Most bytes of all values
    #[arg(short = 'l', long, value_name = "BYTES", default_value_t = 1 << 20)]
    datalimit: usize,
    /// Compress the files
    #[arg(short = 'z', long)]
    gzip: bool,
    /// Show what is written
    #[arg(long)]
    debug: bool,
}

pub(super) fn run(args: &ExtractArgs, printer: &Printer) -> Outcome {
    write(&args.manifestsdir, &args.to, printer)
}

/// Writes the bundle in a directory into a ConfigMap.
pub(crate) fn write(root: &Path, to: &ToArgs, printer: &Printer) -> Outcome {
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
    block_on("the ConfigMap is as it was, unless it had been written already", async {
        let config_failed =
            |error| Failure::message(format!("cluster config failed: Cannot load config for REST client: {error}"));
        let cluster = access.connect().await.map_err(config_failed)?;
        let written = cluster::write_bundle(&cluster, &plan, &limits).await;
        let written =
            written.map_err(|error| Failure::message(format!("error loading manifests from directory: {error}")))?;
        for file in &written.lost {
            let text = format!("{}: not stored, another file has the same key", file.display());
            printer.warning(&text);
        }
        if to.debug {
            let count = written.keys.len();
            printer.report(&format!("{count} files, {} bytes: {}", written.size, written.keys.join(" ")));
        }
        Ok(())
    })
}
