//! The `opm` command.
//!
//! `cli` defines the command line, `commands` has a file for each command, `source` loads the
//! catalogs that the user names, `printer`, `report` and `progress` write to the terminal, and
//! `exit` sets the exit code. Nothing else prints.

// Without a feature some items have no caller, since its commands are missing.
#![cfg_attr(not(all(feature = "cluster", feature = "sqlite")), allow(dead_code))]

#[cfg(all(feature = "cluster", feature = "sqlite"))]
mod app_registry;
mod bundle_rules;
mod bundles;
mod catalog_bundles;
mod checks_file;
mod choice;
mod cli;
#[cfg(feature = "cluster")]
mod cluster_flags;
mod commands;
mod compared;
mod console;
mod container;
#[cfg_attr(not(feature = "sqlite"), path = "database/absent.rs")]
mod database;
mod dropped_fields;
mod exit;
mod fetch;
mod findings;
mod followed;
mod github;
mod help;
mod images;
mod interrupt;
mod limits;
#[cfg(feature = "cluster")]
mod live;
mod log;
mod panic;
mod personality;
mod printer;
mod progress;
mod registry_settings;
mod report;
mod runtime;
mod sarif;
mod seed_layout;
mod source;
mod suggest;
mod table;
mod transfer;
mod tree;

use std::process::ExitCode;

/// The stack size of worker threads. Values nest up to [`fbc::limits::MAX_DEPTH`] levels, and recursion over them uses
/// the stack.
pub(crate) const STACK_SIZE: usize = 16 << 20;

/// Runs the command that the process arguments name and returns the exit code.
pub fn main() -> ExitCode {
    panic::prepare();
    interrupt::start();
    let mut printer = printer::Printer::new();
    let threads = rayon::ThreadPoolBuilder::new().stack_size(STACK_SIZE).build_global();
    let outcome = match threads {
        Ok(()) => personality::run(&mut printer),
        Err(error) => Err(exit::Failure::message(format!("starting threads: {error}"))),
    };
    interrupt::clean_up();
    exit::end(outcome, &mut printer)
}
