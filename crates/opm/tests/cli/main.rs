//! Whole commands: what is typed, and what comes out.

mod env;

mod bad_input;
mod completion;
mod convert_template;
mod copy;
mod generate;
mod graph;
mod init;
mod list;
mod migrate;
mod readme;
mod render;
mod render_template;
mod sqlite;
mod usage;
mod validate;
