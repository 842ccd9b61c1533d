//! Whole commands that work on a cluster, with a real API server.

#[allow(dead_code, reason = "shared with tests of other commands")]
#[path = "../cli/env.rs"]
mod env;
mod kit;
mod late;
#[allow(dead_code, reason = "shared with tests of mirrors")]
#[path = "../mirror/kit.rs"]
mod mirror_kit;
mod node;
#[allow(dead_code, reason = "shared with tests of mirrors")]
#[path = "../mirror/proxy.rs"]
mod proxy;

mod app_registry;
mod catalog;
mod cluster_catalogs;
mod config_map;
mod controller;
mod controller_faults;
mod controller_strain;
mod extract;
mod mirror;
mod rehearse;
mod run_bundle;
