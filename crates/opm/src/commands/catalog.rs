//! `opm catalog`: manages the catalogs of a cluster.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bundle::rehearse::OlmGeneration;
use clap::Subcommand;
use clap::builder::TypedValueParser;
use cluster::{
    AnyCatalogPlan, ApplyCatalog, CatalogList, CatalogPlan, CatalogState, CatalogStatus, Cluster, ClusterCatalogState,
    ListedCatalog, OfKind, PodRole,
};
use fbc::Format;
use fbc::spelling::table::Table;
use serde_json::Value;
use source::{CONFIGS, data_only_catalog};

use super::blob_format;
use super::serve::duration;
use crate::choice::{InvalidValue, choice};
use crate::cluster_flags::{ClusterFlags, block_on, failure};
use crate::exit::{CommandResult, Failure, in_path};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{interrupt, limits};

/// The maximum size of a file with a catalog, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Manage the catalogs of a cluster
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    command: CatalogCommand,
}

#[derive(Subcommand)]
enum CatalogCommand {
    Apply(Box<ApplyArgs>),
    Status(StatusArgs),
    List(ListArgs),
    Delete(DeleteArgs),
}

/// Add a catalog image to a cluster or update it
#[derive(clap::Args)]
#[command(
    long_about = "Add a catalog image to a cluster or update it.\n\n\
        Creates or updates the CatalogSource with server-side apply: a field that an earlier call set and this one omits \
        is removed, and fields that others own stay. OLM or 'opm controller' then serves the image.\n\n\
        An image without a program cannot serve itself: the CatalogSource then needs grpcPodConfig.extractContent. opm reads \
        the configuration of the image from its registry to decide this, unless --extract-content or --file is given.\n\n\
        --file reads a CatalogSource or ClusterCatalog as 'opm mirror push' writes it; other flags override its fields.",
    after_help = "Examples:\n  \
        opm catalog apply -f cluster-resources/cs-index-v1.yaml --wait\n  \
        opm catalog apply my-catalog --image quay.io/example/catalog:latest --poll 10m -n olm --wait\n  \
        opm catalog apply my-catalog --image quay.io/example/catalog:latest --dry-run -o yaml\n  \
        opm catalog apply my-catalog --image quay.io/example/catalog:latest --olm v1 --poll 10m --wait"
)]
struct ApplyArgs {
    /// Name of the catalog; defaults to the name in --file
    #[arg(value_name = "NAME", required_unless_present = "file", default_value = "", hide_default_value = true)]
    name: String,
    /// Image of the catalog; defaults to the image in --file
    #[arg(long, value_name = "REF", required_unless_present = "file", default_value = "", hide_default_value = true)]
    image: String,
    /// File with a CatalogSource or ClusterCatalog to start from
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Interval at which the cluster polls for a new image of the same name, like 10m or 1h
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    poll: Option<String>,
    /// Display name in consoles
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Publisher of the catalog
    #[arg(long, value_name = "TEXT")]
    publisher: Option<String>,
    /// Priority when several catalogs match, the highest wins; defaults to 0
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Image pull secret in the same namespace; can be repeated
    #[arg(long = "secret", value_name = "NAME")]
    secrets: Vec<String>,
    /// Let the cluster extract the catalog from this directory of the image and serve it with its own opm; DIR defaults
    /// to /configs
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = CONFIGS,
        value_parser = absolute)]
    extract_content: Option<String>,
    /// OLM generation: v0 for a CatalogSource, v1 for a ClusterCatalog
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: OlmGeneration,
    /// Keep the catalog on the cluster without serving it; requires --olm v1
    #[arg(long)]
    unavailable: bool,
    /// Take over fields that others own and set to other values
    #[arg(long)]
    force_conflicts: bool,
    /// Wait until the catalog is served
    #[arg(long)]
    wait: bool,
    /// Timeout for the command
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Print the object without sending it
    #[arg(long)]
    dry_run: bool,
    /// Print the object as json or yaml
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, value_parser = blob_format())]
    output: Option<Format>,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Show the state of a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Show the state of a catalog.\n\n\
        Shows the last connection state, the digest of the image in use, the time of the last poll, and the pods, with \
        the reason if one is not running. Lists the packages if OLM's package server reports them.",
    after_help = "Examples:\n  opm catalog status my-catalog -n olm\n  opm catalog status my-catalog -n olm -o json"
)]
struct StatusArgs {
    /// Name of the catalog
    #[arg(value_name = "NAME")]
    name: String,
    /// OLM generation: v0 for a CatalogSource, v1 for a ClusterCatalog
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: OlmGeneration,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = output())]
    output: CatalogOutput,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// List the catalogs of a cluster
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm catalog list -n olm\n  opm catalog list -A -o json")]
struct ListArgs {
    /// List catalogs in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// OLM generation: v0 for CatalogSources, v1 for ClusterCatalogs; defaults to both
    #[arg(long, value_name = "GENERATION", value_parser = generation())]
    olm: Option<OlmGeneration>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = output())]
    output: CatalogOutput,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Delete a catalog from a cluster
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm catalog delete my-catalog -n olm")]
struct DeleteArgs {
    /// Name of the catalog
    #[arg(value_name = "NAME")]
    name: String,
    /// OLM generation: v0 for a CatalogSource, v1 for a ClusterCatalog
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: OlmGeneration,
    /// Succeed if the catalog does not exist
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatalogOutput {
    Table,
    Json,
}

/// Parses a generation of OLM.
pub(crate) fn generation() -> impl TypedValueParser<Value = OlmGeneration> {
    choice([("v0", OlmGeneration::V0), ("v1", OlmGeneration::V1)])
}

fn output() -> impl TypedValueParser<Value = CatalogOutput> {
    choice([("table", CatalogOutput::Table), ("json", CatalogOutput::Json)])
}

/// Checks an interval, which is sent to the cluster as the user wrote it.
fn interval(text: &str) -> Result<String, InvalidValue> {
    match fbc::spelling::duration::parse(text) {
        Some(duration) if !duration.is_zero() => Ok(text.to_owned()),
        _ => Err("expected a duration like 10m, 1h or 1h30m".into()),
    }
}

/// Checks a path in an image.
fn absolute(text: &str) -> Result<String, InvalidValue> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("expected an absolute path in the image".into()),
    }
}

