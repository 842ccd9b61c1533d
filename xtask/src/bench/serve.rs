//! The startup time and throughput of a server.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::generate::{self, Scale};
use super::measure::once;
use crate::workspace;

/// The duration of each load test.
const SECONDS: &str = "3";
/// The connections that a server accepts by default, minus a few for others.
const IDLE_CONNECTIONS: usize = 4096 - 16;
/// The timeout for a server to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Queries with the number of concurrent clients, the cost of the existing tool, and the budget.
const QUERIES: &[(&str, &str, &str, &str)] = &[
    ("ListBundles", "1", "0.95 s", "10 ms, memory flat"),
    ("ListBundles", "8", "", ""),
    ("GetBundle", "1", "0.5 ms a call", ""),
    ("GetBundle", "16", "", "20,000 a second, p99 under 2 ms"),
    ("GetBundle", "64", "", "20,000 a second"),
    ("Provides", "16", "", ""),
];

/// Measures a server on `catalog` and returns the table. `load` is the load generator, a separate process.
pub(crate) fn table(binary: &Path, load: &Path, catalog: &Path, scratch: &Path, runs: usize) -> Result<String> {
    let mut table = String::from("| serving | measured | existing tool | budget |\n|---|---|---|---|\n");
    let mut row = |task: &str, figures: String, [existing, budget]: [&str; 2]| {
        let _ = writeln!(table, "| {task} | {figures} | {existing} | {budget} |");
    };
    let cache = scratch.join("cache");
    row(
        "cache build",
        build(binary, catalog, &cache, runs)?,
        ["14.5 s, 580 MB; 460 MB on disk", "0.6 s, 60 MB; 21 MB on disk"],
    );
    row("start without a cache", start(binary, catalog, &[], runs)?, ["", ""]);
    let cached = ["--cache-dir", path(&cache)?];
    row("start with a cache", start(binary, catalog, &cached, runs)?, ["7.8 s, 570 MB", "8 ms, 11 MB"]);
    let enforced = [cached[0], cached[1], "--cache-enforce-integrity"];
    row("start with a cache, integrity checked", start(binary, catalog, &enforced, runs)?, ["", "35 ms, 11 MB"]);
    let server = Server::start(binary, catalog, &cached)?;
    for (query, clients, existing, budget) in QUERIES {
        let before = server.processor_time()?;
        let printed = workspace::output(Command::new(load).args([&server.address, *query, *clients, SECONDS]))?;
        let used = server.processor_time()? - before;
        let figures = printed.trim().split_once(": ").map_or(printed.trim(), |(_, figures)| figures);
        let per_call = per_call(figures, used).unwrap_or_default();
        row(&format!("{query}, clients: {clients}"), format!("{figures}{per_call}"), [existing, budget]);
    }
    row("memory after all of these", server.memory()?, ["", "30 MB"]);
    drop(server);
    let server = Server::start(binary, catalog, &cached)?;
    let idle = connections(&server.address, IDLE_CONNECTIONS)?;
    row(&format!("memory with {} silent connections", idle.len()), server.memory()?, ["", "150 MB"]);
    Ok(table)
}

/// Measures how the cost grows with the size of generated catalogs.
pub(crate) fn growth(binary: &Path, load: &Path, scratch: &Path) -> Result<String> {
    let mut table = String::from(
        "| catalog (made) | cache build | start with a cache | GetBundle, clients: 16 |\n|---|---|---|---|\n",
    );
    for times in [1, 4, 10] {
        let catalog = scratch.join(format!("growth-{times}"));
        if catalog.exists() {
            fs::remove_dir_all(&catalog).context("removing the files of an interrupted run")?;
        }
        fs::create_dir_all(&catalog).context("creating a directory for a catalog")?;
        generate::catalog(&catalog, Scale::FULL.times(times))?;
        let cache = scratch.join("growth-cache");
        let built = build(binary, &catalog, &cache, 1)?;
        let cached = ["--cache-dir", path(&cache)?];
        let started = start(binary, &catalog, &cached, 3)?;
        let server = Server::start(binary, &catalog, &cached)?;
        let printed = workspace::output(Command::new(load).args([&server.address, "GetBundle", "16", SECONDS]))?;
        let asked = printed.trim().split_once(": ").map_or(printed.trim(), |(_, figures)| figures);
        let _ = writeln!(table, "| {times} × | {built} | {started} | {asked} |");
        drop(server);
        fs::remove_dir_all(&catalog).context("removing a generated catalog")?;
    }
    Ok(table)
}

