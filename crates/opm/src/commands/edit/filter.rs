//! `opm edit filter`: the part of a catalog that somebody wants.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::needs::Facts;
use edit::filter::{AllFacts, Selection};
use fbc::Blob;
use fbc::blob::BUNDLE;
use fbc::json::Raw;
use fbc::range::VersionRange;

use super::workbench::{self, Where};
use crate::exit::Outcome;
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Keep some packages, channels or versions and drop the rest
#[derive(clap::Args)]
#[command(
    visible_alias = "prune",
    long_about = "Keep some packages, channels or versions and drop the rest.\n\n\
        What is kept stays valid: bundles on the way between two kept ones are kept too, and where a way is cut, the \
        newest bundle of the channel skips what lost it. Edges to bundles that are gone stay, so that clusters which \
        run them can upgrade. What was kept or changed for such a reason is reported. The default channel stays; if it \
        goes, the only one left becomes it, or --default-channel or --choose-default say which.",
    after_help = "Examples:\n  \
        opm edit filter my-catalog --heads-only --to heads\n  \
        opm edit filter my-catalog --package etcd,prometheus --with-dependencies --to small\n  \
        opm edit prune my-catalog --channel etcd/stable --dry-run\n  \
        opm edit filter quay.io/example/catalog:latest --package etcd --to etcd-only\n  \
        opm edit filter my-catalog --versions '>=1.0.0' --versions etcd@'>=0.9.0 <1.0.0' --choose-default --to recent"
)]
pub(super) struct FilterArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    what: WhatArgs,
    /// Keep what kept bundles need as well
    #[arg(long)]
    with_dependencies: bool,
    /// Default channel of a package from now on; can be given several times
    #[arg(long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',', value_parser = channel)]
    default_channel: Vec<(String, String)>,
    /// Where the default channel goes, make the one with the newest head the default
    #[arg(long)]
    choose_default: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// What is kept
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct WhatArgs {
    /// Keep these packages only; can be given several times
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',')]
    package: Vec<String>,
    /// Keep these channels only of their packages; can be given several times
    #[arg(long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',', value_parser = channel)]
    channel: Vec<(String, String)>,
    /// Keep these versions only, of one package or of all; can be given several times
    #[arg(long, value_name = "[PACKAGE@]RANGE", value_parser = versions)]
    versions: Vec<(Option<String>, VersionRange)>,
    /// Keep only the newest bundle of each channel
    #[arg(long)]
    heads_only: bool,
}

fn channel(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((package, channel)) if !package.is_empty() && !channel.is_empty() => {
            Ok((package.to_owned(), channel.to_owned()))
        }
        _ => Err("expected PACKAGE/CHANNEL".into()),
    }
}

fn versions(text: &str) -> Result<(Option<String>, VersionRange), String> {
    let (package, range) = match text.split_once('@') {
        Some((package, range)) => (Some(package.to_owned()), range),
        None => (None, text),
    };
    let range =
        VersionRange::parse(range).map_err(|error| format!("expected a range like '>=1.0.0 <2.0.0': {error}"))?;
    Ok((package, range))
}

pub(super) fn run(args: &FilterArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let (place, _aside) = workbench::fetched(&args.place, &images, printer)?;
    let selection = Selection {
        packages: args.what.package.clone(),
        channels: args.what.channel.clone(),
        versions: args.what.versions.clone(),
        heads_only: args.what.heads_only,
        dependencies: args.with_dependencies,
        default_channels: args.default_channel.clone(),
        choose_default: args.choose_default,
    };
    let facts: Mutex<AllFacts> = Mutex::new(HashMap::new());
    let look = |blob: &Blob, text: Raw<'_>| {
        if selection.dependencies && &*blob.schema == BUNDLE {
            let read = Facts::read(text);
            let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
            facts.entry((blob.package.to_string(), blob.name.to_string())).or_insert(read);
        }
    };
    workbench::change_looking(&place, &look, printer, |_, outline| {
        let facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
        edit::filter::filter(outline, &selection, &facts)
    })
}
