//! `opm upgrade-path`: the upgrades of a cluster from one version to the channel head.

use std::fmt::Write;

use resolve::path::{self, End, Path, Start};
use resolve::plan::origin;
use resolve::pool::Pool;
use resolve::request::{self, Request};
use serde_json::{Value, json};

use super::offline::{Output, output, sources};
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Show the steps from an installed version to the channel head
#[derive(clap::Args)]
#[command(
    long_about = "Show the steps from an installed version to the channel head.\n\n\
        Each step is one resolution of a cluster that follows the channel. It shows the new bundle, the upgrade edge \
        (replaces, skips or skipRange), and the dependencies that are installed or upgraded with it. The exit code is 1 if \
        the cluster does not reach the head, or the bundle given by --to.",
    after_help = "Examples:\n  \
        opm upgrade-path my-catalog etcd --from 0.9.0\n  \
        opm upgrade-path my-catalog etcd --from etcdoperator.v0.9.0 --channel clusterwide-alpha\n  \
        opm upgrade-path quay.io/example/catalog:latest etcd --from 0.9.0 --to 0.9.4 -o json"
)]
pub(crate) struct UpgradePathArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "CATALOG")]
    catalog: String,
    /// Package to upgrade
    #[arg(value_name = "PACKAGE", required_unless_present = "package")]
    named: Option<String>,
    /// Package to upgrade
    #[arg(short, long, value_name = "PACKAGE", conflicts_with = "named")]
    package: Option<String>,
    /// Installed version or bundle
    #[arg(long, value_name = "VERSION|BUNDLE")]
    from: String,
    /// Channel to follow; defaults to the default channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Version or bundle to stop at
    #[arg(long, value_name = "VERSION|BUNDLE")]
    to: Option<String>,
    /// Additional catalog for dependencies; can be repeated
    #[arg(long, value_name = "[NAME=]CATALOG")]
    with: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: Output,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &UpgradePathArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let package = args.named.as_ref().or(args.package.as_ref()).map_or("", String::as_str);
    let references: Vec<String> = std::iter::once(&args.catalog).chain(&args.with).cloned().collect();
    let sources = sources::load(&references, &[], &images, printer)?;
    let pool = Pool::new(&sources, "operators");
    let wish = |version: &str| Request {
        text: version.to_owned(),
        package: package.to_owned(),
        channel: args.channel.clone(),
        version: Some(version.to_owned()),
    };
    let here = |&node: &usize| pool.member(node).source == 0;
    let default = pool.of_package(package).iter().copied().filter(here).find(|&node| pool.is_default(node));
    let Some(default) = default else { return Err(Failure::message(wish(&args.from).unknown(&pool))) };
    let channel = args.channel.as_deref().unwrap_or(pool.member(default).channel);
    let known = |&node: &usize| here(&node) && pool.member(node).channel == channel;
    if !pool.of_package(package).iter().any(known) {
        return Err(Failure::message(wish(&args.from).unknown(&pool)));
    }
    let (from, _) = request::installed(&wish(&args.from), &pool).map_err(Failure::message)?;
    let to = match &args.to {
        None => None,
        Some(version) => {
            let wanted = wish(version);
            let members = Request { channel: Some(channel.to_owned()), ..wanted.clone() }.members(&pool);
            let found = members.first().map(|&node| &pool.member(node).bundle.name);
            Some(found.ok_or_else(|| Failure::message(wanted.unknown(&pool)))?)
        }
    };
    let to = to.map(String::as_str);
    let start = Start { source: 0, package, channel: Some(channel), from, to };
    let path = path::path(&pool, &start);
    let arrived = matches!((&path.end, to), (End::Reached, _) | (End::Latest, None));
    let answer = match args.output {
        Output::Text => text(&pool, &start, &path),
        Output::Json => format!("{:#}\n", as_json(&pool, &start, &path, arrived)),
    };
    printer.data().write_all(answer.as_bytes())?;
    if arrived { Ok(()) } else { Err(Failure::Reported) }
}

fn text(pool: &Pool<'_>, start: &Start<'_>, path: &Path) -> String {
    let mut out = String::new();
    let mut at = start.from.name.clone();
    let _ = writeln!(out, "{at}");
    for step in &path.steps {
        at.clone_from(&pool.member(step.to).bundle.name);
        let _ = writeln!(out, "-> {at}  ({})", step.edge.field());
        for along in &step.companions {
            let name = &pool.member(along.node).bundle.name;
            let what = match &along.replaces {
                Some(old) => format!("upgrades {old} to {name}"),
                None => format!("installs {name}"),
            };
            let _ = writeln!(out, "     {what}  ({})", origin(pool, along.node));
            if along.needed.is_empty() {
                out += "       by its own Subscription\n";
            }
            along.needed.iter().for_each(|reason| {
                let _ = writeln!(out, "       {reason}");
            });
        }
    }
    let channel = start.channel.unwrap_or_default();
    match (&path.end, start.to) {
        (End::Latest, None) => {
            let _ = writeln!(out, "{at} is the newest of channel {channel}");
        }
        (End::Latest, Some(to)) => {
            let _ = writeln!(out, "the cluster goes on to {at}, the newest of channel {channel}, and never runs {to}");
        }
        (End::Reached, _) => {
            let _ = writeln!(out, "{at} is reached in {}", steps(path.steps.len()));
        }
        (End::Stuck(lines), _) => {
            let _ = writeln!(out, "stuck at {at}, which is not the newest of channel {channel}:");
            lines.iter().for_each(|line| {
                let _ = writeln!(out, "  {line}");
            });
        }
        (End::Blocked(message, lines), _) => {
            let _ = writeln!(out, "stuck at {at}: nothing in the namespace can be resolved");
            lines.iter().for_each(|line| {
                let _ = writeln!(out, "  {line}");
            });
            let _ = writeln!(out, "OLM says: {message}");
        }
    }
    out
}

fn steps(number: usize) -> String {
    match number {
        0 => "no step".to_owned(),
        1 => "one step".to_owned(),
        _ => format!("{number} steps"),
    }
}

fn as_json(pool: &Pool<'_>, start: &Start<'_>, path: &Path, arrived: bool) -> Value {
    let steps: Vec<Value> = path
        .steps
        .iter()
        .map(|step| {
            let bundle = pool.member(step.to).bundle;
            let along: Vec<Value> = step
                .companions
                .iter()
                .map(|along| {
                    let bundle = pool.member(along.node).bundle;
                    json!({
                        "name": bundle.name,
                        "package": bundle.package,
                        "version": bundle.version.as_ref().map(ToString::to_string),
                        "replaces": along.replaces,
                        "reasons": along.needed,
                    })
                })
                .collect();
            json!({
                "name": bundle.name,
                "version": bundle.version.as_ref().map(ToString::to_string),
                "edge": step.edge.field(),
                "along": along,
            })
        })
        .collect();
    let (end, explanation): (&str, Vec<&str>) = match &path.end {
        End::Latest => ("latest", Vec::new()),
        End::Reached => ("reached", Vec::new()),
        End::Stuck(lines) => ("stuck", lines.iter().map(String::as_str).collect()),
        End::Blocked(message, lines) => {
            ("blocked", lines.iter().map(String::as_str).chain([message.as_str()]).collect())
        }
    };
    json!({
        "package": start.package,
        "channel": start.channel,
        "from": start.from.name,
        "steps": steps,
        "end": end,
        "arrived": arrived,
        "explanation": explanation,
    })
}
