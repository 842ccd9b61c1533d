//! Whole commands with the real OLM: its own programs on a real API server, and a stand-in for a node.

#[allow(dead_code, reason = "shared with tests of other commands")]
#[path = "../cli/env.rs"]
mod env;
mod operator;
mod stage;

mod resolver;
mod run_bundle;
mod two_runs;
