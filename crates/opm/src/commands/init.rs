//! `opm init`: the first blob of a package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::json::{write_str, write_str_body};
use fbc::{Fbc, Format, Limits};

use super::blob_format;
use super::editor_schema::EditorFlags;
use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

/// Print the olm.package blob of a new package
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    opm init etcd --default-channel stable --description README.md --icon logo.svg\n  \
    opm init etcd -c stable -o yaml > etcd/catalog.yaml\n  \
    opm init etcd -c stable -o yaml --editor-schema ../schemas/catalog.json > etcd/catalog.yaml")]
pub(crate) struct InitArgs {
    /// Name of the package
    #[arg(value_name = "PACKAGE")]
    name: String,
    /// Channel that is followed unless another is asked for
    #[arg(short = 'c', long, value_name = "CHANNEL", default_value = "", hide_default_value = true)]
    default_channel: String,
    /// File with the description, in Markdown
    #[arg(short, long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// File with the icon; its type is found from its content
    #[arg(short, long, value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    #[command(flatten)]
    editor: EditorFlags,
}

/// Larger descriptions and icons are a mistake.
const LARGEST_FILE: u64 = 16 << 20;

pub(crate) fn run(args: &InitArgs, printer: &mut Printer) -> Outcome {
    let comment = args.editor.comment(Some(args.output))?;
    let mut text = b"{\"schema\":\"olm.package\",\"name\":".to_vec();
    write_str(&mut text, &args.name);
    text.extend_from_slice(b",\"defaultChannel\":");
    write_str(&mut text, &args.default_channel);
    if let Some(path) = &args.icon {
        let bytes = read(path).map_err(|error| Failure::message(format!("open icon file: {error}")))?;
        if bytes.is_empty() {
            return Err(Failure::message(format!("detect icon mediatype: {} is empty", path.display())));
        }
        let media_type = catalog::media_type::detect(&bytes).unwrap_or_default();
        if !media_type.starts_with("image/") {
            let message = format!("{}: detected invalid type \"{media_type}\": not an image", path.display());
            return Err(Failure::message(message));
        }
        text.extend_from_slice(b",\"icon\":{\"base64data\":\"");
        fbc::base64::encode(&bytes, &mut text);
        text.extend_from_slice(b"\",\"mediatype\":");
        write_str(&mut text, media_type);
        text.push(b'}');
    }
    if let Some(path) = &args.description {
        let bytes = read(path).map_err(|error| Failure::message(format!("open description file: {error}")))?;
        if !bytes.is_empty() {
            text.extend_from_slice(b",\"description\":");
            write_lossy(&mut text, &bytes);
        }
    }
    text.push(b'}');
    let text = String::from_utf8(text).map_err(|error| Failure::message(error.to_string()))?;
    let mut fbc = Fbc::default();
    fbc.add_made(&text, &Limits::default())?;
    let blobs: Vec<_> = fbc.blobs().iter().collect();
    printer.data().write_all(comment.as_bytes())?;
    fbc.write(&blobs, args.output, printer.data())?;
    Ok(())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(named)?;
    if !metadata.is_file() {
        return Err(named(io::Error::other("not a file")));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(named(io::Error::other(format!("larger than {LARGEST_FILE} bytes"))));
    }
    fs::read(path).map_err(named)
}

/// Writes text as a JSON string; each byte that is not part of UTF-8 becomes an escaped U+FFFD.
fn write_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        write_str_body(out, chunk.valid());
        out.extend(b"\\ufffd".repeat(chunk.invalid().len()));
    }
    out.push(b'"');
}
