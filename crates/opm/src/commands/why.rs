//! `opm why`: explains why clusters choose a package or version, or why not.

use resolve::pool::Pool;
use resolve::requirers::Requirers;
use resolve::{request, why};
use serde_json::{Value, json};

use super::offline::{AnswerOutput, output, sources};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Explain why clusters choose a package or version, or why not
#[derive(clap::Args)]
#[command(
    override_usage = "opm why [OPTIONS] <[NAME=]CATALOG>... [-p] <PACKAGE[@CHANNEL][=VERSION]>",
    long_about = "Explain why clusters choose a package or version, or why not.\n\n\
        For a package, opm shows its channels, what a new installation gets and why, and which bundles require it. For a \
        version, it shows the position in each channel, whether the version can be installed, and the upgrades to and from \
        it. opm names the obstacle if there is one: skipped, not on the upgrade chain, forbidden, or a missing dependency.",
    after_help = "Examples:\n  \
        opm why my-catalog etcd\n  \
        opm why my-catalog etcd@clusterwide-alpha=0.9.2\n  \
        opm why my-catalog etcdoperator.v0.9.2\n  \
        opm why my-catalog other-catalog prometheus=0.47.0 -o json"
)]
pub(crate) struct WhyArgs {
    /// Catalogs, then the subject: PACKAGE, PACKAGE@CHANNEL, PACKAGE=VERSION or the name of a bundle
    #[arg(value_name = "CATALOG... PACKAGE", num_args = 1.., required = true)]
    catalogs_and_package: Vec<String>,
    /// Subject, instead of the last argument
    #[arg(short, long, value_name = "PACKAGE[@CHANNEL][=VERSION]")]
    package: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: AnswerOutput,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &WhyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let all = args.catalogs_and_package.as_slice();
    let (what, catalogs) = match (&args.package, all) {
        (Some(package), catalogs) => (package, catalogs),
        (None, [catalogs @ .., what]) if !catalogs.is_empty() => (what, catalogs),
        (None, _) => return Err(Failure::usage("expected a catalog and a package")),
    };
    let what = request::parse(what).map_err(|error| Failure::usage(format!("{what}: {error}")))?;
    let images = images::open(tls, &args.pull);
    let sources = sources::load(catalogs, &[], &images, printer)?;
    let pool = Pool::new(&sources, "operators");
    let wish = what.resolve(&pool);
    let parts = why::why(&pool, &Requirers::of(&pool), &wish).map_err(Failure::fault)?;
    let answer = match args.output {
        AnswerOutput::Text => {
            let mut out = String::new();
            for part in &parts {
                out += &format!("{}\n", part.heading);
                part.lines.iter().for_each(|line| out += &format!("  {line}\n"));
            }
            out
        }
        AnswerOutput::Json => {
            let parts: Vec<Value> = parts
                .iter()
                .map(|part| json!({"about": part.key, "summary": part.heading, "details": part.lines}))
                .collect();
            format!("{:#}\n", json!({"package": wish.package, "version": wish.version, "answers": parts}))
        }
    };
    printer.data().write_all(answer.as_bytes())?;
    Ok(())
}
