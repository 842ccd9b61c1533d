//! Whole commands that work on a cluster, with a real API server.

#[allow(dead_code, reason = "shared with tests of other commands")]
#[path = "../cli/env.rs"]
mod env;
mod kit;

mod app_registry;
mod config_map;
mod extract;
