//! A directory in memory for temporary files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Linux keeps files in memory.
const MOUNT: &str = "/dev/shm";
/// The directory of a process is this, and its number.
const PREFIX: &str = "opm-ci-";
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
        remove_abandoned(Path::new(MOUNT));
        let path = Path::new(MOUNT).join(format!("{PREFIX}{}", std::process::id()));
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
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes directories of processes that were killed.
fn remove_abandoned(mount: &Path) {
    let entries = fs::read_dir(mount).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
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
    fn only_directories_of_ended_processes_are_removed() {
        let mount = std::env::temp_dir().join(format!("memory-{}", std::process::id()));
        let running = format!("{PREFIX}{}", std::process::id());
        // Numbers of processes end before this one.
        for name in [running.as_str(), "opm-ci-4294967295", "opm-ci-other", "other"] {
            fs::create_dir_all(mount.join(name).join("inside")).expect("a directory");
        }
        remove_abandoned(&mount);
        let mut left: Vec<_> =
            fs::read_dir(&mount).expect("a directory").flatten().map(|one| one.file_name()).collect();
        left.sort();
        let mut expected = [running.as_str(), "opm-ci-other", "other"];
        expected.sort_unstable();
        assert_eq!(left, expected);
        fs::remove_dir_all(&mount).expect("removed");
    }

    #[test]
    fn space_is_read_from_the_system() {
        let df = "Filesystem     1024-blocks  Used Available Capacity Mounted on\ntmpfs             12000000  2000  11998000       1% /dev/shm\n";
        assert_eq!(available(df), Some(11_998_000));
        assert_eq!(free_memory("MemTotal:  24000000 kB\nMemAvailable:   20000000 kB\n"), Some(20_000_000));
        assert_eq!((available("df: no such file\n"), free_memory("")), (None, None));
    }
}
