//! `opm resolve`: predicts the installs and upgrades of a cluster, with reasons.

use std::fmt::Write;

use clap::builder::TypedValueParser;
use resolve::plan::{self, NamespacePlan, PlannedChange};
use resolve::pool::Pool;
use resolve::request::{self, InstallRequest};
use resolve::resolver::ResolutionRefusal;
use resolve::v1::{self, ChosenBundle, ExtensionChoice, ExtensionChoices, NoChoice};

use super::offline::namespace::{self, NamespaceArgs};
use super::offline::sources;
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
use crate::printer::Printer;
use crate::reports::ResolveReport;

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
    #[command(flatten)]
    output: OutputFlag,
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
        Generation::V0 => {
            for wish in &args.install {
                request::subscribe(wish, &pool, &mut state).map_err(Failure::fault)?;
            }
            print_v0(&plan::namespace(&pool, &state), args.output, printer)
        }
        Generation::V1 => {
            let (installed, channels) = (&state.installed, &args.namespace.installed);
            let choices = v1::choose(&pool, &args.install, installed, channels, args.self_certified);
            print_v1(&choices.map_err(Failure::fault)?, args.output, printer)
        }
    }
}

fn print_v0(plan: &NamespacePlan, output: OutputFlag, printer: &mut Printer) -> CommandResult {
    match plan {
        _ if output.is_json() => printer.json(&ResolveReport::Namespace(plan))?,
        NamespacePlan::Resolved(changes) => printer.data().write_all(text(&changes.bundles).as_bytes())?,
        NamespacePlan::Conflict(conflict) if conflict.refusal == ResolutionRefusal::GaveUp => {
            printer.error(&conflict.refusal.said());
        }
        NamespacePlan::Conflict(conflict) => {
            printer.error("resolution failed: the cluster would install and upgrade nothing in this namespace");
            conflict.explanation.iter().for_each(|line| printer.report(&format!("  {line}")));
            printer.report(&conflict.refusal.said());
        }
    }
    match plan {
        NamespacePlan::Resolved(_) => Ok(()),
        NamespacePlan::Conflict(_) => Err(Failure::Reported),
    }
}

fn text(steps: &[PlannedChange]) -> String {
    let mut out = String::new();
    for step in steps {
        let PlannedChange { action, name, origin, .. } = step;
        let from = step.upgraded().map(|old| format!("{old} to ")).unwrap_or_default();
        let origin = if origin.is_empty() { String::new() } else { format!("  ({origin})") };
        let _ = writeln!(out, "{action:<7}  {from}{name}{origin}");
        for line in step.lines() {
            let _ = writeln!(out, "           {line}");
        }
    }
    if steps.iter().all(|step| step.action == "keep") {
        out += "nothing changes\n";
    }
    out
}

fn print_v1(choices: &ExtensionChoices, output: OutputFlag, printer: &mut Printer) -> CommandResult {
    if output.is_json() {
        printer.json(&ResolveReport::Extensions(choices))?;
    }
    for choice in choices.bundles.iter().filter(|_| !output.is_json()) {
        match choice {
            ExtensionChoice::Chosen(chosen) => {
                let ChosenBundle { action, name, origin, .. } = chosen;
                let from = chosen.replaces.as_ref().map(|old| format!("{old} to ")).unwrap_or_default();
                writeln!(printer.data(), "{action:<7}  {from}{name}  ({origin})")?;
                if chosen.deprecated {
                    writeln!(printer.data(), "           deprecated, but there is nothing else")?;
                }
                if chosen.has_dependencies {
                    writeln!(printer.data(), "           it has dependencies, which this OLM does not install")?;
                }
            }
            // Clusters begin with "error" themselves.
            ExtensionChoice::Failed(failed) => printer.error(&match &failed.error {
                NoChoice { from: Some(from), reason } => {
                    format!("upgrading from currently installed version \"{from}\": {reason}")
                }
                NoChoice { from: None, reason } => reason.to_string(),
            }),
        }
    }
    if choices.resolved { Ok(()) } else { Err(Failure::Reported) }
}
