//! Calls the library. The code is a library so that `cargo xtask dist` can compile it for size and link it for speed.

fn main() -> std::process::ExitCode {
    opm::main()
}
