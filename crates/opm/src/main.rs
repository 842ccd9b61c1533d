//! Starts the program. It is a library, so that `cargo xtask dist` can link for speed what it compiles for size.

fn main() -> std::process::ExitCode {
    opm::main()
}
