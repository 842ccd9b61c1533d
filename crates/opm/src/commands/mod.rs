//! One file per command: its arguments, and a `run` function that connects them to the libraries.

pub(crate) mod add;
pub(crate) mod appregistry_server;
pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod check_upgrades;
pub(crate) mod cleanup;
pub(crate) mod complete;
pub(crate) mod completion;
mod composite;
pub(crate) mod config_map;
pub(crate) mod controller;
pub(crate) mod convert_template;
pub(crate) mod copy;
pub(crate) mod crd_diff;
pub(crate) mod diff;
pub(crate) mod edit;
mod editor_schema;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod health_probe;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod mirror;
pub(crate) mod offline;
pub(crate) mod operator_registry;
pub(crate) mod operator_sdk;
pub(crate) mod preview;
pub(crate) mod reference;
pub(crate) mod registry;
pub(crate) mod registry_server;
pub(crate) mod rehearse;
pub(crate) mod render;
pub(crate) mod render_template;
pub(crate) mod resolve;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod security;
pub(crate) mod serve;
pub(crate) mod site;
pub(crate) mod template;
pub(crate) mod unpack;
pub(crate) mod upgrade_path;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod why;

use std::fs::File;
use std::io::{self, Read};

use clap::builder::TypedValueParser;
use fbc::{Format, Limits};

use crate::choice::choice;

/// Reads a file, or standard input for `-`.
pub(crate) fn read_input(file: &str, limits: &Limits) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let input: Box<dyn Read> = if file == "-" { Box::new(io::stdin()) } else { Box::new(File::open(file)?) };
    input.take(limits.file_size.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > limits.file_size {
        return Err(io::Error::other(format!("larger than the limit of {} bytes", limits.file_size)));
    }
    Ok(text)
}

/// Returns the 1-based line number of a byte offset.
pub(crate) fn line_of(text: &[u8], offset: usize) -> usize {
    text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Parses the value of `--output` for commands that print blobs.
pub(crate) fn blob_format() -> impl TypedValueParser<Value = Format> {
    choice([("json", Format::Json), ("yaml", Format::Yaml)])
}

/// The migrations to apply to bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrateLevel {
    /// None: bundles stay unchanged.
    None,
    /// `olm.bundle.object` properties become `olm.csv.metadata`.
    CsvMetadata,
}

/// Parses the value of `--migrate-level`.
pub(crate) fn migrate_level() -> impl TypedValueParser<Value = MigrateLevel> {
    choice([
        ("none", MigrateLevel::None),
        ("bundle-object-to-csv-metadata", MigrateLevel::CsvMetadata),
        ("all", MigrateLevel::CsvMetadata),
    ])
}
