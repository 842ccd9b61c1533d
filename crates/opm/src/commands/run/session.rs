//! Work on a cluster that can be interrupted and rolled back.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::run::{RunPlan, RunReport};
use cluster::{Cluster, Ledger, WorkContext};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::cluster_flags::{ClusterFlags, failure};
use crate::exit::{CommandResult, Failure};
use crate::interrupt;
use crate::output::OutputFlag;
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};

/// How long to wait for the request in flight after an interrupt, before the rollback starts.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// A runtime with its signal listener.
pub(crate) struct RunSession {
    runtime: Runtime,
    signals: watch::Receiver<i32>,
    /// Whether the cluster can have objects to roll back.
    on_cluster: Arc<AtomicBool>,
}

/// The result of a run.
pub(super) enum RunOutcome {
    /// The objects that it would create or change.
    DryRun(Vec<Value>),
    Done(Box<RunReport>),
}

impl RunOutcome {
    /// Prints the objects of a dry run, or with `-o json` the report.
    pub(super) fn print(&self, output: OutputFlag, printer: &mut Printer) -> CommandResult {
        match self {
            RunOutcome::DryRun(objects) => printer.data().write_all(fbc::yaml::objects(objects).as_bytes())?,
            RunOutcome::Done(report) if output.is_json() => printer.json(report)?,
            // The text is what the run has shown.
            RunOutcome::Done(_) => {}
        }
        Ok(())
    }
}

impl RunSession {
    pub(crate) fn start() -> Result<RunSession, Failure> {
        // The session handles signals itself, from the start.
        interrupt::hand_over_signals();
        let runtime = runtime::start()?;
        let on_cluster = Arc::new(AtomicBool::new(false));
        let (sender, signals) = watch::channel(0);
        let there = Arc::clone(&on_cluster);
        runtime.block_on(async {
            let mut listening = EndSignals::listen()?;
            tokio::spawn(async move {
                loop {
                    let number = listening.next().await;
                    if !there.load(Ordering::SeqCst) {
                        interrupt::clean_up();
                        let _ = signal_hook::low_level::emulate_default_handler(number);
                    }
                    sender.send_replace(number);
                }
            });
            Ok::<(), std::io::Error>(())
        })?;
        Ok(RunSession { runtime, signals, on_cluster })
    }

    /// Creates a client for a cluster, without sending a request.
    pub(crate) fn connect(&self, flags: &ClusterFlags) -> Result<Cluster, Failure> {
        self.runtime.block_on(flags.connect())
    }

    /// Runs work that leaves nothing on the cluster when it is interrupted.
    pub(crate) fn ask<T>(&self, work: impl Future<Output = Result<T, cluster::Error>>) -> Result<T, Failure> {
        self.runtime.block_on(work).map_err(failure)
    }

    /// Carries out a plan, or returns its objects if there is no cluster to change. After a failure or signal, rolls back
    /// the created objects unless `keep` is set.
    pub(super) fn run(
        &mut self,
        plan: &RunPlan,
        to_change: Option<&WorkContext<'_>>,
        keep: bool,
    ) -> Result<RunOutcome, Failure> {
        let Some(context) = to_change else { return Ok(RunOutcome::DryRun(plan.objects())) };
        let report = self.work(context, keep, async |ledger| plan.carry_out(context, ledger).await)?;
        context.watcher.done(&report.to_string());
        Ok(RunOutcome::Done(Box::new(report)))
    }

    /// Runs work on a cluster, and rolls back what its ledger records if it fails.
    fn work<T>(
        &mut self,
        context: &WorkContext<'_>,
        keep: bool,
        work: impl AsyncFnOnce(&Ledger) -> Result<T, cluster::Error>,
    ) -> Result<T, Failure> {
        let ledger = &Ledger::default();
        self.on_cluster.store(true, Ordering::SeqCst);
        let signals = &mut self.signals;
        signals.mark_unchanged();
        let outcome = self.runtime.block_on(async {
            let mut work = pin!(work(ledger));
            let number = tokio::select! {
                outcome = &mut work => return outcome.map_err(|error| (None, error.to_string())),
                _ = signals.changed() => *signals.borrow_and_update(),
            };
            // The cluster executes the request in flight anyway; only its reply tells what to roll back.
            tokio::select! {
                _ = work => {}
                () = ledger.close() => {}
                () = tokio::time::sleep(IN_FLIGHT_TIMEOUT) => {}
                // A second signal also skips the rollback.
                _ = signals.changed() => signals.mark_changed(),
            }
            Err((Some(number), "interrupted".to_owned()))
        });
        let (number, error) = match outcome {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        let signals = &mut self.signals;
        let again = async { drop(signals.changed().await) };
        let after = self.runtime.block_on(ledger.after_failure(context.cluster, keep, &error, context.watcher, again));
        let text = format!("{error}{after}");
        Err(match number {
            Some(number) => Failure::Exit(runtime::exit_code(number), text),
            None => Failure::message(text),
        })
    }
}
