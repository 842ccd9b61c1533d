//! `opm alpha render-template`: a catalog from a short description.

use std::path::Path;

use catalog::{GraphOptions, mermaid};
use edit::template::{self, Kind, Template};
use fbc::Format;

use super::{MigrateLevel, line_of, migrate_level, read_input};
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, source};

/// Render a template as a file-based catalog
#[derive(clap::Args)]
#[command(
    alias = "render-veneer",
    long_about = "Render a template as a file-based catalog.\n\n\
        TYPE is one of\n  \
        basic        a catalog whose bundles are given by their images (schema olm.template.basic)\n  \
        semver       lists of bundles; channels and upgrades follow from versions (schema olm.semver)\n  \
        substitutes  a catalog in which bundles give way to newer builds (schema olm.template.substitutes)\n\
        and is told by the schema when it is left out. Without FILE, or with '-', the template is read from \
        standard input.\n\n\
        Bundles are named by their images, which are pulled. A bundle directory can be named in place of an image if the \
        name starts with './', '../' or '/'. It is found from the working directory, and the image of \
        such a bundle is empty, as 'opm render' leaves it.",
    after_help = "Examples:\n  \
        opm alpha render-template semver.yaml -o yaml > catalog/catalog.yaml\n  \
        opm alpha render-template basic template.yaml\n  \
        opm alpha convert-template basic catalog.yaml | opm alpha render-template -o mermaid"
)]
pub(crate) struct TemplateArgs {
    /// Type of the template (basic|semver|substitutes)
    #[arg(value_name = "TYPE")]
    first: Option<String>,
    /// File with the template, or '-' for standard input
    #[arg(value_name = "FILE")]
    second: Option<String>,
    /// Output format (json|yaml|mermaid)
    #[arg(short, long, value_name = "json|yaml|mermaid", default_value = "json", value_parser = output)]
    output: Output,
    /// How far to bring bundles up to date (none|bundle-object-to-csv-metadata)
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level)]
    migrate_level: Option<MigrateLevel>,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Blobs(Format),
    Mermaid,
}

fn output(text: &str) -> Result<Output, String> {
    match text {
        "json" => Ok(Output::Blobs(Format::Json)),
        "yaml" => Ok(Output::Blobs(Format::Yaml)),
        "mermaid" => Ok(Output::Mermaid),
        _ => Err("expected json, yaml or mermaid".into()),
    }
}

pub(crate) fn run(args: &TemplateArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let (kind, file) = kind_and_file(args.first.as_deref(), args.second.as_deref())?;
    let limits = limits::from_env()?;
    let text =
        read_input(file, &limits).map_err(|error| Failure::message(format!("unable to open {file:?}: {error}")))?;
    let doing = if kind.is_some() { "rendering template" } else { "auto-detecting template type" };
    let template = Template::parse(&text, &limits)
        .map_err(|error| Failure::message(format!("{doing}: {file}:{}: {error}", line_of(&text, error.offset))))?;
    let kind = match kind {
        Some(kind) => kind,
        None => template.kind().map_err(|error| Failure::message(format!("{doing}: {error}")))?,
    };
    let images = Images::new(tls, &args.pull);
    let migrate = args.migrate_level == Some(MigrateLevel::CsvMetadata);
    let failed = |error: String| Failure::message(format!("rendering template: {error}"));
    let fbc = template::render(&template, kind, &limits, &mut |reference| {
        source::template_bundle(reference, migrate, &limits, &images, printer).map(|bundle| vec![bundle])
    })
    .map_err(|error| failed(error.to_string()))?;
    match args.output {
        Output::Blobs(format) => {
            source::warn_of_homeless(&fbc, printer)?;
            fbc.write(&fbc.in_order(), format, printer.data())?;
        }
        Output::Mermaid => {
            let options = GraphOptions { v0_semantics: true, ..GraphOptions::default() };
            let (text, warnings) = mermaid::mermaid(&fbc, &options).map_err(|error| failed(error.to_string()))?;
            warnings.iter().for_each(|warning| printer.warning(warning));
            printer.data().write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// Tells the type from the file: one argument may be either.
fn kind_and_file<'a>(first: Option<&'a str>, second: Option<&'a str>) -> Result<(Option<Kind>, &'a str), Failure> {
    const STDIN: &str = "-";
    let (name, file) = match (first, second) {
        (None, _) => return Ok((None, STDIN)),
        (Some(name), Some(file)) => (name, file),
        (Some("composite"), None) if !Path::new("composite").exists() => ("composite", STDIN),
        (Some(either), None) => {
            return Ok(Kind::named(either).map_or((None, either), |kind| (Some(kind), STDIN)));
        }
    };
    match Kind::named(name) {
        Some(kind) => Ok((Some(kind), file)),
        None => {
            let kinds = Kind::ALL.map(Kind::name).join(" ");
            let gone = if name == "composite" { "; composite templates are not supported" } else { "" };
            Err(Failure::message(format!("invalid template type {name:?}, must be one of: [{kinds}]{gone}")))
        }
    }
}
