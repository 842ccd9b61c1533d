//! Whole commands: what is typed, and what comes out.

mod env;

mod add;
mod app_registry;
mod bad_input;
mod build;
mod bundle;
mod check_upgrades;
mod completion;
mod composite;
mod convert_template;
mod copy;
mod diff;
mod doctor;
mod edit;
mod generate;
mod graph;
mod init;
mod large_files;
mod list;
mod migrate;
mod package_files;
mod readme;
mod render;
mod render_template;
mod resolve;
mod schema;
mod serve;
mod sqlite;
mod strict;
mod unpack;
mod usage;
mod validate;
mod verify;
mod why;
mod workflow;
