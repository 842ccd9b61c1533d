//! Selection of OLM v0 or v1, and the flags that only one of them supports.

use clap::builder::TypedValueParser;
use cluster::{WorkContext, extension};

use super::session::RunSession;
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};

/// The generation of OLM to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OlmChoice {
    V0,
    V1,
    /// The generation installed on the cluster.
    Auto,
}

pub(crate) fn olm() -> impl TypedValueParser<Value = OlmChoice> {
    choice([("v0", OlmChoice::V0), ("v1", OlmChoice::V1), ("auto", OlmChoice::Auto)])
}

impl OlmChoice {
    /// Returns whether to use OLM v1; for `auto`, queries the cluster.
    pub(crate) fn is_v1(self, session: &RunSession, context: Option<&WorkContext<'_>>) -> Result<bool, Failure> {
        let context = match (self, context) {
            (OlmChoice::V0, _) => return Ok(false),
            (OlmChoice::V1, _) => return Ok(true),
            (OlmChoice::Auto, None) => return Err(Failure::usage("--olm auto requires a cluster: use v0 or v1")),
            (OlmChoice::Auto, Some(context)) => context,
        };
        let there = session.ask(extension::generations(context))?;
        match (there.v0, there.v1) {
            (true, true) => Err(Failure::message("this cluster has OLM v0 and OLM v1: add --olm v0 or --olm v1")),
            (false, false) => Err(Failure::message("this cluster has neither OLM v0 nor OLM v1")),
            (_, v1) => Ok(v1),
        }
    }
}

/// The permissions of the installer account of OLM v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Installer {
    Derived,
    Admin,
}

fn installer() -> impl TypedValueParser<Value = Installer> {
    choice([("derived", Installer::Derived), ("cluster-admin", Installer::Admin)])
}

/// Flags of `run bundle` and `run bundle-upgrade` for OLM v1.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "OLM v1")]
pub(super) struct ExtensionFlags {
    /// Install without the dependencies of the bundle, which OLM v1 does not support
    #[arg(long)]
    pub(super) ignore_dependencies: bool,
    /// Install despite CRD changes that OLM v1 considers unsafe
    #[arg(long)]
    pub(super) ignore_crd_safety: bool,
}

/// Flags of `run bundle` for OLM v1.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "OLM v1")]
pub(super) struct InstallFlags {
    /// Name of the ClusterExtension; defaults to the package
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Create the namespace if it does not exist
    #[arg(long)]
    pub(super) create_namespace: bool,
    /// Permissions of the installer account, if OLM v1 requires one: those that the bundle needs, or all; defaults to
    /// derived
    #[arg(long, value_name = "RIGHTS", value_parser = installer())]
    pub(super) installer: Option<Installer>,
    /// Adopt existing CRDs; uninstalling the operator then deletes them
    #[arg(long)]
    pub(super) adopt_crds: bool,
}

fn refuse(flags: &[(&str, bool)], olm: &str) -> CommandResult {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(format!("{flag} requires --olm {olm}"))),
        None => Ok(()),
    }
}

impl ExtensionFlags {
    /// Refuses flags that OLM v0 does not support.
    pub(super) fn refuse_for_v0(&self) -> CommandResult {
        let given =
            [("--ignore-dependencies", self.ignore_dependencies), ("--ignore-crd-safety", self.ignore_crd_safety)];
        refuse(&given, "v1")
    }
}

impl InstallFlags {
    /// Refuses flags that OLM v0 does not support.
    pub(super) fn refuse_for_v0(&self) -> CommandResult {
        let given = [
            ("--name", self.name.is_some()),
            ("--create-namespace", self.create_namespace),
            ("--installer", self.installer.is_some()),
            ("--adopt-crds", self.adopt_crds),
        ];
        refuse(&given, "v1")
    }
}
