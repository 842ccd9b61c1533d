//! What is given away: one static program, and all that people install it from.
//!
//! Two runs on one commit give the same bytes: times are those of the commit, and no path of the machine that built it
//! is left in the program.

mod package;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{self, Workspace, cargo, output};

/// One program, and where what is made of it lies.
struct Dist<'a> {
    workspace: &'a Workspace,
    /// The version of the program.
    version: String,
    /// The target as rustc names it.
    target: String,
    /// Where cargo puts what it builds.
    built: PathBuf,
    /// Where the results lie.
    place: PathBuf,
    /// When everything was made: the time of the commit.
    time: String,
}

/// Builds the program, and with `--packages` all that is made of it, into `dist` below the directory that cargo builds in.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    let mut profile = "dist".to_owned();
    let mut target = host()?;
    let mut packages = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().cloned().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--profile" => profile = value()?,
            "--target" => target = value()?,
            "--packages" => packages = true,
            _ => bail!("dist does not know {option}"),
        }
    }
    let metadata = workspace.metadata(false)?;
    let built = workspace.target_directory()?;
    let opm = metadata["packages"].as_array().and_then(|all| all.iter().find(|package| package["name"] == "opm"));
    let version = opm.and_then(|package| package["version"].as_str()).context("there is no package opm")?.to_owned();
    let place = built.join("dist");
    fs::create_dir_all(&place)?;
    let dist = Dist { workspace, version, target, built, place, time: commit_time(workspace) };
    let program = dist.build(&profile)?;
    println!("{} for {}, {} bytes", program.display(), dist.target, fs::metadata(&program)?.len());
    if packages {
        let made = [
            package::archive(&dist, &program)?,
            package::debian(&dist, &program)?,
            package::image(&dist, &program)?,
            sbom::write(&dist)?,
        ];
        package::checksums(&dist, &made)?;
        for file in made {
            println!("{}, {} bytes", file.display(), fs::metadata(&file)?.len());
        }
    }
    Ok(())
}

/// Optimising across all crates goes by the level of the one that is linked. The code that is compiled for size keeps
/// its size all the same. Symbols have to be named here too: a package with an optimisation level of its own loses the
/// `strip` of its profile.
pub(crate) const LINK_FLAGS: [&str; 5] = ["--", "-C", "opt-level=3", "-C", "strip=symbols"];

/// Returns the words for cargo that link the program; [`LINK_FLAGS`] come last.
pub(crate) fn link(profile: &str) -> [&str; 7] {
    ["rustc", "--package", "opm", "--bin", "opm", "--profile", profile]
}

/// Returns what makes the program smaller where the linker is the compiler's own: functions with the same code are one,
/// relocations take a bit each instead of 24 bytes, and the profile `dist` needs no tables for unwinding.
fn smaller(workspace: &Workspace, profile: &str, target: &str) -> Vec<String> {
    if target != "x86_64-unknown-linux-gnu" {
        return Vec::new();
    }
    let mut options = vec!["-Wl,--icf=all,--pack-dyn-relocs=relr".to_owned()];
    if profile == "dist" {
        options.push("-Wl,--no-eh-frame-hdr".to_owned());
        options.push(format!("-T{}", workspace.root.join("xtask/src/dist/frames.ld").display()));
    }
    options.into_iter().flat_map(|option| ["-C".to_owned(), format!("link-arg={option}")]).collect()
}

impl Dist<'_> {
    /// Builds the program and puts it into its place.
    ///
    /// Only what is linked into it is compiled for static linking: the flags are those of a target that is named, so
    /// that neither build scripts nor the usual builds see them.
    fn build(&self, profile: &str) -> Result<PathBuf> {
        let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
        let mut c_flags = Vec::new();
        for (from, to) in self.renamed_paths()? {
            flags.push(format!("--remap-path-prefix={from}={to}"));
            c_flags.push(format!("-ffile-prefix-map={from}={to}"));
        }
        let mut command = cargo();
        command.current_dir(&self.workspace.root).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        command.env(format!("CFLAGS_{}", self.target.replace('-', "_")), c_flags.join(" "));
        command.env("SOURCE_DATE_EPOCH", &self.time).env("CARGO_INCREMENTAL", "0");
        command.args(link(profile)).args(["--target", &self.target]).args(LINK_FLAGS);
        command.args(smaller(self.workspace, profile, &self.target));
        workspace::run(&mut command)?;
        let directory = if profile == "dev" { "debug" } else { profile };
        let program = self.built.join(&self.target).join(directory).join("opm");
        let bytes = Elf(&fs::read(&program)?);
        ensure!(bytes.is_static(), "{} needs libraries", program.display());
        ensure!(bytes.is_stripped(), "{} has symbols", program.display());
        let place = self.place.join("opm");
        fs::copy(&program, &place).with_context(|| format!("copying to {}", place.display()))?;
        Ok(place)
    }

    /// Returns the directories of this machine that the program would name, and what it names instead.
    fn renamed_paths(&self) -> Result<Vec<(String, &'static str)>> {
        let home = std::env::var("CARGO_HOME").map(PathBuf::from).or_else(|_| {
            let home = std::env::var("HOME").context("neither CARGO_HOME nor HOME is set")?;
            anyhow::Ok(PathBuf::from(home).join(".cargo"))
        })?;
        // The last one that fits counts.
        let paths = [(home, "/cargo"), (self.workspace.root.clone(), "/opm"), (self.built.clone(), "/target")];
        Ok(paths.into_iter().map(|(from, to)| (from.display().to_string(), to)).collect())
    }

    /// Returns how what is made for this target is called.
    fn name(&self, rest: &str) -> PathBuf {
        self.place.join(format!("opm-{}-{}{rest}", self.version, self.target))
    }
}

fn host() -> Result<String> {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

/// Returns the time of the commit that is built, in seconds since 1970; that is also what outside of git is taken for.
fn commit_time(workspace: &Workspace) -> String {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return time;
    }
    let time = output(Command::new("git").current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]));
    time.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned())
}

/// A program of 64 bits.
struct Elf<'a>(&'a [u8]);

impl Elf<'_> {
    fn number(&self, at: usize, length: usize) -> usize {
        let bytes = at.checked_add(length).and_then(|end| self.0.get(at..end)).unwrap_or_default();
        bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    /// Returns whether it names no other to be loaded with.
    fn is_static(&self) -> bool {
        let (table, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        const INTERPRETER: usize = 3;
        self.0.starts_with(b"\x7fELF\x02\x01")
            && (0..count).all(|segment| self.number(table + segment * size, 4) != INTERPRETER)
    }

    /// Returns whether it has no table of symbols.
    fn is_stripped(&self) -> bool {
        let (table, size, count) = (self.number(40, 8), self.number(58, 2), self.number(60, 2));
        const SYMBOLS: usize = 2;
        (0..count).all(|section| self.number(table + section * size + 4, 4) != SYMBOLS)
    }
}

/// Removes what an earlier run left, and makes an empty directory.
fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This very program is linked with libraries and has symbols.
    #[test]
    fn programs_with_libraries_and_symbols_are_noticed() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!Elf(&program).is_static() && !Elf(&program).is_stripped());
        assert!(!Elf(b"no program").is_static());
    }
}
