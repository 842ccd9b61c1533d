//! Pulling and pushing, against a real registry and one that fails.

mod copies;
mod explanations;
mod faults;
mod helpers;
mod kit;
mod origins;
#[cfg(feature = "signatures")]
mod policies;
mod real;
mod settings;
#[cfg(feature = "signatures")]
mod signatures;
#[cfg(feature = "signatures")]
mod signed;
mod stores;
mod tokens;
