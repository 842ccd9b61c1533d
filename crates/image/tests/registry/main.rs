//! Pulling and pushing, against a real registry and one that fails.

mod copies;
mod explanations;
mod faults;
mod helpers;
mod kit;
mod origins;
mod policies;
mod real;
mod settings;
mod signatures;
mod signed;
mod stores;
mod swapped;
mod tokens;
