//! What `run bundle` and `run bundle-upgrade` do, for both generations of OLM.

use serde_json::Value;

use super::bundle::{self, BundlePlan};
use super::report::RunReport;
use super::upgrade::{self, UpgradePlan};
use crate::Error;
use crate::context::WorkContext;
use crate::extension::{self, ExtensionPlan, ExtensionUpgradePlan};
use crate::ledger::Ledger;

/// What a run changes on a cluster.
#[derive(Debug, Clone)]
pub enum RunPlan {
    /// OLM v0 installs a bundle.
    Bundle(Box<BundlePlan>),
    /// OLM v0 upgrades an operator.
    Upgrade(Box<UpgradePlan>),
    /// OLM v1 installs a bundle.
    Extension(Box<ExtensionPlan>),
    /// OLM v1 upgrades an operator.
    ExtensionUpgrade(Box<ExtensionUpgradePlan>),
}

impl RunPlan {
    /// Returns the objects to create or change, in order.
    pub fn objects(&self) -> Vec<Value> {
        match self {
            RunPlan::Bundle(plan) => plan.objects(),
            RunPlan::Upgrade(plan) => plan.objects(),
            RunPlan::Extension(plan) => plan.objects(),
            RunPlan::ExtensionUpgrade(plan) => plan.objects(),
        }
    }

    /// Installs or upgrades the operator, and waits until that is done. The ledger records all changes that can be
    /// rolled back, whatever the outcome.
    ///
    /// # Errors
    /// Fails if an object cannot be created or changed, or the operator does not run before the deadline, with the cause.
    pub async fn carry_out(&self, context: &WorkContext<'_>, ledger: &Ledger) -> Result<RunReport, Error> {
        match self {
            RunPlan::Bundle(plan) => bundle::run(context, plan, ledger).await,
            RunPlan::Upgrade(plan) => upgrade::upgrade(context, plan, ledger).await,
            RunPlan::Extension(plan) => extension::install(context, plan, ledger).await,
            RunPlan::ExtensionUpgrade(plan) => extension::upgrade(context, plan, ledger).await,
        }
    }
}
