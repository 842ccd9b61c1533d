//! Flags that several commands share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::TypedValueParser;
use image::{Client, Platform, Store};
use mirror::destination::{Layout, Target};
use mirror::report::{self, Missing, OnMissing};

use crate::choice::choice;
use crate::exit::Failure;
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::registry_settings::RegistrySettings;
use crate::transfer::{Form, Moved};

/// The slowest rate that somebody can ask for.
const SLOWEST: u64 = 64_000;

/// What is chosen, beside what the file says
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "What is chosen")]
pub(crate) struct ChoiceFlags {
    /// What becomes of bundles that lack an image: the set is not whole until they have it (fail), they leave the
    /// catalog (drop), or they stay in it (keep)
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = on_missing())]
    pub(crate) missing: OnMissing,
    /// Bring what kept bundles need as well, from any catalog of the file
    #[arg(long)]
    pub(crate) with_dependencies: bool,
    /// Bring only what is on the way from what a cluster runs to the newest: what 'kubectl get
    /// subscriptions,clusterserviceversions -A -o json' printed there, or 'cluster' for the one that can be reached
    #[arg(long, value_name = "FILE|cluster")]
    pub(crate) installed: Option<String>,
    /// With --installed cluster, file that says how to reach it; defaults to KUBECONFIG or ~/.kube/config
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE", requires = "installed")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// With --installed cluster, context in that file
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "NAME", requires = "installed")]
    pub(crate) context: Option<String>,
    /// Where the default channel goes, make the one with the newest head the default
    #[arg(long)]
    pub(crate) choose_default: bool,
    /// Pass over packages and channels that the catalog does not have
    #[arg(long)]
    pub(crate) ignore_unknown: bool,
    /// Edges of upgrades that lead out of what is kept: stay as they are written (keep), or the newest bundle of the
    /// channel skips what lost its way (bridge)
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = ["keep", "bridge"])]
    pub(crate) edges: String,
    /// Paths at the destination: those of the sources (path), or those behind the name of the source's registry (host)
    #[arg(long, value_name = "LAYOUT", default_value = "path", value_parser = layout())]
    pub(crate) layout: Layout,
    /// Go on without these parts of the file, for which nothing is done
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = ["platform", "helm"])]
    pub(crate) skip: Vec<String>,
    /// Leave signatures and other things that were made for images behind
    #[arg(long)]
    pub(crate) without_referrers: bool,
    /// What serves the catalog in its image: this program (ours), that of the original image (original), or nothing
    /// (none), for clusters that bring their own
    #[arg(long, value_name = "WHICH", default_value = "ours", value_parser = ["ours", "original", "none"])]
    pub(crate) catalog_program: String,
    /// Bring the original image of a catalog that is not whole as well, by its digest, for its signature
    #[arg(long)]
    pub(crate) keep_original: bool,
    /// This program for another platform of the catalog; can be given several times
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = binary)]
    pub(crate) binary: Vec<(Platform, PathBuf)>,
}

impl ChoiceFlags {
    /// Returns what holds when nothing is said.
    pub(crate) fn usual() -> ChoiceFlags {
        ChoiceFlags {
            missing: OnMissing::Fail,
            with_dependencies: false,
            installed: None,
            #[cfg(feature = "cluster")]
            kubeconfig: None,
            #[cfg(feature = "cluster")]
            context: None,
            keep_original: false,
            choose_default: false,
            ignore_unknown: false,
            edges: "keep".into(),
            layout: Layout::Path,
            skip: Vec::new(),
            without_referrers: false,
            catalog_program: "ours".into(),
            binary: Vec::new(),
        }
    }

    /// Returns the flags that change what is chosen, as text that is part of a lock's request.
    pub(crate) fn request(&self) -> String {
        format!(
            "dependencies={} chooseDefault={} ignoreUnknown={} edges={} layout={:?} referrers={} program={}",
            self.with_dependencies,
            self.choose_default,
            self.ignore_unknown,
            self.edges,
            self.layout,
            !self.without_referrers,
            self.catalog_program,
        ) + if self.keep_original { " original=true" } else { "" }
    }
}

fn on_missing() -> impl TypedValueParser<Value = OnMissing> {
    choice([("fail", OnMissing::Fail), ("drop", OnMissing::Drop), ("keep", OnMissing::Keep)])
}

fn layout() -> impl TypedValueParser<Value = Layout> {
    choice([("path", Layout::Path), ("host", Layout::Host)])
}

