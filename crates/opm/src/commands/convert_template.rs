//! `opm template convert`, and `opm alpha convert-template`: a catalog file as a template.

use clap::Subcommand;
use fbc::json::{Layout, Raw, write_as_written, write_canonical};
use fbc::{Format, blob, stream};

use super::editor_schema::EditorFlags;
use super::{blob_format, line_of, read_input};
use crate::exit::{Failure, Outcome};
use crate::limits;
use crate::printer::Printer;

/// Turn a catalog file into a template
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ConvertArgs {
    #[command(subcommand)]
    command: ConvertCommand,
}

#[derive(Subcommand)]
enum ConvertCommand {
    /// Turn a catalog file into a basic template: bundles by their image
    Basic(FileArgs),
    /// Turn a catalog file into a substitutes template: blobs as they are
    Substitutes(FileArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    opm template convert basic catalog.yaml -o yaml > template.yaml\n  \
    opm render my-catalog | opm template convert substitutes")]
struct FileArgs {
    /// A file, or '-' for standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    file: String,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    #[command(flatten)]
    editor: EditorFlags,
}

pub(crate) fn run(args: &ConvertArgs, printer: &mut Printer) -> Outcome {
    let (args, schema, basic) = match &args.command {
        ConvertCommand::Basic(args) => (args, "olm.template.basic", true),
        ConvertCommand::Substitutes(args) => (args, "olm.template.substitutes", false),
    };
    let comment = args.editor.comment(Some(args.output))?;
    let limits = limits::from_env()?;
    let text = read_input(&args.file, &limits)
        .map_err(|error| Failure::message(format!("unable to open input: {:?}: {error}", args.file)))?;
    let documents = stream::documents(&text, &limits)
        .map_err(|error| Failure::message(format!("{}:{}: {error}", args.file, line_of(&text, error.offset))))?;
    let template = template(schema, basic, &documents)?;
    let template = Raw::parse(&template, limits.depth + 2).map_err(|error| Failure::message(error.to_string()))?;
    let mut out = comment.into_bytes();
    match args.output {
        Format::Json => {
            let mut plain = Vec::new();
            write_as_written(template, Layout::Indented(4), 0, &mut plain);
            escape_html(&plain, &mut out);
        }
        Format::Yaml => {
            out.extend_from_slice(b"---\n");
            fbc::yaml::write_document(template, &mut out);
        }
    }
    out.push(b'\n');
    printer.data().write_all(&out)?;
    Ok(())
}

/// Puts documents into a template; a basic one names bundles by their image only.
fn template(schema: &str, basic: bool, documents: &[String]) -> Result<String, Failure> {
    let mut out = format!("{{\"schema\":\"{schema}\",\"entries\":").into_bytes();
    for (i, document) in documents.iter().enumerate() {
        out.push(if i == 0 { b'[' } else { b',' });
        let raw = Raw::from_checked(document);
        let field = |name| raw.get(name).and_then(Raw::as_str).unwrap_or_default();
        if basic && field("schema") == blob::BUNDLE {
            out.extend_from_slice(b"{\"schema\":\"olm.bundle\",\"image\":");
            fbc::json::write_str(&mut out, &field("image"));
            out.push(b'}');
        } else {
            write_canonical(raw, Layout::Compact, &mut out);
        }
    }
    out.extend_from_slice(if documents.is_empty() { b"null" } else { b"]" });
    out.extend_from_slice(if basic { b"}" } else { b",\"substitutions\":[]}" });
    String::from_utf8(out).map_err(|error| Failure::message(error.to_string()))
}

/// Writes `<`, `>` and `&` as escapes. They stand only inside strings.
fn escape_html(json: &[u8], out: &mut Vec<u8>) {
    for &b in json {
        match b {
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            b => out.push(b),
        }
    }
}
