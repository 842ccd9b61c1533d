//! The command line: commands, global flags and Go flag conventions.

use std::ffi::OsString;

use clap::builder::{TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{ArgAction, Args as _, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::choice::InvalidValue;
use crate::commands::{
    add, build, bundle, check_upgrades, complete, completion, convert_template, copy, crd_diff, diff, edit, explain,
    generate, graph, init, list, man, migrate, mirror, preview, reference, rehearse, render, render_template, resolve,
    schema, security, serve, site, template, unpack, upgrade_path, validate, verify, version, why,
};
use crate::commands::{catalog, cleanup, controller, run as run_commands};
use crate::commands::{index, registry};
use crate::exit::{self, CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::printer::Printer;
use crate::{help, suggest};

/// When this variable is true, help shows the alpha commands and flags.
const HELP_ALPHA: &str = "HELP_ALPHA";

#[derive(Parser)]
#[command(
    name = "opm",
    bin_name = "opm",
    version,
    about = "Author, check and package operator catalogs",
    long_about = "Author, check and package operator catalogs.\n\n\
        A catalog is a directory of JSON and YAML files. It lists the operators that the Operator Lifecycle Manager \
        can install, their versions and channels, and the upgrades between them.",
    after_help = "Run 'opm COMMAND --help' for flags and examples.\n\
        Set HELP_ALPHA=true to show the command names of older tools.",
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Opm {
    #[command(subcommand)]
    command: OpmCommand,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Subcommand)]
enum OpmCommand {
    Render(render::RenderArgs),
    Validate(validate::ValidateArgs),
    Serve(Box<serve::ServeArgs>),
    Init(init::InitArgs),
    List(list::ListArgs),
    Graph(graph::GraphArgs),
    Diff(diff::DiffArgs),
    Template(template::TemplateArgs),
    Generate(generate::GenerateArgs),
    Migrate(migrate::MigrateArgs),
    Build(build::BuildArgs),
    Unpack(unpack::UnpackArgs),
    Bundle(bundle::BundleArgs),
    Index(index::IndexArgs),
    Registry(registry::RegistryArgs),
    Copy(copy::CopyArgs),
    Mirror(Box<mirror::MirrorArgs>),
    Verify(verify::VerifyArgs),
    Edit(edit::EditArgs),
    CheckUpgrades(check_upgrades::CheckUpgradesArgs),
    Resolve(Box<resolve::ResolveArgs>),
    UpgradePath(upgrade_path::UpgradePathArgs),
    Why(why::WhyArgs),
    Schema(schema::SchemaArgs),
    Explain(explain::ExplainArgs),
    Rehearse(Box<rehearse::RehearseArgs>),
    CrdDiff(crd_diff::CrdDiffArgs),
    Security(security::SecurityArgs),
    Site(site::SiteArgs),
    Preview(preview::PreviewArgs),
    Catalog(catalog::CatalogArgs),
    Controller(Box<controller::ControllerArgs>),
    Run(Box<run_commands::RunArgs>),
    Cleanup(cleanup::CleanupArgs),
    Alpha(AlphaArgs),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
    #[command(name = "__reference")]
    Reference(reference::ReferenceArgs),
    #[command(name = "__complete")]
    Complete(complete::CompleteArgs),
    Version(version::VersionArgs),
}

/// Commands under the names that older tools use
#[derive(clap::Args)]
#[command(hide = true, subcommand_required = true, arg_required_else_help = true)]
struct AlphaArgs {
    #[command(subcommand)]
    command: AlphaCommand,
}

#[derive(Subcommand)]
enum AlphaCommand {
    List(list::AlphaListArgs),
    RenderGraph(graph::RenderGraphArgs),
    RenderTemplate(render_template::TemplateArgs),
    RenderVeneer(render_template::VeneerArgs),
    ConvertTemplate(convert_template::ConvertArgs),
    Diff(diff::AlphaDiffArgs),
    Generate(generate::AlphaGenerateArgs),
    Bundle(bundle::AlphaBundleArgs),
    Add(add::AddArgs),
}

/// The commands that existing tools have, too, by path. Their exit codes are recorded: 0, or 1 for every failure.
const RECORDED: [&str; 18] = [
    "alpha",
    "bundle validate",
    "cleanup",
    "generate",
    "index",
    "init",
    "migrate",
    "registry add",
    "registry deprecatetruncate",
    "registry prune",
    "registry prune-stranded",
    "registry rm",
    "registry serve",
    "render",
    "run",
    "serve",
    "unpack",
    "validate",
];

/// Parses the command line and runs the command.
pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let outcome = dispatch(arguments.clone(), printer);
    match outcome.is_err() && is_recorded(arguments) {
        true => exit::recorded(outcome),
        false => outcome,
    }
}

/// Returns whether a command line is one of a command that existing tools have, too.
fn is_recorded(arguments: Vec<OsString>) -> bool {
    let Ok(matches) = command().ignore_errors(true).try_get_matches_from(arguments) else { return false };
    let path: Vec<&str> = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand())
        .map(|(name, _)| name)
        .collect();
    (1..=path.len()).any(|length| RECORDED.contains(&path[..length].join(" ").as_str()))
}

