//! The standard library of Rust for a target.
//!
//! rustup installs a prebuilt one. Where it cannot, dist builds it with the installed compiler
//! from the source of the same version, and caches it in a sysroot of its own. Both kinds of library are reproducible,
//! but they differ, and so do programs that contain them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::target::BuildTarget;
use super::{empty, remove};
use crate::debian::PrivateApt;
use crate::kube::cache;
use crate::tools;
use crate::workspace::{cargo, output, run};

/// Debian's suites with newer compilers than its releases have.
const SUITES: [&str; 4] = ["oldstable-backports", "stable-backports", "testing", "unstable"];
/// How long rustup may take, in seconds.
const RUSTUP_TIMEOUT: &str = "300";

/// Returns the sysroot to compile with, or none if the compiler's own has the library.
pub(super) fn ensure(target: &BuildTarget, host: &str) -> Result<Option<PathBuf>> {
    if is_installed(target)? || install(target)? {
        return Ok(None);
    }
    let about = output(Command::new("rustc").arg("-vV"))?;
    let version = about.lines().find_map(|line| line.strip_prefix("release: "));
    let version = version.context("rustc does not report its version")?;
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let lock_path = cache.join("rust-std.lock");
    let lock = File::create(&lock_path).with_context(|| format!("creating {}", lock_path.display()))?;
    // A second process waits, and then finds the result of the first.
    lock.lock().with_context(|| format!("locking {}", lock_path.display()))?;
    let sysroot = cache.join(format!("rust-std-{version}-{}", target.triple));
    if !sysroot.exists() {
        println!("building the standard library {version} for {}", target.triple);
        let tree = cache.join("rust-std.build");
        empty(&tree)?;
        let library = source(version, &tree)?;
        let built = build(&library, &tree, target, host)
            .with_context(|| format!("building the standard library for {}", target.triple))?;
        fs::rename(&built, &sysroot).with_context(|| format!("creating {}", sysroot.display()))?;
        remove(&tree)?;
    }
    Ok(Some(sysroot))
}

/// Returns whether the compiler has the library for a target.
fn is_installed(target: &BuildTarget) -> Result<bool> {
    let directory = output(Command::new("rustc").args(["--print", "target-libdir", "--target", target.triple]))?;
    let Ok(files) = fs::read_dir(directory.trim()) else { return Ok(false) };
    let mut names = files.filter_map(|file| Some(file.ok()?.file_name()));
    Ok(names.any(|name| name.to_string_lossy().starts_with("libstd-")))
}

/// Installs the prebuilt library with rustup; returns whether that worked.
fn install(target: &BuildTarget) -> Result<bool> {
    if tools::find("rustup").is_none() {
        return Ok(false);
    }
    let mut rustup = Command::new("timeout");
    if let Err(error) = output(rustup.args([RUSTUP_TIMEOUT, "rustup", "target", "add", target.triple])) {
        println!("no prebuilt standard library: {error:#}");
        return Ok(false);
    }
    is_installed(target)
}

/// Returns the source of the library: the compiler's own, or that of Debian's package of the same version.
fn source(version: &str, tree: &Path) -> Result<PathBuf> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let installed = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    if installed.join("Cargo.lock").is_file() {
        return Ok(installed);
    }
    let package = download(version, tree).with_context(|| {
        format!(
            "getting the source of the standard library {version}: `rustup component add rust-src` also installs it"
        )
    })?;
    let mut unpack = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&package).stdout(Stdio::piped()).spawn()?;
    let files = unpack.stdout.take().context("dpkg-deb has no stdout")?;
    let directory = format!("./usr/src/rustc-{version}/library");
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(tree).arg("--strip-components=4").arg(&directory).stdin(files);
    output(&mut tar)?;
    ensure!(unpack.wait()?.success(), "{} cannot be unpacked", package.display());
    Ok(tree.join("library"))
}

/// Downloads Debian's package of the source. apt verifies it with the signatures of the archive.
fn download(version: &str, tree: &Path) -> Result<PathBuf> {
    let apt = PrivateApt::new(tree, "deb", &SUITES)?;
    // A suite may be missing, or signed with a key that this machine does not know: the others count.
    let updated = output(apt.command("apt-get").arg("update"));
    let listed = output(apt.command("apt-cache").args(["madison", "rust-src"]))?;
    let Some(package) = of_version(&listed, version) else {
        updated?;
        bail!("none of Debian's suites {} has rust-src {version}", SUITES.join(", "));
    };
    output(apt.command("apt-get").arg("download").arg(format!("rust-src={package}")))?;
    let mut files = fs::read_dir(apt.downloads())?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| path.extension().is_some_and(|name| name == "deb")).context("apt downloaded no package")
}

/// Finds the package of an upstream version in the output of `apt-cache madison`.
fn of_version<'a>(listed: &'a str, version: &str) -> Option<&'a str> {
    let mut packages = listed.lines().filter_map(|line| line.split('|').nth(1).map(str::trim));
    packages.find(|package| package.strip_prefix(version).is_some_and(|rest| rest.starts_with(['+', '-'])))
}

/// Builds the library, and returns a sysroot with it.
fn build(library: &Path, tree: &Path, target: &BuildTarget, host: &str) -> Result<PathBuf> {
    let built = tree.join("target");
    let flags = [
        // Programs must not see the crates that the library depends on.
        "-Zforce-unstable-if-unmarked".to_owned(),
        format!("--remap-path-prefix={}=/rust/library", library.display()),
        format!("--remap-path-prefix={}=/rust/target", built.display()),
    ];
    let mut command = cargo();
    command.current_dir(library).args(["build", "--locked", "--package", "sysroot", "--profile", "dist"]);
    command.args(["--features", "panic-unwind backtrace", "--target", target.triple, "--target-dir"]).arg(&built);
    // Debian's source lacks the crates that only tests need.
    command.arg("-Zavoid-dev-deps");
    let vendored = library.join("vendor");
    if vendored.is_dir() {
        command.args(["--offline", "--config", "source.crates-io.replace-with='vendored'", "--config"]);
        command.arg(format!("source.vendored.directory='{}'", vendored.display()));
    }
    // The library uses features of the language that a stable compiler otherwise rejects.
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    command.env("CARGO_PROFILE_DIST_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    if target.triple != host {
        command.env(target.variable("CARGO_TARGET_", "_LINKER").to_uppercase(), target.compiler);
    }
    run(&mut command)?;
    let sysroot = tree.join("sysroot");
    let place = sysroot.join("lib/rustlib").join(target.triple).join("lib");
    fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let crates = built.join(target.triple).join("dist/deps");
    for file in fs::read_dir(&crates).with_context(|| format!("reading {}", crates.display()))? {
        let file = file?;
        if file.path().extension().is_some_and(|name| name == "rlib") {
            fs::copy(file.path(), place.join(file.file_name()))?;
        }
    }
    Ok(sysroot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_has_the_version_of_the_compiler() {
        let listed = "  rust-src | 1.97.1+dfsg1-1 | uri testing/main amd64 Packages\n  \
                      rust-src | 1.95.0+dfsg1-2~bpo13+1 | uri stable-backports/main amd64 Packages\n";
        assert_eq!(of_version(listed, "1.95.0"), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(of_version(listed, "1.97.1"), Some("1.97.1+dfsg1-1"));
        assert_eq!(of_version(listed, "1.97"), None);
        assert_eq!(of_version("", "1.95.0"), None);
    }
}
