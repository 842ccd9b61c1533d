//! Benchmarks opm against common programs.
//!
//! Absolute figures differ between machines, so `sha256sum` and `jq` read the same bytes in the same run, and every
//! figure is also given as a multiple of theirs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::data::Data;
use self::measure::{Figures, measure};
use crate::workspace::{self, Workspace, cargo};

mod data;
mod generate;
mod measure;
mod mirror;
mod serve;
mod sqlite;

const START: &str = "<!-- bench:start -->";
const END: &str = "<!-- bench:end -->";

/// A command to measure, and its budget on two cores.
struct Job {
    /// The command as typed.
    name: &'static str,
    /// The arguments before the catalog.
    arguments: &'static [&'static str],
    /// The cost of the existing tool for the real catalog, measured once on a machine of this kind.
    existing: &'static str,
    budget: &'static str,
}

const CATALOG_JOBS: &[Job] = &[
    Job {
        name: "validate",
        arguments: &["validate"],
        existing: "8.3 s, 750 MB",
        budget: "0.15 s, 28 MB, 0.25 × hashing",
    },
    Job {
        name: "render -o json",
        arguments: &["render", "-o", "json"],
        existing: "4.3 s, 350 MB",
        budget: "0.25 s, 44 MB, 0.4 × hashing",
    },
    Job {
        name: "render -o yaml",
        arguments: &["render", "-o", "yaml"],
        existing: "11 s, 400 MB",
        budget: "0.45 s, 44 MB, 0.7 × hashing",
    },
    Job {
        name: "alpha list bundles",
        arguments: &["alpha", "list", "bundles"],
        existing: "8.8 s, 840 MB",
        budget: "0.15 s, 40 MB, 0.25 × hashing",
    },
    Job {
        name: "alpha render-graph",
        arguments: &["alpha", "render-graph"],
        existing: "4.2 s, 370 MB",
        budget: "0.12 s, 40 MB",
    },
];
const BUNDLES_JOB: Job = Job {
    name: "render of all bundle directories",
    arguments: &["render", "-o", "json"],
    existing: "14.9 s, 610 MB",
    budget: "0.5 s, 60 MB, 0.75 × hashing",
};

/// Options of a run.
#[derive(Default)]
struct BenchOptions {
    /// Fewer runs, and less data if it is generated.
    quick: bool,
    /// Write the table to docs/performance.md.
    write: bool,
    /// Measure this program instead of building one.
    binary: Option<PathBuf>,
    /// Also measure how the cost of serving grows, which takes minutes and gigabytes.
    growth: bool,
    /// Measure only database indexes.
    sqlite: bool,
    /// Measure only the web console in a browser.
    console: bool,
    /// Measure only mirrors, against a baseline of existing tools.
    mirror: bool,
}

impl BenchOptions {
    fn parse(words: &[String]) -> Result<BenchOptions> {
        let mut options = BenchOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--write" => options.write = true,
                "--growth" => options.growth = true,
                "--sqlite" => options.sqlite = true,
                "--console" => options.console = true,
                "mirror" => options.mirror = true,
                "--binary" => options.binary = Some(words.next().context("--binary needs a path")?.into()),
                other => bail!("bench does not know {other}"),
            }
        }
        Ok(options)
    }

    fn runs(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }
}

/// Measures, prints a table and, with `--write`, puts it into docs/performance.md.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    let options = BenchOptions::parse(options)?;
    let target = workspace.target_directory()?;
    let binary = match &options.binary {
        Some(binary) => binary.canonicalize().with_context(|| format!("no program {}", binary.display()))?,
        None => {
            let mut command = cargo();
            command.current_dir(&workspace.root).args(["build", "--release", "--package", "opm"]);
            workspace::run(&mut command)?;
            target.join("release/opm")
        }
    };
    let data = Data::find(workspace, &target.join("bench"), options.quick)?;
    let scratch = target.join("bench");
    if options.console {
        crate::browser::ensure_installed()?;
        let arguments =
            ["test", "-p", "opm", "--test", "console", "--", "--ignored", "--exact", "budgets::budgets", "--nocapture"];
        let mut test = cargo();
        test.current_dir(&workspace.root).args(arguments);
        return workspace::run(test.env("OPM_CONSOLE_CATALOG", &data.catalog.root).env("OPM_CONSOLE_BINARY", &binary));
    }
    if options.mirror {
        println!("{}", mirror::table(&binary, &data.catalog.root, &scratch, options.quick, options.runs())?);
        return Ok(());
    }
    if options.sqlite {
        println!("{}", sqlite::table(&binary, &data.bundles, &scratch, options.runs())?);
        return Ok(());
    }
    let load = load_generator(workspace, &target)?;
    let mut table = table(&binary, &data, options.runs())?;
    let _ = write!(table, "\n{}", serve::table(&binary, &load, &data.catalog.root, &scratch, options.runs())?);
    if options.growth {
        let _ = write!(table, "\n{}", serve::growth(&binary, &load, &scratch)?);
    }
    println!("{table}");
    if options.write {
        let page = workspace.root.join("docs/performance.md");
        let text = fs::read_to_string(&page).context("reading docs/performance.md")?;
        fs::write(&page, replace_block(&text, &table)?).context("writing docs/performance.md")?;
    }
    Ok(())
}