fn dispatch(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    if let Some(topic) = help::topic(&arguments) {
        return Ok(printer.data().write_all(topic.as_bytes())?);
    }
    let Some(opm) = parse::<Opm>(command(), arguments, printer)? else { return Ok(()) };
    images::check_flags(&opm.tls, printer)?;
    match &opm.command {
        OpmCommand::Render(args) => render::run(args, &opm.tls, printer),
        OpmCommand::Validate(args) => validate::run(args, &opm.tls, printer),
        OpmCommand::Serve(args) => serve::run(args, &opm.tls, printer),
        OpmCommand::Init(args) => init::run(args, printer),
        OpmCommand::List(args) => list::run(args, &opm.tls, printer),
        OpmCommand::Graph(args) => graph::run(args, &opm.tls, printer),
        OpmCommand::Diff(args) => diff::run(args, &opm.tls, printer),
        OpmCommand::Template(args) => template::run(args, &opm.tls, printer),
        OpmCommand::Generate(args) => generate::run(args, printer),
        OpmCommand::Migrate(args) => migrate::run(args, &opm.tls, printer),
        OpmCommand::Build(args) => build::run(args, &opm.tls, printer),
        OpmCommand::Unpack(args) => unpack::run(args, &opm.tls, printer),
        OpmCommand::Bundle(args) => bundle::run(args, &opm.tls, printer),
        OpmCommand::Index(args) => index::run(args, &opm.tls, printer),
        OpmCommand::Registry(args) => registry::run(args, &opm.tls, printer),
        OpmCommand::Copy(args) => copy::run(args, &opm.tls, printer),
        OpmCommand::Mirror(args) => mirror::run(args, &opm.tls, printer),
        OpmCommand::Verify(args) => verify::run(args, &opm.tls, printer),
        OpmCommand::Edit(args) => edit::run(args, &opm.tls, printer),
        OpmCommand::CheckUpgrades(args) => check_upgrades::run(args, &opm.tls, printer),
        OpmCommand::Resolve(args) => resolve::run(args, &opm.tls, printer),
        OpmCommand::UpgradePath(args) => upgrade_path::run(args, &opm.tls, printer),
        OpmCommand::Why(args) => why::run(args, &opm.tls, printer),
        OpmCommand::Schema(args) => schema::run(args, printer),
        OpmCommand::Explain(args) => explain::run(args, printer),
        OpmCommand::Rehearse(args) => rehearse::run(args, &opm.tls, printer),
        OpmCommand::CrdDiff(args) => crd_diff::run(args, &opm.tls, printer),
        OpmCommand::Security(args) => security::run(args, &opm.tls, printer),
        OpmCommand::Site(args) => site::run(args, &opm.tls, printer),
        OpmCommand::Preview(args) => preview::run(args, printer),
        OpmCommand::Catalog(args) => catalog::run(args, &opm.tls, printer),
        OpmCommand::Controller(args) => controller::run(args, &opm.tls, printer),
        OpmCommand::Run(args) => run_commands::run(args, &opm.tls, printer),
        OpmCommand::Cleanup(args) => cleanup::run(args, printer),
        OpmCommand::Completion(args) => completion::run(args, printer),
        OpmCommand::Man(args) => man::run(args, printer),
        OpmCommand::Reference(args) => reference::run(args),
        OpmCommand::Complete(args) => complete::run(args, printer),
        OpmCommand::Version(args) => version::run(args, printer),
        OpmCommand::Alpha(alpha) => match &alpha.command {
            AlphaCommand::List(args) => list::run_alpha(args, &opm.tls, printer),
            AlphaCommand::RenderGraph(args) => graph::run_alpha(args, &opm.tls, printer),
            AlphaCommand::RenderTemplate(args) => render_template::run(args, &opm.tls, printer),
            AlphaCommand::RenderVeneer(args) => render_template::run_veneer(args, &opm.tls, printer),
            AlphaCommand::ConvertTemplate(args) => convert_template::run(args, printer),
            AlphaCommand::Diff(args) => diff::run_alpha(args, &opm.tls, printer),
            AlphaCommand::Generate(args) => generate::run_alpha(args, printer),
            AlphaCommand::Bundle(args) => bundle::run_alpha(args, &opm.tls, printer),
            AlphaCommand::Add(args) => add::run(args, &opm.tls, printer),
        },
    }
}

/// Parses a command line. Returns `None` after printing help.
pub(crate) fn parse<T: FromArgMatches>(
    command: Command,
    arguments: Vec<OsString>,
    printer: &mut Printer,
) -> Result<Option<T>, Failure> {
    let matches = match command.clone().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(mut error) if error.kind() == ErrorKind::InvalidSubcommand => {
            suggest::commands(&command, &arguments, &mut error);
            return Err(Failure::Arguments(error.render().ansi_if(printer.colour)));
        }
        // A command group without a subcommand prints its help and succeeds, as Go programs do.
        Err(error) if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Err(Failure::Arguments(error.render().ansi_if(printer.colour)));
        }
        Err(help) => {
            write!(printer.data(), "{}", help::printed(&help.render().to_string()))?;
            return Ok(None);
        }
    };
    T::from_arg_matches(&matches).map(Some).map_err(|error| Failure::Arguments(error.to_string()))
}

