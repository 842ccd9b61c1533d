//! The cost of database indexes: adding, migrating and serving, and how it grows.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::data::Directory;
use super::measure::once;

/// Versions of a generated operator.
const VERSIONS: usize = 10;
/// Lines in the description of a generated bundle.
const LINES: usize = 400;
/// Bundles in the first step; then twice and four times as many.
const STEP: usize = 250;

/// Measures and returns the table. `bundles` are those of published operators, if available.
pub(crate) fn table(binary: &Path, bundles: &Directory, scratch: &Path, runs: usize) -> Result<String> {
    let mut table = String::from("| database index | measured |\n|---|---|\n");
    let scratch = scratch.join("sqlite");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).context("removing the files of an interrupted run")?;
    }
    fs::create_dir_all(&scratch).context("creating a directory for databases")?;
    let mut row = |task: &str, figures: String| {
        let _ = writeln!(table, "| {task} | {figures} |");
    };
    for times in [1, 2, 4] {
        let count = STEP * times;
        let made = generate_bundles(&scratch.join(format!("made-{count}")), count)?;
        let database = scratch.join(format!("made-{count}.db"));
        let (total, last) = add_one_by_one(binary, &database, &made)?;
        let each = total.as_secs_f64() * 1e3 / count as f64;
        let figures = format!("{:.1} s; {each:.1} ms a bundle, the last {STEP}: {last:.1} ms", total.as_secs_f64());
        row(&format!("adding {count} bundles, one command each"), figures);
        row(&format!("`migrate` of {count} bundles"), migrate(binary, &database, &scratch, runs)?);
        row(&format!("`registry serve` of {count} bundles until it serves"), start(binary, &database, runs)?);
    }
    let database = scratch.join("all.db");
    let directories: Vec<String> =
        bundles.bundle_directories()?.iter().map(|path| bundles.root.join(path).display().to_string()).collect();
    let arguments = ["registry", "add", "--permissive", "--mode", "semver", "-d", path(&database)?, "-b"];
    let figures = once(&scratch, binary, &arguments, &[directories.join(",").into()])?;
    let size = fs::metadata(&database)?.len() as f64 / 1e6;
    let memory = figures.memory.unwrap_or_default() / 1_000_000;
    let name = format!("adding {} bundle directories at once", directories.len());
    row(&name, format!("{:.2} s, {memory} MB; a database of {size:.0} MB", figures.wall.as_secs_f64()));
    row("`migrate` of these", migrate(binary, &database, &scratch, runs)?);
    row("`registry serve` of these until it serves", start(binary, &database, runs)?);
    fs::remove_dir_all(&scratch).context("removing databases")?;
    Ok(table)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not UTF-8")
}

/// Generates bundles of operators with [`VERSIONS`] versions each.
fn generate_bundles(root: &Path, count: usize) -> Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for number in 0..count {
        let (operator, version) = (number / VERSIONS, number % VERSIONS);
        let directory = root.join(format!("op{operator}-{version}"));
        let (manifests, metadata) = (directory.join("manifests"), directory.join("metadata"));
        fs::create_dir_all(&manifests)?;
        fs::create_dir_all(&metadata)?;
        let mut csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: op{operator}.v0.{version}.0\n\
             spec:\n  version: 0.{version}.0\n"
        );
        if version > 0 {
            writeln!(csv, "  replaces: op{operator}.v0.{}.0", version - 1)?;
        }
        csv.push_str("  description: |\n");
        for line in 0..LINES {
            writeln!(csv, "    line {line} of what operator {operator} does in version {version}")?;
        }
        fs::write(manifests.join("csv.yaml"), csv)?;
        let annotations = format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: op{operator}\n  \
             operators.operatorframework.io.bundle.channels.v1: stable,fast\n  \
             operators.operatorframework.io.bundle.channel.default.v1: stable\n"
        );
        fs::write(metadata.join("annotations.yaml"), annotations)?;
        directories.push(directory);
    }
    Ok(directories)
}

/// Adds bundles with one command each; returns the total time, and the milliseconds per bundle of the last step.
fn add_one_by_one(binary: &Path, database: &Path, bundles: &[PathBuf]) -> Result<(Duration, f64)> {
    let start = Instant::now();
    let mut last = start;
    for (number, bundle) in bundles.iter().enumerate() {
        if number + STEP == bundles.len() {
            last = Instant::now();
        }
        let arguments = ["registry", "add", "-d", path(database)?, "-b", path(bundle)?];
        let output = Command::new(binary).args(arguments).output().context("running opm")?;
        if !output.status.success() {
            bail!("registry add failed: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok((start.elapsed(), last.elapsed().as_secs_f64() * 1e3 / STEP as f64))
}

fn migrate(binary: &Path, database: &Path, scratch: &Path, runs: usize) -> Result<String> {
    let out = scratch.join("out");
    let mut walls = Vec::new();
    let mut memory = 0;
    for _ in 0..runs {
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let figures = once(scratch, binary, &["migrate", path(database)?, path(&out)?], &[])?;
        walls.push(figures.wall);
        memory = memory.max(figures.memory.unwrap_or_default());
    }
    fs::remove_dir_all(&out)?;
    walls.sort();
    Ok(format!("{:.2} s, {} MB", walls[walls.len() / 2].as_secs_f64(), memory / 1_000_000))
}

/// Starts a server several times; returns the median time until it serves.
fn start(binary: &Path, database: &Path, runs: usize) -> Result<String> {
    let mut walls = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        let mut child = Command::new(binary)
            .args(["registry", "serve", "-p", "0", "-t", "", "-d", path(database)?])
            .stderr(Stdio::piped())
            .spawn()
            .context("starting a server")?;
        let log = child.stderr.take().context("a server without a log")?;
        let served = BufReader::new(log).lines().map_while(Result::ok).any(|line| line.contains("serving registry"));
        walls.push(begin.elapsed());
        child.kill().ok();
        child.wait()?;
        if !served {
            bail!("the server ended before it served");
        }
    }
    walls.sort();
    Ok(format!("{:.0} ms", walls[walls.len() / 2].as_secs_f64() * 1e3))
}
