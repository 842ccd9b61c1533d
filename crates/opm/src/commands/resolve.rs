//! `opm resolve`: predicts the installs and upgrades of a cluster, with reasons.

use std::fmt::Write;

use catalog::chain::EntryEdge;
use clap::builder::TypedValueParser;
use resolve::explain::explain;
use resolve::input::ClusterNamespace;
use resolve::masterminds::MastermindsRange;
use resolve::plan::{self, PlannedChange, origin, passed_over, reasons};
use resolve::pool::Pool;
use resolve::request::{self, InstallRequest};
use resolve::resolver::{self, Chosen, Resolution as Resolved, ResolutionRefusal, SolutionItem};
use resolve::v1;
use serde_json::{Value, json};

use super::offline::namespace::{self, NamespaceArgs};
use super::offline::{AnswerOutput, output, sources};
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Predict what a cluster would install or upgrade, without a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Predict what a cluster would install or upgrade, without a cluster.\n\n\
        opm resolves a namespace once, like the Operator Lifecycle Manager: with channels, all kinds of dependencies, \
        catalogs and their priorities, at most one bundle per package and one provider per API. If resolution fails, opm \
        explains the conflict, shows the error message of the cluster, and exits with code 1.\n\n\
        A catalog is a directory, image or database. NAME=SOURCE sets its name in the cluster.",
    after_help = "Examples:\n  \
        opm resolve my-catalog --install etcd\n  \
        opm resolve my-catalog --install etcd@stable --install prometheus=0.56.3\n  \
        opm resolve my-catalog --installed etcd.v0.9.2                 # next upgrade\n  \
        opm resolve mine=./my-catalog community=quay.io/example/catalog:latest --priority mine=10 --install etcd\n  \
        kubectl get subscriptions,clusterserviceversions -n operators -o json > state.json\n  \
        opm resolve operatorhubio-catalog=quay.io/operatorhubio/catalog:latest --state state.json --install etcd\n  \
        opm resolve my-catalog --olm v1 --install 'etcd@stable=~0.9'   # with the rules of OLM v1"
)]
pub(crate) struct ResolveArgs {
    /// Catalogs available to the namespace
    #[arg(value_name = "[NAME=]CATALOG", required = true)]
    catalogs: Vec<String>,
    /// Package to install; can be repeated. With --olm v1, VERSION can be a range like '~1.2' or '>=1, <3'
    #[arg(long, value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    install: Vec<InstallRequest>,
    /// Priority of a catalog, 0 by default; dependencies prefer a higher one; can be repeated
    #[arg(long, value_name = "NAME=NUMBER", value_parser = sources::priority)]
    priority: Vec<(String, i64)>,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: Generation,
    /// With --olm v1, allow versions without an upgrade edge (upgradeConstraintPolicy: SelfCertified)
    #[arg(long)]
    self_certified: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: AnswerOutput,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    V0,
    V1,
}

fn generation() -> impl TypedValueParser<Value = Generation> {
    choice([("v0", Generation::V0), ("v1", Generation::V1)])
}

pub(crate) fn run(args: &ResolveArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let nothing = args.install.is_empty()
        && args.namespace.installed.is_empty()
        && args.namespace.unsubscribed.is_empty()
        && args.namespace.state.is_none();
    if nothing {
        return Err(Failure::usage("nothing to resolve: give --install, --installed, --unsubscribed or --state"));
    }
    if args.self_certified && args.olm == Generation::V0 {
        return Err(Failure::usage("--self-certified requires --olm v1"));
    }
    let images = images::open(tls, &args.pull);
    let mut sources = sources::load(&args.catalogs, &args.priority, &images, printer)?;
    let (namespace, mut state) = namespace::read(&args.namespace, &mut sources, printer)?;
    let pool = Pool::new(&sources, &namespace);
    namespace::add_installed(&args.namespace, &pool, &mut state)?;
    match args.olm {
        Generation::V0 => resolve_v0(args, &pool, &mut state, printer),
        Generation::V1 => resolve_v1(args, &pool, &state, printer),
    }
}

/// Resolves a namespace with the rules of OLM v0.
fn resolve_v0(
    args: &ResolveArgs,
    pool: &Pool<'_>,
    state: &mut ClusterNamespace,
    printer: &mut Printer,
) -> CommandResult {
    for wish in &args.install {
        request::subscribe(wish, pool, state).map_err(Failure::fault)?;
    }
    let chosen = match resolver::resolve(pool, state) {
        Resolved::Solved(chosen) => chosen,
        Resolved::Unsatisfiable(conflict) => {
            let lines = explain(pool, state, &conflict);
            let refusal = ResolutionRefusal::Olm(conflict.message());
            return refuse(args.output, "ConstraintsNotSatisfiable", &refusal, &lines, printer);
        }
        Resolved::Error(refusal) => {
            let reason = if refusal == ResolutionRefusal::GaveUp { "GaveUp" } else { "ErrorPreventedResolution" };
            return refuse(args.output, reason, &refusal, &[], printer);
        }
    };
    let answer = match args.output {
        AnswerOutput::Text => text(&plan::steps(pool, state, &chosen)),
        AnswerOutput::Json => format!("{:#}\n", as_json(pool, state, &chosen)),
    };
    printer.data().write_all(answer.as_bytes())?;
    Ok(())
}

