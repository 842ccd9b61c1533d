//! Files that bundles refer to: they hold objects, and no catalog content.

use std::collections::HashMap;
use std::path::Path;

use super::FileOutcome;
use crate::blob::Content;
use crate::object;
use crate::path;
use crate::problem::{Problem, Stage};

/// Leaves out what was read from files that a bundle of another file refers to.
///
/// Such a file is no catalog content, whether `.indexignore` names it or not. One that holds blobs nevertheless is an
/// error: somebody would lose them to a reference of somebody else.
pub(super) fn leave_out(paths: &[&Path], outcomes: &mut [(usize, FileOutcome)]) {
    let referring: Vec<usize> = (0..outcomes.len()).filter(|&i| refers(&outcomes[i].1)).collect();
    if referring.is_empty() {
        return;
    }
    let places: HashMap<&Path, usize> = paths.iter().enumerate().map(|(i, path)| (*path, i)).collect();
    for from in referring {
        let directory = paths[from].parent().unwrap_or(Path::new(""));
        let mut named = Vec::new();
        for blob in &outcomes[from].1.blobs {
            let Content::Bundle(bundle) = &blob.content else { continue };
            for reference in &bundle.references {
                let Ok(path) = object::resolve(directory, reference) else { continue };
                if let Some(&to) = places.get(path.as_path()).filter(|to| **to != from) {
                    named.push((to, blob.place(path!["properties"]), blob.package.clone(), blob.name.clone()));
                }
            }
        }
        let broken = outcomes[from].1.named.iter().filter_map(|reference| object::resolve(directory, reference).ok());
        let broken: Vec<usize> = broken.filter_map(|path| places.get(path.as_path()).copied()).collect();
        for to in broken.into_iter().filter(|to| *to != from) {
            if outcomes[to].1.blobs.is_empty() {
                outcomes[to].1 = FileOutcome { stamp: outcomes[to].1.stamp, ..FileOutcome::default() };
            }
        }
        for (to, place, package, bundle) in named {
            if outcomes[to].1.blobs.is_empty() {
                outcomes[to].1 = FileOutcome { stamp: outcomes[to].1.stamp, ..FileOutcome::default() };
                continue;
            }
            let path = paths[to].display();
            let message = format!("bundle \"{bundle}\" refers to {path}, which holds catalog content and no object");
            let mut problem = Problem::new("bundle-objects", Stage::Load, message)
                .about(&package, "", &bundle)
                .help("put objects into files of their own");
            problem.place = place;
            outcomes[from].1.problems.push(problem);
        }
    }
}

fn refers(outcome: &FileOutcome) -> bool {
    !outcome.named.is_empty()
        || outcome
            .blobs
            .iter()
            .any(|blob| matches!(&blob.content, Content::Bundle(bundle) if !bundle.references.is_empty()))
}
