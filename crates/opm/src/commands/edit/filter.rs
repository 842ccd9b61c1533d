//! `opm edit filter`: keeps a selected part of a catalog.

use edit::filter::KeptPart;
use edit::operations::{Filter, filter};
use fbc::range::VersionRange;

use super::flags::EditFlags;
use crate::choice::InvalidValue;
use crate::exit::CommandResult;
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Keep selected packages, channels or versions and remove the rest
#[derive(clap::Args)]
#[command(
    visible_alias = "prune",
    long_about = "Keep selected packages, channels or versions and remove the rest.\n\n\
        The result stays valid. Bundles on an upgrade path between two kept bundles are kept too. Where a path is cut, \
        the channel head skips the bundles that lost it. Edges from removed bundles to kept ones stay, so that clusters \
        that run them can upgrade. opm reports each bundle kept and each edge changed for such a reason, and the removed \
        bundles that no edge upgrades any more.\n\n\
        If the default channel is removed, the only remaining channel becomes the default. If several remain, \
        --default-channel or --choose-default selects one.",
    after_help = "Examples:\n  \
        opm edit filter my-catalog --heads-only --to heads\n  \
        opm edit filter my-catalog --package etcd,prometheus --with-dependencies --to small\n  \
        opm edit prune my-catalog --channel etcd/stable --dry-run\n  \
        opm edit filter quay.io/example/catalog:latest --package etcd --to etcd-only\n  \
        opm edit filter my-catalog --versions '>=1.0.0' --versions etcd@'>=0.9.0 <1.0.0' --choose-default --to recent"
)]
pub(super) struct FilterArgs {
    #[command(flatten)]
    flags: EditFlags,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Also keep the dependencies of kept bundles
    #[arg(long)]
    with_dependencies: bool,
    /// New default channel of a package; can be repeated
    #[arg(long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',', value_parser = channel)]
    default_channel: Vec<(String, String)>,
    /// If the default channel is removed, make the channel with the newest head the default
    #[arg(long)]
    choose_default: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// The selection
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct SelectionArgs {
    /// Keep only these packages; can be repeated
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',')]
    package: Vec<String>,
    /// Keep only these channels of their packages; can be repeated
    #[arg(long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',', value_parser = channel)]
    channel: Vec<(String, String)>,
    /// Keep only these versions, of one package or of all; can be repeated
    #[arg(long, value_name = "[PACKAGE@]RANGE", value_parser = versions)]
    versions: Vec<(Option<String>, VersionRange)>,
    /// Keep only the head of each channel
    #[arg(long)]
    heads_only: bool,
}

fn channel(text: &str) -> Result<(String, String), InvalidValue> {
    match text.split_once('/') {
        Some((package, channel)) if !package.is_empty() && !channel.is_empty() => {
            Ok((package.to_owned(), channel.to_owned()))
        }
        _ => Err("expected PACKAGE/CHANNEL".into()),
    }
}

fn versions(text: &str) -> Result<(Option<String>, VersionRange), InvalidValue> {
    let (package, range) = match text.split_once('@') {
        Some((package, range)) => (Some(package.to_owned()), range),
        None => (None, text),
    };
    let range =
        VersionRange::parse(range).map_err(|error| format!("expected a range like '>=1.0.0 <2.0.0': {error}"))?;
    Ok((package, range))
}

pub(super) fn run(args: &FilterArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let (options, _opened) = args.flags.options_of_any(&images)?;
    let selection = KeptPart {
        packages: args.selection.package.clone(),
        channels: args.selection.channel.clone(),
        versions: args.selection.versions.clone(),
        heads_only: args.selection.heads_only,
        dependencies: args.with_dependencies,
        default_channels: args.default_channel.clone(),
        choose_default: args.choose_default,
    };
    args.flags.print(filter(&Filter { options, selection }, printer), printer)
}
