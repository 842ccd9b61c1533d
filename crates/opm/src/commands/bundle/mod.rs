//! `opm alpha bundle` and `opm bundle`: create, check and unpack bundles.

mod build;
mod catalogs;
#[cfg(feature = "cluster")]
pub(crate) mod extract;
mod generate;
mod packed;
mod previous;
mod repository;
mod suites;
mod unpack;
mod validate;

use std::path::Path;

use bundle::{Findings, Optional};
use clap::Subcommand;
use clap::builder::TypedValueParser;
use fbc::Limits;

use crate::choice::choice;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Create, check and unpack bundles
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AlphaBundleArgs {
    #[command(subcommand)]
    command: AlphaBundleCommand,
}

#[derive(Subcommand)]
enum AlphaBundleCommand {
    Generate(generate::GenerateArgs),
    Build(Box<build::BuildArgs>),
    Validate(validate::AlphaValidateArgs),
    Unpack(unpack::UnpackArgs),
    #[cfg(feature = "cluster")]
    Extract(extract::ExtractArgs),
}

/// Create, check and unpack bundles
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Subcommand)]
enum BundleCommand {
    Generate(generate::GenerateArgs),
    Build(Box<build::BuildArgs>),
    Validate(validate::ValidateArgs),
    Unpack(unpack::UnpackArgs),
    #[cfg(feature = "cluster")]
    Extract(extract::ExtractArgs),
}

pub(crate) fn run_alpha(args: &AlphaBundleArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    match &args.command {
        AlphaBundleCommand::Generate(args) => generate::run(args, printer),
        AlphaBundleCommand::Build(args) => build::run(args, tls, printer),
        AlphaBundleCommand::Validate(args) => validate::run_alpha(args, tls, printer),
        AlphaBundleCommand::Unpack(args) => unpack::run(args, tls, printer),
        #[cfg(feature = "cluster")]
        AlphaBundleCommand::Extract(args) => extract::run(args, printer),
    }
}

pub(crate) fn run(args: &BundleArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    match &args.command {
        BundleCommand::Generate(args) => generate::run(args, printer),
        BundleCommand::Build(args) => build::run(args, tls, printer),
        BundleCommand::Validate(args) => validate::run(args, tls, printer),
        BundleCommand::Unpack(args) => unpack::run(args, tls, printer),
        #[cfg(feature = "cluster")]
        BundleCommand::Extract(args) => extract::run(args, printer),
    }
}

/// Checks the format and then the content of the bundle in `dir`. Returns the warnings.
fn check(dir: &Path, optional: &[Optional], limits: &Limits) -> Result<Vec<String>, Failure> {
    let wrong = |what: &str, found: &Findings| {
        let errors: Vec<&str> = found.errors().collect();
        Failure::message(format!("bundle {what} validation failed: Bundle validation errors: {}", errors.join(",")))
    };
    let found = bundle::check_format(dir, limits);
    if found.errors().next().is_some() {
        return Err(wrong("format", &found));
    }
    let found = bundle::check_content(dir, optional, limits);
    if found.errors().next().is_some() {
        return Err(wrong("content", &found));
    }
    Ok(found.warnings().map(str::to_owned).collect())
}

/// Parses the name of an optional check.
fn optional() -> impl TypedValueParser<Value = Optional> {
    choice([("operatorhub", Optional::OperatorHub), ("bundle-objects", Optional::BundleObjects)])
}
