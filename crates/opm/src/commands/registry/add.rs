//! `opm registry add`: adds bundles to a database.

use std::collections::BTreeMap;
use std::path::PathBuf;

use legacy::{AddMode, AddOptions, DatabaseTarget, IfMissing, Strictness};
use source::ContainerTool;

use super::items;
use crate::database;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, container_tool};
use crate::limits;
use crate::printer::Printer;

/// Add bundles to a database index
#[derive(clap::Args)]
#[command(
    long_about = "Add bundles to a database index.\n\n\
        A bundle is an image, or a directory with 'manifests' and 'metadata'. The command adds all bundles or none; with \
        --permissive it adds those it can. A missing database is created.\n\n\
        Exit code 2: the database already has an image. Exit code 3: it already has a bundle of that name.",
    after_help = "Examples:\n  \
        opm registry add -d index.db -b quay.io/example/bundle:v1.0.0,quay.io/example/bundle:v1.1.0\n  \
        opm registry add -d index.db -b ./bundles/1.2.0 --mode semver"
)]
pub(crate) struct AddArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Bundle images or directories to add
    #[arg(short, long, value_name = "REF", value_delimiter = ',')]
    bundle_images: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
    /// Tool that pulls images
    #[arg(short, long, value_name = "TOOL", default_value = "none", value_parser = container_tool())]
    container_tool: ContainerTool,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// Flags of all commands that add bundles.
#[derive(clap::Args)]
pub(crate) struct HowArgs {
    /// How upgrade edges are derived (replaces|semver|semver-skippatch)
    #[arg(long, value_name = "MODE", default_value = "replaces")]
    mode: String,
    /// Warn about bundles that cannot be added, and add the others
    #[arg(long)]
    permissive: bool,
    /// Record image digests along with tags, so that the index can be rebuilt
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = crate::cli::parse_bool)]
    pin: Option<bool>,
    /// Overwrite a bundle of the same name if it is the head of its channels
    #[arg(long, hide = true)]
    overwrite_latest: bool,
    /// Allow bundles that substitute for others
    #[arg(long, hide = true)]
    enable_alpha: bool,
}

impl HowArgs {
    /// Returns whether to record images by digest; `default` applies without the flag.
    pub(crate) fn pins(&self, default: bool) -> bool {
        self.pin.unwrap_or(default)
    }

    pub(crate) fn options(&self, manner: Manner) -> Result<AddOptions, Failure> {
        Ok(AddOptions {
            mode: AddMode::parse(&self.mode).map_err(Failure::message)?,
            strictness: Strictness::new(self.permissive),
            overwrite_latest: self.overwrite_latest,
            enable_alpha: self.enable_alpha,
            heads_only: manner.heads_only,
            older_moves_default: manner.older_moves_default,
            modes: manner.modes,
            limits: limits::from_env()?,
        })
    }
}

pub(crate) fn run(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let fetcher = images::fetcher(tls, &args.pull, args.container_tool)?.pinning(args.how.pins(false));
    let options = args.how.options(MANNER)?;
    let target = DatabaseTarget::in_place(&args.database, IfMissing::CreateAnyway);
    let bundles = items(&args.bundle_images);
    database::change(&target, printer, |database| database.add_images(&bundles, &options, &fetcher))
}

/// The differences between the commands that add bundles.
#[derive(Default)]
pub(crate) struct Manner {
    /// Only heads of channels keep their manifests.
    pub(crate) heads_only: bool,
    /// The default channel follows the last added bundle, whatever its version.
    pub(crate) older_moves_default: bool,
    /// The packages whose graph is not built in the mode of the command line.
    pub(crate) modes: BTreeMap<String, AddMode>,
}

/// The behavior of upstream opm, which scripts rely on.
const MANNER: Manner = Manner { heads_only: false, older_moves_default: true, modes: BTreeMap::new() };
