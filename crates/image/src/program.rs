//! Programs for images: which binary a platform gets, and whether it can run there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{Platform, Programs};

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

/// Why an image cannot contain a program. Commands add which of their flags help.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No binary was given for the platform, and the running one is for another.
    #[error("this binary does not run on {platform}")]
    NoneFor { platform: String },
    /// The binary cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The path of the binary.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file is not a binary for Linux.
    #[error("{}: not a Linux executable", path.display())]
    NotExecutable {
        /// The path of the file.
        path: PathBuf,
    },
    /// The binary is for another architecture.
    #[error("{} is a binary for {architecture}, not for {platform}", path.display())]
    OtherArchitecture {
        /// The path of the binary.
        path: PathBuf,
        /// Its architecture.
        architecture: &'static str,
        /// The platform of the image.
        platform: String,
    },
    /// The binary needs a loader and libraries, and the image has none.
    #[error("{} is dynamically linked and cannot run in an image without libraries", path.display())]
    Dynamic {
        /// The path of the binary.
        path: PathBuf,
        /// The platform of the image.
        platform: String,
    },
}

/// Returns the program for a platform: the given one, or the running one, at `running`. If `alone`, it must run without
/// any other file.
///
/// # Errors
/// Fails when there is no program for the platform, or it could not run there.
pub fn find_program(
    given: &[(Platform, PathBuf)],
    running: &Path,
    platform: &Platform,
    alone: bool,
) -> Result<PathBuf, ProgramError> {
    let path = match given.iter().rev().find(|(of, _)| of == platform) {
        Some((_, path)) => path,
        None if *platform == Platform::host() => running,
        None => return Err(ProgramError::NoneFor { platform: platform.to_string() }),
    };
    check(path, platform, alone)?;
    Ok(path.to_owned())
}

/// Which programs an image should get.
#[derive(Debug, Clone, Copy)]
pub struct ProgramChoice<'a> {
    /// The platforms of the image; empty for that of the host.
    pub platforms: &'a [Platform],
    /// The binaries that the user names.
    pub given: &'a [(Platform, PathBuf)],
    /// The running binary.
    pub running: &'a Path,
    /// Whether the programs must run without any other file.
    pub alone: bool,
    /// Whether the image can do without programs.
    pub optional: bool,
}

/// The platforms of an image and their programs.
#[derive(Debug)]
pub struct ChosenPrograms {
    /// The programs.
    pub programs: Programs,
    /// Why the image does without programs.
    pub left_out: Option<ProgramError>,
}

impl ProgramChoice<'_> {
    /// Returns the platforms of an image without programs.
    pub fn none(platforms: &[Platform]) -> Programs {
        let data = [Platform::of_data()];
        let platforms = if platforms.is_empty() { &data } else { platforms };
        platforms.iter().map(|platform| (platform.clone(), None)).collect()
    }

    /// Finds the program of each platform. A program that could not run is left out if the image can do without.
    ///
    /// # Errors
    /// Fails if a platform lacks a program, or the program could not run there.
    pub fn find(&self) -> Result<ChosenPrograms, ProgramError> {
        let host = [Platform::host()];
        let platforms = if self.platforms.is_empty() { &host } else { self.platforms };
        let find = |platform: &Platform| {
            let program = find_program(self.given, self.running, platform, self.alone)?;
            Ok((platform.clone(), Some(program)))
        };
        match platforms.iter().map(find).collect() {
            Ok(programs) => Ok(ChosenPrograms { programs, left_out: None }),
            Err(error @ (ProgramError::Dynamic { .. } | ProgramError::NotExecutable { .. })) if self.optional => {
                Ok(ChosenPrograms { programs: ProgramChoice::none(self.platforms), left_out: Some(error) })
            }
            Err(error) => Err(error),
        }
    }
}

