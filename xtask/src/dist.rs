//! Release artifacts: one static program for each target, and the packages that contain it.
//!
//! Two builds of one commit with one toolchain give the same bytes: timestamps are those of the commit, and the program
//! contains no path of the machine that built it.

mod cross;
mod package;
mod sbom;
mod sysroot;
mod target;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;
use crate::workspace::{self, Workspace, cargo, output};
use cross::Program;
use target::BuildTarget;

/// The inputs that all targets of a release share.
struct Dist<'a> {
    workspace: &'a Workspace,
    /// The version of the program.
    version: String,
    /// The profile that cargo builds with.
    profile: String,
    /// The target of this machine.
    host: String,
    /// The directory that cargo builds in.
    built: PathBuf,
    /// The directory of the artifacts.
    place: PathBuf,
    /// The timestamp of all artifacts: that of the commit.
    time: String,
}

/// Builds the program for each target, and with `--packages` its packages, in `dist` below cargo's target directory.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    let host = host()?;
    let mut profile = "release".to_owned();
    let mut targets = Vec::new();
    let mut packages = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().cloned().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--profile" => profile = value()?,
            "--target" => {
                let target = BuildTarget::find(&value()?)?;
                ensure!(!targets.contains(&target), "--target {} is given twice", target.triple);
                targets.push(target);
            }
            "--packages" => packages = true,
            _ => bail!("dist does not know {option}"),
        }
    }
    if targets.is_empty() {
        targets.push(BuildTarget::find(&host)?);
    }
    // The order of the arguments must not change the image.
    targets.sort_by_key(|target| target.triple);
    let metadata = workspace.metadata(false)?;
    let built = workspace.target_directory()?;
    let opm = metadata["packages"].as_array().and_then(|all| all.iter().find(|package| package["name"] == "opm"));
    let version = opm.and_then(|package| package["version"].as_str()).context("there is no package opm")?.to_owned();
    let place = built.join("dist");
    fs::create_dir_all(&place)?;
    let dist = Dist { workspace, version, profile, host, built, place, time: commit_time(workspace) };
    let mut programs = Vec::new();
    for target in targets {
        let program = dist.build(target)?;
        println!("{} for {}, {} bytes", program.file.display(), target.triple, fs::metadata(&program.file)?.len());
        programs.push(program);
    }
    if packages {
        let mut files = Vec::new();
        for program in &programs {
            files.push(package::archive(&dist, program)?);
            files.push(package::debian(&dist, program)?);
            files.push(sbom::write(&dist, &program.target)?);
        }
        files.push(package::image(&dist, &programs)?);
        package::checksums(&dist, &files)?;
        for file in files {
            println!("{}, {} bytes", file.display(), fs::metadata(&file)?.len());
        }
    }
    Ok(())
}

impl Dist<'_> {
    /// Builds the program for a target, checks it, runs it and copies it to its place.
    ///
    /// The flags apply to a named target only, so neither build scripts nor other builds see them.
    fn build(&self, target: BuildTarget) -> Result<Program> {
        let emulated = target.triple != self.host;
        if emulated {
            tools::ensure(target.tools)?;
        }
        let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
        let mut c_flags = Vec::new();
        for (from, to) in self.renamed_paths()? {
            flags.push(format!("--remap-path-prefix={from}={to}"));
            c_flags.push(format!("-ffile-prefix-map={from}={to}"));
        }
        if let Some(sysroot) = sysroot::ensure(&target, &self.host)? {
            flags.push(format!("--sysroot={}", sysroot.display()));
        }
        flags.extend(cross::lld(&target, &self.host)?.into_iter().map(|option| format!("-Clink-arg={option}")));
        let mut command = cargo();
        command.current_dir(&self.workspace.root).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        command.env(target.variable("CFLAGS_", ""), c_flags.join(" "));
        command.env("SOURCE_DATE_EPOCH", &self.time).env("CARGO_INCREMENTAL", "0");
        let built = self.built.join(target.triple);
        if let Some(linker) = cross::linker(&target, &self.host, &built)? {
            command.env(target.variable("CARGO_TARGET_", "_LINKER").to_uppercase(), linker);
        }
        command.args(["build", "--package", "opm", "--bin", "opm", "--profile", &self.profile]);
        command.args(["--target", target.triple]);
        workspace::run(&mut command)?;
        let directory = if self.profile == "dev" { "debug" } else { &self.profile };
        let mut program = Program { target, file: built.join(directory).join("opm"), emulated };
        target.check(&program.file)?;
        program.try_out(self.workspace, &self.version)?;
        let place = if emulated { self.place.join(target.triple) } else { self.place.clone() };
        fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
        let place = place.join("opm");
        fs::copy(&program.file, &place).with_context(|| format!("copying to {}", place.display()))?;
        program.file = place;
        Ok(program)
    }

    /// Returns the directories of this machine that the program would contain, each with its replacement.
    fn renamed_paths(&self) -> Result<Vec<(String, &'static str)>> {
        let home = std::env::var("CARGO_HOME").map(PathBuf::from).or_else(|_| {
            let home = std::env::var("HOME").context("neither CARGO_HOME nor HOME is set")?;
            anyhow::Ok(PathBuf::from(home).join(".cargo"))
        })?;
        // The last match wins.
        let paths = [(home, "/cargo"), (self.workspace.root.clone(), "/opm"), (self.built.clone(), "/target")];
        Ok(paths.into_iter().map(|(from, to)| (from.display().to_string(), to)).collect())
    }

    /// Returns the path of an artifact for a target.
    fn artifact(&self, target: &BuildTarget, extension: &str) -> PathBuf {
        self.place.join(format!("opm-{}-{}{extension}", self.version, target.triple))
    }
}

/// Returns the target of this machine.
fn host() -> Result<String> {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not report its host")?.to_owned())
}

/// Returns `SOURCE_DATE_EPOCH` or the time of the commit, in seconds since 1970; without either, 1970.
fn commit_time(workspace: &Workspace) -> String {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        return time;
    }
    let time = output(Command::new("git").current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]));
    time.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned())
}

/// Removes a directory if it exists.
fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))?;
    }
    Ok(())
}

/// Creates an empty directory, without the files of an earlier run.
fn empty(directory: &Path) -> Result<()> {
    remove(directory)?;
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))
}