fn binary(text: &str) -> Result<(Platform, PathBuf), String> {
    let (of, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or("expected PLATFORM=FILE")?;
    let platform = of.parse().map_err(|error: image::PlatformError| error.to_string())?;
    Ok((platform, path.into()))
}

/// How registries are spoken to
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct MoveFlags {
    /// File with certificates of authorities to trust for registries, beside the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// How many blobs are on their way at a time, from each registry
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) jobs: u8,
    /// How many bytes of blobs may move in a second, over all connections, such as 10M
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) limit_rate: Option<u64>,
    /// How progress is reported: for people (text), or a line of JSON every second on stderr (json)
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = form())]
    pub(crate) progress: Form,
    /// Accept only images that policy.json accepts, with their signatures
    #[arg(long)]
    pub(crate) enforce_policy: bool,
    /// Another policy.json, which the command line of another tool names.
    #[arg(skip)]
    pub(crate) policy: Option<PathBuf>,
    #[arg(skip)]
    pub(crate) settings: RegistrySettings,
}

impl MoveFlags {
    /// Returns what opens catalogs, with a directory that images are kept in.
    pub(crate) fn images(&self, tls: &TlsFlags, cache: Option<&Path>) -> Images {
        let pull =
            PullFlags { ca_file: self.ca_file.clone(), image_cache: cache.map(Path::to_owned), ..PullFlags::default() };
        Images::new(tls, &pull)
            .with_insecure_policy(!self.enforce_policy)
            .with_policy(self.policy.clone())
            .with_settings(self.settings.clone())
    }

    /// Returns what moves images into and out of a store.
    pub(crate) fn client(&self, tls: &TlsFlags, store: Store, moved: &Arc<Moved>) -> Result<Client, Failure> {
        let images = self.images(tls, Some(store.root()));
        let mut options = images.client().map_err(Failure::message)?.options().clone();
        options.store = store;
        options.parallel = usize::from(self.jobs.max(1));
        options.progress = Arc::clone(moved) as Arc<dyn image::Progress>;
        options.rate = self.limit_rate;
        moved.report_as(self.progress);
        Client::new(options).map_err(|error| Failure::message(error.to_string()))
    }
}

/// Where a set goes
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "At the destination")]
pub(crate) struct TargetFlags {
    /// How many components the path of a repository may have; what is too much is joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_nested_paths: Option<u16>,
    /// Directory for the objects that lead clusters to the mirror
    #[arg(long, value_name = "DIR", default_value = "cluster-resources")]
    pub(crate) resources: PathBuf,
    /// Name of the objects of a catalog, by its source or its path at the destination; can be given several times
    #[arg(long, value_name = "CATALOG=NAME", value_parser = catalog_name)]
    pub(crate) catalog_name: Vec<(String, String)>,
    /// Write every object to a file of its own
    #[arg(long)]
    pub(crate) one_object_per_file: bool,
    /// Let nodes never ask the sources, only the mirror
    #[arg(long)]
    pub(crate) no_fallback: bool,
}

/// Reads a rate, which no registry takes for silence.
fn rate(text: &str) -> Result<u64, String> {
    match mirror::volume::parse_bytes(text) {
        Some(rate) if rate >= SLOWEST => Ok(rate),
        _ => Err(format!("{text:?}: expected bytes in a second such as 500k or 10M, at least 64k")),
    }
}

fn form() -> impl TypedValueParser<Value = Form> {
    choice([("text", Form::Text), ("json", Form::Json)])
}

fn catalog_name(text: &str) -> Result<(String, String), String> {
    let (catalog, name) = text.rsplit_once('=').ok_or("expected CATALOG=NAME")?;
    Ok((catalog.to_owned(), name.to_owned()))
}

impl TargetFlags {
    pub(crate) fn target(&self, text: &str) -> Result<Target, Failure> {
        Target::parse(text, self.max_nested_paths.map(usize::from)).map_err(Failure::message)
    }

    /// Writes the objects for a set at a registry.
    pub(crate) fn write_resources(
        &self,
        lock: &mirror::lock::Lock,
        target: &Target,
        tls: &TlsFlags,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let options = mirror::resources::Options {
            names: self.catalog_name.clone(),
            one_object_per_file: self.one_object_per_file,
            plain_http: tls.uses_http(),
            no_fallback: self.no_fallback,
        };
        let made = mirror::resources::make(lock, target, &options).map_err(Failure::message)?;
        for (name, text) in &made.files {
            mirror::set::write_whole(&self.resources.join(name), text.as_bytes()).map_err(Failure::message)?;
        }
        notes(&made.notes, printer);
        printer.report(&format!("objects for the cluster: {}", self.resources.display()));
        Ok(())
    }
}

/// Reports what else the user should know.
pub(crate) fn notes(notes: &[String], printer: &Printer) {
    for note in notes {
        printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
    }
}

/// Reports what is missing, by package and bundle.
pub(crate) fn tell_missing(missing: &[Missing], printer: &Printer) {
    if !missing.is_empty() {
        printer.report(&format!("missing images: {}", missing.len()));
        printer.report(report::text(missing).trim_end());
    }
}
