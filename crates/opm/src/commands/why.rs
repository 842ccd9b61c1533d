//! `opm why`: explains why clusters choose a package or version, or why not.

use resolve::pool::Pool;
use resolve::request;
use resolve::requirers::Requirers;
use resolve::why::{WhyReport, why};

use super::offline::sources;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
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
    #[command(flatten)]
    output: OutputFlag,
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
    let parts = why(&pool, &Requirers::of(&pool), &wish).map_err(Failure::fault)?;
    if args.output.is_json() {
        printer.json(&WhyReport { package: &wish.package, version: wish.version.as_deref(), answers: &parts })?;
        return Ok(());
    }
    for part in &parts {
        writeln!(printer.data(), "{}", part.heading)?;
        part.lines.iter().try_for_each(|line| writeln!(printer.data(), "  {line}"))?;
    }
    Ok(())
}