pub(crate) fn run(args: &CatalogArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        CatalogCommand::Apply(args) => apply(args, tls, printer),
        CatalogCommand::Status(args) => status(args, printer),
        CatalogCommand::List(args) => list(args, printer),
        CatalogCommand::Delete(args) => delete(args, printer),
    }
}

/// Rejects `--namespace` with OLM v1.
pub(crate) fn refuse_namespace(olm: Option<OlmGeneration>, namespace: Option<&String>) -> CommandResult {
    match (olm, namespace) {
        (Some(OlmGeneration::V1), Some(_)) => {
            Err(Failure::usage("--namespace cannot be used with --olm v1: a ClusterCatalog has no namespace"))
        }
        _ => Ok(()),
    }
}

/// Returns what messages call a catalog.
fn shown(olm: OlmGeneration, cluster: &Cluster, name: &str) -> String {
    match olm {
        OlmGeneration::V0 => format!("catalog {}/{name}", cluster.namespace),
        OlmGeneration::V1 => format!("ClusterCatalog {name}"),
    }
}

/// Reads the only object in a file, such as those that `opm mirror push` writes.
fn template(path: &Path) -> Result<Value, Failure> {
    let mut limits = limits::from_env()?;
    limits.file_size = limits.file_size.min(MAX_SIZE);
    let shown = path.display().to_string();
    let content = super::read_input(&shown, &limits).map_err(|error| in_path(path, &error))?;
    let documents =
        fbc::stream::documents(&content, &limits).map_err(|error| Failure::message(error).context(&shown))?;
    let [document] = documents.as_slice() else {
        return Err(Failure::message(format!("{shown}: expected one object, found {}", documents.len())));
    };
    serde_json::from_str(document.raw().text()).map_err(|error| Failure::message(error).context(&shown))
}

/// Returns the directory that a cluster must extract from an image, if the image has no program.
fn catalog_directory(image: &str, tls: &TlsFlags, printer: &Printer) -> Option<String> {
    let config = images::open(tls, &PullFlags::default()).config_of(image);
    // The directory for images is gone; from now on, a signal interrupts the work on the cluster.
    interrupt::hand_over_signals();
    match config {
        Ok(config) => data_only_catalog(&config),
        Err(error) => {
            let error = error.to_string();
            let error = error.lines().next().unwrap_or_default();
            printer.warning(&format!(
                "cannot check whether the image has a program: {error}; if it has none, add --extract-content"
            ));
            None
        }
    }
}

