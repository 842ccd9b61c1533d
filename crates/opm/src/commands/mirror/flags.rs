//! Flags shared by several mirror commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::TypedValueParser;
use image::{Client, Platform, Store};
use mirror::destination::{Layout, Target};
use mirror::report::{self, Missing, OnMissing};
use source::{Images, RegistrySettings, Settings};

use crate::choice::choice;
use crate::exit::Failure;
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::transfer::{Form, Moved};

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
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE", requires = "installed")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// With --installed cluster, context of the kubeconfig to use
    #[cfg(feature = "cluster")]
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
    pub(crate) layout: Layout,
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

/// The program in the image of a filtered catalog, as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogProgram {
    /// This opm, or that of --binary.
    Ours,
    /// The program of the original image.
    Original,
    /// None: the image holds only data.
    Nothing,
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
            catalog_program: None,
            binary: Vec::new(),
            takes_binary: true,
        }
    }

    /// Returns the flags that affect the selection, as part of a lock's request.
    pub(crate) fn request(&self) -> String {
        let program = match self.catalog_program {
            // The text of the default is that of earlier versions, so that their sets stay complete.
            None => "ours",
            Some(CatalogProgram::Ours) => "required",
            Some(CatalogProgram::Original) => "original",
            Some(CatalogProgram::Nothing) => "none",
        };
        let mut request = format!(
            "dependencies={} chooseDefault={} ignoreUnknown={} edges={} layout={:?} referrers={} program={}",
            self.with_dependencies,
            self.choose_default,
            self.ignore_unknown,
            self.edges,
            self.layout,
            !self.without_referrers,
            program,
        );
        if self.keep_original {
            request += " original=true";
        }
        for (platform, _) in &self.binary {
            request += &format!(" binary={platform}");
        }
        request
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
    pub(crate) progress: Form,
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
    /// Returns the image access for catalogs, with an image cache.
    pub(crate) fn images(&self, tls: &TlsFlags, cache: Option<&Path>) -> Images {
        let pull =
            PullFlags { ca_file: self.ca_file.clone(), image_cache: cache.map(Path::to_owned), ..PullFlags::default() };
        images::with(Settings {
            insecure_policy: !self.enforce_policy,
            policy: self.policy.clone(),
            registry: self.settings.clone(),
            ..images::settings(tls, &pull)
        })
    }

    /// Returns a client that transfers images into and out of a store.
    pub(crate) fn client(&self, tls: &TlsFlags, store: Store, moved: &Arc<Moved>) -> Result<Client, Failure> {
        let images = self.images(tls, Some(store.root()));
        let mut options = images.client()?.options().clone();
        options.store = store;
        options.parallel = usize::from(self.jobs.max(1));
        options.progress = Arc::clone(moved) as Arc<dyn image::Progress>;
        options.rate = self.limit_rate;
        moved.report_as(self.progress);
        let client = Client::new(options).map_err(|error| Failure::message(error.to_string()))?;
        let enforced = client.enforced_policy().map_err(|error| Failure::message(error.to_string()))?;
        if self.enforce_policy && enforced.is_none() {
            return Err(Failure::message(
                "--enforce-policy: there is no policy to enforce\nhelp: create policy.json, and unset OPM_INSECURE_POLICY",
            ));
        }
        Ok(client)
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
fn rate(text: &str) -> Result<u64, String> {
    match mirror::volume::parse_bytes(text) {
        Some(rate) if rate >= MIN_RATE => Ok(rate),
        _ => Err(format!("{text:?}: expected bytes per second such as 500k or 10M, at least 64k")),
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

    /// Writes the cluster objects of a mirrored set.
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
        printer.report(&format!("wrote the cluster objects to {}", self.resources.display()));
        Ok(())
    }
}

/// Prints notes.
pub(crate) fn notes(notes: &[String], printer: &Printer) {
    for note in notes {
        printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
    }
}

/// Reports missing images by package and bundle, and those that failed by cause.
pub(crate) fn report_missing(missing: &[Missing], printer: &Printer) {
    if !missing.is_empty() {
        printer.report(report::text(missing).trim_end());
    }
}
