//! Measures one program.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::workspace::is_installed;

/// The cost of a program: the median over its runs, and the maximum memory.
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    /// CPU time, if measured.
    pub(crate) cpu: Option<Duration>,
    /// Peak memory in bytes, if measured.
    pub(crate) memory: Option<u64>,
}

/// Runs a program in `directory` several times, after one run that warms the page cache.
///
/// GNU `time` measures CPU time and memory; without it they stay unknown.
pub(crate) fn measure(
    directory: &Path,
    program: &Path,
    arguments: &[&str],
    paths: &[PathBuf],
    runs: usize,
) -> Result<Figures> {
    let mut walls = Vec::new();
    let mut cpus = Vec::new();
    let mut memory = None;
    once(directory, program, arguments, paths)?;
    for _ in 0..runs {
        let figures = once(directory, program, arguments, paths)?;
        walls.push(figures.wall);
        cpus.extend(figures.cpu);
        memory = memory.max(figures.memory);
    }
    Ok(Figures { wall: median(walls).context("no runs")?, cpu: median(cpus), memory })
}

/// Runs a program once.
pub(crate) fn once(directory: &Path, program: &Path, arguments: &[&str], paths: &[PathBuf]) -> Result<Figures> {
    let timed = is_installed(&mut Command::new("time"));
    if !timed {
        eprintln!("GNU time is not installed: CPU time and memory stay unknown");
    }
    let notes = std::env::temp_dir().join(format!("opm-bench-{}", std::process::id()));
    let mut command = if timed {
        let mut command = Command::new("time");
        command.args([OsStr::new("-f"), OsStr::new("%U %S %M"), OsStr::new("-o"), notes.as_os_str()]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).args(paths).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let output = command.stderr(Stdio::piped()).spawn().and_then(|child| child.wait_with_output());
    let wall = start.elapsed();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    let told = if timed { fs::read_to_string(&notes).unwrap_or_default() } else { String::new() };
    fs::remove_file(&notes).ok();
    ensure!(
        output.status.success(),
        "{} {} failed: {}",
        program.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).lines().take(5).collect::<Vec<_>>().join("\n")
    );
    let (cpu, memory) = parse(&told).unzip();
    Ok(Figures { wall, cpu, memory })
}

/// Parses the output of `time`: user seconds, system seconds, kilobytes.
fn parse(note: &str) -> Option<(Duration, u64)> {
    let mut words = note.split_whitespace();
    let mut number = || words.next()?.parse::<f64>().ok();
    let (user, system, kilobytes) = (number()?, number()?, number()?);
    Some((Duration::try_from_secs_f64(user + system).ok()?, kilobytes as u64 * 1024))
}

fn median(mut durations: Vec<Duration>) -> Option<Duration> {
    durations.sort();
    durations.get(durations.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_of_time_is_understood() {
        assert_eq!(parse("1.25 0.50 2048\n"), Some((Duration::from_millis(1750), 2 << 20)));
        assert_eq!(parse("sh: 1\n"), None);
    }

    #[test]
    fn a_median_is_one_of_the_values() {
        assert_eq!(median([3, 1, 2].map(Duration::from_secs).to_vec()), Some(Duration::from_secs(2)));
        assert_eq!(median(Vec::new()), None);
    }
}
