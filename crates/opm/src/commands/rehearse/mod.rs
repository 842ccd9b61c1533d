//! `opm rehearse`: the objects that OLM would create for a bundle, without a cluster.

mod flags;

use std::time::{Duration, Instant};

use bundle::Findings;
use bundle::rehearse::{OnCluster, Prediction, rehearse};
use cluster::WorkContext;
use fbc::yaml;
use source::catalog_bundles::{self, Pair, RehearsedBundle};
use source::{OpenedRehearsal, RehearseSourceError, open_rehearsal, write_objects};

use crate::cluster_flags::{block_on, failure};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::live::ClusterProgress;
use crate::printer::Printer;
use crate::reports::RehearseReport;
use crate::{findings, limits};
use flags::RehearsalOutput;

pub(crate) use flags::RehearseArgs;

/// The timeout of the whole comparison with a cluster.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &RehearseArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let request = args.request()?;
    let opened = open_rehearsal(&args.source(), &request, &images, &limits::from_env()?);
    let Pair { old, new } = match opened.map_err(source_failure)? {
        OpenedRehearsal::Pair(pair) => *pair,
        OpenedRehearsal::All(results) => return print_all(&results, args.output, printer),
    };
    let mut rehearsal = rehearse(&request, old.as_ref(), &new);
    if let (Some(refusal), Some(from)) = (&rehearsal.previous_refusal, &args.from) {
        printer.warning(&format!("OLM would not install {from}: {}", refusal.message));
    }
    if args.against_cluster {
        let on_cluster = compared(args, &rehearsal.prediction, printer)?;
        rehearsal.compare_with_cluster(&on_cluster, &new);
    }
    let prediction = &rehearsal.prediction;
    if let Some(how) = args.installer {
        let role = prediction.installer_role(how).map_err(Failure::fault)?;
        return Ok(printer.data().write_all(yaml::objects([&role]).as_bytes())?);
    }
    if let Some(directory) = &args.output_dir {
        let objects = prediction.accepted().map_err(Failure::fault)?;
        write_objects(objects, directory).map_err(source_failure)?;
        printer.report(&format!("wrote {} objects to {}", objects.len(), directory.display()));
    }
    match args.output {
        _ if args.output_dir.is_some() && args.output == RehearsalOutput::Text => {}
        RehearsalOutput::Yaml => {
            let objects = prediction.accepted().map_err(Failure::fault)?;
            printer.data().write_all(yaml::objects(objects).as_bytes())?;
        }
        RehearsalOutput::Text => printer.data().write_all(rehearsal.text().as_bytes())?,
        RehearsalOutput::Json => printer.json(&RehearseReport::Bundle(&rehearsal))?,
        RehearsalOutput::Findings(output) => {
            let passed = rehearsal.is_installable();
            findings::print(&Findings { passed, ..rehearsal.findings.clone() }, output, printer)?;
        }
    }
    if rehearsal.is_installable() { Ok(()) } else { Err(Failure::Reported) }
}

fn source_failure(error: RehearseSourceError) -> Failure {
    match error {
        RehearseSourceError::Source(error) => error.into(),
        error => Failure::fault(error),
    }
}

/// Compares a rehearsal with a cluster, without changing the cluster.
fn compared(args: &RehearseArgs, prediction: &Prediction, printer: &Printer) -> Result<Vec<OnCluster>, Failure> {
    let flags = args.cluster(&prediction.namespace);
    let mut all = Vec::new();
    block_on("", async {
        let cluster = flags.connect().await?;
        let live = ClusterProgress::new(printer, false);
        let deadline = Instant::now() + TIMEOUT;
        let context = WorkContext { cluster: &cluster, deadline, watcher: &live };
        let seen = cluster::compare_with_cluster(&context, &prediction.objects).await;
        all = seen.map_err(failure)?;
        Ok(())
    })?;
    Ok(all)
}

/// Prints which OLM installs each bundle of a catalog, or its first reason to refuse it.
fn print_all(results: &[RehearsedBundle], output: RehearsalOutput, printer: &mut Printer) -> CommandResult {
    match output {
        RehearsalOutput::Text => Ok(printer.data().write_all(catalog_bundles::text(results).as_bytes())?),
        RehearsalOutput::Json => Ok(printer.json(&RehearseReport::Catalog(results))?),
        _ => Err(Failure::usage("--all supports only the output formats text and json")),
    }
}
