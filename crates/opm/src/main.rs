//! The `opm` command.

fn main() {}
