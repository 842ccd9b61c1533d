//! The order in which the bundles of a channel are drawn.

use std::cmp::Ordering;

use fbc::release::{Release, cmp_version_release};
use fbc::version::Version;

use super::GraphEdge;

/// Longer names are not searched for a version.
const MAX_NAME_LENGTH: usize = 256;

/// Sorts the bundles of a channel by descending version, and returns their numbers in that order.
///
/// A bundle without a known version goes where its name suggests (`etcd.v0.9.1`), else above the bundles it upgrades,
/// else below those that upgrade it. Of equal versions the one that upgrades the other comes first. Versions guessed
/// this way only sort the graph; they are never shown.
pub(super) fn newest_first(
    names: &[&str],
    versions: &[Option<&(Version, Option<Release>)>],
    edges: &[GraphEdge],
) -> Vec<usize> {
    let older = Older::new(names.len(), edges);
    let guesses: Vec<Option<(Version, Option<Release>)>> = names
        .iter()
        .zip(versions)
        .map(|(name, version)| version.is_none().then(|| version_in(name)).flatten().map(|guess| (guess, None)))
        .collect();
    let mut places: Vec<Option<&(Version, Option<Release>)>> =
        versions.iter().zip(&guesses).map(|(version, guess)| version.or(guess.as_ref())).collect();

    let (depths, finished) = older.depths();
    // Older bundles finish first, so guesses spread upwards in this order and downwards in the other.
    for &number in &finished {
        if places[number].is_none() {
            let below = older.of(number).iter().filter_map(|&older| places[older]);
            places[number] = below.max_by(|a, b| cmp(a, b));
        }
    }
    for &number in finished.iter().rev() {
        if let Some(place) = places[number] {
            for &older in older.of(number) {
                places[older].get_or_insert(place);
            }
        }
    }

    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| {
        let by_place = match (places[a], places[b]) {
            (Some(a), Some(b)) => cmp(b, a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        by_place.then_with(|| depths[b].cmp(&depths[a])).then(a.cmp(&b))
    });
    order
}

fn cmp(a: &(Version, Option<Release>), b: &(Version, Option<Release>)) -> Ordering {
    cmp_version_release((&a.0, a.1.as_ref()), (&b.0, b.1.as_ref()))
}

/// Finds the version at the end of a bundle's name.
fn version_in(name: &str) -> Option<Version> {
    if name.len() > MAX_NAME_LENGTH {
        return None;
    }
    name.match_indices(['.', '-']).find_map(|(at, _)| {
        let rest = &name[at + 1..];
        let digits = rest.strip_prefix('v').unwrap_or(rest);
        digits.starts_with(|c: char| c.is_ascii_digit()).then(|| Version::parse_tolerant(digits).ok()).flatten()
    })
}

/// For every bundle, those that upgrade to it.
struct Older {
    /// The start of the list of each bundle, and the end of the last one.
    starts: Vec<usize>,
    lists: Vec<usize>,
}

impl Older {
    fn new(count: usize, edges: &[GraphEdge]) -> Older {
        let mut starts = vec![0; count + 1];
        for edge in edges {
            starts[edge.to + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut fill = starts.clone();
        let mut lists = vec![0; edges.len()];
        for edge in edges {
            lists[fill[edge.to]] = edge.from;
            fill[edge.to] += 1;
        }
        Older { starts, lists }
    }

    fn of(&self, number: usize) -> &[usize] {
        &self.lists[self.starts[number]..self.starts[number + 1]]
    }

    /// Returns the length of the longest path down from each bundle, and an order in which older bundles come first. An
    /// edge that closes a cycle is not followed.
    fn depths(&self) -> (Vec<usize>, Vec<usize>) {
        #[derive(Clone, Copy, PartialEq)]
        enum VisitState {
            New,
            Open,
            Done,
        }
        let count = self.starts.len() - 1;
        let mut states = vec![VisitState::New; count];
        let mut depths = vec![0; count];
        let mut finished = Vec::with_capacity(count);
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for start in 0..count {
            if states[start] != VisitState::New {
                continue;
            }
            states[start] = VisitState::Open;
            stack.push((start, 0));
            while let Some((number, next)) = stack.pop() {
                if let Some(&older) = self.of(number).get(next) {
                    match states[older] {
                        VisitState::New => {
                            stack.push((number, next));
                            states[older] = VisitState::Open;
                            stack.push((older, 0));
                        }
                        VisitState::Open => stack.push((number, next + 1)),
                        VisitState::Done => {
                            depths[number] = depths[number].max(depths[older] + 1);
                            stack.push((number, next + 1));
                        }
                    }
                } else {
                    states[number] = VisitState::Done;
                    finished.push(number);
                }
            }
        }
        (depths, finished)
    }
}