/// Checks that a binary runs on a platform; if `alone`, without any other file.
fn check(path: &Path, platform: &Platform, alone: bool) -> Result<(), ProgramError> {
    let path = path.to_owned();
    let program = match read(&path) {
        Ok(Some(program)) => program,
        Ok(None) => return Err(ProgramError::NotExecutable { path }),
        Err(error) => return Err(ProgramError::Unreadable { path, error }),
    };
    let machine = MACHINES.iter().find(|(number, _)| *number == program.machine).map(|(_, name)| *name);
    if let Some(architecture) = machine.filter(|machine| *machine != platform.architecture) {
        return Err(ProgramError::OtherArchitecture { path, architecture, platform: platform.to_string() });
    }
    match alone && program.dynamic {
        true => Err(ProgramError::Dynamic { path, platform: platform.to_string() }),
        false => Ok(()),
    }
}

/// Parses the header of a file; returns `None` if it is not an ELF file.
fn read(path: &Path) -> io::Result<Option<Program>> {
    match parse(&mut File::open(path)?) {
        Ok(program) => Ok(program),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(file: &mut File) -> io::Result<Option<Program>> {
    let mut header = [0; 64];
    file.read_exact(&mut header)?;
    if !header.starts_with(b"\x7fELF") {
        return Ok(None);
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
        let Some(start) = table.checked_add(segment * size) else { return Ok(None) };
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut kind)?;
        dynamic |= number(&kind) == u64::from(INTERPRETER);
    }
    Ok(Some(Program { machine: number(&header[18..20]) as u16, dynamic }))
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
            let platform: Platform = "linux/amd64".parse().unwrap();
            find_program(&[(platform.clone(), path.clone())], Path::new("none"), &platform, alone)
        };
        assert_eq!(outcome(&program(0x3e, 1), true).unwrap(), path);
        assert_eq!(outcome(&program(0x3e, 3), false).unwrap(), path);
        assert!(matches!(outcome(&program(0x3e, 3), true), Err(ProgramError::Dynamic { .. })));
        let other = outcome(&program(0xb7, 1), true).unwrap_err().to_string();
        assert!(other.contains("a binary for arm64, not for linux/amd64"), "{other}");
        let mut endless = program(0x3e, 1);
        endless[56..58].copy_from_slice(&[0xff, 0xff]);
        for not_elf in [b"#!/bin/sh\n".to_vec(), vec![b'x'; 100], endless] {
            assert!(matches!(outcome(&not_elf, false), Err(ProgramError::NotExecutable { .. })));
        }
    }

    #[test]
    fn an_image_can_do_without_a_program_that_cannot_run() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("opm");
        std::fs::write(&path, program(0x3e, 3)).unwrap();
        let platform: Platform = "linux/amd64".parse().unwrap();
        let (platforms, given) = ([platform.clone()], [(platform.clone(), path)]);
        let choice = ProgramChoice {
            platforms: &platforms,
            given: &given,
            running: Path::new("none"),
            alone: true,
            optional: true,
        };
        let chosen = choice.find().unwrap();
        assert_eq!(chosen.programs, [(platform, None)]);
        assert!(matches!(chosen.left_out, Some(ProgramError::Dynamic { .. })));
        assert!(ProgramChoice { optional: false, ..choice }.find().is_err());
        assert_eq!(ProgramChoice { alone: false, ..choice }.find().unwrap().programs[0].1, Some(given[0].1.clone()));
    }

    #[test]
    fn a_platform_without_a_given_binary_gets_the_running_one_if_it_can() {
        let scratch = tempfile::tempdir().unwrap();
        let running = scratch.path().join("opm");
        std::fs::write(&running, program(0xb7, 1)).unwrap();
        let find = |platform: &str| find_program(&[], &running, &platform.parse().unwrap(), true);
        assert!(matches!(find("linux/mips"), Err(ProgramError::NoneFor { .. })));
        let host = Platform::host();
        match host.architecture.as_str() {
            "arm64" => assert_eq!(find(&host.to_string()).unwrap(), running),
            _ => assert!(matches!(find(&host.to_string()), Err(ProgramError::OtherArchitecture { .. }))),
        }
    }
}
