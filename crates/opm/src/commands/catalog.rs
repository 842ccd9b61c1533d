//! `opm catalog`: manages the catalogs of a cluster.

mod file;
mod v1;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Subcommand;
use clap::builder::TypedValueParser;
use cluster::{CatalogPlan, CatalogState, ListedCatalog, OfKind, PodRole};
use fbc::Format;
use serde_json::Value;
use source::{CONFIGS, data_only_catalog};

use super::blob_format;
use super::serve::duration;
use crate::choice::{InvalidValue, choice};
use crate::cluster_flags::{ClusterFlags, block_on, failure};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{interrupt, table};

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
#[derive(clap::Args, Clone)]
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
    olm: CatalogGeneration,
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
    olm: CatalogGeneration,
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
    olm: Option<CatalogGeneration>,
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
    olm: CatalogGeneration,
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

/// A generation of OLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogGeneration {
    V0,
    V1,
}

pub(crate) fn generation() -> impl TypedValueParser<Value = CatalogGeneration> {
    choice([("v0", CatalogGeneration::V0), ("v1", CatalogGeneration::V1)])
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
    if let CatalogCommand::Apply(args) = &args.command
        && let Some(path) = &args.file
    {
        return file::apply(args, path, printer);
    }
    match &args.command {
        CatalogCommand::Apply(args) if args.olm == CatalogGeneration::V1 => v1::apply(args, printer),
        CatalogCommand::Status(args) if args.olm == CatalogGeneration::V1 => v1::status(args, printer),
        CatalogCommand::List(args) if args.olm == Some(CatalogGeneration::V1) => v1::list(args, printer),
        CatalogCommand::Delete(args) if args.olm == CatalogGeneration::V1 => v1::delete(args, printer),
        CatalogCommand::Apply(args) if args.unavailable => Err(Failure::usage(format!(
            "--unavailable requires --olm v1: CatalogSource {} has no such mode",
            args.name
        ))),
        CatalogCommand::Apply(args) => {
            let extract_content = args.extract_content.clone().or_else(|| catalog_directory(&args.image, tls, printer));
            apply(&ApplyArgs { extract_content, ..(**args).clone() }, Value::Null, printer)
        }
        CatalogCommand::Status(args) => status(args, printer),
        CatalogCommand::List(args) => list(args, printer),
        CatalogCommand::Delete(args) => delete(args, printer),
    }
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

/// Applies a CatalogSource based on `base`.
fn apply(args: &ApplyArgs, base: Value, printer: &mut Printer) -> CommandResult {
    let plan = CatalogPlan {
        base,
        name: args.name.clone(),
        image: args.image.clone(),
        poll: args.poll.clone(),
        display_name: args.display_name.clone(),
        publisher: args.publisher.clone(),
        priority: args.priority,
        secrets: args.secrets.clone(),
        extract_content: args.extract_content.clone(),
    };
    block_on("the catalog may already have changed; check 'opm catalog status'", async {
        let cluster = args.cluster.connect().await;
        if args.dry_run {
            // A dry run needs the cluster only for the namespace of its context.
            let namespace = match cluster {
                Ok(cluster) => cluster.namespace,
                Err(_) => args.cluster.namespace.clone().unwrap_or_else(|| "default".into()),
            };
            return print_object(&plan.object(&namespace), args.output.unwrap_or(Format::Yaml), printer);
        }
        let cluster = cluster?;
        let now = Instant::now();
        let deadline = now.checked_add(args.timeout).unwrap_or(now + Duration::from_secs(365 * 86400));
        let object = cluster::apply_catalog(&cluster, &plan, args.force_conflicts, deadline).await.map_err(failure)?;
        match args.output {
            Some(format) => {
                let mut object = object;
                object.metadata.managed_fields = None;
                let object = serde_json::to_value(&object).map_err(|error| Failure::message(error.to_string()))?;
                print_object(&object, format, printer)?;
            }
            None => printer.report(&format!("catalog {}/{} applied", cluster.namespace, args.name)),
        }
        if args.wait {
            let state = cluster::wait_for_catalog(&cluster, &args.name, args.timeout, deadline);
            let state = state.await.map_err(failure)?;
            let image = state.image_in_use.map(|image| format!(" from {image}")).unwrap_or_default();
            printer.report(&format!("catalog {}/{} is served{image}", cluster.namespace, args.name));
        }
        Ok(())
    })
}

fn print_object(object: &Value, format: Format, printer: &mut Printer) -> CommandResult {
    let text = match format {
        Format::Json => format!("{object:#}\n").into_bytes(),
        Format::Yaml => yaml(object),
    };
    Ok(printer.data().write_all(&text)?)
}

/// Writes a document as YAML.
pub(crate) fn yaml(object: &Value) -> Vec<u8> {
    fbc::yaml::document(fbc::json::Text::from(object).raw()).into_bytes()
}

fn status(args: &StatusArgs, printer: &mut Printer) -> CommandResult {
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let mut state = cluster::catalog_state(&cluster, &args.name).await.map_err(failure)?;
        // The user may be allowed to read the catalog but not its packages.
        state.packages = cluster::packages_of(&cluster, &args.name).await.unwrap_or_default();
        match args.output {
            CatalogOutput::Json => printer.json(&state)?,
            CatalogOutput::Table => printer.data().write_all(as_text(&state).as_bytes())?,
        }
        Ok(())
    })
}

