//! Properties of every resolution.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::sample::read;
use crate::input::{CandidateBundle, CatalogInput, ClusterNamespace};
use crate::pool::Pool;
use crate::resolver::{self, Chosen, Resolution, SolutionItem};

/// Lines of random catalogs with a few packages, APIs and edges, and of a namespace: they may or may not be consistent.
fn lines() -> impl Strategy<Value = String> {
    let extra = prop_oneof![
        4 => Just(String::new()),
        2 => "(A|B|C)".prop_map(|api| format!(" gives={api}")),
        2 => "(A|B|C)".prop_map(|api| format!(" needs={api}")),
        2 => ("(p|q|r)", r"(>=1\.0\.0|<2\.0\.0|>=2\.0\.0|3\.0\.0)").prop_map(|(name, range)| format!(" needs={name}:{range}")),
        1 => Just(" deprecated".to_owned()),
        1 => "(A|B)".prop_map(|api| format!(r#" c={{"not":{{"constraints":[{{"gvk":{{"group":"g","version":"v1","kind":"{api}"}}}}]}}}}"#)),
    ];
    let entry = (extra.clone(), extra, prop_oneof![5 => Just(0), 1 => Just(1), 1 => Just(2)]);
    let channel = (proptest::collection::vec(entry, 1..4), "(p|q|r|s)", "(stable|fast)", any::<bool>());
    let channel = channel.prop_map(|(entries, package, channel, default)| {
        let mut line = format!("{package}/{channel}{}: ", if default { "*" } else { "" });
        for (number, (one, other, edge)) in entries.iter().enumerate() {
            let version = number + 1;
            line += &format!("{}{package}.v{version}", if number > 0 { "; " } else { "" });
            match edge {
                0 if number > 0 => line += &format!(" r={package}.v{number}"),
                1 if number > 0 => line += &format!(" s={package}.v{number}"),
                2 => line += " R=<9.0.0",
                _ => {}
            }
            line += one;
            line += other;
        }
        line
    });
    let catalog = |name: &'static str| {
        (proptest::collection::vec(channel.clone(), 1..5), 0..2).prop_map(move |(channels, priority)| {
            let mut seen = HashSet::new();
            let channels: Vec<String> = channels
                .into_iter()
                .filter(|line| seen.insert(line.split([':', '*']).next().unwrap().to_owned()))
                .collect();
            format!("catalog {name} {priority}\n{}", channels.join("\n"))
        })
    };
    let request = ("(p|q|r|s)", prop_oneof![Just(""), Just(" @stable"), Just(" @fast")], 0..4u8).prop_map(
        |(package, channel, version)| match version {
            0 => format!("sub {package}{channel}"),
            _ => format!("sub {package}{channel} installed={package}.v{version}\ncsv {package}.v{version}"),
        },
    );
    let state = proptest::collection::vec(request, 1..4).prop_map(|requests| {
        let mut seen = HashSet::new();
        let once = requests.into_iter().filter(|line| seen.insert(line.as_bytes()[4]));
        once.collect::<Vec<_>>().join("\n")
    });
    (catalog("cat"), catalog("other"), state).prop_map(|(one, other, state)| format!("{one}\n{other}\n{state}"))
}

/// Checks a solution by the rules alone, independent of the search.
fn check(sources: &[CatalogInput], pool: &Pool<'_>, state: &ClusterNamespace, chosen: &[Chosen]) -> Result<(), String> {
    let bundles: Vec<&CandidateBundle> =
        chosen.iter().map(|chosen| resolver::bundle(pool, state, chosen.item)).collect();
    let mut packages = HashSet::new();
    let mut apis = HashSet::new();
    for bundle in &bundles {
        if !packages.insert(&bundle.package) {
            return Err(format!("two bundles of package {}", bundle.package));
        }
        for api in bundle.facts.provides.iter().collect::<HashSet<_>>() {
            if !apis.insert(api) {
                return Err(format!("two providers of {api:?}"));
            }
        }
        if bundle.facts.forbidden {
            return Err(format!("{} is forbidden", bundle.name));
        }
        for requirement in &bundle.facts.needs {
            let meets = |other: &&CandidateBundle| {
                requirement.need.met_by(&other.package, other.version.as_ref(), &other.facts, &|_| None) == Some(true)
            };
            if !bundles.iter().any(meets) {
                return Err(format!("{} needs {}", bundle.name, requirement.need));
            }
        }
    }
    for request in &state.subscriptions {
        let fits = |chosen: &&Chosen| match chosen.item {
            SolutionItem::Installed(place) => Some(&state.installed[place].name) == request.installed.as_ref(),
            SolutionItem::Member(node) => {
                let member = pool.member(node);
                let edge = state.installed.iter().find(|csv| Some(&csv.name) == request.installed.as_ref());
                member.bundle.package == request.package
                    && sources[member.source].name == request.source.0
                    && request.channel.as_deref().is_none_or(|channel| channel == member.channel)
                    && edge.is_none_or(|old| {
                        member.entry.replaces.as_ref() == old.name
                            || member.entry.skips.iter().any(|skip| **skip == *old.name)
                            || !member.entry.skip_range.is_empty()
                    })
            }
        };
        let offered =
            sources.iter().filter(|source| source.name == request.source.0).flat_map(|source| &source.channels);
        let offered = offered.filter(|channel| channel.package == request.package);
        let mut offered = offered.filter(|channel| request.channel.as_ref().is_none_or(|name| *name == channel.name));
        if offered.next().is_none() || !chosen.iter().any(|chosen| fits(&chosen)) {
            return Err(format!("{} is not satisfied", request.name));
        }
    }
    // Every bundle has a reason.
    chosen.iter().try_for_each(|chosen| match chosen.reasons.is_empty() {
        true => Err(format!("{:?} has no reason", chosen.item)),
        false => Ok(()),
    })
}

/// Summarizes a result, for comparison.
fn shown(sources: &[CatalogInput], state: &ClusterNamespace) -> Result<String, String> {
    let pool = Pool::new(sources, "here");
    Ok(match resolver::resolve(&pool, state) {
        Resolution::Solved(chosen) => {
            check(sources, &pool, state, &chosen)?;
            let ids: BTreeSet<String> = chosen.iter().map(|chosen| resolver::id(&pool, state, chosen.item)).collect();
            format!("{ids:?}")
        }
        Resolution::Unsatisfiable(conflict) => {
            if conflict.messages.is_empty() {
                return Err("a conflict about nothing".to_owned());
            }
            "unsatisfiable".to_owned()
        }
        Resolution::Error(refusal) => refusal.to_string(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn solutions_satisfy_every_rule_whatever_the_order_of_input(lines in lines()) {
        let (sources, state) = read(&lines);
        let result = shown(&sources, &state).map_err(TestCaseError::fail)?;
        let mut turned: Vec<CatalogInput> = sources.clone();
        turned.reverse();
        for source in &mut turned {
            source.channels.reverse();
            source.bundles.reverse();
            source.channels.iter_mut().for_each(|channel| channel.entries.reverse());
        }
        let mut other = state.clone();
        other.installed.reverse();
        other.subscriptions.reverse();
        prop_assert_eq!(shown(&turned, &other).map_err(TestCaseError::fail)?, result);
    }

    #[test]
    fn unsatisfiable_cases_have_no_solution(lines in lines()) {
        // Tries every set of bundles, which small catalogs allow.
        let (sources, state) = read(&lines);
        let pool = Pool::new(&sources, "here");
        if let Resolution::Unsatisfiable(_) = resolver::resolve(&pool, &state) {
            let free: Vec<usize> = (0..state.installed.len())
                .filter(|&place| state.subscriptions.iter().all(|it| it.installed.as_ref() != Some(&state.installed[place].name)))
                .collect();
            let on_chain: Vec<usize> = pool.members().map(|(node, _)| node)
                .filter(|&node| matches!(&*pool.chain_of(node), Ok(chain) if chain.contains(&node))).collect();
            prop_assume!(on_chain.len() + state.installed.len() <= 13);
            for set in 0u32..1 << (on_chain.len() + state.installed.len()) {
                let chosen = |item, number: usize| (set & 1 << number != 0)
                    .then(|| Chosen { item, reasons: vec![resolver::InclusionReason::Unmanaged], replaces: None });
                let members = on_chain.iter().enumerate().filter_map(|(number, &node)| chosen(SolutionItem::Member(node), number));
                let installed = (0..state.installed.len())
                    .filter_map(|place| chosen(SolutionItem::Installed(place), on_chain.len() + place));
                let set: Vec<Chosen> = members.chain(installed).collect();
                let keeps_free = free.iter().all(|place| set.iter().any(|it| it.item == SolutionItem::Installed(*place)));
                prop_assert!(!keeps_free || check(&sources, &pool, &state, &set).is_err());
            }
        }
    }
}