impl ApplyArgs {
    fn plan(&self, tls: &TlsFlags, printer: &Printer) -> Result<AnyCatalogPlan, Failure> {
        let request = ApplyCatalog {
            generation: self.olm,
            catalog: CatalogPlan {
                name: self.name.clone(),
                namespace: self.cluster.namespace.clone(),
                image: self.image.clone(),
                poll: self.poll.clone(),
                display_name: self.display_name.clone(),
                publisher: self.publisher.clone(),
                priority: self.priority,
                secrets: self.secrets.clone(),
                extract_content: self.extract_content.clone(),
                ..CatalogPlan::default()
            },
            unavailable: self.unavailable,
            template: self.file.as_deref().map(template).transpose()?,
        };
        let mut plan = request.plan().map_err(|error| {
            let failure = Failure::fault(error);
            self.file.iter().fold(failure, |failure, path| failure.context(path.display()))
        })?;
        refuse_namespace(Some(plan.generation()), self.cluster.namespace.as_ref())?;
        if let AnyCatalogPlan::Source(plan) = &mut plan
            && self.file.is_none()
            && plan.extract_content.is_none()
        {
            plan.extract_content = catalog_directory(&plan.image, tls, printer);
        }
        Ok(plan)
    }
}

fn apply(args: &ApplyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let plan = args.plan(tls, printer)?;
    let mut flags = args.cluster.clone();
    flags.namespace = plan.namespace().map(str::to_owned);
    let interrupted = match plan.generation() {
        OlmGeneration::V0 => "the catalog may already have changed; check 'opm catalog status'",
        OlmGeneration::V1 => "the catalog may already have changed; check 'opm catalog status --olm v1'",
    };
    block_on(interrupted, async {
        if args.dry_run {
            // A dry run needs the cluster only for the namespace of its context.
            let namespace = match plan.generation() {
                OlmGeneration::V0 => flags.connect().await.ok().map(|cluster| cluster.namespace).or(flags.namespace),
                OlmGeneration::V1 => None,
            };
            let object = plan.object(&namespace.unwrap_or_else(|| "default".into()));
            return print_object(&object, args.output.unwrap_or(Format::Yaml), printer);
        }
        let cluster = flags.connect().await?;
        let shown = shown(plan.generation(), &cluster, plan.name());
        let now = Instant::now();
        let deadline = now.checked_add(args.timeout).unwrap_or(now + Duration::from_secs(365 * 86400));
        let object = plan.apply(&cluster, args.force_conflicts, deadline).await.map_err(failure)?;
        match args.output {
            Some(format) => print_object(&object, format, printer)?,
            None => printer.report(&format!("{shown} applied")),
        }
        if args.wait {
            let state = plan.wait(&cluster, args.timeout, deadline).await.map_err(failure)?;
            printer.report(&match (state.is_available(), state.image_in_use()) {
                (true, Some(image)) => format!("{shown} is served from {image}"),
                (true, None) => format!("{shown} is served"),
                (false, _) => format!("{shown} is no longer served"),
            });
        }
        Ok(())
    })
}

fn print_object(object: &Value, format: Format, printer: &mut Printer) -> CommandResult {
    let text = match format {
        Format::Json => format!("{object:#}\n"),
        Format::Yaml => fbc::yaml::object(object),
    };
    Ok(printer.data().write_all(text.as_bytes())?)
}

fn status(args: &StatusArgs, printer: &mut Printer) -> CommandResult {
    refuse_namespace(Some(args.olm), args.cluster.namespace.as_ref())?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let state = cluster::catalog_state(&cluster, args.olm, &args.name).await.map_err(failure)?;
        match (args.output, &state) {
            (CatalogOutput::Json, state) => Ok(printer.json(state)?),
            (_, CatalogStatus::Source(state)) => Ok(printer.data().write_all(source_text(state).as_bytes())?),
            (_, CatalogStatus::Cluster(state)) => Ok(printer.data().write_all(cluster_text(state).as_bytes())?),
        }
    })
}

