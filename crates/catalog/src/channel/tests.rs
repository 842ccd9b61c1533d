use super::*;
use crate::sample::entries;

fn names(view: &ChannelView<'_>, numbers: &[usize]) -> String {
    numbers.iter().map(|&number| &*view.entries()[number].name).collect::<Vec<_>>().join(" ")
}

/// Shows heads, the chain and the trunk from the first of them, and stranded entries.
fn shown(text: &str) -> String {
    let entries = entries(text);
    let view = ChannelView::new(&entries);
    let heads = view.heads();
    let Some(&head) = heads.first() else { return "no head".to_owned() };
    let (chain, trunk) = (view.chain(head), view.trunk(head));
    format!(
        "heads {}; chain {}{}; trunk {}; stranded {}",
        names(&view, &heads),
        names(&view, &chain.numbers),
        chain.cycle.map(|back| format!(" back to {}", names(&view, &[back]))).unwrap_or_default(),
        names(&view, &trunk.numbers),
        names(&view, &view.stranded(head))
    )
}

#[test]
fn the_chain_leads_from_the_head_to_older_entries() {
    assert_eq!(shown("a b<a c<b"), "heads c; chain c b a; trunk c b a; stranded ");
    assert_eq!(shown("a b<a c<b,b"), "heads c; chain c b a; trunk c; stranded a");
    assert_eq!(shown("a b<a c<x d"), "heads b c d; chain b a; trunk b a; stranded c d");
    assert_eq!(shown("h<a a<b b<a"), "heads h; chain h a b back to a; trunk h a b; stranded ");
    assert_eq!(shown("a<b b<a"), "no head");
}

#[test]
fn the_first_candidate_with_an_edge_is_next() {
    let version = |text| Version::parse_strict(text).unwrap();
    let (one, two, three) = (version("1.0.0"), version("2.0.0"), version("3.0.0"));
    let mut candidates = entries("d<c c<b b<a,z");
    candidates[0].skip_range = ">=2.0.0 <3.0.0".into();
    candidates[1].skip_range = "no range".into();
    let candidates: Vec<&ChannelEntry> = candidates.iter().collect();
    let bundles = [("a", Some(&one)), ("b", Some(&two)), ("c", Some(&three)), ("z", None), ("q", Some(&three))];
    assert_eq!(next_upgrades(&bundles, &candidates), [Some(2), Some(0), Some(0), Some(2), None]);
}

/// Follows the path from an index step by step.
fn followed(nexts: &[Option<usize>], start: usize) -> (usize, usize) {
    let (mut seen, mut at, mut steps) = (HashSet::new(), start, 0);
    while seen.insert(at) {
        let Some(next) = nexts[at] else { break };
        (at, steps) = (next, steps + 1);
    }
    (at, steps)
}

proptest::proptest! {
    #[test]
    fn ends_of_paths_match_following_each_step(nexts in proptest::collection::vec(proptest::option::of(0usize..12), 12)) {
        let expected: Vec<(usize, usize)> = (0..nexts.len()).map(|start| followed(&nexts, start)).collect();
        proptest::prop_assert_eq!(path_ends(&nexts), expected);
    }

    #[test]
    fn ends_match_the_ends_of_chains(
        replaces in proptest::collection::vec(0usize..10, 8),
        skips in proptest::collection::vec(0usize..10, 3),
    ) {
        let name = |number: usize| format!("e{number}").into_boxed_str();
        let mut entries: Vec<ChannelEntry> = (0..8)
            .map(|number| ChannelEntry { name: name(number), replaces: name(replaces[number]), ..ChannelEntry::default() })
            .collect();
        entries[0].skips = skips.into_iter().map(name).collect();
        let view = ChannelView::new(&entries);
        let ends = view.ends();
        for (number, end) in ends.into_iter().enumerate() {
            let chain = view.chain(number);
            let kept = |number: &usize| !view.is_skipped(&entries[*number].name);
            let expected = match chain.cycle {
                Some(_) => ChainEnd::Cycle,
                None => ChainEnd::Last(chain.numbers.into_iter().rfind(kept)),
            };
            proptest::prop_assert_eq!(end, expected);
        }
    }

    #[test]
    fn next_entries_match_an_exhaustive_search(
        versions in proptest::collection::vec(0u64..6, 6),
        edges in proptest::collection::vec((0usize..8, 0usize..8, 0u64..6, 0u64..6), 5),
    ) {
        let versions: Vec<Version> =
            versions.into_iter().map(|major| Version::parse_strict(&format!("{major}.0.0")).unwrap()).collect();
        let names: Vec<String> = (0..6).map(|number| format!("e{number}")).collect();
        let bundles: Vec<(&str, Option<&Version>)> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (name.as_str(), versions.get(number).filter(|_| number != 3)))
            .collect();
        let candidates: Vec<ChannelEntry> = edges
            .into_iter()
            .map(|(replaces, skip, from, to)| ChannelEntry {
                name: "x".into(),
                replaces: format!("e{replaces}").into(),
                skips: vec![format!("e{skip}").into()],
                skip_range: if from < to { format!(">={from}.0.0 <{to}.0.0").into() } else { "".into() },
            })
            .collect();
        let candidates: Vec<&ChannelEntry> = candidates.iter().collect();
        let expected: Vec<Option<usize>> = bundles
            .iter()
            .map(|(name, version)| {
                candidates.iter().position(|entry| crate::chain::EntryEdge::between(entry, name, *version).is_some())
            })
            .collect();
        proptest::prop_assert_eq!(next_upgrades(&bundles, &candidates), expected);
    }
}
