//! One binary with several names: the name decides which program it is.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;

use crate::commands::operator_sdk;
use crate::commands::registry_server;
use crate::commands::{appregistry_server, config_map, operator_registry};
use crate::commands::{health_probe, mirror};
use crate::exit::CommandResult;
use crate::printer::Printer;
use crate::{cli, exit};

/// A program that the binary can act as.
struct Personality {
    /// The file name that selects it.
    name: &'static str,
    run: fn(Vec<OsString>, &mut Printer) -> CommandResult,
    /// Its arguments.
    usage: Usage,
    /// Whether every failure has exit code 1, as in the existing program of that name.
    recorded: bool,
}

/// How the arguments of a program are described.
pub(crate) enum Usage {
    Command(fn() -> Command),
    Text(&'static str),
}

impl Personality {
    fn run(&self, arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
        let outcome = (self.run)(arguments, printer);
        if self.recorded { exit::recorded(outcome) } else { outcome }
    }
}

/// The programs by name; any other name means `opm`.
const PERSONALITIES: &[Personality] = &[
    Personality { name: "opm", run: cli::run, usage: Usage::Command(cli::command), recorded: false },
    Personality {
        name: "grpc_health_probe",
        run: health_probe::run,
        usage: Usage::Text(health_probe::USAGE),
        recorded: true,
    },
    Personality {
        name: "appregistry-server",
        run: appregistry_server::run,
        usage: Usage::Command(appregistry_server::command),
        recorded: true,
    },
    Personality {
        name: "operator-registry",
        run: operator_registry::run,
        usage: Usage::Command(operator_registry::command),
        recorded: true,
    },
    Personality {
        name: "initializer",
        run: operator_registry::initialize,
        usage: Usage::Command(operator_registry::initializer),
        recorded: true,
    },
    Personality {
        name: "registry-server",
        run: registry_server::run,
        usage: Usage::Command(registry_server::command),
        recorded: true,
    },
    Personality {
        name: "configmap-server",
        run: config_map::serve,
        usage: Usage::Command(config_map::command),
        recorded: true,
    },
    Personality {
        name: "operator-sdk",
        run: operator_sdk::run,
        usage: Usage::Command(operator_sdk::command),
        recorded: true,
    },
    Personality {
        name: "oc-mirror",
        run: mirror::oc_mirror::run,
        usage: Usage::Command(mirror::oc_mirror::command),
        recorded: true,
    },
];

/// Returns the programs besides `opm`, with their arguments.
pub(crate) fn others() -> impl Iterator<Item = (&'static str, &'static Usage)> {
    PERSONALITIES.iter().map(|one| (one.name, &one.usage)).filter(|(name, _)| *name != "opm")
}

/// Runs the program that the first word of the command line selects.
pub(crate) fn run(printer: &mut Printer) -> CommandResult {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(|first| Path::new(first).file_stem().unwrap_or_default().to_owned());
    let find = |name: Option<&OsStr>| PERSONALITIES.iter().find(|one| name == Some(one.name.as_ref()));
    // Images without symlinks can run `opm grpc_health_probe`.
    if let Some(second) = find(arguments.get(1).map(OsString::as_os_str)).filter(|one| one.name != "opm") {
        return second.run(arguments.into_iter().skip(1).collect(), printer);
    }
    let personality = find(called.as_deref()).or(PERSONALITIES.first());
    match personality {
        Some(personality) => personality.run(arguments, printer),
        None => Err(exit::Failure::message("nothing to run")),
    }
}
