//! `opm site`: writes the web console as static files.

mod bundles;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde_json::json;
use serve::http::{directory_name, image_name};
use serve::load::{Empty, OnInvalid, ServedDirectory};
use serve::pages::PackageSummaries;
use site::console::{Console, ConsoleStore};
use site::export::{Export, ExportedVersions, Sink, sitemap};
use source::{SITE_MARK, SiteFolder, SiteFolderError};

use super::serve::{catalog_name, failure};
use crate::choice::InvalidValue;
use crate::compared;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use crate::progress::Progress;
use bundles::WithManifests;

/// Build a static website of a catalog
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(clap::Subcommand)]
enum SiteCommand {
    Build(BuildArgs),
}

/// Write the web console of a catalog as static files
#[derive(clap::Args)]
#[command(
    long_about = "Write the web console of a catalog as static files.\n\n\
        The pages are those of 'opm serve --http'. They need no server: open the directory in a browser, or publish it on \
        any static host under any path. opm writes to a temporary directory and renames it; it replaces an existing \
        directory only if this command wrote it. The same catalog gives the same bytes, and unchanged files keep their \
        modification times.",
    after_help = "Examples:\n  \
        opm site build my-catalog --to public\n  \
        opm site build quay.io/example/catalog:latest --to public --versions heads --no-blobs\n  \
        opm site build my-catalog --to public --base-url https://example.test/catalog/"
)]
struct BuildArgs {
    /// Catalog directory, image, database or file
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Directory to write
    #[arg(long, value_name = "DIR", alias = "output", short_alias = 'o')]
    to: PathBuf,
    /// Name of the catalog; defaults to the name of the directory or image
    #[arg(long, value_name = "NAME", value_parser = catalog_name)]
    name: Option<String>,
    /// Versions that get a page (all|heads|the newest NUMBER)
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = versions)]
    versions: ExportedVersions,
    /// Previous version of this catalog; a page shows the changes and stranded bundles
    #[arg(long, value_name = "SOURCE")]
    previous: Option<String>,
    /// URL of the published pages, for the site map
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Pull bundle images for permissions, fields and deployments if the catalog lacks the manifests
    #[arg(long)]
    with_bundles: bool,
    /// Accept a catalog without any blobs
    #[arg(long)]
    allow_empty: bool,
    /// Omit the blobs that the server's API offers
    #[arg(long)]
    no_blobs: bool,
    #[command(flatten)]
    pull: PullFlags,
}

fn versions(text: &str) -> Result<ExportedVersions, InvalidValue> {
    match text {
        "all" => Ok(ExportedVersions::All),
        "heads" => Ok(ExportedVersions::Heads),
        number => number.parse().map(ExportedVersions::Newest).map_err(|_| "expected all, heads or a number".into()),
    }
}

pub(crate) fn run(args: &SiteArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        SiteCommand::Build(args) => build(args, tls, printer),
    }
}

fn build(args: &BuildArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let path = Path::new(&args.source);
    let limits = limits::from_env()?;
    let opened = source::directory(&args.source, &images, &limits)?;
    let root = opened.path().to_path_buf();
    let image = if path.exists() { "" } else { args.source.as_str() };
    let default_name = || if image.is_empty() { directory_name(path) } else { image_name(image) };
    let name = args.name.clone().unwrap_or_else(default_name);
    let empty = if args.allow_empty { Empty::Accepted } else { Empty::Rejected };
    let directory = ServedDirectory { root, limits, on_invalid: OnInvalid::Fail, empty, summarize: true };
    // Messages name what the user named.
    let (summaries, _) = PackageSummaries::of(&directory)
        .map_err(|error| failure(error.into(), printer).with_name(opened.path(), &args.source))?;
    let folder = SiteFolder::start(&args.to).map_err(|error| match error {
        SiteFolderError::Source(error) => error.into(),
        error => Failure::fault(error),
    })?;
    let console = Console::new(&name, image, false);
    let images_of_bundles = args.with_bundles.then_some(&images);
    let store = WithManifests {
        catalog: &summaries,
        images: images_of_bundles,
        limits: &directory.limits,
        unread: Mutex::default(),
    };
    let before = args.previous.iter().map(|source| ("the catalog before".to_owned(), source.clone()));
    let others = compared::load(&before.collect::<Vec<_>>(), &images, &directory.limits, printer)?;
    let compared = summaries.compare(&others);
    let export = Export::new(&console, &store, args.versions, &[], &compared)?;
    let (pages, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let progress = Progress::of("writing", || "pages".to_owned());
    let sink = || Counted { folder: &folder, pages: &pages, bytes: &bytes };
    let packages = || (0..export.packages()).into_par_iter().try_for_each(|place| export.package(place, &mut sink()));
    let (packages, top) = rayon::join(packages, || export.top(&mut sink()));
    packages.and(top)?;
    if !args.no_blobs {
        summaries.packages().par_iter().try_for_each(|package| {
            let part = site::names::part(package);
            sink().put(&format!("catalogs/{name}/api/v1/packages/{part}"), &summaries.blobs(package)?)
        })?;
    }
    if let Some(base) = &args.base_url {
        sink().put("sitemap.xml", sitemap(base, &folder.files()).as_bytes())?;
    }
    // The next build replaces the directory if it contains nothing else.
    let files = folder.files();
    let about = json!({"made": "opm site build", "catalog": name, "revision": export.revision(), "files": files});
    sink().put(SITE_MARK, format!("{about}\n").as_bytes())?;
    folder.finish()?;
    drop(progress);
    let (pages, megabytes) = (pages.into_inner(), bytes.into_inner() as f64 / 1e6);
    let mut unread = store.unread.into_inner().unwrap_or_else(PoisonError::into_inner);
    unread.sort();
    unread.dedup();
    for reason in unread {
        printer.warning(&format!("page without manifests: {reason}"));
    }
    printer.report(&format!("wrote {pages} files, {megabytes:.1} MB, to {}", args.to.display()));
    Ok(())
}

/// Counts the files and bytes written.
struct Counted<'a> {
    folder: &'a SiteFolder,
    pages: &'a AtomicUsize,
    bytes: &'a AtomicU64,
}

impl Sink for Counted<'_> {
    fn put(&mut self, path: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.pages.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.folder.put(path, bytes)
    }
}
