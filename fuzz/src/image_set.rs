//! ImageSetConfiguration files: an accepted file can be planned; each problem of a rejected one has a line.

use mirror::imageset::{self, ImageSetKind};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    for kind in [ImageSetKind::Mirror, ImageSetKind::Delete] {
        match imageset::read(bytes, kind) {
            Ok(set) => {
                let again = imageset::read(bytes, kind).expect("parsing again gives the same result");
                assert_eq!(set.catalogs.len(), again.catalogs.len());
                for catalog in &set.catalogs {
                    let _ = catalog.source.to_string();
                    assert!(catalog.packages.iter().all(|package| !package.name.is_empty()));
                }
                for image in &set.additional {
                    assert!(image.reference.tag().is_some() || image.reference.digest().is_some());
                }
            }
            Err(problems) => {
                assert!(!problems.is_empty());
                assert!(problems.iter().all(|problem| problem.line >= 1 && problem.line <= lines + 1), "{problems:?}");
            }
        }
    }
}
