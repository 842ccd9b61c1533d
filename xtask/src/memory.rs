//! A directory in memory for temporary files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Linux keeps files in memory.
const MOUNT: &str = "/dev/shm";
/// The space to require, in KiB: several times what tests use at once.
const REQUIRED: u64 = 4 << 20;

/// A directory in memory, which is removed when this is dropped.
pub(crate) struct Memory {
    path: PathBuf,
}

impl Memory {
    /// Creates a directory. Returns `None` if the user chose a place for temporary files, if there is too little memory,
    /// or if files in memory cannot be executed.
    pub(crate) fn new() -> Option<Memory> {
        if std::env::var_os("TMPDIR").is_some() || room()? < REQUIRED {
            return None;
        }
        let path = Path::new(MOUNT).join(format!("opm-ci-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let memory = Memory { path };
        memory.is_executable().then_some(memory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tests execute scripts and programs of their own.
    fn is_executable(&self) -> bool {
        let script = self.path.join("script");
        let written = fs::write(&script, "#!/bin/sh\n");
        let allowed = written.and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o700)));
        allowed.is_ok() && Command::new(&script).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The next start of the machine removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the space for files in memory, in KiB. Half of the free memory is for programs.
fn room() -> Option<u64> {
    let df = Command::new("df").args(["-Pk", MOUNT]).output().ok()?;
    let free = fs::read_to_string("/proc/meminfo").ok()?;
    Some(available(&String::from_utf8_lossy(&df.stdout))?.min(free_memory(&free)? / 2))
}

/// Returns the available space in the output of `df`.
fn available(df: &str) -> Option<u64> {
    df.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

fn free_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_read_from_the_system() {
        let df = "Filesystem     1024-blocks  Used Available Capacity Mounted on\ntmpfs             12000000  2000  11998000       1% /dev/shm\n";
        assert_eq!(available(df), Some(11_998_000));
        assert_eq!(free_memory("MemTotal:  24000000 kB\nMemAvailable:   20000000 kB\n"), Some(20_000_000));
        assert_eq!((available("df: no such file\n"), free_memory("")), (None, None));
    }
}
