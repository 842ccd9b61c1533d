//! The targets accept their seeds.

use std::fs;
use std::path::{Path, PathBuf};

use fuzz::TARGETS;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
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
        let directory = root().join("seeds").join(name);
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
fn seeds_and_dictionaries_belong_to_targets() {
    let expected: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&root().join("seeds")), expected);
    for dictionary in names(&root().join("dictionaries")) {
        let target = dictionary.trim_end_matches(".dict").to_owned();
        assert!(expected.contains(&target), "no target reads {dictionary}");
    }
}