/// Returns the complete clap command.
pub(crate) fn command() -> Command {
    let mut command = help::keep_examples(mark_deprecated(go_conventions(Opm::command())));
    command = hide_registry_flags(command);
    if std::env::var(HELP_ALPHA).is_ok_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"))
    {
        command = show_alpha(command);
    }
    help::grouped(command)
}

/// Accepts switches in Go style: `--flag`, `--flag=true`, `--flag=false`.
pub(crate) fn go_conventions(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    // The last value of a repeated flag wins.
    let mut command = command.args_override_self(true).mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .value_name("true|false")
            .hide_default_value(true)
            .value_parser(ValueParser::new(clap::builder::StringValueParser::new().try_map(|text| parse_bool(&text)))),
        _ => arg,
    });
    for name in names {
        command = command.mut_subcommand(name, go_conventions);
    }
    command
}

/// Hides the registry flags in the help of commands that never contact a registry, which have no registry flag of their
/// own. These commands still accept the flags, as the Go tool does.
fn hide_registry_flags(mut command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| match contacts_registries(&sub) {
            true => hide_registry_flags(sub),
            false => without_registry_flags(sub),
        });
    }
    command
}

fn contacts_registries(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some("ca-file"))
        || command.get_subcommands().any(contacts_registries)
}

fn without_registry_flags(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    // A command's own flag overrides the global flag of the same name.
    let hidden = TlsFlags::augment_args(Command::new("")).mut_args(|arg| arg.hide(true));
    let mut command = command.args(go_conventions(hidden).get_arguments().cloned());
    for name in names {
        command = command.mut_subcommand(name, without_registry_flags);
    }
    command
}

/// The command groups for databases. All their commands are deprecated except the listed ones.
const DATABASE_COMMANDS: [(&str, &[&str]); 2] = [("index", &["inspect"]), ("registry", &["doctor"])];

/// Adds a deprecation notice to the help of the database commands.
fn mark_deprecated(mut command: Command) -> Command {
    for (name, current) in DATABASE_COMMANDS {
        command = command.mut_subcommand(name, |mut group| {
            let names: Vec<String> = group.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
            for name in names.into_iter().filter(|name| !current.contains(&name.as_str())) {
                group = group.mut_subcommand(name, |sub| {
                    let about = sub.get_about().map(|about| format!("{about} (deprecated)")).unwrap_or_default();
                    sub.before_help(DEPRECATED).about(about)
                });
            }
            group.before_help(DEPRECATED)
        });
    }
    command
}

const DEPRECATED: &str = "DEPRECATED: file-based catalogs replace database indexes; 'opm migrate' converts an index.";

/// Parses a boolean as Go's `strconv.ParseBool` does.
pub(crate) fn parse_bool(text: &str) -> Result<bool, InvalidValue> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// Unhides the alpha commands and flags.
fn show_alpha(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let mut command = command.mut_args(|arg| match arg.get_long() {
        Some(long) if long.starts_with("alpha-") => arg.hide(false),
        _ => arg,
    });
    for name in names {
        let alpha = name == "alpha";
        command = command.mut_subcommand(name, |sub| show_alpha(if alpha { sub.hide(false) } else { sub }));
    }
    command
}

pub(crate) trait Styled {
    fn ansi_if(&self, colour: bool) -> String;
}

impl Styled for clap::builder::StyledStr {
    fn ansi_if(&self, colour: bool) -> String {
        if colour { self.ansi().to_string() } else { self.to_string() }
    }
}

#[cfg(test)]
mod doc_lines;

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the flags that help lists as registry flags.
    fn registry_flags(command: &Command, found: &mut std::collections::BTreeSet<String>) {
        let listed =
            command.get_arguments().filter(|arg| arg.get_help_heading() == Some("Registries") && !arg.is_hide_set());
        found.extend(listed.filter_map(|arg| arg.get_long()).map(str::to_owned));
        command.get_subcommands().for_each(|sub| registry_flags(sub, found));
    }

    #[test]
    fn only_registry_flags_are_listed_as_such() {
        const KNOWN: [&str; 12] = [
            "ca-file",
            "enforce-policy",
            "image-cache",
            "jobs",
            "limit-rate",
            "offline",
            "platform",
            "progress",
            "root-ca",
            "skip-tls",
            "skip-tls-verify",
            "use-http",
        ];
        let mut found = std::collections::BTreeSet::new();
        registry_flags(&command(), &mut found);
        found.retain(|flag| !KNOWN.contains(&flag.as_str()));
        assert!(found.is_empty(), "{found:?}");
    }
}
