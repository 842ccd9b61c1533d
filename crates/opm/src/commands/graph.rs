//! `opm alpha render-graph`: the upgrades of a catalog as a picture.

use catalog::graph::Graph;
use catalog::{GraphError, GraphOptions, draw, mermaid};

use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, source};

/// Draw the upgrade graph of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Draw the upgrade graph of a catalog.\n\n\
        Each channel is drawn with its entries and the edges between them: replaces, skips and skipRange. The catalog \
        need not be valid. There is no limit on its size; '-p' picks one package.",
    after_help = "Examples:\n  \
        opm alpha render-graph my-catalog -p etcd -o text\n  \
        opm alpha render-graph my-catalog -o html > graph.html\n  \
        opm alpha render-graph my-catalog -p etcd -o svg > etcd.svg\n  \
        opm alpha render-graph my-catalog -p etcd --minimum-edge etcd.v0.9.2 | mmdc -i - -o etcd.png"
)]
pub(crate) struct GraphArgs {
    /// The catalogs
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Draw only this package
    #[arg(short, long, value_name = "PACKAGE")]
    package_name: Option<String>,
    /// Draw only what is at or above this bundle
    #[arg(long, value_name = "BUNDLE")]
    minimum_edge: Option<String>,
    /// Mark what the first generation of the lifecycle manager skips
    #[arg(long)]
    draw_v0_semantics: bool,
    /// Output format (mermaid|svg|dot|html|text)
    #[arg(short, long, value_name = "FORMAT", default_value = "mermaid", value_parser = output)]
    output: Output,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Mermaid,
    Svg,
    Dot,
    Html,
    Text,
}

fn output(text: &str) -> Result<Output, String> {
    Ok(match text {
        "mermaid" => Output::Mermaid,
        "svg" => Output::Svg,
        "dot" => Output::Dot,
        "html" => Output::Html,
        "text" => Output::Text,
        _ => return Err("expected mermaid, svg, dot, html or text".into()),
    })
}

pub(crate) fn run(args: &GraphArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let options = source::Options { catalogs_only: false, ..source::Options::catalogs(limits::from_env()?, &images) };
    let fbc = source::load(&args.sources, &options, printer)?;
    let options = GraphOptions {
        package: args.package_name.clone(),
        minimum_edge: args.minimum_edge.clone(),
        v0_semantics: args.draw_v0_semantics,
    };
    let failed = |error: GraphError| Failure::message(error.to_string());
    let (text, warnings) = if args.output == Output::Mermaid {
        mermaid::mermaid(&fbc, &options).map_err(failed)?
    } else {
        let mut graph = Graph::new(&fbc, &options).map_err(failed)?;
        let text = match args.output {
            Output::Svg => draw::svg::svg(&graph),
            Output::Dot => draw::dot::dot(&graph),
            Output::Html => draw::html::html(&graph),
            Output::Text | Output::Mermaid => draw::text::text(&graph, terminal_width()),
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
