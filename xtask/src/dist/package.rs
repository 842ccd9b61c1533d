//! The program as an archive, a Debian package and a container image.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cross::Program;
use super::{Dist, empty};
use crate::workspace::output;

/// The other names of the program that the Debian package installs; an image has all of them.
const LINKS: &[&str] = &["oc-mirror", "grpc_health_probe"];
/// The name of the file with checksums.
const CHECKSUMS: &str = "SHA256SUMS";

/// Writes the archive: the program, its man pages and completions, the licence, README and changelog.
pub(super) fn archive(dist: &Dist<'_>, program: &Program) -> Result<PathBuf> {
    let root = dist.place.join("archive");
    let inside = format!("opm-{}", dist.version);
    let top = root.join(&inside);
    empty(&root)?;
    copy(&program.file, &top.join("opm"), 0o755)?;
    for page in ["LICENSE", "README.md", "CHANGELOG.md"] {
        copy(&dist.workspace.root.join(page), &top.join(page), 0o644)?;
    }
    man_pages(program, &top.join("man"))?;
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        completion(program, shell, &top.join("completions").join(format!("opm.{shell}")))?;
    }
    let file = dist.artifact(&program.target, ".tar.gz");
    tar(&root, &inside, &file, &dist.time)?;
    fs::remove_dir_all(&root)?;
    Ok(file)
}

/// Writes the Debian package.
pub(super) fn debian(dist: &Dist<'_>, program: &Program) -> Result<PathBuf> {
    let architecture = program.target.debian;
    let root = dist.place.join("debian");
    empty(&root)?;
    copy(&program.file, &root.join("usr/bin/opm"), 0o755)?;
    for link in LINKS {
        symlink("opm", root.join("usr/bin").join(link))?;
    }
    let share = root.join("usr/share");
    copy(&dist.workspace.root.join("LICENSE"), &share.join("doc/opm/copyright"), 0o644)?;
    man_pages(program, &share.join("man/man1"))?;
    for entry in fs::read_dir(share.join("man/man1"))? {
        // Debian's policy requires compressed pages; -n leaves the timestamp out.
        output(Command::new("gzip").arg("-9n").arg(entry?.path()))?;
    }
    for (shell, place) in [
        ("bash", "bash-completion/completions/opm"),
        ("zsh", "zsh/vendor-completions/_opm"),
        ("fish", "fish/vendor_completions.d/opm.fish"),
    ] {
        completion(program, shell, &share.join(place))?;
    }
    let size: u64 = fs::metadata(&program.file)?.len() / 1024;
    let control = format!(
        "Package: opm\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The opm authors <opm@localhost>\n\
         Installed-Size: {size}\nSection: admin\nPriority: optional\n\
         Description: author, check, package, serve and mirror operator catalogs\n \
         A drop-in replacement for the tools that make catalogs for the Operator\n Lifecycle Manager of Kubernetes.\n",
        dist.version
    );
    write(&root.join("DEBIAN/control"), &control)?;
    let file = dist.place.join(format!("opm_{}_{architecture}.deb", dist.version));
    // dpkg-deb replaces timestamps that are later than this one.
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--build", "--root-owner-group", "-Zxz"]).arg(&root).arg(&file).env("SOURCE_DATE_EPOCH", &dist.time);
    output(&mut pack).context("building the Debian package")?;
    fs::remove_dir_all(&root)?;
    Ok(file)
}

/// Writes one image of the program alone, for all targets; the program builds it itself.
pub(super) fn image(dist: &Dist<'_>, programs: &[Program]) -> Result<PathBuf> {
    let native = programs.iter().find(|program| !program.emulated);
    let builder = native.or(programs.first()).context("there is no program to build an image of")?;
    let file = match programs {
        [program] => dist.artifact(&program.target, ".oci.tar"),
        _ => dist.place.join(format!("opm-{}.oci.tar", dist.version)),
    };
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let mut build = builder.command();
    build.args(["build", "--program-only"]).env("SOURCE_DATE_EPOCH", &dist.time);
    // The registry is part of a name, so users who load the image rename it.
    build.args(["--tag", &format!("localhost/opm:{}", dist.version)]);
    build.args(["--to", &format!("oci-archive:{}", file.display())]);
    for program in programs {
        let platform = format!("linux/{}", program.target.debian);
        build.args(["--platform", &platform, "--binary", &format!("{platform}={}", program.file.display())]);
    }
    output(&mut build)?;
    Ok(file)
}

/// Writes the checksums of all packages of this version, as `sha256sum --check` reads them.
///
/// Packages of other targets that an earlier run wrote stay in the list.
pub(super) fn checksums(dist: &Dist<'_>, files: &[PathBuf]) -> Result<()> {
    let list = dist.place.join(CHECKSUMS);
    let before = fs::read_to_string(&list).unwrap_or_default();
    let kept = listed(&before, &dist.version).filter(|name| dist.place.join(name).is_file()).map(str::to_owned);
    let names = files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let names: BTreeSet<String> = kept.chain(names).collect();
    let sums = output(Command::new("sha256sum").current_dir(&dist.place).args(names))?;
    write(&list, &sums)
}

/// Returns the names in a list of checksums that are packages of a version.
fn listed<'a>(sums: &'a str, version: &str) -> impl Iterator<Item = &'a str> {
    let starts = ['-', '_'].map(|separator| format!("opm{separator}{version}"));
    let names = sums.lines().filter_map(|line| line.split_once("  ").map(|(_, name)| name));
    names.filter(move |name| {
        let rest = starts.iter().find_map(|start| name.strip_prefix(start.as_str()));
        rest.is_some_and(|rest| rest.starts_with(['-', '_']) || rest == ".oci.tar")
    })
}

fn man_pages(program: &Program, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    output(program.command().arg("man").arg("--to").arg(directory)).map(drop)
}

fn completion(program: &Program, shell: &str, file: &Path) -> Result<()> {
    write(file, &output(program.command().args(["completion", shell]))?)
}

fn tar(root: &Path, inside: &str, file: &Path, time: &str) -> Result<()> {
    let plain = file.with_extension("");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg("-C").arg(root).arg("-cf").arg(&plain).arg(inside);
    output(&mut tar)?;
    output(Command::new("gzip").args(["-9", "-n", "-f"]).arg(&plain)).map(drop)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_other_targets_stay_until_the_version_changes() {
        let sums = "00  opm-0.1.0-x86_64-unknown-linux-gnu.tar.gz\n11  opm_0.1.0_arm64.deb\n22  opm-0.1.0.oci.tar\n\
                    33  opm-0.1.01-x86_64-unknown-linux-gnu.tar.gz\n44  opm_0.0.9_arm64.deb\n";
        let expected = ["opm-0.1.0-x86_64-unknown-linux-gnu.tar.gz", "opm_0.1.0_arm64.deb", "opm-0.1.0.oci.tar"];
        assert_eq!(listed(sums, "0.1.0").collect::<Vec<_>>(), expected);
        assert_eq!(listed("", "0.1.0").count(), 0);
    }
}
