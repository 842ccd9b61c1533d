//! Builds for machines other than this one: linking, and running the result.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::target::BuildTarget;
use crate::tools;
use crate::workspace::{Workspace, output};

/// A built program.
pub(super) struct Program {
    pub(super) target: BuildTarget,
    pub(super) file: PathBuf,
    /// Whether this machine runs it only with an emulator.
    pub(super) emulated: bool,
}

impl Program {
    /// Returns a command that runs the program on this machine.
    pub(super) fn command(&self) -> Command {
        if !self.emulated {
            return Command::new(&self.file);
        }
        let mut command = Command::new(self.target.emulator);
        command.arg(&self.file);
        command
    }

    /// Checks that the program starts, reports its version and target, and reads a catalog.
    pub(super) fn try_out(&self, workspace: &Workspace, version: &str) -> Result<()> {
        let reported = output(self.command().arg("version"))?;
        let expected = format!("Version: {version} (linux/{})", self.target.architecture);
        ensure!(reported.trim() == expected, "{} reports {reported:?}, not {expected:?}", self.file.display());
        output(self.command().arg("validate").arg(workspace.root.join("examples/catalog"))).map(drop)
    }
}

/// Returns the linker for a target, if it is not the one that rustc chooses.
///
/// rustc links static programs of some targets to a fixed address. For these, the linker is a script that replaces the
/// options. It always has the same name, so that cargo sees no change.
pub(super) fn linker(target: &BuildTarget, host: &str, directory: &Path) -> Result<Option<PathBuf>> {
    let compiler = if target.triple == host { "cc" } else { target.compiler };
    if target.rustc_links {
        return Ok((target.triple != host).then(|| compiler.into()));
    }
    let script = format!(
        "#!/bin/sh\n\
         for word; do\n\
         \x20   shift\n\
         \x20   case $word in -static | -no-pie) ;; *) set -- \"$@\" \"$word\" ;; esac\n\
         done\n\
         exec {compiler} -static-pie \"$@\"\n"
    );
    fs::create_dir_all(directory)?;
    let file = directory.join("link-static-pie");
    fs::write(&file, script).with_context(|| format!("writing {}", file.display()))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(Some(file))
}

/// Returns options that link with the compiler's lld where rustc's default is another linker.
pub(super) fn lld(target: &BuildTarget, host: &str) -> Result<Vec<String>> {
    if target.rustc_links {
        return Ok(Vec::new());
    }
    let mut options = vec!["-fuse-ld=lld".to_owned()];
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let own = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/gcc-ld");
    if own.join("ld.lld").is_file() {
        options.push(format!("-B{}", own.display()));
    } else {
        tools::ensure(&["ld.lld:lld"])?;
    }
    Ok(options)
}