/// Returns a text, or that it is unknown.
fn known(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn lines(rows: &[(&str, String)], width: usize) -> String {
    rows.iter().map(|(name, value)| format!("{name:width$}{value}\n")).collect()
}

fn cluster_text(state: &ClusterCatalogState) -> String {
    let given = |text: &Option<String>| known(text.as_deref().unwrap_or_default());
    let mut rows = vec![
        ("Name", state.name.clone()),
        ("State", known(&state.serving)),
        ("Address", given(&state.address)),
        ("Image", state.image.clone()),
        ("Image in use", given(&state.image_in_use)),
        ("Poll", state.poll_minutes.map_or("off".into(), |minutes| format!("every {minutes}m"))),
        ("Last unpacked", state.last_unpacked.clone().unwrap_or_else(|| "never".into())),
    ];
    if !state.is_done() {
        rows.push(("Complaint", state.problem()));
    }
    lines(&rows, 15)
}

fn source_text(state: &CatalogState) -> String {
    let given = |text: &Option<String>| known(text.as_deref().unwrap_or_default());
    let mut rows = vec![
        ("Name", format!("{}/{}", state.namespace, state.name)),
        ("Display name", known(&state.display_name)),
        ("Publisher", known(&state.publisher)),
        ("State", known(&state.state)),
        ("Address", given(&state.address)),
        ("Image", known(&state.image)),
        ("Image in use", given(&state.image_in_use)),
        ("Poll", state.poll_interval.as_ref().map_or("off".into(), |interval| format!("every {interval}"))),
        ("Last poll", state.last_poll.clone().unwrap_or_else(|| "never".into())),
    ];
    rows.retain(|(name, value)| !matches!(*name, "Display name" | "Publisher") || value != "unknown");
    if state.image.is_empty() {
        rows.retain(|(name, _)| !matches!(*name, "Image" | "Image in use" | "Poll" | "Last poll"));
    }
    if let Some(reason) = &state.reason {
        rows.push(("Complaint", reason.clone()));
    }
    if let Some(message) = &state.message {
        rows.push(("", message.clone()));
    }
    if let Some(packages) = &state.packages {
        rows.push(("Packages", format!("{}: {}", packages.len(), packages.join(" "))));
    }
    if let Some(error) = &state.packages_error {
        rows.push(("Packages", format!("unknown: {error}")));
    }
    let mut text = lines(&rows, 14);
    if !state.pods().is_empty() {
        let row = |pod: &cluster::PodState| {
            let role = if pod.role == PodRole::Serving { "serving" } else { "update" };
            let how = pod.why_not.clone().unwrap_or_else(|| "ready".into());
            vec![pod.name.clone(), role.to_owned(), how]
        };
        text += "\n";
        text += &Table::new(&["POD", "ROLE", "STATE"], state.pods().iter().map(row)).text();
    } else if !state.image.is_empty() && state.state != "READY" {
        text += &format!("\nNo pods: {}\n", state.problem());
    }
    text
}

fn list(args: &ListArgs, printer: &mut Printer) -> CommandResult {
    refuse_namespace(args.olm, args.cluster.namespace.as_ref())?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let all = cluster::list_catalogs(&cluster, args.olm, args.all_namespaces).await.map_err(failure)?;
        if args.output == CatalogOutput::Json {
            return Ok(printer.json(&all)?);
        }
        let text = match &all {
            CatalogList::Both(all) => {
                let headings = ["KIND", "NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY NAME"];
                Table::new(&headings, all.iter().map(any_row)).text()
            }
            CatalogList::Sources(all) => {
                Table::new(&["NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY NAME"], all.iter().map(row)).text()
            }
            CatalogList::Clusters(all) => {
                let row = |state: &ClusterCatalogState| {
                    vec![state.name.clone(), known(&state.serving), state.priority.to_string(), state.image.clone()]
                };
                Table::new(&["NAME", "STATE", "PRIORITY", "FROM"], all.iter().map(row)).text()
            }
        };
        Ok(printer.data().write_all(text.as_bytes())?)
    })
}

fn row(state: &CatalogState) -> Vec<String> {
    let from = if state.image.is_empty() { state.address.clone() } else { Some(state.image.clone()) };
    let (namespace, name) = (state.namespace.clone(), state.name.clone());
    vec![namespace, name, known(&state.state), from.unwrap_or_default(), state.display_name.clone()]
}

/// Returns the row of a catalog in a list of all kinds.
fn any_row(catalog: &ListedCatalog) -> Vec<String> {
    let (kind, cells) = match catalog {
        ListedCatalog::Source(OfKind { state, kind }) => (kind, row(state)),
        ListedCatalog::Cluster(OfKind { state, kind }) => {
            let (name, image) = (state.name.clone(), state.image.clone());
            (kind, vec![String::new(), name, known(&state.serving), image, String::new()])
        }
    };
    [vec![(*kind).to_owned()], cells].concat()
}

fn delete(args: &DeleteArgs, printer: &Printer) -> CommandResult {
    refuse_namespace(Some(args.olm), args.cluster.namespace.as_ref())?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let deleted = cluster::delete_catalog(&cluster, args.olm, &args.name, args.ignore_not_found).await;
        if deleted.map_err(failure)? {
            printer.report(&format!("{} deleted", shown(args.olm, &cluster, &args.name)));
        }
        Ok(())
    })
}
