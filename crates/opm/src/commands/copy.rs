//! `opm copy`: copies images between registries, layouts and archives.

use fbc::fault::Fault;
use image::{CopyPlan, Location};

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Copy an image between registries, layouts and archives
#[derive(clap::Args)]
#[command(
    long_about = "Copy an image between registries, layouts and archives.\n\n\
        The copy is identical byte for byte and keeps its digest. A multi-platform image is copied whole unless \
        --platform is given. Signatures, attestations and other referrers are copied too. Blobs that exist at the \
        destination are neither fetched nor sent. Prints the digest of the image.\n\n\
        FROM and TO are REF or docker://REF for a registry, oci:DIR[:TAG], oci-archive:FILE[:TAG] or \
        docker-archive:FILE[:REF]. A docker archive holds one image for one platform, without referrers.",
    after_help = "Examples:\n  \
        opm copy quay.io/me/catalog:v1 registry.example.com/mirror/catalog:v1\n  \
        opm copy quay.io/me/catalog:v1 oci-archive:catalog.tar:v1\n  \
        opm copy --platform linux/arm64 oci:layout:v1 docker-archive:catalog.tar:catalog:v1"
)]
pub(crate) struct CopyArgs {
    /// Image to copy
    #[arg(value_name = "FROM")]
    from: String,
    /// Destination of the image
    #[arg(value_name = "TO")]
    to: String,
    /// Do not copy signatures, attestations and other referrers
    #[arg(long)]
    without_referrers: bool,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &CopyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let to = Location::parse(&args.to).map_err(|error| Failure::usage(format!("{:?}: {error}", args.to)))?;
    let images = images::open(tls, &args.pull);
    let client = images.client()?;
    let failed = |error: image::Error| {
        let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        Failure::new(error.class(), format!("failed to copy {:?} to {:?}: {error}{help}", args.from, args.to))
    };
    let from = client.locate(&args.from).map_err(failed)?;
    let plan = CopyPlan { one_platform: args.pull.platform.is_some(), referrers: !args.without_referrers };
    let line = images.show("copying");
    let copied = client.copy(&from, &to, plan);
    drop(line);
    let copied = copied.map_err(failed)?;
    if copied.left_out > 0 {
        printer.warning(&format!("a docker archive cannot store referrers: {} left out", copied.left_out));
    }
    match args.output.is_json() {
        true => printer.json(&copied)?,
        false => writeln!(printer.data(), "{}", copied.digest)?,
    }
    let (documents, sent, known, referrers) = (copied.documents, copied.sent, copied.known, copied.referrers);
    let megabytes = copied.bytes as f64 / 1e6;
    printer.report(&format!(
        "manifests: {documents}, blobs: {sent} ({megabytes:.1} MB), already present: {known}, referrers: {referrers}"
    ));
    Ok(())
}
