//! The pages on commands, which the program makes of its own arguments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::env::{TestEnv, project};

fn pages(directory: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let page = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).unwrap_or_else(|error| panic!("{:?}: {error}", file.path()));
        (file.file_name().to_string_lossy().into_owned(), text)
    };
    files.map(|file| page(file.expect("a file"))).collect()
}

#[test]
fn the_pages_on_commands_are_those_of_the_program() {
    let env = TestEnv::new();
    let made = tempfile::tempdir().expect("scratch directory");
    env.stdout(&["__reference", made.path().to_str().expect("a path")]);
    let (made, kept) = (pages(made.path()), pages(&project("docs/cli")));
    assert!(made.len() > 20, "{:?}", made.keys());
    assert!(made.keys().eq(kept.keys()), "run `cargo xtask docs`: {:?} and {:?}", made.keys(), kept.keys());
    for (name, text) in made {
        assert_eq!(text, kept[&name], "docs/cli/{name}: run `cargo xtask docs`");
    }
}
