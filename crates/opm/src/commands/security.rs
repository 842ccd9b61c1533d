//! `opm security`: lists the permissions of an operator and how they grow between versions.

use crate::limits;
use crate::picks::Picks;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bundle::review::security::{self, Options, RULES};
use bundle::{Finding, Severity};
use clap::builder::TypedValueParser;
use source::catalog_bundles::{self, BundleOrCatalog};
use source::{Images, LoadedBundle};

use crate::choice::choice;
use crate::exit::{Failure, Outcome, in_path};
use crate::findings::{self, Output};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Show the permissions of an operator, and how they grow between two versions
#[derive(clap::Args)]
#[command(
    long_about = "Show the permissions of an operator, and how they grow between two versions.\n\n\
        For one bundle, opm reports cluster and namespace permissions, privilege escalation, Secrets, host access, \
        privileged pods, webhooks and images by tag. For two bundles, it reports what is new. A permission is new only if \
        no other rule already granted it to the same account. For two catalogs, it compares each bundle that only the new \
        catalog has with the bundle it replaces.\n\n\
        The exit code is 1 if a finding matches --deny. docs/security.md lists all findings.",
    after_help = "Examples:\n  \
        opm security ./bundle\n  \
        opm security quay.io/me/foo-bundle:v1.0.0 ./bundle --deny high\n  \
        opm security ./old ./new -o markdown                      # for a pull request\n  \
        opm security ./bundle --write-baseline accepted.json      # accept the current findings\n  \
        opm security ./bundle --deny high --baseline accepted.json\n  \
        opm security my-catalog --package etcd --from 0.9.2 --to 0.9.4\n  \
        opm security quay.io/me/catalog:latest my-catalog --deny high"
)]
pub(crate) struct SecurityArgs {
    /// Bundle or catalog (directory, image or file); with NEW, the old version
    #[arg(value_name = "OLD")]
    old: String,
    /// New version of the bundle or catalog
    #[arg(value_name = "NEW")]
    new: Option<String>,
    /// Fail on findings of at least this severity (info|low|medium|high|critical), or with this ID; can be repeated
    #[arg(long, value_name = "SEVERITY|ID", value_delimiter = ',', value_parser = denial)]
    deny: Vec<Denial>,
    /// Ignore findings with this ID, optionally of one service account only; can be repeated
    #[arg(long, value_name = "ID[:ACCOUNT]", value_delimiter = ',', value_parser = allowance)]
    allow: Vec<(String, Option<String>)>,
    /// Ignore the findings listed in this file
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the findings to this file, for --baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// Namespaces that the operator watches: all, if it supports that, or selected ones
    #[arg(long, value_name = "MODE", default_value = "all", value_parser = mode())]
    install_mode: Options,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = findings::output())]
    output: Output,
    #[command(flatten)]
    picks: Picks,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone)]
enum Denial {
    Severity(Severity),
    Id(String),
}

fn known(id: &str) -> Result<String, String> {
    if RULES.iter().any(|(name, _)| *name == id) { Ok(id.to_owned()) } else { Err(format!("unknown finding {id}")) }
}

fn denial(text: &str) -> Result<Denial, String> {
    match Severity::parse(text) {
        Some(severity) => Ok(Denial::Severity(severity)),
        None => known(text).map(Denial::Id),
    }
}

fn allowance(text: &str) -> Result<(String, Option<String>), String> {
    let (id, account) = text.split_once(':').map_or((text, None), |(id, account)| (id, Some(account.to_owned())));
    Ok((known(id)?, account))
}

fn mode() -> impl TypedValueParser<Value = Options> {
    choice([("all", Options { namespaces: false }), ("namespaces", Options { namespaces: true })])
}

pub(crate) fn run(args: &SecurityArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = images::open(tls, &args.pull);
    let mut found = found(args, &images)?;
    if let Some(path) = &args.write_baseline {
        let baseline = Baseline { accepted: found.iter().map(key).collect() };
        let text = serde_json::to_string_pretty(&baseline).map_err(std::io::Error::from)? + "\n";
        crate::tree::write_file(path, &text)?;
    }
    if let Some(path) = &args.baseline {
        let accepted = baseline(path)?;
        found.retain(|finding| !accepted.contains(&key(finding)));
    }
    let allowed = |finding: &Finding| {
        args.allow.iter().any(|(id, account)| {
            let of = |account: &String| finding.object == format!("ServiceAccount {account}");
            finding.id == id && account.as_ref().is_none_or(of)
        })
    };
    found.retain(|finding| !allowed(finding));
    findings::sort(&mut found);
    let denied = |finding: &Finding| {
        args.deny.iter().any(|denial| match denial {
            Denial::Severity(severity) => finding.severity >= *severity,
            Denial::Id(id) => finding.id == id,
        })
    };
    let passed = !found.iter().any(denied);
    findings::print(&found, passed, args.output, printer)?;
    if passed { Ok(()) } else { Err(Failure::Reported) }
}

/// Collects the findings of all bundles or pairs.
fn found(args: &SecurityArgs, images: &Images) -> Result<Vec<Finding>, Failure> {
    let limits = limits::from_env()?;
    let old = catalog_bundles::open(&args.old, images, &limits)?;
    let new = args.new.as_ref().map(|new| catalog_bundles::open(new, images, &limits)).transpose()?;
    match (&old, &new) {
        (BundleOrCatalog::Bundle(one), None) => judged(None, one, args.install_mode),
        (BundleOrCatalog::Bundle(old), Some(BundleOrCatalog::Bundle(new))) => judged(Some(old), new, args.install_mode),
        _ => {
            let mut found = Vec::new();
            for pair in catalog_bundles::pairs(&old, new.as_ref(), &args.picks.picked())? {
                found.extend(judged(pair.old.as_ref(), &pair.new, args.install_mode)?);
            }
            Ok(found)
        }
    }
}

/// Judges a bundle, or its changes since `old`.
fn judged(old: Option<&LoadedBundle>, new: &LoadedBundle, options: Options) -> Result<Vec<Finding>, Failure> {
    let found = match old {
        None => security::judge(&new.whole, options),
        Some(old) => security::judge_change(&old.whole, &new.whole, options),
    };
    let mut found = found.map_err(Failure::message)?;
    findings::locate_in(new, &mut found);
    Ok(found)
}

/// The identity of a finding across runs. The line is not part of it.
fn key(finding: &Finding) -> String {
    format!("{} | {} | {}", finding.id, finding.object, finding.message)
}

/// The file of `--baseline`.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    accepted: BTreeSet<String>,
}

fn baseline(path: &Path) -> Result<BTreeSet<String>, Failure> {
    let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
    let parsed: Result<Baseline, _> = serde_json::from_slice(&text);
    Ok(parsed.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?.accepted)
}
