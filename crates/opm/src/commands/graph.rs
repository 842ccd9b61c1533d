//! `opm graph`, and `opm alpha render-graph`: the upgrades of a catalog as a picture.

use catalog::graph::Graph;
use catalog::{GraphError, GraphOptions, draw as drawings, mermaid};
use fbc::Fbc;

use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, source};

/// Draw the upgrade graphs of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Draw the upgrade graphs of a catalog.\n\n\
        Each channel is drawn with its entries and the edges between them: replaces, skips and skipRange. The catalog \
        need not be valid. There is no limit on its size; '-p' picks one package.",
    after_help = "Examples:\n  \
        opm graph my-catalog -p etcd\n  \
        opm graph my-catalog -o html > graph.html\n  \
        opm graph my-catalog -p etcd -o svg > etcd.svg\n  \
        opm graph my-catalog -p etcd --minimum-edge etcd.v0.9.2 -o mermaid"
)]
pub(crate) struct GraphArgs {
    /// Draw only this package
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    what: What,
}

/// Draw the upgrade graph of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Draw the upgrade graph of a catalog, as 'opm graph' does; the output is a Mermaid diagram unless \
        another format is given.",
    after_help = "Examples:\n  \
        opm alpha render-graph my-catalog -p etcd --minimum-edge etcd.v0.9.2 | mmdc -i - -o etcd.png"
)]
pub(crate) struct RenderGraphArgs {
    /// Draw only this package
    #[arg(short, long, value_name = "PACKAGE")]
    package_name: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "mermaid")]
    output: Output,
    #[command(flatten)]
    what: What,
}

/// What is drawn, by whatever name the command goes.
#[derive(clap::Args)]
struct What {
    /// The catalogs
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Draw only what is at or above this bundle
    #[arg(long, value_name = "BUNDLE")]
    minimum_edge: Option<String>,
    /// Mark what the first generation of the lifecycle manager skips
    #[arg(long)]
    draw_v0_semantics: bool,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Mermaid,
    Svg,
    Dot,
    Html,
    Text,
}

/// Runs `opm graph`.
pub(crate) fn run(args: &GraphArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let fbc = load(&args.what, tls, printer)?;
    if let Some(name) = &args.package
        && !fbc.blobs().iter().any(|blob| *blob.package == **name)
    {
        let mut names: Vec<&str> =
            fbc.blobs().iter().map(|blob| &*blob.package).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let (shown, more) = (names.len().min(MOST_NAMES), names.len().saturating_sub(MOST_NAMES));
        let more = if more == 0 { String::new() } else { format!(" and {more} more ('opm list packages' has all)") };
        return Err(Failure::message(format!(
            "the catalog has no package {name:?}; it has {}{more}",
            names[..shown].join(", ")
        )));
    }
    draw(&fbc, args.package.as_deref(), args.output, &args.what, printer)
}

/// Runs `opm alpha render-graph`, which draws nothing of a package that is not there.
pub(crate) fn run_alpha(args: &RenderGraphArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let fbc = load(&args.what, tls, printer)?;
    draw(&fbc, args.package_name.as_deref(), args.output, &args.what, printer)
}

/// So many names are listed when one is not known.
const MOST_NAMES: usize = 10;

fn load(what: &What, tls: &TlsFlags, printer: &mut Printer) -> Result<Fbc, Failure> {
    let images = Images::new(tls, &what.pull);
    let options = source::Options { catalogs_only: false, ..source::Options::catalogs(limits::from_env()?, &images) };
    source::load(&what.sources, &options, printer)
}

fn draw(fbc: &Fbc, package: Option<&str>, output: Output, what: &What, printer: &mut Printer) -> Outcome {
    let options = GraphOptions {
        package: package.map(str::to_owned),
        minimum_edge: what.minimum_edge.clone(),
        v0_semantics: what.draw_v0_semantics,
    };
    let failed = |error: GraphError| Failure::message(error.to_string());
    let (text, warnings) = if output == Output::Mermaid {
        mermaid::mermaid(fbc, &options).map_err(failed)?
    } else {
        let mut graph = Graph::new(fbc, &options).map_err(failed)?;
        let text = match output {
            Output::Svg => drawings::svg::svg(&graph),
            Output::Dot => drawings::dot::dot(&graph),
            Output::Html => drawings::html::html(&graph),
            Output::Text | Output::Mermaid => drawings::text::text(&graph, terminal_width()),
        };
        (text, std::mem::take(&mut graph.warnings))
    };
    warnings.iter().for_each(|warning| printer.warning(warning));
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the width of the terminal that is written to, if it is one.
fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}
