//! Pulling and pushing, against a real registry and one that fails.

mod faults;
mod kit;
mod real;
mod settings;
mod tokens;