fn as_text(state: &CatalogState) -> String {
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
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
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:14}{value}\n")).collect();
    if !state.pods().is_empty() {
        let row = |pod: &cluster::PodState| {
            let role = if pod.role == PodRole::Serving { "serving" } else { "update" };
            let how = pod.why_not.clone().unwrap_or_else(|| "ready".into());
            vec![pod.name.clone(), role.to_owned(), how]
        };
        text += "\n";
        text += &table::text(&["POD", "ROLE", "STATE"], state.pods().iter().map(row).collect());
    } else if !state.image.is_empty() && state.state != "READY" {
        text += &format!("\nNo pods: {}\n", state.problem());
    }
    text
}

fn list(args: &ListArgs, printer: &mut Printer) -> CommandResult {
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let text = match (args.olm, args.output) {
            (None, output) => {
                let all = cluster::list_all_catalogs(&cluster, args.all_namespaces).await.map_err(failure)?;
                let headings = ["KIND", "NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY NAME"];
                match output {
                    CatalogOutput::Json => return Ok(printer.json(&all)?),
                    CatalogOutput::Table => table::text(&headings, all.iter().map(any_row).collect()),
                }
            }
            (Some(_), output) => {
                let states = cluster::list_catalogs(&cluster, args.all_namespaces).await.map_err(failure)?;
                let headings = ["NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY NAME"];
                match output {
                    CatalogOutput::Json => return Ok(printer.json(&states)?),
                    CatalogOutput::Table => table::text(&headings, states.iter().map(row).collect()),
                }
            }
        };
        Ok(printer.data().write_all(text.as_bytes())?)
    })
}

fn row(state: &CatalogState) -> Vec<String> {
    let from = if state.image.is_empty() { state.address.as_deref().unwrap_or_default() } else { &state.image };
    let shown = if state.state.is_empty() { "unknown" } else { &state.state };
    [&state.namespace, &state.name, shown, from, &state.display_name].map(str::to_owned).to_vec()
}

/// Returns the row of a catalog in a list of all kinds.
fn any_row(catalog: &ListedCatalog) -> Vec<String> {
    let (kind, cells) = match catalog {
        ListedCatalog::Source(OfKind { state, kind }) => (kind, row(state)),
        ListedCatalog::Cluster(OfKind { state, kind }) => {
            (kind, ["", &state.name, v1::serving_state(state), &state.image, ""].map(str::to_owned).to_vec())
        }
    };
    [vec![(*kind).to_owned()], cells].concat()
}

fn delete(args: &DeleteArgs, printer: &Printer) -> CommandResult {
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        match cluster::delete_catalog(&cluster, &args.name).await {
            Err(error) if error.is_missing() && args.ignore_not_found => Ok(()),
            Err(error) => Err(failure(error)),
            Ok(()) => {
                printer.report(&format!("catalog {}/{} deleted", cluster.namespace, args.name));
                Ok(())
            }
        }
    })
}
