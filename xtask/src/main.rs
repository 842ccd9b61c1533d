//! Development tasks: `cargo xtask TASK`.
//!
//! To add a task, add a file and a line in [`TASKS`].
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tasks print their results")]

use std::process::ExitCode;

use anyhow::{Result, bail};

use workspace::Workspace;

mod background;
mod bench;
mod browser;
mod ci;
mod debian;
mod dependencies;
mod dist;
mod generate;
mod kube;
mod memory;
mod tidy;
mod tools;
mod workspace;

/// A task.
struct Task {
    name: &'static str,
    /// Its options, as the usage shows them.
    options: &'static str,
    about: &'static str,
    run: fn(&Workspace, &[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task { name: "ci", options: "", about: "runs every check that a change must pass", run: ci::run },
    Task {
        name: "dependencies",
        options: "",
        about: "checks licences, bans and unused dependencies with cargo-deny and cargo-shear",
        run: dependencies::run,
    },
    Task {
        name: "tidy",
        options: "",
        about: "checks dependencies between crates, what ARCHITECTURE.md names, and source files",
        run: tidy::run,
    },
    Task {
        name: "docs",
        options: "[--check]",
        about: "generates docs/rules.md, docs/cli and schemas, or checks that they are up to date",
        run: |workspace, options| generate::run(workspace, "docs", options),
    },
    Task {
        name: "codegen",
        options: "[--check]",
        about: "generates the code of the gRPC API and the table of Kubernetes types, or checks that they are up to date",
        run: |workspace, options| generate::run(workspace, "codegen", options),
    },
    Task {
        name: "tools",
        options: "[PROGRAM[:PACKAGE]...]",
        about: "installs missing programs from Debian: the named ones, or all that tests use",
        run: tools::run,
    },
    Task {
        name: "dist",
        options: "[--packages] [--target TRIPLE]... [--profile NAME]",
        about: "builds releases: the static program, target/dist/opm; with --packages also archive, Debian package, image and SBOM",
        run: dist::run,
    },
    Task {
        name: "kube",
        options: "",
        about: "installs etcd and unpacks or builds the Kubernetes API server of the tests",
        run: kube::run,
    },
    Task { name: "browser", options: "", about: "installs the browser of the console tests", run: browser::run },
    Task {
        name: "bench",
        options: "[mirror] [--quick] [--write] [--growth] [--sqlite] [--console] [--binary PATH]",
        about: "benchmarks opm on a large catalog",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, options)) = arguments.split_first() else { bail!("no task given\n\n{}", usage()) };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{}", usage());
        return Ok(());
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        bail!("there is no task \"{name}\"\n\n{}", usage());
    };
    (task.run)(&Workspace::find()?, options)
}

fn usage() -> String {
    let lines = TASKS.iter().map(|task| {
        let call = format!("{} {}", task.name, task.options);
        format!("  {call:42}  {}", task.about)
    });
    format!("Usage: cargo xtask TASK\n\nTasks:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
