//! Flags shared by several mirror commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::TypedValueParser;
use fbc::Limits;
use image::{Platform, Store};
use mirror::MirrorError;
use mirror::destination::{MirrorDestination, PathLayout};
use mirror::imageset::ImageSetProblem;
use mirror::push::SetPlace;
use mirror::report::{MissingImage, OnMissing, text};
use mirror::request::{CatalogProgram, MirrorRequest, MirrorRequestError, SelectionOptions};
use mirror::session::MirrorSession;
use mirror::set::write_whole;
use source::{Images, PullSettings, RegistrySettings, RunningStage};

use super::installed;
use crate::choice::{InvalidValue, choice};
use crate::exit::{Failure, in_path};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::progress::Terminal;
use crate::transfer::{Moved, ProgressForm};
use crate::{limits, report};
use fbc::scratch::TempFolder;

/// The minimum value of `--limit-rate`.
const MIN_RATE: u64 = 64_000;

/// Selection flags
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Selection")]
pub(crate) struct ChoiceFlags {
    /// Bundles with missing images: fail because the set is incomplete (fail), remove the bundles from the catalog
    /// (drop), or leave them in it (keep)
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = on_missing())]
    pub(crate) missing: OnMissing,
    /// Also mirror the dependencies of selected bundles, from any catalog of the file
    #[arg(long)]
    pub(crate) with_dependencies: bool,
    /// Mirror only the upgrade paths of installed bundles: FILE is the output of 'kubectl get
    /// subscriptions,clusterserviceversions -A -o json', 'cluster' queries the current cluster
    #[arg(long, value_name = "FILE|cluster")]
    pub(crate) installed: Option<String>,
    /// With --installed cluster, path to the kubeconfig file; defaults to KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE", requires = "installed")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// With --installed cluster, context of the kubeconfig to use
    #[arg(long, value_name = "NAME", requires = "installed")]
    pub(crate) context: Option<String>,
    /// If the default channel is not selected, use the channel with the newest head instead
    #[arg(long)]
    pub(crate) choose_default: bool,
    /// Ignore packages and channels that the catalog lacks
    #[arg(long)]
    pub(crate) ignore_unknown: bool,
    /// Upgrade edges to unselected bundles: leave them unchanged (keep), or let the channel head skip the stranded
    /// bundles (bridge)
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = ["keep", "bridge"])]
    pub(crate) edges: String,
    /// Repository paths at the destination: source path (path), or source registry and path (host)
    #[arg(long, value_name = "LAYOUT", default_value = "path", value_parser = layout())]
    pub(crate) layout: PathLayout,
    /// Ignore these unsupported parts of the file
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = ["platform", "helm"])]
    pub(crate) skip: Vec<String>,
    /// Do not mirror signatures and other referrers of images
    #[arg(long)]
    pub(crate) without_referrers: bool,
    /// Program that serves a filtered catalog in its image: opm (ours), that of the original image (original), or none
    /// for clusters with their own (none); defaults to ours if the original image has a program and opm can run in an
    /// image, otherwise to none
    #[arg(long, value_name = "WHICH", value_parser = catalog_program())]
    pub(crate) catalog_program: Option<CatalogProgram>,
    /// Also mirror the original image of a filtered catalog by digest, for its signature
    #[arg(long)]
    pub(crate) keep_original: bool,
    /// opm binary for another platform of the catalog; can be repeated
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = binary)]
    pub(crate) binary: Vec<(Platform, PathBuf)>,
    /// Whether the command has the flag --binary, for advice.
    #[arg(skip = true)]
    pub(crate) takes_binary: bool,
}

pub(crate) fn catalog_program() -> impl TypedValueParser<Value = CatalogProgram> {
    choice([("ours", CatalogProgram::Ours), ("original", CatalogProgram::Original), ("none", CatalogProgram::Nothing)])
}

impl ChoiceFlags {
    /// Returns the default values.
    pub(crate) fn defaults() -> ChoiceFlags {
        ChoiceFlags {
            missing: OnMissing::Fail,
            with_dependencies: false,
            installed: None,
            kubeconfig: None,
            context: None,
            keep_original: false,
            choose_default: false,
            ignore_unknown: false,
            edges: "keep".into(),
            layout: PathLayout::Path,
            skip: Vec::new(),
            without_referrers: false,
            catalog_program: None,
            binary: Vec::new(),
            takes_binary: true,
        }
    }

    /// Returns how the content of a file is selected.
    pub(crate) fn options(&self, file: &str) -> Result<SelectionOptions, Failure> {
        Ok(SelectionOptions {
            missing: self.missing,
            with_dependencies: self.with_dependencies,
            choose_default: self.choose_default,
            ignore_unknown: self.ignore_unknown,
            bridge: self.edges == "bridge",
            layout: self.layout,
            base: Path::new(file).parent().unwrap_or(Path::new("")).to_owned(),
            skip: self.skip.clone(),
            referrers: !self.without_referrers,
            program: self.catalog_program,
            keep_original: self.keep_original,
            binaries: self.binary.clone(),
            running: std::env::current_exe()?,
            takes_binary: self.takes_binary,
        })
    }
}

