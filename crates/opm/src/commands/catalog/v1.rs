//! Catalogs of OLM v1: ClusterCatalogs.

use std::time::{Duration, Instant};

use cluster::{ClusterCatalogPlan, ClusterCatalogState};
use fbc::Format;

use super::{ApplyArgs, CatalogOutput, DeleteArgs, ListArgs, StatusArgs, print_object};
use crate::cluster_flags::{ClusterFlags, block_on, failure};
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::table;

/// Rejects a flag that a ClusterCatalog does not support.
fn refuse(flag: &str, given: bool, why: &str) -> Result<(), Failure> {
    if given { Err(Failure::usage(format!("{flag} cannot be used with --olm v1: {why}"))) } else { Ok(()) }
}

fn no_namespace(flags: &ClusterFlags) -> Result<(), Failure> {
    refuse("--namespace", flags.namespace.is_some(), "a ClusterCatalog has no namespace")
}

fn plan(args: &ApplyArgs) -> Result<ClusterCatalogPlan, Failure> {
    no_namespace(&args.cluster)?;
    let why = "a ClusterCatalog has no display fields";
    refuse("--display-name", args.display_name.is_some(), why)?;
    refuse("--publisher", args.publisher.is_some(), why)?;
    refuse("--secret", !args.secrets.is_empty(), "catalogd uses the pull secrets of its own service account")?;
    refuse("--extract-content", args.extract_content.is_some(), "catalogd reads every image itself")?;
    let poll_minutes = match args.poll.as_deref().and_then(fbc::spelling::duration::parse) {
        None => None,
        Some(poll) if poll.as_secs().is_multiple_of(60) && poll.subsec_nanos() == 0 => Some(poll.as_secs() / 60),
        Some(_) => return Err(Failure::usage("--poll must be in whole minutes with --olm v1, at least 1m")),
    };
    let plan = ClusterCatalogPlan {
        name: args.name.clone(),
        image: args.image.clone(),
        poll_minutes,
        priority: args.priority,
        unavailable: args.unavailable,
    };
    plan.check().map_err(Failure::fault)?;
    Ok(plan)
}

pub(super) fn apply(args: &ApplyArgs, printer: &mut Printer) -> CommandResult {
    let plan = plan(args)?;
    if args.dry_run {
        return print_object(&plan.object(), args.output.unwrap_or(Format::Yaml), printer);
    }
    let name = &args.name;
    block_on("the catalog may already have changed; check 'opm catalog status --olm v1'", async {
        let cluster = args.cluster.connect().await?;
        let now = Instant::now();
        let deadline = now.checked_add(args.timeout).unwrap_or(now + Duration::from_secs(365 * 86400));
        let mut object =
            cluster::apply_cluster_catalog(&cluster, &plan, args.force_conflicts, deadline).await.map_err(failure)?;
        match args.output {
            Some(format) => {
                object.metadata.managed_fields = None;
                let object = serde_json::to_value(&object).map_err(|error| Failure::message(error.to_string()))?;
                print_object(&object, format, printer)?;
            }
            None => printer.report(&format!("ClusterCatalog {name} applied")),
        }
        if args.wait {
            let waiting = cluster::wait_for_cluster_catalog(&cluster, name, args.timeout, deadline);
            let state = waiting.await.map_err(failure)?;
            printer.report(&match (state.available, state.image_in_use) {
                (true, Some(image)) => format!("ClusterCatalog {name} is served from {image}"),
                (true, None) => format!("ClusterCatalog {name} is served"),
                (false, _) => format!("ClusterCatalog {name} is no longer served"),
            });
        }
        Ok(())
    })
}

pub(super) fn status(args: &StatusArgs, printer: &mut Printer) -> CommandResult {
    no_namespace(&args.cluster)?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let state = cluster::cluster_catalog_state(&cluster, &args.name).await.map_err(failure)?;
        match args.output {
            CatalogOutput::Json => printer.json(&state)?,
            CatalogOutput::Table => printer.data().write_all(as_text(&state).as_bytes())?,
        }
        Ok(())
    })
}

pub(super) fn serving_state(state: &ClusterCatalogState) -> &str {
    if state.serving.is_empty() { "unknown" } else { &state.serving }
}

fn as_text(state: &ClusterCatalogState) -> String {
    let given = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let mut rows = vec![
        ("Name", state.name.clone()),
        ("State", serving_state(state).to_owned()),
        ("Address", given(&state.address)),
        ("Image", state.image.clone()),
        ("Image in use", given(&state.image_in_use)),
        ("Poll", state.poll_minutes.map_or("off".into(), |minutes| format!("every {minutes}m"))),
        ("Last unpacked", state.last_unpacked.clone().unwrap_or_else(|| "never".into())),
    ];
    if !state.is_done() {
        rows.push(("Complaint", state.problem()));
    }
    rows.iter().map(|(name, value)| format!("{name:15}{value}\n")).collect()
}

pub(super) fn list(args: &ListArgs, printer: &mut Printer) -> CommandResult {
    no_namespace(&args.cluster)?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        let states = cluster::list_cluster_catalogs(&cluster).await.map_err(failure)?;
        let text = match args.output {
            CatalogOutput::Json => return Ok(printer.json(&states)?),
            CatalogOutput::Table => {
                let row = |state: &ClusterCatalogState| {
                    vec![
                        state.name.clone(),
                        serving_state(state).to_owned(),
                        state.priority.to_string(),
                        state.image.clone(),
                    ]
                };
                table::text(&["NAME", "STATE", "PRIORITY", "FROM"], states.iter().map(row).collect())
            }
        };
        Ok(printer.data().write_all(text.as_bytes())?)
    })
}

pub(super) fn delete(args: &DeleteArgs, printer: &Printer) -> CommandResult {
    no_namespace(&args.cluster)?;
    block_on("", async {
        let cluster = args.cluster.connect().await?;
        match cluster::delete_cluster_catalog(&cluster, &args.name).await {
            Err(error) if error.is_missing() && args.ignore_not_found => Ok(()),
            Err(error) => Err(failure(error)),
            Ok(()) => {
                printer.report(&format!("ClusterCatalog {} deleted", args.name));
                Ok(())
            }
        }
    })
}
