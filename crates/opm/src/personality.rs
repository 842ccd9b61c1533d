//! One binary with several names: the name decides which program it is.

use std::ffi::{OsStr, OsString};
use std::path::Path;

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
    /// Whether every failure has exit code 1, as in the existing program of that name.
    recorded: bool,
}

impl Personality {
    fn run(&self, arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
        let outcome = (self.run)(arguments, printer);
        if self.recorded { exit::recorded(outcome) } else { outcome }
    }
}

/// The programs by name; any other name means `opm`.
const PERSONALITIES: &[Personality] = &[
    Personality { name: "opm", run: cli::run, recorded: false },
    Personality { name: "grpc_health_probe", run: health_probe::run, recorded: true },
    Personality { name: "appregistry-server", run: appregistry_server::run, recorded: true },
    Personality { name: "operator-registry", run: operator_registry::run, recorded: true },
    Personality { name: "initializer", run: operator_registry::initialize, recorded: true },
    Personality { name: "registry-server", run: registry_server::run, recorded: true },
    Personality { name: "configmap-server", run: config_map::serve, recorded: true },
    Personality { name: "operator-sdk", run: operator_sdk::run, recorded: true },
    Personality { name: "oc-mirror", run: mirror::oc_mirror::run, recorded: true },
];

/// Returns the names besides `opm`.
pub(crate) fn other_names() -> impl Iterator<Item = &'static str> {
    PERSONALITIES.iter().map(|one| one.name).filter(|name| *name != "opm")
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
