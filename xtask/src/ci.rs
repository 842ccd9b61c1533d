//! Every check that a change must pass, in one command.

use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use crate::workspace::{self, Workspace, cargo, is_installed};
use crate::{browser, codegen, docs, kube, tidy, tools};

/// How many of the slowest tests are listed.
const LISTED: usize = 15;

/// One check.
enum Check {
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Compiling the tests.
    Build,
    /// That what the tests talk to is there; it is being installed since the start.
    Parts,
    /// The tests, by whatever runs them. They wait more than they work, so clippy works beside them.
    Tests,
    /// A task of this program, with its options.
    Task(fn(&Workspace, &[String]) -> Result<()>, &'static [&'static str]),
}

const CHECKS: &[(&str, Check)] = &[
    ("fmt", Check::Cargo(&["fmt", "--all", "--check"])),
    ("build of the tests", Check::Build),
    ("parts for tests", Check::Parts),
    ("tests, and clippy beside them", Check::Tests),
    ("tidy", Check::Task(tidy::run, &[])),
    ("docs --check", Check::Task(docs::run, &["--check"])),
    ("codegen --check", Check::Task(codegen::run, &["--check"])),
];

/// Runs the checks in order and stops at the first that fails.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "ci takes no options");
    let start = Instant::now();
    // Downloads wait for the network, and an API server takes minutes to build, once for a machine: the first checks
    // need neither.
    let mut parts = Some(std::thread::spawn(install_parts));
    for (name, check) in CHECKS {
        println!("== {name}");
        let start = Instant::now();
        check
            .run(workspace, &mut parts)
            .with_context(|| format!("{name} after {:.1} s", start.elapsed().as_secs_f64()))?;
        println!("== {name}: passed in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("== all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

impl Check {
    fn run(&self, workspace: &Workspace, parts: &mut Option<JoinHandle<Result<()>>>) -> Result<()> {
        let cargo = |arguments: &[&str]| workspace::run(cargo().current_dir(&workspace.root).args(arguments));
        match self {
            Check::Cargo(arguments) => cargo(arguments)?,
            Check::Parts => {
                let installed = parts.take().map(JoinHandle::join);
                installed.transpose().map_err(|_| anyhow!("installing them panicked"))?.transpose()?;
            }
            Check::Build => cargo(&[runner(), &["--no-run"]].concat())?,
            Check::Tests => {
                let mut clippy = Beside::start(workspace)?;
                tests(workspace)?;
                clippy.end()?;
            }
            Check::Task(task, options) => {
                let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
                task(workspace, &options)?;
            }
        }
        Ok(())
    }
}

/// Installs what tests talk to: registries, a browser, an API server.
fn install_parts() -> Result<()> {
    tools::ensure_tests()?;
    browser::ensure_installed()?;
    kube::ensure().map(drop)
}

/// Clippy at the lowest priority, which ends with the checks.
struct Beside(Option<Child>);

impl Beside {
    fn start(workspace: &Workspace) -> Result<Beside> {
        // Whoever starts the tests holds cargo's lock for a moment. Clippy would hold it for minutes.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30; exec nice -n 19 \"$@\"", "clippy"]).arg(cargo().get_program());
        command.current_dir(&workspace.root);
        command.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        Ok(Beside(Some(command.spawn().context("running clippy")?)))
    }

    fn end(&mut self) -> Result<()> {
        let Some(mut child) = self.0.take() else { return Ok(()) };
        let status = child.wait().context("waiting for clippy")?;
        ensure!(status.success(), "clippy failed: {status}");
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the words that run the tests.
fn runner() -> &'static [&'static str] {
    if has_command("nextest") {
        &["nextest", "run", "--workspace", "--profile", "ci", "--status-level", "fail", "--show-progress", "none"]
    } else {
        &["test", "--quiet", "--workspace", "--all-targets"]
    }
}

/// Runs the tests. One that needs what is missing fails; what others leave out stands in the summary.
fn tests(workspace: &Workspace) -> Result<()> {
    let notes = workspace.root.join("target/skipped-tests");
    // There is none after a run that skipped nothing.
    let _ = std::fs::remove_file(&notes);
    let mut command = cargo();
    command.current_dir(&workspace.root).args(runner()).env("CI", "true").env("OPM_TEST_SKIPPED", &notes);
    workspace::run(&mut command)?;
    for line in std::fs::read_to_string(&notes).unwrap_or_default().lines() {
        println!("skipped: {line}");
    }
    let report = workspace.target_directory()?.join("nextest/ci/junit.xml");
    let slowest = std::fs::read_to_string(report).map(|report| slowest(&report)).unwrap_or_default();
    for (seconds, name) in slowest.iter().take(LISTED) {
        println!("{seconds:8.1} s {name}");
    }
    Ok(())
}

/// Returns how long each test took, the slowest first, from the report that the runner writes.
fn slowest(report: &str) -> Vec<(f64, String)> {
    let attribute = |case: &str, name: &str| {
        let (_, rest) = case.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let cases = report.split("<testcase").skip(1).filter_map(|case| {
        let case = case.split_once('>')?.0;
        let seconds = attribute(case, "time")?.parse().ok()?;
        Some((seconds, format!("{} {}", attribute(case, "classname")?, attribute(case, "name")?)))
    });
    let mut cases: Vec<(f64, String)> = cases.collect();
    cases.sort_by(|a, b| b.0.total_cmp(&a.0));
    cases
}

fn has_command(name: &str) -> bool {
    is_installed(Command::new(format!("cargo-{name}")).arg(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_tests_come_first() {
        let report = r#"<testsuites><testsuite name="opm::cli">
            <testcase name="a" classname="opm::cli" timestamp="x" time="0.250"></testcase>
            <testcase name="b" classname="opm::cli" timestamp="x" time="12.5"><rerunFailure time="9"/></testcase>
            </testsuite></testsuites>"#;
        let expected = [(12.5, "opm::cli b".to_owned()), (0.25, "opm::cli a".to_owned())];
        assert_eq!(slowest(report), expected);
    }
}
