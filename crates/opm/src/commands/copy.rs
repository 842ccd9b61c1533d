//! `opm copy`: images from one place to another.

use image::{CopyPlan, Location};

use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Copy an image between registries, layouts and archives
#[derive(clap::Args)]
#[command(
    long_about = "Copy an image between registries, layouts and archives.\n\n\
        The copy is the same byte for byte, so that its digest is, too: an image for several platforms is copied \
        whole unless --platform is given. Signatures, attestations and whatever else was made for it go along. What \
        the other place has already is neither fetched nor sent. The digest of the image is printed.\n\n\
        Places are REF or docker://REF for a registry, oci:DIR[:TAG], oci-archive:FILE[:TAG] and \
        docker-archive:FILE[:REF]; the last has room for one image of one platform, and for nothing that was made \
        for it.",
    after_help = "Examples:\n  \
        opm copy quay.io/me/catalog:v1 registry.example.com/mirror/catalog:v1\n  \
        opm copy quay.io/me/catalog:v1 oci-archive:catalog.tar:v1\n  \
        opm copy --platform linux/arm64 oci:layout:v1 docker-archive:catalog.tar:catalog:v1"
)]
pub(crate) struct CopyArgs {
    /// Image to copy
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to copy it to
    #[arg(value_name = "TO")]
    to: String,
    /// Leave signatures and other things that were made for the image behind
    #[arg(long)]
    without_referrers: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &CopyArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let to = Location::parse(&args.to).map_err(|error| Failure::message(format!("{:?}: {error}", args.to)))?;
    let images = Images::new(tls, &args.pull);
    let client = images.client().map_err(Failure::message)?;
    let failed = |error: image::Error| {
        let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        Failure::message(format!("failed to copy {:?} to {:?}: {error}{help}", args.from, args.to))
    };
    let from = client.locate(&args.from).map_err(failed)?;
    let plan = CopyPlan { one_platform: args.pull.platform.is_some(), referrers: !args.without_referrers };
    let line = images.show("copying");
    let copied = client.copy(&from, &to, plan);
    drop(line);
    let copied = copied.map_err(failed)?;
    if copied.left_out > 0 {
        let text = "left behind, because an archive of docker has no place for it: what was made for the image";
        printer.warning(&format!("{text} ({})", copied.left_out));
    }
    writeln!(printer.data(), "{}", copied.digest)?;
    let (documents, sent, known, referrers) = (copied.documents, copied.sent, copied.known, copied.referrers);
    let megabytes = copied.bytes as f64 / 1e6;
    printer.report(&format!(
        "manifests: {documents}, blobs: {sent} ({megabytes:.1} MB), there before: {known}, made for the image: {referrers}"
    ));
    Ok(())
}