fn on_missing() -> impl TypedValueParser<Value = OnMissing> {
    choice([("fail", OnMissing::Fail), ("drop", OnMissing::Drop), ("keep", OnMissing::Keep)])
}

fn layout() -> impl TypedValueParser<Value = PathLayout> {
    choice([("path", PathLayout::Path), ("host", PathLayout::Host)])
}

fn binary(text: &str) -> Result<(Platform, PathBuf), InvalidValue> {
    let (of, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or("expected PLATFORM=FILE")?;
    let platform = of.parse().map_err(|error: image::PlatformError| error.to_string())?;
    Ok((platform, path.into()))
}

/// Registry flags
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct MoveFlags {
    /// File with additional CA certificates to trust for registries
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Number of concurrent blob transfers per registry
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) jobs: u8,
    /// Maximum transfer rate in bytes per second over all connections, such as 10M
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) limit_rate: Option<u64>,
    /// Progress format: human-readable (text), or one line of JSON per second on stderr (json)
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = form())]
    pub(crate) progress: ProgressForm,
    /// Accept only images whose signatures satisfy policy.json; 'push' uses the signatures in the set
    #[arg(long)]
    pub(crate) enforce_policy: bool,
    /// The policy file of `oc-mirror --policy`.
    #[arg(skip)]
    pub(crate) policy: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) settings: RegistrySettings,
}

impl MoveFlags {
    /// Opens a session with one client, which moves images into and out of a store.
    pub(crate) fn open(&self, tls: &TlsFlags, store: Store) -> Result<Run, Failure> {
        let pull = PullFlags { ca_file: self.ca_file.clone(), ..PullFlags::default() };
        let settings = PullSettings {
            insecure_policy: !self.enforce_policy,
            policy: self.policy.clone(),
            registry: self.settings.clone(),
            ..images::settings(tls, &pull)
        };
        let terminal = Terminal::default();
        let moved = terminal.moved();
        moved.report_as(self.progress);
        let images = Images::in_store(settings, Arc::new(terminal), store, |options| {
            options.parallel = usize::from(self.jobs.max(1));
            options.progress = Arc::clone(&moved) as Arc<dyn image::TransferProgress>;
            options.rate = self.limit_rate;
        })?;
        let enforced = images.client()?.enforced_policy().map_err(Failure::message)?;
        if self.enforce_policy && enforced.is_none() {
            return Err(Failure::message(
                "--enforce-policy: there is no policy to enforce\nhelp: create policy.json, and unset OPM_INSECURE_POLICY",
            ));
        }
        let face = Face { printer: Printer::new(), moved };
        Ok(Run { images, limits: limits::from_env()?, face, _scratch: None })
    }

    /// Opens a session whose store is temporary.
    pub(crate) fn open_scratch(&self, tls: &TlsFlags) -> Result<Run, Failure> {
        let scratch = TempFolder::private("opm-mirror-")?;
        let run = self.open(tls, Store::open(&scratch.path().join("store"))?)?;
        Ok(Run { _scratch: Some(scratch), ..run })
    }

    /// Opens a session with the store of a set; what is not in a directory of its own is temporary.
    pub(crate) fn open_set(&self, tls: &TlsFlags, set: &SetPlace) -> Result<Run, Failure> {
        let scratch = TempFolder::private("opm-mirror-")?;
        let run = self.open(tls, set.store(&scratch.path().join("store"))?)?;
        Ok(Run { _scratch: Some(scratch), ..run })
    }
}

/// A run of a command: its images, and what users hear of it.
pub(crate) struct Run {
    images: Images,
    limits: Limits,
    face: Face,
    /// The directory of a temporary store, removed after the images are closed.
    _scratch: Option<TempFolder>,
}

impl Run {
    pub(crate) fn session(&self) -> Result<MirrorSession<'_>, Failure> {
        Ok(MirrorSession::new(&self.images, &self.limits, &self.face)?)
    }
}

/// Shows on the terminal what happens to a mirror.
struct Face {
    printer: Printer,
    moved: Arc<Moved>,
}

impl mirror::session::MirrorProgress for Face {
    fn note(&self, text: &str) {
        note(text, &self.printer);
    }

    fn warn(&self, warning: &str) {
        self.printer.warning(warning);
    }

    fn missing(&self, missing: &[MissingImage]) {
        report_missing(missing, &self.printer);
    }

    fn transfer(&self, doing: &'static str, bytes: u64) -> Box<dyn RunningStage> {
        Box::new(self.moved.show(doing, bytes))
    }
}

