//! What users of database indexes can rely on.

mod adding;
mod harness;
mod migrations;
mod opening;
mod removing;
mod semver;
mod unchanged;