/// Builds a cache from scratch several times; the last one stays.
pub(super) fn build(binary: &Path, catalog: &Path, cache: &Path, runs: usize) -> Result<String> {
    let mut walls = Vec::new();
    let mut memory = 0;
    for _ in 0..runs {
        if cache.exists() {
            fs::remove_dir_all(cache).context("removing the last cache")?;
        }
        let arguments = ["serve", "--cache-only", "--cache-dir", path(cache)?];
        let figures = once(catalog, binary, &arguments, &[".".into()])?;
        walls.push(figures.wall);
        memory = memory.max(figures.memory.unwrap_or_default());
    }
    walls.sort();
    let wall = walls[walls.len() / 2].as_secs_f64();
    Ok(format!("{wall:.2} s, {} MB; {:.1} MB on disk", memory / 1_000_000, size(cache)? as f64 / 1e6))
}

/// Starts a server several times; returns the median time until it serves, and its memory then.
pub(super) fn start(binary: &Path, catalog: &Path, arguments: &[&str], runs: usize) -> Result<String> {
    let mut times = Vec::new();
    let mut memory = String::new();
    for _ in 0..runs {
        let server = Server::start(binary, catalog, arguments)?;
        times.push(server.ready_after);
        memory = server.memory()?;
    }
    times.sort();
    Ok(format!("{:.0} ms, {memory}", times[times.len() / 2].as_secs_f64() * 1e3))
}

/// Opens idle connections.
fn connections(address: &str, count: usize) -> Result<Vec<TcpStream>> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut socket = TcpStream::connect(address).context("opening a connection")?;
        // The HTTP/2 preface and empty settings.
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").context("opening a connection")?;
        open.push(socket);
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(open)
}

/// A server that is stopped on drop.
struct Server {
    child: Child,
    address: String,
    ready_after: Duration,
}

impl Server {
    fn start(binary: &Path, catalog: &Path, arguments: &[&str]) -> Result<Server> {
        let begin = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--address", "127.0.0.1", "--port", "0"])
            .args(arguments)
            .arg(".")
            .current_dir(catalog)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let log = child.stderr.take().context("a server without a log")?;
        let mut lines = BufReader::new(log).lines();
        let mut seen = String::new();
        while begin.elapsed() < START_TIMEOUT {
            let Some(line) = lines.next() else { break };
            let line = line.context("reading the log of the server")?;
            if line.contains("serving registry") {
                let ready_after = begin.elapsed();
                let address = line.split_whitespace().find_map(|word| word.strip_prefix("address="));
                let address = address.context("the log names no address")?.to_owned();
                // Drain the log, so that it does not block the server.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Server { child, address, ready_after });
            }
            seen = line;
        }
        child.kill().ok();
        bail!("the server did not become ready: {seen}");
    }

    /// Returns its CPU time.
    fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).context("reading /proc")?;
        // The program name, in parentheses, may contain blanks.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields).context("/proc has no times")?;
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Returns its private memory and the mapped program.
    fn memory(&self) -> Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).context("reading /proc")?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let megabytes = |name| kilobytes(name).map(|kilobytes| kilobytes / 1000);
        let (own, mapped) = (megabytes("RssAnon:"), megabytes("RssFile:"));
        ensure!(own.is_some() && mapped.is_some(), "/proc has no memory figures");
        Ok(format!("{} MB own + {} MB of the program", own.unwrap_or_default(), mapped.unwrap_or_default()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the cost of a call for the server alone, and the possible rate if the clients ran elsewhere.
fn per_call(figures: &str, used: Duration) -> Option<String> {
    let rate: f64 = figures.split_once(" calls/s")?.0.parse().ok()?;
    let calls = rate * SECONDS.parse::<f64>().ok()?;
    let cost = used.as_secs_f64() / calls;
    let processors = std::thread::available_parallelism().ok()?.get() as f64;
    Some(format!("; server {:.0} µs a call, enough for {:.0} a second", cost * 1e6, processors / cost))
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not UTF-8")
}

pub(super) fn size(directory: &Path) -> Result<u64> {
    let mut total = 0;
    let mut directories: Vec<PathBuf> = vec![directory.into()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => directories.push(entry.path()),
                false => total += entry.metadata()?.len(),
            }
        }
    }
    Ok(total)
}
