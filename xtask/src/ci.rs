//! Runs every check that a change must pass.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use crate::background::Background;
use crate::memory::Memory;
use crate::workspace::{self, Workspace, cargo, is_installed};
use crate::{browser, dependencies, kube, tidy, tools};

/// A check.
enum Check {
    /// Runs cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Runs clippy.
    Clippy,
    /// Checks links and code in doc comments.
    Documentation,
    /// Compiles the tests.
    Build,
    /// Waits for the servers and programs of the tests, whose installation starts with the first check.
    Parts,
    /// Runs the tests.
    Tests,
    /// Runs `cargo xtask dependencies`, whose programs are compiled in the background from the start.
    Dependencies,
    /// Runs `cargo xtask tidy`.
    Tidy,
}

const CHECKS: &[(&str, Check)] = &[
    ("fmt", Check::Cargo(&["fmt", "--all", "--check"])),
    ("clippy", Check::Clippy),
    ("documentation", Check::Documentation),
    ("build of the tests", Check::Build),
    ("parts for tests", Check::Parts),
    ("tests", Check::Tests),
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
    let mut checkers = Background::start(dependencies::install_commands(workspace)?);
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
            Check::Clippy => {
                cargo(&[
                    "clippy",
                    "--quiet",
                    "--workspace",
                    "--all-targets",
                    "--features",
                    GENERATOR,
                    "--",
                    "--deny",
                    "warnings",
                ])?;
            }
            Check::Documentation => {
                let mut doc = workspace::cargo();
                doc.current_dir(&workspace.root).env("RUSTDOCFLAGS", "--deny warnings");
                workspace::run(doc.args(["doc", "--quiet", "--workspace", "--no-deps"]))?;
            }
            Check::Build => cargo(&[runner(), &["--no-run"]].concat())?,
            Check::Tests => tests(workspace)?,
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

/// Runs the tests and lists skipped ones; the test runner lists slow ones. A test whose requirements are missing fails
/// or reports that it is skipped.
fn tests(workspace: &Workspace) -> Result<()> {
    let notes = workspace.root.join("target/skipped-tests");
    // The file does not exist after a run without skipped tests.
    let _ = std::fs::remove_file(&notes);
    let mut command = cargo();
    command.current_dir(&workspace.root).args(runner()).env("CI", "true").env("OPM_TEST_SKIPPED", &notes);
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
