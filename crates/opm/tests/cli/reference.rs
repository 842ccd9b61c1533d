//! The command pages, which the program generates from its arguments.

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
    files.map(|file| file.expect("a file")).filter(|file| file.path().is_file()).map(page).collect()
}

#[test]
fn command_pages_are_up_to_date() {
    let env = TestEnv::new();
    let generated = tempfile::tempdir().expect("scratch directory");
    env.stdout(&["__reference", generated.path().to_str().expect("a path")]);
    let (generated, committed) = (pages(generated.path()), pages(&project("docs/cli")));
    assert!(generated.len() > 20, "{:?}", generated.keys());
    assert!(
        generated.keys().eq(committed.keys()),
        "run `cargo xtask docs`: {:?} and {:?}",
        generated.keys(),
        committed.keys()
    );
    for (name, text) in generated {
        assert_eq!(text, committed[&name], "docs/cli/{name}: run `cargo xtask docs`");
    }
}
