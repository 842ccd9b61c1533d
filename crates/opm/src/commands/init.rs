//! `opm init`: prints the olm.package blob of a new package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::blob::PACKAGE;
use fbc::json::Text;
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
    /// Default channel of the package
    #[arg(short = 'c', long, value_name = "CHANNEL", default_value = "", hide_default_value = true)]
    default_channel: String,
    /// File with the description, in Markdown
    #[arg(short, long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// File with the icon; its type is detected from the content
    #[arg(short, long, value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    #[command(flatten)]
    editor: EditorFlags,
}

/// The maximum size of a description or icon in bytes.
const MAX_FILE_SIZE: u64 = 16 << 20;

pub(crate) fn run(args: &InitArgs, printer: &mut Printer) -> Outcome {
    let comment = args.editor.comment(Some(args.output))?;
    let icon = args.icon.as_deref().map(icon).transpose()?;
    let description = match &args.description {
        Some(path) => read(path).map_err(|error| Failure::message(format!("open description file: {error}")))?,
        None => Vec::new(),
    };
    let text = Text::object(|blob| {
        blob.string("schema", PACKAGE).string("name", &args.name).string("defaultChannel", &args.default_channel);
        if let Some((bytes, media_type)) = &icon {
            blob.object("icon", |icon| {
                icon.base64("base64data", bytes).string("mediatype", media_type);
            });
        }
        if !description.is_empty() {
            blob.value("description", Text::string_of_bytes(&description).raw());
        }
    });
    let mut fbc = Fbc::default();
    fbc.add_generated(&text, &Limits::default())?;
    let blobs: Vec<_> = fbc.blobs().iter().collect();
    printer.data().write_all(comment.as_bytes())?;
    fbc.write(&blobs, args.output, printer.data())?;
    Ok(())
}

/// Reads an icon and detects its type.
fn icon(path: &Path) -> Result<(Vec<u8>, &'static str), Failure> {
    let bytes = read(path).map_err(|error| Failure::message(format!("open icon file: {error}")))?;
    if bytes.is_empty() {
        return Err(Failure::message(format!("detect icon mediatype: {} is empty", path.display())));
    }
    let media_type = catalog::media_type::detect(&bytes).unwrap_or_default();
    if !media_type.starts_with("image/") {
        let message = format!("{}: detected invalid type \"{media_type}\": not an image", path.display());
        return Err(Failure::message(message));
    }
    Ok((bytes, media_type))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(named)?;
    if !metadata.is_file() {
        return Err(named(io::Error::other("not a file")));
    }
    if metadata.len() > MAX_FILE_SIZE {
        return Err(named(io::Error::other(format!("larger than {MAX_FILE_SIZE} bytes"))));
    }
    fs::read(path).map_err(named)
}
