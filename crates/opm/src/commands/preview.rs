//! `opm preview`: serves the pages of a catalog or bundle while the user edits it.

use std::path::PathBuf;

use serve::listen::Address;
use serve::load::Empty;
use serve::preview::Preview;

use super::serve::failure;
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{interrupt, limits, log};

/// Preview a catalog or bundle in the browser, with live reload
#[derive(clap::Args)]
#[command(
    long_about = "Preview a catalog or bundle in the browser, with live reload.\n\n\
        The server listens on this machine only. Open pages reload when a file changes. The problems page shows the \
        findings of 'opm validate --warnings' or 'opm bundle validate'. Broken packages are left out until they are fixed.",
    after_help = "Examples:\n  \
        opm preview my-catalog\n  \
        opm preview bundle --http 127.0.0.1:9000"
)]
pub(crate) struct PreviewArgs {
    /// Catalog or bundle directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Accept a directory whose files contain no blobs
    #[arg(long)]
    allow_empty: bool,
    /// Address to serve the pages on: HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: Address,
}

pub(crate) fn run(args: &PreviewArgs, printer: &mut Printer) -> CommandResult {
    if !args.directory.is_dir() {
        return Err(Failure::message(format!("\"{}\" is not a directory", args.directory.display())));
    }
    log::start(false);
    let preview = Preview {
        directory: args.directory.clone(),
        limits: limits::from_env()?,
        empty: if args.allow_empty { Empty::Accepted } else { Empty::WithoutFiles },
        http: args.http.clone(),
    };
    if let Address::Tcp(host, port) = &args.http {
        printer.report(&format!("http://{host}:{port}/"));
    }
    runtime::block_on(async {
        interrupt::hand_over_signals();
        let stop = EndSignals::listen()?.first();
        preview.run(stop).await.map_err(|error| failure(error, printer))
    })?
}
