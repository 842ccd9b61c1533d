//! Checks of the binary in an image: its architecture and whether it is static.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use image::Platform;

/// ELF machine numbers and the architecture names of images.
const MACHINES: &[(u16, &str)] = &[
    (0x03, "386"),
    (0x15, "ppc64le"),
    (0x16, "s390x"),
    (0x28, "arm"),
    (0x3e, "amd64"),
    (0xb7, "arm64"),
    (0xf3, "riscv64"),
];

/// The type of an ELF segment that names the loader (`PT_INTERP`).
const INTERPRETER: u32 = 3;

/// The relevant parts of an ELF header.
struct Program {
    machine: u16,
    /// Whether it needs a loader and libraries.
    dynamic: bool,
}

/// Checks that a binary runs on a platform; if `alone`, without any other file.
pub(super) fn check(path: &Path, platform: &Platform, alone: bool) -> Result<(), String> {
    let program = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let machine = MACHINES.iter().find(|(number, _)| *number == program.machine).map(|(_, name)| *name);
    if let Some(machine) = machine.filter(|machine| *machine != platform.architecture) {
        return Err(format!("{} is a binary for {machine}, not for {platform}", path.display()));
    }
    if alone && program.dynamic {
        return Err(format!(
            "{} is dynamically linked and cannot run in an image without libraries: build with --data-only, for servers \
             that have their own opm, with --base-image REF, or with --binary {platform}=FILE and the static program of \
             a release or of 'cargo xtask dist'",
            path.display()
        ));
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Program> {
    let not_elf = || io::Error::other("not a Linux executable");
    let mut file = File::open(path)?;
    let mut header = [0; 64];
    file.read_exact(&mut header).map_err(|_| not_elf())?;
    if !header.starts_with(b"\x7fELF") {
        return Err(not_elf());
    }
    let wide = header[4] == 2;
    let little = header[5] == 1;
    let number = |bytes: &[u8]| {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    };
    let (table, size, count) = if wide {
        (number(&header[32..40]), number(&header[54..56]), number(&header[56..58]))
    } else {
        (number(&header[28..32]), number(&header[42..44]), number(&header[44..46]))
    };
    let mut dynamic = false;
    for segment in 0..count {
        let mut kind = [0; 4];
        file.seek(SeekFrom::Start(table.checked_add(segment * size).ok_or_else(not_elf)?))?;
        file.read_exact(&mut kind).map_err(|_| not_elf())?;
        dynamic |= number(&kind) == u64::from(INTERPRETER);
    }
    Ok(Program { machine: number(&header[18..20]) as u16, dynamic })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file with one segment.
    fn program(machine: u8, segment: u8) -> Vec<u8> {
        let mut bytes = vec![0; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = segment;
        bytes
    }

    #[test]
    fn only_binaries_that_can_run_are_accepted() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("opm");
        let outcome = |bytes: &[u8], alone| {
            std::fs::write(&path, bytes).unwrap();
            check(&path, &"linux/amd64".parse().unwrap(), alone).err().unwrap_or_default()
        };
        assert_eq!(outcome(&program(0x3e, 1), true), "");
        assert_eq!(outcome(&program(0x3e, 3), false), "");
        let dynamic = outcome(&program(0x3e, 3), true);
        for part in ["is dynamically linked", "--data-only", "--base-image REF", "--binary linux/amd64=FILE"] {
            assert!(dynamic.contains(part), "{dynamic}");
        }
        assert!(outcome(&program(0xb7, 1), true).contains("a binary for arm64, not for linux/amd64"));
        assert!(outcome(b"#!/bin/sh\n", false).contains("not a Linux executable"));
        let mut endless = program(0x3e, 1);
        endless[56..58].copy_from_slice(&[0xff, 0xff]);
        assert!(outcome(&endless, true).contains("not a Linux executable"));
    }
}