/// Builds the load generator.
fn load_generator(workspace: &Workspace, target: &Path) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--package", "serve", "--example", "load"];
    workspace::run(cargo().current_dir(&workspace.root).args(arguments))?;
    Ok(target.join("release/examples/load"))
}

/// Measures everything and returns the table.
fn table(binary: &Path, data: &Data, runs: usize) -> Result<String> {
    let mut table = format!(
        "{}. Median of {runs} runs on {} cores; output goes to /dev/null.\n\n\
         | task | wall | CPU | peak memory | × sha256sum | × jq | existing tool | budget (two cores) |\n\
         |---|---|---|---|---|---|---|---|\n",
        data.about,
        std::thread::available_parallelism().map_or(0, |cores| cores.get()),
    );
    let catalog = data.catalog.files()?;
    let hash = measure(&data.catalog.root, Path::new("sha256sum"), &[], &catalog, runs)?;
    let jq = measure(&data.catalog.root, Path::new("jq"), &["-c", "."], &catalog, runs)?;
    for job in CATALOG_JOBS {
        let figures = measure(&data.catalog.root, binary, job.arguments, &[".".into()], runs)?;
        row(&mut table, &format!("`opm {}`", job.name), &figures, [Some(&hash), Some(&jq)], [job.existing, job.budget]);
    }
    row(&mut table, "`sha256sum`", &hash, [None, None], ["", ""]);
    row(&mut table, "`jq -c .`", &jq, [None, None], ["", ""]);
    let hash = measure(&data.bundles.root, Path::new("sha256sum"), &[], &data.bundles.files()?, runs)?;
    let directories = data.bundles.bundle_directories()?;
    let figures = measure(&data.bundles.root, binary, BUNDLES_JOB.arguments, &directories, runs)?;
    let name = format!("`opm render` of {} bundle directories", directories.len());
    row(&mut table, &name, &figures, [Some(&hash), None], [BUNDLES_JOB.existing, BUNDLES_JOB.budget]);
    row(&mut table, "`sha256sum` of these", &hash, [None, None], ["", ""]);
    let size = fs::metadata(binary).context("reading the size of the program")?.len();
    let _ = writeln!(
        table,
        "\nThe program has {:.1} MB; its budget is 32 MB, and the existing tool has 99 MB.",
        size as f64 / 1e6
    );
    Ok(table)
}

fn row(
    table: &mut String,
    name: &str,
    figures: &Figures,
    [hash, jq]: [Option<&Figures>; 2],
    [existing, budget]: [&str; 2],
) {
    let ratio = |other: Option<&Figures>| {
        other.map_or(String::new(), |other| format!("{:.2}", figures.wall.as_secs_f64() / other.wall.as_secs_f64()))
    };
    let cpu = figures.cpu.map_or(String::new(), |cpu| format!("{:.2} s", cpu.as_secs_f64()));
    let memory = figures.memory.map_or(String::new(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6));
    let _ = writeln!(
        table,
        "| {name} | {:.2} s | {cpu} | {memory} | {} | {} | {existing} | {budget} |",
        figures.wall.as_secs_f64(),
        ratio(hash),
        ratio(jq),
    );
}

/// Replaces the block between the two markers.
fn replace_block(text: &str, table: &str) -> Result<String> {
    let (before, rest) = text.split_once(START).with_context(|| format!("docs/performance.md has no line {START}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("docs/performance.md has no line {END}"))?;
    Ok(format!("{before}{START}\n{}\n{END}{after}", table.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("a\n{START}\nold\n{END}\nb\n");
        assert_eq!(replace_block(&text, "new\n").unwrap(), format!("a\n{START}\nnew\n{END}\nb\n"));
        assert!(replace_block("a\n", "new\n").is_err());
    }

    #[test]
    fn options_are_understood_or_refused() {
        let parse =
            |words: &[&str]| BenchOptions::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let options = parse(&["--quick", "--binary", "x"]).unwrap();
        assert!(options.quick && !options.write && options.binary.is_some());
        assert!(parse(&["--binary"]).is_err() && parse(&["--slow"]).is_err());
    }
}
