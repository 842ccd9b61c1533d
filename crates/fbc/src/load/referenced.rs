//! Files that bundles refer to: they contain objects, not catalog content.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::FileOutcome;
use crate::blob::BlobContent;
use crate::object;
use crate::path;
use crate::problem::{Problem, ProblemStage};

/// Returns the paths of all files that bundles refer to, relative to the catalog.
pub(super) fn paths(paths: &[&Path], outcomes: &[(usize, FileOutcome)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, (_, outcome)) in paths.iter().zip(outcomes) {
        let directory = path.parent().unwrap_or(Path::new(""));
        let bundles = outcome.blobs.iter().filter_map(|blob| match &blob.content {
            BlobContent::Bundle(bundle) => Some(&bundle.references),
            _ => None,
        });
        let references = bundles.flatten().chain(&outcome.referenced);
        found.extend(references.filter_map(|reference| object::resolve(directory, reference).ok()));
    }
    found
}

/// Drops the content of files that a bundle of another file refers to.
///
/// Such a file is not catalog content, whether or not `.indexignore` lists it. If it contains blobs anyway, that is an
/// error: a reference in one file must not hide the blobs of another.
pub(super) fn drop_referenced_files(paths: &[&Path], outcomes: &mut [(usize, FileOutcome)]) {
    let referring: Vec<usize> = (0..outcomes.len()).filter(|&i| refers(&outcomes[i].1)).collect();
    if referring.is_empty() {
        return;
    }
    let places: HashMap<&Path, usize> = paths.iter().enumerate().map(|(i, path)| (*path, i)).collect();
    for from in referring {
        let directory = paths[from].parent().unwrap_or(Path::new(""));
        let mut referenced = Vec::new();
        for blob in &outcomes[from].1.blobs {
            let BlobContent::Bundle(bundle) = &blob.content else { continue };
            for reference in &bundle.references {
                let Ok(path) = object::resolve(directory, reference) else { continue };
                if let Some(&to) = places.get(path.as_path()).filter(|to| **to != from) {
                    referenced.push((to, blob.place(path!["properties"]), blob.package.clone(), blob.name.clone()));
                }
            }
        }
        let broken =
            outcomes[from].1.referenced.iter().filter_map(|reference| object::resolve(directory, reference).ok());
        let broken: Vec<usize> = broken.filter_map(|path| places.get(path.as_path()).copied()).collect();
        for to in broken.into_iter().filter(|to| *to != from) {
            if outcomes[to].1.blobs.is_empty() {
                outcomes[to].1 = FileOutcome { stamp: outcomes[to].1.stamp, ..FileOutcome::default() };
            }
        }
        for (to, place, package, bundle) in referenced {
            if outcomes[to].1.blobs.is_empty() {
                outcomes[to].1 = FileOutcome { stamp: outcomes[to].1.stamp, ..FileOutcome::default() };
                continue;
            }
            let path = paths[to].display();
            let message =
                format!("bundle \"{bundle}\" refers to {path}, which contains catalog content, not an object");
            let mut problem = Problem::new("bundle-objects", ProblemStage::Load, message)
                .about(&package, "", &bundle)
                .help("move objects to separate files");
            problem.place = place;
            outcomes[from].1.problems.push(problem);
        }
    }
}

fn refers(outcome: &FileOutcome) -> bool {
    !outcome.referenced.is_empty()
        || outcome
            .blobs
            .iter()
            .any(|blob| matches!(&blob.content, BlobContent::Bundle(bundle) if !bundle.references.is_empty()))
}
