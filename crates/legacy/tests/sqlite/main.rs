//! Guarantees of database indexes.

mod adding;
mod harness;
mod migrations;
mod opening;
mod operations;
mod removing;
mod semver;
mod unchanged;
