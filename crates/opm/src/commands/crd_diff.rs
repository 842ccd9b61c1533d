//! `opm crd-diff`: checks that CRDs can replace others.

use bundle::review::crd::{CrdChanges, Rules};
use clap::builder::TypedValueParser;
use source::catalog_bundles;

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::findings::{self, FindingsOutput};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::picks::BundleSelectionArgs;
use crate::printer::Printer;

/// Check whether the CRDs of a bundle can replace those of another
#[derive(clap::Args)]
#[command(
    long_about = "Check whether the CRDs of a bundle can replace those of another.\n\n\
        Before an upgrade OLM v1 compares each CRD with the one on the cluster, and refuses changes that could break \
        custom resources. Each change gets two verdicts: what OLM v1 does, in its own words, and what the change means \
        for custom resources. The exit code is 1 if a change is an error under --crd-rules.",
    after_help = "Examples:\n  \
        opm crd-diff quay.io/me/foo-bundle:v1.0.0 ./bundle\n  \
        opm crd-diff old-crd.yaml new-crd.yaml\n  \
        opm crd-diff ./old ./new --crd-rules meaning -o markdown\n  \
        opm crd-diff my-catalog --package etcd --from 0.9.2 --to 0.9.4\n  \
        opm crd-diff old-crd.yaml new-crd.yaml -o crdify           # the JSON of crdify"
)]
pub(crate) struct CrdDiffArgs {
    /// Current bundle or catalog (directory, image or file), or file with CRDs
    #[arg(value_name = "OLD")]
    old: String,
    /// New bundle, catalog or file; omit it to compare two versions of one catalog
    #[arg(value_name = "NEW")]
    new: Option<String>,
    /// Verdict that decides the exit code
    #[arg(long, value_name = "RULES", default_value = "olm", value_parser = rules())]
    crd_rules: Rules,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = format())]
    output: Format,
    #[command(flatten)]
    picks: BundleSelectionArgs,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The JSON of crdify with the settings of OLM v1.
    Crdify,
    Findings(FindingsOutput),
}

fn format() -> impl TypedValueParser<Value = Format> {
    choice([
        ("text", Format::Findings(FindingsOutput::Text)),
        ("json", Format::Findings(FindingsOutput::Json)),
        ("crdify", Format::Crdify),
        ("sarif", Format::Findings(FindingsOutput::Sarif)),
        ("github", Format::Findings(FindingsOutput::Github)),
        ("markdown", Format::Findings(FindingsOutput::Markdown)),
    ])
}

fn rules() -> impl TypedValueParser<Value = Rules> {
    choice([("olm", Rules::Olm), ("meaning", Rules::Meaning)])
}

pub(crate) fn run(args: &CrdDiffArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let limits = limits::from_env()?;
    let changes = catalog_bundles::crd_changes(&args.old, args.new.as_deref(), &args.picks.picked(), &images, &limits)?;
    let changes = CrdChanges::new(changes, args.crd_rules);
    match args.output {
        Format::Crdify => printer.json(&changes.crdify())?,
        Format::Findings(FindingsOutput::Json) => printer.json(&changes)?,
        Format::Findings(output) => findings::print(&changes.findings(), output, printer)?,
    }
    if changes.passed { Ok(()) } else { Err(Failure::Reported) }
}
