//! The targets accept their seeds, and libFuzzer runs each target.

use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Each seed is also run without its second half: a limit or a parser meets an end where none is expected.
#[test]
fn every_target_runs_with_its_seeds() {
    for (name, run) in TARGETS {
        let directory = fuzz().join("seeds").join(name);
        let seeds = names(&directory);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in seeds {
            let bytes = fs::read(directory.join(&seed)).expect("a seed");
            for input in [&bytes[..], &bytes[..bytes.len() / 2], b""] {
                assert!(std::panic::catch_unwind(|| run(input)).is_ok(), "{name} fails with {seed}");
            }
        }
    }
}

#[test]
fn libfuzzer_runs_every_target() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    let expected: Vec<String> = TARGETS.iter().map(|(name, _)| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("targets")), expected);
    for (name, _) in TARGETS {
        let program = fs::read_to_string(fuzz().join("targets").join(format!("{name}.rs"))).expect("a program");
        let call = format!("libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::{name}::run(bytes));");
        assert_eq!(program, format!("#![no_main]\n\n{call}\n"));
        let bin = format!("[[bin]]\nname = \"{name}\"\npath = \"targets/{name}.rs\"\n");
        assert!(manifest.contains(&bin), "fuzz/Cargo.toml does not build {name}");
    }
}
