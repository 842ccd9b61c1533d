//! `opm alpha bundle` and `opm bundle`: create, check and unpack bundles.

mod build;
pub(crate) mod extract;
mod generate;
mod suites;
mod unpack;
mod validate;

use bundle::Optional;
use clap::Subcommand;
use clap::builder::TypedValueParser;

use crate::choice::choice;
use crate::exit::CommandResult;
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
    Extract(extract::ExtractArgs),
}

pub(crate) fn run_alpha(args: &AlphaBundleArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        AlphaBundleCommand::Generate(args) => generate::run(args, printer),
        AlphaBundleCommand::Build(args) => build::run(args, tls, printer),
        AlphaBundleCommand::Validate(args) => validate::run_alpha(args, tls, printer),
        AlphaBundleCommand::Unpack(args) => unpack::run(args, tls, printer),
        AlphaBundleCommand::Extract(args) => extract::run(args, printer),
    }
}

pub(crate) fn run(args: &BundleArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        BundleCommand::Generate(args) => generate::run(args, printer),
        BundleCommand::Build(args) => build::run(args, tls, printer),
        BundleCommand::Validate(args) => validate::run(args, tls, printer),
        BundleCommand::Unpack(args) => unpack::run(args, tls, printer),
        BundleCommand::Extract(args) => extract::run(args, printer),
    }
}

/// Parses the name of an optional check.
fn optional() -> impl TypedValueParser<Value = Optional> {
    choice([("operatorhub", Optional::OperatorHub), ("bundle-objects", Optional::BundleObjects)])
}