/// Reports a failed resolution.
fn refuse(
    output: AnswerOutput,
    reason: &str,
    refusal: &ResolutionRefusal,
    lines: &[String],
    printer: &mut Printer,
) -> CommandResult {
    match output {
        AnswerOutput::Json => {
            let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
            let answer =
                json!({"resolved": false, "reason": reason, "message": refusal.to_string(), "explanation": lines});
            printer.data().write_all(format!("{answer:#}\n").as_bytes())?;
        }
        AnswerOutput::Text if *refusal == ResolutionRefusal::GaveUp => printer.error(&refusal.said()),
        AnswerOutput::Text => {
            printer.error("resolution failed: the cluster would install and upgrade nothing in this namespace");
            lines.iter().for_each(|line| printer.report(&format!("  {line}")));
            printer.report(&refusal.said());
        }
    }
    Err(Failure::Reported)
}

fn text(steps: &[PlannedChange]) -> String {
    let mut out = String::new();
    for PlannedChange { action, name, replaces, origin, reasons } in steps {
        let from = replaces.as_ref().map(|old| format!("{old} to ")).unwrap_or_default();
        let origin = if origin.is_empty() { String::new() } else { format!("  ({origin})") };
        let _ = writeln!(out, "{action:<7}  {from}{name}{origin}");
        for reason in reasons {
            let _ = writeln!(out, "           {reason}");
        }
    }
    if steps.iter().all(|step| step.action == "keep") {
        out += "nothing changes\n";
    }
    out
}

fn as_json(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &[Chosen]) -> Value {
    let bundles: Vec<Value> = chosen
        .iter()
        .map(|chosen| {
            let bundle = resolver::bundle(pool, state, chosen.item);
            let replaces = chosen.replaces.map(|place| state.installed[place].name.clone());
            let (action, channel, catalog) = match chosen.item {
                SolutionItem::Installed(_) => ("keep", None, None),
                SolutionItem::Member(_) if replaces.as_ref() == Some(&bundle.name) => ("keep", None, None),
                SolutionItem::Member(node) => {
                    let member = pool.member(node);
                    let action = if replaces.is_some() { "upgrade" } else { "install" };
                    (action, Some(member.channel), Some(&pool.sources[member.source].name))
                }
            };
            json!({
                "action": action,
                "name": bundle.name,
                "package": bundle.package,
                "version": bundle.version.as_ref().map(ToString::to_string),
                "channel": channel,
                "catalog": catalog,
                "replaces": replaces,
                "edge": resolver::edge(pool, state, chosen).map(EntryEdge::field),
                "reasons": reasons(pool, state, chosen),
                "passedOver": passed_over(pool, state, chosen),
            })
        })
        .collect();
    json!({"resolved": true, "bundles": bundles})
}

/// Chooses each bundle independently, with the rules of OLM v1.
fn resolve_v1(args: &ResolveArgs, pool: &Pool<'_>, state: &ClusterNamespace, printer: &mut Printer) -> CommandResult {
    let mut answers: Vec<Value> = Vec::new();
    let mut out = String::new();
    let mut failed = false;
    let mut wishes: Vec<InstallRequest> = args.install.clone();
    for csv in &state.installed {
        if !wishes.iter().any(|wish| wish.package == csv.package) {
            let channel = args.namespace.installed.iter().find(|it| it.package == csv.package);
            let channel = channel.and_then(|it| it.channel.clone());
            wishes.push(InstallRequest {
                text: csv.name.clone(),
                package: csv.package.clone(),
                channel,
                version: None,
            });
        }
    }
    for wish in &wishes {
        let range = wish.version.as_deref().map(MastermindsRange::parse).transpose().map_err(|error| {
            Failure::usage(format!("{}: expected a range like '1.2.x', '~1.2' or '>=1, <3': {error}", wish.text))
        })?;
        let channels: Vec<String> = wish.channel.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
        let installed = state.installed.iter().find(|csv| csv.package == wish.package);
        let request = v1::V1Request {
            package: &wish.package,
            channels: &channels,
            range: range.as_ref(),
            installed,
            any_version: args.self_certified,
        };
        match v1::select(pool, &request) {
            Ok(node) => {
                let member = pool.member(node);
                let name = &member.bundle.name;
                let deprecated = v1::is_deprecated(pool, node);
                let action = match installed {
                    None => "install",
                    Some(old) if old.name == *name => "keep",
                    Some(_) => "upgrade",
                };
                let old = installed.map(|old| old.name.as_str()).filter(|_| action == "upgrade");
                let from = old.map(|old| format!("{old} to ")).unwrap_or_default();
                let _ = writeln!(out, "{action:<7}  {from}{name}  ({})", origin(pool, node));
                if deprecated {
                    out += "           deprecated, but there is nothing else\n";
                }
                if !member.bundle.facts.needs.is_empty() {
                    out += "           it has dependencies, which this OLM does not install\n";
                }
                answers.push(json!({
                    "action": action,
                    "name": name,
                    "package": wish.package,
                    "version": member.bundle.version.as_ref().map(ToString::to_string),
                    "catalog": pool.sources[member.source].name,
                    "replaces": old,
                    "deprecated": deprecated,
                }));
            }
            Err(none) => {
                failed = true;
                if args.output == AnswerOutput::Text {
                    // Clusters begin with "error" themselves.
                    printer.error(&match &none.from {
                        Some(from) => format!("upgrading from currently installed version \"{from}\": {}", none.reason),
                        None => none.reason.to_string(),
                    });
                }
                answers.push(json!({"action": "fail", "package": wish.package, "message": none.to_string()}));
            }
        }
    }
    match args.output {
        AnswerOutput::Text => printer.data().write_all(out.as_bytes())?,
        AnswerOutput::Json => {
            let answer = json!({"resolved": !failed, "bundles": answers});
            printer.data().write_all(format!("{answer:#}\n").as_bytes())?;
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}
