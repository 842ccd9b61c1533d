//! The program as it is given away: one static file that runs in an empty image.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{self, Workspace, cargo, output};

/// Builds the program and puts it into `dist` below the directory that cargo builds in.
///
/// Only what is linked into it is compiled for static linking: the flags are those of a target that is
/// named, so that neither build scripts nor the usual builds see them.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    let mut profile = "dist".to_owned();
    let mut target = host()?;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().cloned().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--profile" => profile = value()?,
            "--target" => target = value()?,
            _ => bail!("dist does not know {option}"),
        }
    }
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
    let arguments = ["build", "--package", "opm", "--profile", &profile, "--target", &target];
    workspace::run(cargo().current_dir(&workspace.root).env(flags, "-C target-feature=+crt-static").args(arguments))?;
    let metadata = workspace.metadata(false)?;
    let built = metadata["target_directory"].as_str().context("cargo does not know where it builds")?;
    let built = std::path::Path::new(built);
    let directory = if profile == "dev" { "debug" } else { &profile };
    let program = built.join(&target).join(directory).join("opm");
    ensure!(is_static(&fs::read(&program)?), "{} needs libraries", program.display());
    let dist = built.join("dist");
    fs::create_dir_all(&dist)?;
    let place = dist.join("opm");
    fs::copy(&program, &place).with_context(|| format!("copying to {}", place.display()))?;
    println!("{} for {target}, {} bytes", place.display(), fs::metadata(&place)?.len());
    Ok(())
}

fn host() -> Result<String> {
    let about = output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

/// Tells whether a program of 64 bits names no other to be loaded with.
fn is_static(program: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at + length).unwrap_or_default();
        bytes.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    program.starts_with(b"\x7fELF\x02\x01") && (0..count).all(|segment| number(table + segment * size, 4) != 3)
}
