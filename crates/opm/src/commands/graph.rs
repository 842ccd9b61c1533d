//! `opm graph` and `opm alpha render-graph`: draw the upgrade graphs of a catalog.

use std::collections::BTreeSet;

use catalog::graph::Graph;
use catalog::{GraphError, GraphOptions, draw as drawings, mermaid};
use fbc::Fbc;

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// Draw the upgrade graphs of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Draw the upgrade graphs of a catalog.\n\n\
        Draws each channel with its entries and upgrade edges: replaces, skips and skipRange. The catalog does not have \
        to be valid, and there is no limit on its size. '-p' selects one package.",
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
    output: GraphOutput,
    #[command(flatten)]
    flags: GraphFlags,
}

/// Draw the upgrade graph of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Draw the upgrade graph of a catalog like 'opm graph'. The output format defaults to a Mermaid diagram.",
    after_help = "Examples:\n  \
        opm alpha render-graph my-catalog -p etcd --minimum-edge etcd.v0.9.2 | mmdc -i - -o etcd.png"
)]
pub(crate) struct RenderGraphArgs {
    /// Draw only this package
    #[arg(short, long, value_name = "PACKAGE")]
    package_name: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "mermaid")]
    output: GraphOutput,
    #[command(flatten)]
    flags: GraphFlags,
}

/// The flags that both commands share.
#[derive(clap::Args)]
struct GraphFlags {
    /// Catalogs to draw
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Draw only this bundle and those above it
    #[arg(long, value_name = "BUNDLE")]
    minimum_edge: Option<String>,
    /// Mark the entries that OLM v0 skips
    #[arg(long)]
    draw_v0_semantics: bool,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GraphOutput {
    Mermaid,
    Svg,
    Dot,
    Html,
    Text,
}

/// Runs `opm graph`.
pub(crate) fn run(args: &GraphArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let fbc = load(&args.flags, tls, printer)?;
    if let Some(name) = args.package.as_deref().filter(|name| !name.is_empty()) {
        check_package(name, &fbc, false, printer)?;
    }
    draw(&fbc, args.package.as_deref(), args.output, &args.flags, printer)
}

/// Runs `opm alpha render-graph`. Scripts rely on its empty diagram for an unknown package.
pub(crate) fn run_alpha(args: &RenderGraphArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let fbc = load(&args.flags, tls, printer)?;
    if let Some(name) = args.package_name.as_deref().filter(|name| !name.is_empty()) {
        check_package(name, &fbc, args.output == GraphOutput::Mermaid, printer)?;
    }
    draw(&fbc, args.package_name.as_deref(), args.output, &args.flags, printer)
}

fn load(flags: &GraphFlags, tls: &TlsFlags, printer: &mut Printer) -> Result<Fbc, Failure> {
    let images = images::open(tls, &flags.pull);
    let options =
        source::SourceOptions { catalogs_only: false, ..source::SourceOptions::catalogs(limits::from_env()?, &images) };
    catalogs::load(&flags.sources, &options, printer)
}

fn draw(
    fbc: &Fbc,
    package: Option<&str>,
    output: GraphOutput,
    flags: &GraphFlags,
    printer: &mut Printer,
) -> CommandResult {
    let options = GraphOptions {
        package: package.map(str::to_owned),
        minimum_edge: flags.minimum_edge.clone(),
        v0_semantics: flags.draw_v0_semantics,
    };
    let failed = |error: GraphError| Failure::message(error.to_string());
    let (text, warnings) = if output == GraphOutput::Mermaid {
        mermaid::mermaid(fbc, &options).map_err(failed)?
    } else {
        let mut graph = Graph::new(fbc, &options).map_err(failed)?;
        let text = match output {
            GraphOutput::Svg => drawings::svg::svg(&graph),
            GraphOutput::Dot => drawings::dot::dot(&graph),
            GraphOutput::Html => drawings::html::html(&graph),
            GraphOutput::Text | GraphOutput::Mermaid => drawings::text::text(&graph, terminal_width()),
        };
        (text, std::mem::take(&mut graph.warnings))
    };
    warnings.iter().for_each(|warning| printer.warning(warning));
    if output != GraphOutput::Text || !printer.colour_data {
        printer.data().write_all(text.as_bytes())?;
        return Ok(());
    }
    for line in text.lines() {
        printer.coloured_line(colour(line), line)?;
    }
    Ok(())
}

/// Returns the colour of a line: bold green for heads, yellow for deprecated entries, dim for skipped ones.
fn colour(line: &str) -> &'static str {
    if line.contains('◉') {
        "1;32"
    } else if line.contains("  deprecated") {
        "33"
    } else if line.contains(['○', '◌']) {
        "2"
    } else if line.contains(" · ") {
        "1"
    } else {
        ""
    }
}

/// Rejects an unknown package, or only warns about it.
fn check_package(name: &str, fbc: &Fbc, warn_only: bool, printer: &Printer) -> CommandResult {
    let packages: BTreeSet<&str> =
        fbc.blobs().iter().map(|blob| &*blob.package).filter(|name| !name.is_empty()).collect();
    if packages.contains(name) {
        return Ok(());
    }
    let message = format!("there is no package \"{name}\"");
    let near = catalog::rules::nearest(name, packages.into_iter());
    let help = near.map(|near| format!("\nhelp: did you mean \"{near}\"?")).unwrap_or_default();
    if warn_only {
        printer.warning(&format!("{message}{help}"));
        return Ok(());
    }
    Err(Failure::message(format!("{message}{help}")))
}

/// Returns the width of the terminal, if stdout is one.
fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}
