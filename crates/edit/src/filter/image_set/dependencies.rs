//! Dependencies of kept bundles, within their catalog or in another one.

use std::collections::{BTreeSet, HashSet};

use super::super::{AllFacts, KeptPart, needs};
use super::{Choice, ImageSetCatalog, everything, missing_dependencies};
use crate::outline::Outline;

/// Returns the dependencies that no catalog of a cluster provides.
pub fn unmet(sides: &[(&Outline, &AllFacts)]) -> BTreeSet<String> {
    let heads = KeptPart { heads_only: true, ..KeptPart::default() };
    let mut found: Vec<needs::Unmet> = Vec::new();
    for (number, (outline, facts)) in sides.iter().enumerate() {
        let missing_dependencies = needs::add(outline, &heads, facts, &mut everything(outline), &mut Vec::new());
        found.extend(missing_dependencies.into_iter().filter(|one| {
            let mut others = sides.iter().enumerate().filter(|(other, _)| *other != number);
            !others.any(|(_, (outline, facts))| {
                needs::satisfy_external(outline, facts, one, false, &mut everything(outline), &mut Vec::new())
            })
        }));
    }
    found.iter().map(ToString::to_string).collect()
}

/// Keeps the dependencies of kept bundles if requested, and otherwise reports them.
pub(super) fn dependencies(sides: &[ImageSetCatalog<'_>], choices: &mut [Choice]) {
    let heads = KeptPart { heads_only: true, ..KeptPart::default() };
    let follows = sides.iter().any(|side| side.request.is_some_and(|request| request.dependencies));
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for number in 0..sides.len() {
            let side = &sides[number];
            let (mut whole, mut notes) = (choices[number].kept.clone(), Vec::new());
            let unmet = needs::add(side.outline, &heads, side.facts, &mut whole, &mut notes);
            if side.request.is_some() {
                let own = match follows {
                    true => notes,
                    false => missing_dependencies(&choices[number].kept, &whole),
                };
                choices[number].notes.extend(own);
            }
            if follows && side.request.is_some() {
                choices[number].kept = whole;
            }
            for one in unmet {
                let elsewhere = (0..sides.len()).filter(|other| *other != number);
                let by_kept = elsewhere.clone().any(|other| {
                    let (at, mut unused) = (&sides[other], Vec::new());
                    needs::satisfy_external(at.outline, at.facts, &one, false, &mut choices[other].kept, &mut unused)
                });
                let met = by_kept
                    || follows
                        && elsewhere.filter(|other| sides[*other].request.is_some()).any(|other| {
                            let (at, choice) = (&sides[other], &mut choices[other]);
                            let met = needs::satisfy_external(
                                at.outline,
                                at.facts,
                                &one,
                                true,
                                &mut choice.kept,
                                &mut choice.notes,
                            );
                            changed |= met;
                            met
                        });
                if !met && side.request.is_some() {
                    choices[number].notes.push(one.to_string());
                }
            }
        }
    }
    for choice in choices {
        let mut seen = HashSet::new();
        choice.notes.retain(|note| seen.insert(note.clone()));
    }
}
