//! `opm template`: converts between templates and catalogs.

use clap::Subcommand;

use super::{convert_template, render_template};
use crate::exit::CommandResult;
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Render templates as catalogs, and convert catalogs to templates
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        opm template render semver.yaml -o yaml > catalog/catalog.yaml\n  \
        opm template convert basic catalog.yaml -o yaml > template.yaml"
)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Subcommand)]
enum TemplateCommand {
    Render(Box<render_template::TemplateArgs>),
    Convert(convert_template::ConvertArgs),
}

pub(crate) fn run(args: &TemplateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        TemplateCommand::Render(args) => render_template::run(args, tls, printer),
        TemplateCommand::Convert(args) => convert_template::run(args, printer),
    }
}