/// Destination flags
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Destination")]
pub(crate) struct TargetFlags {
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_nested_paths: Option<u16>,
    /// Directory for the objects that point clusters to the mirror
    #[arg(long, value_name = "DIR", default_value = "cluster-resources")]
    pub(crate) resources: PathBuf,
    /// Name for the objects of a catalog, identified by source or destination path; can be repeated
    #[arg(long, value_name = "CATALOG=NAME", value_parser = catalog_name)]
    pub(crate) catalog_name: Vec<(String, String)>,
    /// Write each object to its own file
    #[arg(long)]
    pub(crate) one_object_per_file: bool,
    /// Let nodes pull only from the mirror, never from the sources
    #[arg(long)]
    pub(crate) no_fallback: bool,
}

/// Parses a rate. The minimum keeps registries from treating a connection as idle.
fn rate(text: &str) -> Result<u64, InvalidValue> {
    match mirror::volume::parse_bytes(text) {
        Some(rate) if rate >= MIN_RATE => Ok(rate),
        _ => Err(format!("{text:?}: expected bytes per second such as 500k or 10M, at least 64k").into()),
    }
}

fn form() -> impl TypedValueParser<Value = ProgressForm> {
    choice([("text", ProgressForm::Text), ("json", ProgressForm::Json)])
}

fn catalog_name(text: &str) -> Result<(String, String), InvalidValue> {
    let (catalog, name) = text.rsplit_once('=').ok_or("expected CATALOG=NAME")?;
    Ok((catalog.to_owned(), name.to_owned()))
}

impl TargetFlags {
    pub(crate) fn target(&self, text: &str) -> Result<MirrorDestination, Failure> {
        target(text, self.max_nested_paths)
    }

    /// Writes the cluster objects of a mirrored set.
    pub(crate) fn write_resources(
        &self,
        lock: &mirror::lock::Lock,
        target: &MirrorDestination,
        tls: &TlsFlags,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let options = mirror::resources::ResourceOptions {
            names: self.catalog_name.clone(),
            one_object_per_file: self.one_object_per_file,
            plain_http: tls.uses_http(),
            no_fallback: self.no_fallback,
        };
        let made = mirror::resources::make(lock, target, &options).map_err(MirrorError::from)?;
        for (name, text) in &made.files {
            write_whole(&self.resources.join(name), text.as_bytes())?;
        }
        made.notes.iter().for_each(|text| note(text, printer));
        printer.report(&format!("wrote the cluster objects to {}", self.resources.display()));
        Ok(())
    }
}

/// Parses a destination.
pub(crate) fn target(text: &str, max_nested_paths: Option<u16>) -> Result<MirrorDestination, Failure> {
    MirrorDestination::parse(text, max_nested_paths.map(usize::from)).map_err(Failure::fault)
}

impl From<MirrorError> for Failure {
    fn from(error: MirrorError) -> Failure {
        match error {
            MirrorError::Io(error) => error.into(),
            MirrorError::Source(error) => error.into(),
            error => Failure::fault(error),
        }
    }
}

/// Returns the failure to resolve a request, after reporting all problems of its catalogs.
pub(crate) fn unresolved(error: MirrorError) -> Failure {
    let printer = Printer::new();
    let show = |error: &MirrorError| {
        if let MirrorError::InvalidCatalog { invalid, .. } = error {
            report::show(&printer, &report::find(&invalid.fbc, invalid.problems.errors()));
        }
    };
    match error {
        MirrorError::Several(errors) => {
            for error in errors {
                show(&error);
                printer.error(&error.to_string());
            }
            Failure::Reported
        }
        error => {
            show(&error);
            error.into()
        }
    }
}

/// Reads an image set or a lock.
pub(crate) fn read(file: &str, choice: &ChoiceFlags, printer: &Printer) -> Result<Input, Failure> {
    let mut limits = limits::from_env()?;
    limits.file_size = limits.file_size.min(mirror::lock::LIMIT);
    let text = crate::commands::read_input(file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let options = choice.options(file)?;
    let mut request = MirrorRequest::parse(&text, &options).map_err(|error| match error {
        MirrorRequestError::Lock(error) => MirrorError::from(error).named(file).into(),
        MirrorRequestError::Set(problems) => invalid(file, &problems, printer),
    })?;
    if let (MirrorRequest::Set(_), Some(from)) = (&request, &choice.installed) {
        request.restrict(installed::read(from, choice, &limits)?);
    }
    Ok(Input { request, text, options })
}

/// A parsed file.
pub(crate) struct Input {
    pub(crate) request: MirrorRequest,
    pub(crate) text: Vec<u8>,
    pub(crate) options: SelectionOptions,
}

/// Reports the problems of an image set.
pub(crate) fn invalid(file: &str, problems: &[ImageSetProblem], printer: &Printer) -> Failure {
    for problem in problems {
        let help = problem.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        printer.error(&format!("{file}:{}: {}{help}", problem.line, problem.message));
    }
    Failure::Reported
}

/// Prints a note.
pub(crate) fn note(note: &str, printer: &Printer) {
    printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
}

/// Reports missing images by package and bundle, and those that failed by cause.
pub(crate) fn report_missing(missing: &[MissingImage], printer: &Printer) {
    if !missing.is_empty() {
        printer.report(text(missing).trim_end());
    }
}
