//! `opm template convert` and `opm alpha convert-template`: convert a catalog file to a template.

use clap::Subcommand;
use edit::template::{self, TemplateKind};
use fbc::json::{JsonLayout, Text};
use fbc::{Format, stream};

use super::editor_schema::EditorFlags;
use super::{blob_format, line_of, read_input};
use crate::exit::{CommandResult, Failure};
use crate::limits;
use crate::printer::Printer;

/// Convert a catalog file to a template
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ConvertArgs {
    #[command(subcommand)]
    command: ConvertCommand,
}

#[derive(Subcommand)]
enum ConvertCommand {
    /// Convert a catalog file to a basic template, with bundles as image references
    Basic(FileArgs),
    /// Convert a catalog file to a substitutes template, with all blobs unchanged
    Substitutes(FileArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    opm template convert basic catalog.yaml -o yaml > template.yaml\n  \
    opm render my-catalog | opm template convert substitutes")]
struct FileArgs {
    /// Catalog file, or '-' for standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    file: String,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    #[command(flatten)]
    editor: EditorFlags,
}

pub(crate) fn run(args: &ConvertArgs, printer: &mut Printer) -> CommandResult {
    let (args, kind) = match &args.command {
        ConvertCommand::Basic(args) => (args, TemplateKind::Basic),
        ConvertCommand::Substitutes(args) => (args, TemplateKind::Substitutes),
    };
    let comment = args.editor.comment(Some(args.output))?;
    let limits = limits::from_env()?;
    let text = read_input(&args.file, &limits)
        .map_err(|error| Failure::message(format!("unable to open input: {:?}: {error}", args.file)))?;
    let documents = stream::documents(&text, &limits)
        .map_err(|error| Failure::message(format!("{}:{}: {error}", args.file, line_of(&text, error.offset))))?;
    let template = template::convert(kind, &documents);
    let mut out = comment.into_bytes();
    match args.output {
        Format::Json => {
            out.extend_from_slice(Text::as_written(template.raw(), JsonLayout::Indented(4)).for_html().as_bytes());
        }
        Format::Yaml => {
            out.extend_from_slice(b"---\n");
            fbc::yaml::write_document(template.raw(), &mut out);
        }
    }
    out.push(b'\n');
    printer.data().write_all(&out)?;
    Ok(())
}
