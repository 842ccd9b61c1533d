//! The targets of releases.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// A target, and its names in other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuildTarget {
    /// The name in rustc.
    pub(super) triple: &'static str,
    /// The architecture as `opm version` prints it.
    pub(super) architecture: &'static str,
    /// The architecture in Debian packages and images.
    pub(super) debian: &'static str,
    /// The machine number in ELF headers.
    machine: usize,
    /// The C compiler that builds for it on other machines.
    pub(super) compiler: &'static str,
    /// That compiler, the static C library and the emulator, for [`crate::tools::ensure`], which also finds a file by its
    /// absolute path.
    pub(super) tools: &'static [&'static str],
    /// The emulator that runs its programs on other machines.
    pub(super) emulator: &'static str,
    /// Whether rustc itself links static position-independent programs, and with its own lld.
    pub(super) rustc_links: bool,
}

const TARGETS: &[BuildTarget] = &[
    BuildTarget {
        triple: "x86_64-unknown-linux-gnu",
        architecture: "x86_64",
        debian: "amd64",
        machine: 0x3e,
        compiler: "x86_64-linux-gnu-gcc",
        tools: &[
            "x86_64-linux-gnu-gcc:gcc-x86-64-linux-gnu",
            "/usr/x86_64-linux-gnu/lib/libc.a:libc6-dev-amd64-cross",
            "qemu-x86_64:qemu-user",
        ],
        emulator: "qemu-x86_64",
        rustc_links: true,
    },
    BuildTarget {
        triple: "aarch64-unknown-linux-gnu",
        architecture: "aarch64",
        debian: "arm64",
        machine: 0xb7,
        compiler: "aarch64-linux-gnu-gcc",
        tools: &[
            "aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu",
            "/usr/aarch64-linux-gnu/lib/libc.a:libc6-dev-arm64-cross",
            "qemu-aarch64:qemu-user",
        ],
        emulator: "qemu-aarch64",
        rustc_links: false,
    },
];

impl BuildTarget {
    /// Finds a target by its name in rustc.
    pub(super) fn find(triple: &str) -> Result<BuildTarget> {
        if let Some(target) = TARGETS.iter().find(|target| target.triple == triple) {
            return Ok(*target);
        }
        let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        bail!("releases are not built for {triple}; supported: {}", known.join(", "))
    }

    /// Returns the name of an environment variable of cargo or of build scripts for this target.
    pub(super) fn variable(&self, before: &str, after: &str) -> String {
        format!("{before}{}{after}", self.triple.replace('-', "_"))
    }

    /// Checks that a program runs on this target, in an image without other files, and has no symbols.
    pub(super) fn check(&self, program: &Path) -> Result<()> {
        let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
        let elf = Elf(&bytes);
        ensure!(elf.machine() == Some(self.machine), "{} is not a program for {}", program.display(), self.triple);
        ensure!(elf.is_static(), "{} is dynamically linked", program.display());
        ensure!(elf.is_position_independent(), "{} is not position-independent", program.display());
        ensure!(elf.is_stripped(), "{} has symbols", program.display());
        Ok(())
    }
}

/// A 64-bit little-endian ELF file.
struct Elf<'a>(&'a [u8]);

impl Elf<'_> {
    /// Decodes a number; one that lies outside of the file is 0.
    fn number(&self, at: usize, length: usize) -> usize {
        let bytes = at.checked_add(length).and_then(|end| self.0.get(at..end)).unwrap_or_default();
        bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    /// Returns the machine number, or none if this is not such a file.
    fn machine(&self) -> Option<usize> {
        self.0.starts_with(b"\x7fELF\x02\x01").then(|| self.number(18, 2))
    }

    /// Returns whether it needs no loader.
    fn is_static(&self) -> bool {
        const INTERPRETER: usize = 3;
        let (table, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        (0..count).all(|segment| self.number(table + segment * size, 4) != INTERPRETER)
    }

    /// Returns whether the kernel can load it at a random address.
    fn is_position_independent(&self) -> bool {
        const DYNAMIC: usize = 3;
        self.number(16, 2) == DYNAMIC
    }

    /// Returns whether it has no symbol table.
    fn is_stripped(&self) -> bool {
        const SYMBOLS: usize = 2;
        let (table, size, count) = (self.number(40, 8), self.number(58, 2), self.number(60, 2));
        (0..count).all(|section| self.number(table + section * size + 4, 4) != SYMBOLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file of a type for a machine, with one segment and one section.
    fn program(kind: u8, machine: u8, segment: u8, section: u8) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[16], bytes[18]) = (kind, machine);
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
        (bytes[40], bytes[58], bytes[60]) = (128, 64, 1);
        (bytes[64], bytes[128 + 4]) = (segment, section);
        bytes
    }

    #[test]
    fn a_release_contains_only_static_stripped_programs_of_its_target() {
        let path = std::env::temp_dir().join(format!("opm-xtask-elf-{}", std::process::id()));
        let outcome = |target: &str, bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let outcome = BuildTarget::find(target).unwrap().check(&path);
            fs::remove_file(&path).unwrap();
            outcome.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let (intel, arm) = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu");
        assert_eq!(outcome(intel, &program(3, 0x3e, 1, 1)), "");
        assert_eq!(outcome(arm, &program(3, 0xb7, 1, 1)), "");
        assert!(outcome(arm, &program(3, 0x3e, 1, 1)).ends_with("is not a program for aarch64-unknown-linux-gnu"));
        assert!(outcome(intel, b"#!/bin/sh\n").ends_with("is not a program for x86_64-unknown-linux-gnu"));
        assert!(outcome(arm, &program(3, 0xb7, 3, 1)).ends_with("is dynamically linked"));
        assert!(outcome(arm, &program(2, 0xb7, 1, 1)).ends_with("is not position-independent"));
        assert!(outcome(arm, &program(3, 0xb7, 1, 2)).ends_with("has symbols"));
    }

    #[test]
    fn other_targets_are_rejected_with_the_supported_ones() {
        let error = BuildTarget::find("riscv64gc-unknown-linux-gnu").unwrap_err().to_string();
        assert_eq!(
            error,
            "releases are not built for riscv64gc-unknown-linux-gnu; \
             supported: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu"
        );
    }
}
