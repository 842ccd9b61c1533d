//! What clusters would install or upgrade, and why.

mod build;
pub mod input;
pub mod pool;
pub mod resolver;
pub mod rule;
mod search;
#[cfg(test)]
mod tests;
pub mod words;
