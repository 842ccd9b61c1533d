//! Runs every check that a change must pass.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::background::Background;
use crate::memory::Memory;
use crate::workspace::{self, Workspace, cargo, is_installed};
use crate::{browser, dependencies, kube, tidy, tools};

/// A check.
enum Check {
    /// Runs cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Compiles the tests with clippy as the compiler.
    Build,
    /// Waits for the servers and programs of the tests, whose installation starts with the first check.
    Parts,
    /// Runs the tests. They wait more than they compute, so the other lints run in parallel.
    Tests,
    /// Runs `cargo xtask dependencies`, whose programs are compiled in the background from the start.
    Dependencies,
    /// Runs `cargo xtask tidy`.
    Tidy,
}

const CHECKS: &[(&str, Check)] = &[
    ("fmt", Check::Cargo(&["fmt", "--all", "--check"])),
    ("build of the tests, with clippy", Check::Build),
    ("parts for tests", Check::Parts),
    ("tests and other lints", Check::Tests),
    ("dependencies", Check::Dependencies),
    ("tidy", Check::Tidy),
];

/// Runs the checks in order and stops at the first failure.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "ci takes no options");
    let start = Instant::now();
    // Downloads wait for the network, and building an API server takes minutes, once per machine. The first checks need
    // neither.
    let mut parts = Some(std::thread::spawn(install_parts));
    let mut checkers = Background::start(Duration::ZERO, dependencies::install_commands(workspace)?);
    for (name, check) in CHECKS {
        println!("== {name}");
        let start = Instant::now();
        check
            .run(workspace, &mut parts, &mut checkers)
            .with_context(|| format!("{name} after {:.1} s", start.elapsed().as_secs_f64()))?;
        println!("== {name}: passed in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("== all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

impl Check {
    fn run(
        &self,
        workspace: &Workspace,
        parts: &mut Option<JoinHandle<Result<()>>>,
        checkers: &mut Background,
    ) -> Result<()> {
        let cargo = |arguments: &[&str]| workspace::run(cargo().current_dir(&workspace.root).args(arguments));
        match self {
            Check::Cargo(arguments) => cargo(arguments)?,
            Check::Parts => {
                let installed = parts.take().map(JoinHandle::join);
                installed.transpose().map_err(|_| anyhow!("the installation panicked"))?.transpose()?;
            }
            Check::Build => workspace::run(linted(workspace).args(runner()).arg("--no-run"))?,
            Check::Tests => {
                let mut lints = Background::start(LOCKED, lints(workspace));
                tests(workspace)?;
                lints.end()?;
            }
            Check::Dependencies => {
                checkers.end()?;
                dependencies::run(workspace, &[])?;
            }
            Check::Tidy => tidy::run(workspace, &[])?,
        }
        Ok(())
    }
}

/// Installs the programs of the tests: registries, a browser, an API server.
fn install_parts() -> Result<()> {
    tools::ensure_tests()?;
    browser::ensure_installed()?;
    kube::ensure().map(drop)
}

/// Returns cargo with clippy as the compiler of the workspace: one compilation gives lints and programs. It optimizes
/// nothing before LLVM does, which changes the speed of programs, but not what they do.
fn linted(workspace: &Workspace) -> Command {
    let mut command = cargo();
    command.current_dir(&workspace.root).env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // `cargo clippy` passes the arguments after `--` in this form.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// The delay before the lints start: cargo holds its lock while it compiles, and the test runner needs it first.
const LOCKED: Duration = Duration::from_secs(30);

/// Returns the lints of what the tests do not compile, in parallel with the tests: the program without its default
/// features. With the other crates and `--no-run`, only crates with features are compiled again, and no program of the
/// tests is replaced.
fn lints(workspace: &Workspace) -> Vec<Command> {
    let mut lean = linted(workspace);
    lean.args(["test", "--quiet", "--no-run", "--workspace", "--exclude", "fuzz", "--bins"]);
    lean.arg("--no-default-features");
    vec![lean]
}

/// The program whose test checks the generated files.
const GENERATOR: &str = "xtask/generate";

/// Returns the cargo arguments that run the tests.
fn runner() -> &'static [&'static str] {
    if has_command("nextest") {
        &[
            "nextest",
            "run",
            "--workspace",
            "--features",
            GENERATOR,
            "--all-targets",
            "--status-level",
            "fail",
            "--show-progress",
            "none",
        ]
    } else {
        &["test", "--quiet", "--workspace", "--features", GENERATOR, "--all-targets"]
    }
}

/// Runs the tests and lists skipped ones; the test runner lists slow ones. A test whose requirements are missing fails or reports that it is skipped.
fn tests(workspace: &Workspace) -> Result<()> {
    let notes = workspace.root.join("target/skipped-tests");
    // The file does not exist after a run without skipped tests.
    let _ = std::fs::remove_file(&notes);
    let mut command = linted(workspace);
    command.args(runner()).env("CI", "true").env("OPM_TEST_SKIPPED", &notes);
    // Tests create and delete hundreds of thousands of files.
    let memory = Memory::new();
    if let Some(memory) = &memory {
        command.env("TMPDIR", memory.path());
    }
    workspace::run(&mut command)?;
    for line in std::fs::read_to_string(&notes).unwrap_or_default().lines() {
        println!("skipped: {line}");
    }
    Ok(())
}

fn has_command(name: &str) -> bool {
    is_installed(Command::new(format!("cargo-{name}")).arg(name))
}
