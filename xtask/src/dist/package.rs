//! The program in the forms that people install: an archive, a Debian package, a container image.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Dist, empty};
use crate::workspace::output;

/// The other names of the program that people type; an image has all of them.
const LINKS: &[&str] = &["oc-mirror", "grpc_health_probe"];

/// Makes the archive: the program, its man pages and completions, the licence and what to read first.
pub(super) fn archive(dist: &Dist<'_>, program: &Path) -> Result<PathBuf> {
    let root = dist.place.join("archive");
    let inside = format!("opm-{}", dist.version);
    let top = root.join(&inside);
    empty(&top)?;
    put(program, &top.join("opm"), 0o755)?;
    for page in ["LICENSE", "README.md", "CHANGELOG.md"] {
        put(&dist.workspace.root.join(page), &top.join(page), 0o644)?;
    }
    manuals(program, &top.join("man"))?;
    completions(program, &top.join("completions"))?;
    let file = dist.name(".tar.gz");
    tar(&root, &inside, &file, &dist.time)?;
    fs::remove_dir_all(&root)?;
    Ok(file)
}

/// Makes the Debian package.
pub(super) fn debian(dist: &Dist<'_>, program: &Path) -> Result<PathBuf> {
    let architecture = match dist.target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        other => bail!("Debian has no name for {}", other.unwrap_or_default()),
    };
    let root = dist.place.join("debian");
    empty(&root)?;
    put(program, &root.join("usr/bin/opm"), 0o755)?;
    for link in LINKS {
        symlink("opm", root.join("usr/bin").join(link))?;
    }
    let share = root.join("usr/share");
    put(&dist.workspace.root.join("LICENSE"), &share.join("doc/opm/copyright"), 0o644)?;
    manuals(program, &share.join("man/man1"))?;
    for entry in fs::read_dir(share.join("man/man1"))? {
        // Policy wants them small, and gzip must not note when.
        output(Command::new("gzip").arg("-9n").arg(entry?.path()))?;
    }
    for (shell, place) in [
        ("bash", "bash-completion/completions/opm"),
        ("zsh", "zsh/vendor-completions/_opm"),
        ("fish", "fish/vendor_completions.d/opm.fish"),
    ] {
        let script = output(Command::new(program).args(["completion", shell]))?;
        write(&share.join(place), &script)?;
    }
    let size: u64 = fs::metadata(program)?.len() / 1024;
    let control = format!(
        "Package: opm\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The opm authors <opm@localhost>\n\
         Installed-Size: {size}\nSection: admin\nPriority: optional\n\
         Description: author, check, package, serve and mirror operator catalogs\n \
         A drop-in replacement for the tools that make catalogs for the Operator\n Lifecycle Manager of Kubernetes.\n",
        dist.version
    );
    write(&root.join("DEBIAN/control"), &control)?;
    let file = dist.place.join(format!("opm_{}_{architecture}.deb", dist.version));
    // It takes times from the environment when files are newer.
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--build", "--root-owner-group", "-Zxz"]).arg(&root).arg(&file).env("SOURCE_DATE_EPOCH", &dist.time);
    output(&mut pack).context("dpkg-deb makes Debian packages")?;
    fs::remove_dir_all(&root)?;
    Ok(file)
}

/// Makes the image of the program alone, with the program itself.
pub(super) fn image(dist: &Dist<'_>, program: &Path) -> Result<PathBuf> {
    let file = dist.name(".oci.tar");
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let target = format!("oci-archive:{}", file.display());
    // Whoever loads it gives it the name of a registry.
    let tag = format!("localhost/opm:{}", dist.version);
    let mut build = Command::new(program);
    build.args(["build", "--program-only", "--tag", &tag, "--to", &target]).env("SOURCE_DATE_EPOCH", &dist.time);
    output(&mut build)?;
    Ok(file)
}

/// Writes the digests of the files, as `sha256sum --check` reads them.
pub(super) fn checksums(dist: &Dist<'_>, files: &[PathBuf]) -> Result<()> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output(Command::new("sha256sum").current_dir(&dist.place).args(names))?;
    write(&dist.place.join("SHA256SUMS"), &sums)
}

fn manuals(program: &Path, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    output(Command::new(program).arg("man-pages").arg(directory)).map(drop)
}

fn completions(program: &Path, directory: &Path) -> Result<()> {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(Command::new(program).args(["completion", shell]))?;
        write(&directory.join(format!("opm.{shell}")), &script)?;
    }
    Ok(())
}

fn tar(root: &Path, inside: &str, file: &Path, time: &str) -> Result<()> {
    let plain = file.with_extension("");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg("-C").arg(root).arg("-cf").arg(&plain).arg(inside);
    output(&mut tar)?;
    output(Command::new("gzip").args(["-9", "-n", "-f"]).arg(&plain)).map(drop)
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o644))?)
}
