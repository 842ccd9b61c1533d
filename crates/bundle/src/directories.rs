//! The directories of a bundle, in its image and in its source.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::check::{MANIFESTS, METADATA};

/// The label with the directory of the configuration of the bundle's own tests.
const TESTS: &str = "operators.operatorframework.io.test.config.v1";

/// Returns the directories that belong to a bundle with these labels, relative to its root: manifests, metadata and
/// tests, at their usual places and where the labels say.
///
/// Labels that name the root itself, a path that leads out of it, or something hidden do not count: nothing else of an
/// image is part of a bundle.
pub fn directories(labels: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let labelled = [MANIFESTS, METADATA, TESTS].iter().filter_map(|label| labels.get(*label)).filter_map(|path| {
        let path = Path::new(path);
        let inside: PathBuf =
            path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)).collect();
        let plain = |part: Component<'_>| part.as_os_str().to_str().is_some_and(fbc::is_file_name);
        (!inside.as_os_str().is_empty() && inside.components().all(plain)).then_some(inside)
    });
    let mut all: Vec<PathBuf> = ["manifests", "metadata", "tests"].into_iter().map(PathBuf::from).collect();
    all.extend(labelled);
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_add_directories_inside_the_bundle() {
        let directories = |label: &str, path: &str| {
            directories(&[(label.to_owned(), path.to_owned())].into())
                .into_iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        let usual = ["manifests", "metadata", "tests"];
        for path in ["manifests/", "/manifests", "", "/", ".", "..", "../etc", "a/../..", ".git", "a/.git/b", "CVS"] {
            assert_eq!(directories(MANIFESTS, path), usual, "{path}");
        }
        assert_eq!(directories(MANIFESTS, "deploy/olm/"), ["deploy/olm", "manifests", "metadata", "tests"]);
        assert_eq!(directories(TESTS, "tests/scorecard/"), ["manifests", "metadata", "tests", "tests/scorecard"]);
        assert_eq!(directories("other", "x"), usual);
    }
}
