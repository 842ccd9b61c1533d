//! Pulling and pushing, against a real registry and one that fails.

mod copies;
mod explanations;
mod faults;
mod helpers;
mod kit;
mod origins;
mod real;
mod settings;
mod stores;
mod tokens;
