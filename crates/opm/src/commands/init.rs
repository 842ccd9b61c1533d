//! `opm init`: prints the olm.package blob of a new package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edit::{NewPackage, PackageIcon};
use fbc::{Fbc, Format, Limits};

use super::blob_format;
use super::editor_schema::EditorFlags;
use crate::exit::{CommandResult, Failure};
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

pub(crate) fn run(args: &InitArgs, printer: &mut Printer) -> CommandResult {
    let comment = args.editor.comment(Some(args.output))?;
    let icon = args.icon.as_deref().map(icon).transpose()?;
    let description = match &args.description {
        Some(path) => read(path).map_err(|error| Failure::message(format!("open description file: {error}")))?,
        None => Vec::new(),
    };
    let package = NewPackage { name: &args.name, default_channel: &args.default_channel, icon, description };
    let text = package.blob();
    let mut fbc = Fbc::default();
    fbc.add_generated(&text, &Limits::default())?;
    let blobs: Vec<_> = fbc.blobs().iter().collect();
    printer.data().write_all(comment.as_bytes())?;
    fbc.write(&blobs, args.output, printer.data())?;
    Ok(())
}

/// Reads an icon and detects its type.
fn icon(path: &Path) -> Result<PackageIcon, Failure> {
    let bytes = read(path).map_err(|error| Failure::message(format!("open icon file: {error}")))?;
    PackageIcon::new(bytes, &path.display().to_string()).map_err(Failure::message)
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
