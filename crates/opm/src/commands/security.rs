//! `opm security`: lists the permissions of an operator and how they grow between versions.

use std::path::{Path, PathBuf};

use bundle::review::security::{self, Allowance, Baseline, Denial, SecurityOptions, SecurityPolicy};
use clap::builder::TypedValueParser;
use source::catalog_bundles;

use crate::choice::choice;
use crate::exit::{CommandResult, Failure, in_path};
use crate::findings::{self, FindingsOutput};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::picks::BundleSelectionArgs;
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
    #[arg(long, value_name = "SEVERITY|ID", value_delimiter = ',')]
    deny: Vec<Denial>,
    /// Ignore findings with this ID, optionally of one service account only; can be repeated
    #[arg(long, value_name = "ID[:ACCOUNT]", value_delimiter = ',')]
    allow: Vec<Allowance>,
    /// Ignore the findings listed in this file
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the findings to this file, for --baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// Namespaces that the operator watches: all, if it supports that, or selected ones
    #[arg(long, value_name = "MODE", default_value = "all", value_parser = mode())]
    install_mode: SecurityOptions,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = findings::output())]
    output: FindingsOutput,
    #[command(flatten)]
    picks: BundleSelectionArgs,
    #[command(flatten)]
    pull: PullFlags,
}

fn mode() -> impl TypedValueParser<Value = SecurityOptions> {
    choice([("all", SecurityOptions { namespaces: false }), ("namespaces", SecurityOptions { namespaces: true })])
}

pub(crate) fn run(args: &SecurityArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let limits = limits::from_env()?;
    let mut found = Vec::new();
    let pairs = catalog_bundles::open_pairs(&args.old, args.new.as_deref(), &args.picks.picked(), &images, &limits)?;
    for pair in pairs {
        found.extend(security::review(pair.old.as_ref(), &pair.new, args.install_mode).map_err(Failure::fault)?);
    }
    if let Some(path) = &args.write_baseline {
        let text = serde_json::to_string_pretty(&Baseline::of(&found)).map_err(std::io::Error::from)? + "\n";
        crate::tree::write_file(path, &text)?;
    }
    let policy = SecurityPolicy {
        deny: args.deny.clone(),
        allow: args.allow.clone(),
        baseline: args.baseline.as_deref().map(baseline).transpose()?.unwrap_or_default(),
    };
    let found = policy.apply(found);
    findings::print(&found, args.output, printer)?;
    if found.passed { Ok(()) } else { Err(Failure::Reported) }
}

fn baseline(path: &Path) -> Result<Baseline, Failure> {
    let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
    serde_json::from_slice(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
