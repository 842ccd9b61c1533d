//! The reverse dependencies of all packages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::pool::{MemberChain, MemberIndex, Pool};

/// The reverse dependencies of a pool.
pub struct Requirers<'a> {
    /// By package and requirement: the bundles with the requirement, and the members that meet it.
    needs: Vec<((&'a str, String), Requirer<'a>)>,
    /// Indexes into `needs` by the packages that meet the requirement.
    met_by: HashMap<&'a str, Vec<usize>>,
}

struct Requirer<'a> {
    bundles: BTreeSet<&'a str>,
    candidates: MemberChain,
}

impl<'a> Requirers<'a> {
    /// Reads all bundles once.
    pub fn of(pool: &Pool<'a>) -> Requirers<'a> {
        let mut needs: BTreeMap<(&'a str, String), Requirer<'a>> = BTreeMap::new();
        for (_, member) in pool.members() {
            let bundle = member.bundle;
            for requirement in &bundle.facts.needs {
                let key = (bundle.package.as_str(), requirement.need.to_string());
                let requirer = needs.entry(key).or_insert_with(|| Requirer {
                    bundles: BTreeSet::new(),
                    candidates: pool.candidates(&requirement.need, None),
                });
                requirer.bundles.insert(&bundle.name);
            }
        }
        let needs: Vec<_> = needs.into_iter().collect();
        let mut met_by: HashMap<&'a str, Vec<usize>> = HashMap::new();
        for (place, (_, requirer)) in needs.iter().enumerate() {
            let Ok(found) = &*requirer.candidates else { continue };
            let packages: BTreeSet<&'a str> =
                found.iter().map(|&node| pool.member(node).bundle.package.as_str()).collect();
            packages.into_iter().for_each(|package| met_by.entry(package).or_default().push(place));
        }
        Requirers { needs, met_by }
    }

    /// Describes the bundles of other packages whose requirements these members of a package meet.
    pub(crate) fn of_package(&self, package: &str, nodes: &[MemberIndex]) -> Vec<String> {
        let own: BTreeSet<MemberIndex> = nodes.iter().copied().collect();
        let places = self.met_by.get(package).map(Vec::as_slice).unwrap_or_default();
        let mut lines = Vec::new();
        for ((by, need), requirer) in places.iter().map(|place| &self.needs[*place]) {
            let meets = matches!(&*requirer.candidates, Ok(found) if found.iter().any(|node| own.contains(node)));
            if *by == package || !meets {
                continue;
            }
            lines.push(match requirer.bundles.len() {
                1 => format!("{} requires {need}", requirer.bundles.first().copied().unwrap_or_default()),
                number => format!("{number} bundles of {by} require {need}"),
            });
        }
        lines
    }
}
