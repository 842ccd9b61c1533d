//! Whole commands with the real OLM: its own programs on a real API server, and an emulated node.

mod dice;
#[allow(dead_code, reason = "shared with tests of other commands")]
#[path = "../cli/env.rs"]
mod env;
#[allow(dead_code, reason = "shared with tests of mirrors")]
#[path = "../mirror/kit.rs"]
mod mirror_kit;
mod operator;
#[allow(dead_code, reason = "shared with tests of mirrors")]
#[path = "../mirror/proxy.rs"]
mod proxy;
mod stage;
mod stage_v1;

mod catalogd;
mod cluster_catalog;
mod crd_cases;
mod crd_verdicts;
mod extension;
mod mirror;
mod mirror_objects;
mod packages;
mod resolver;
mod resolver_v1;
mod run_bundle;
mod run_bundle_v1;
mod two_runs;
