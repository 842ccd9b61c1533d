//! Dependencies of kept bundles on other packages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{AllFacts, KeptBundles, KeptPart, select};
use crate::outline::{Outline, OutlinePackage};
use catalog::needs::{BundleNeeds, Need};

/// A dependency of a kept bundle that its catalog does not provide.
#[derive(Debug, Clone)]
pub(super) struct Unmet {
    package: String,
    bundle: String,
    need: Need,
}

impl std::fmt::Display for Unmet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?} needs {}, which no bundle of the catalog provides", self.package, self.bundle, self.need)
    }
}

/// Keeps the transitive dependencies of kept bundles, as far as the catalog provides them. Returns the unmet ones.
pub(super) fn add(
    outline: &Outline,
    selection: &KeptPart,
    facts: &AllFacts,
    kept: &mut BTreeMap<String, KeptBundles>,
    notes: &mut Vec<String>,
) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let lookup = Lookup::new(outline, facts);
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    loop {
        let new: Vec<(String, String)> = kept
            .iter()
            .flat_map(|(package, channels)| {
                channels.values().flatten().map(move |bundle| (package.clone(), bundle.clone()))
            })
            .filter(|bundle| !seen.contains(bundle))
            .collect();
        if new.is_empty() {
            return unmet;
        }
        for bundle in new {
            if !seen.insert(bundle.clone()) {
                continue;
            }
            let Some(facts) = facts.get(&bundle) else { continue };
            for requirement in &facts.needs {
                if !lookup.satisfy(&bundle, &requirement.need, selection, kept, notes) {
                    let (package, bundle) = bundle.clone();
                    unmet.push(Unmet { package, bundle, need: requirement.need.clone() });
                }
            }
        }
    }
}

/// Satisfies a dependency of another catalog's bundle and returns whether this catalog can. Unless `may_add` is set,
/// only kept bundles count.
pub(super) fn satisfy_external(
    outline: &Outline,
    facts: &AllFacts,
    unmet: &Unmet,
    may_add: bool,
    kept: &mut BTreeMap<String, KeptBundles>,
    notes: &mut Vec<String>,
) -> bool {
    let lookup = Lookup::new(outline, facts);
    let heads = KeptPart { heads_only: true, ..KeptPart::default() };
    let bundle = (unmet.package.clone(), unmet.bundle.clone());
    let mut extended = kept.clone();
    let met = lookup.satisfy(&bundle, &unmet.need, &heads, &mut extended, notes);
    if may_add {
        *kept = extended;
        return met;
    }
    met && extended == *kept
}

/// An index of the bundles that can satisfy a dependency.
struct Lookup<'a> {
    outline: &'a Outline,
    facts: &'a AllFacts,
    /// The packages that provide an API.
    providers: HashMap<&'a [String; 3], BTreeSet<&'a str>>,
    /// The packages that have a label.
    labelled: HashMap<&'a str, BTreeSet<&'a str>>,
    no_facts: BundleNeeds,
}

impl<'a> Lookup<'a> {
    fn new(outline: &'a Outline, facts: &'a AllFacts) -> Lookup<'a> {
        let mut providers: HashMap<&[String; 3], BTreeSet<&str>> = HashMap::new();
        let mut labelled: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for ((package, _), facts) in facts {
            for label in &facts.labels {
                labelled.entry(label).or_default().insert(package);
            }
            for api in &facts.provides {
                providers.entry(api).or_default().insert(package);
            }
        }
        Lookup { outline, facts, providers, labelled, no_facts: BundleNeeds::default() }
    }

    /// Keeps a bundle that satisfies a need unless a kept bundle does already. Returns whether any bundle can.
    fn satisfy(
        &self,
        bundle: &(String, String),
        need: &Need,
        selection: &KeptPart,
        kept: &mut BTreeMap<String, KeptBundles>,
        notes: &mut Vec<String>,
    ) -> bool {
        let (of, name) = bundle;
        match need {
            // The bundle with such a need satisfies it itself.
            Need::Not(_) => return true,
            Need::Rule { .. } | Need::Broken(_) => {
                notes.push(format!("{of}: {name:?} needs {need}; check this requirement yourself"));
                return true;
            }
            _ => {}
        }
        let met = |package: &str, name: &str| {
            // A cluster installs one bundle per package, so a bundle cannot satisfy the needs of its own package.
            if package == of && name != bundle.1 {
                return false;
            }
            let version = self.outline.packages.get(package).and_then(|it| it.bundles.get(name)?.version.as_ref());
            let facts = self.facts.get(&(package.to_owned(), name.to_owned())).unwrap_or(&self.no_facts);
            !facts.forbidden
                && need.met_by(package, version.map(|(version, _)| version), facts, &|_| None) == Some(true)
        };
        let packages = self.candidates(need);
        for package in &packages {
            let bundles = kept.get(*package).into_iter().flat_map(|channels| channels.values().flatten());
            if bundles.into_iter().any(|name| met(package, name)) {
                return true;
            }
        }
        // Same order as clusters: default channels first, then by name, and each channel from the head down.
        let mut choices: Vec<(bool, &str, &str, &str)> = Vec::new();
        for package_name in &packages {
            let Some(package) = self.outline.packages.get(*package_name) else { continue };
            for (channel, entry) in matches(package, |entry| met(package_name, entry)) {
                choices.push((channel != package.default_channel, package_name, channel, entry));
            }
        }
        let Some((_, package, channel, provider)) = choices.into_iter().min_by(|a, b| a.cmp(b)) else {
            return false;
        };
        let Some(found) = self.outline.packages.get(package) else { return false };
        if !kept.contains_key(package) {
            notes.push(format!("package {package:?} is kept: {name:?} needs {need}"));
            let whole = KeptPart { heads_only: selection.heads_only, ..KeptPart::default() };
            kept.insert(package.to_owned(), select(package, found, &whole));
        }
        let channels = kept.entry(package.to_owned()).or_default();
        if channels.entry(channel.to_owned()).or_default().insert(provider.to_owned()) {
            notes.push(format!("{package}: {provider:?} is kept in channel {channel:?}: {name:?} needs {need}"));
        }
        true
    }

    /// Returns the packages that may contain a bundle for a need.
    fn candidates(&self, need: &Need) -> BTreeSet<&'a str> {
        match need {
            Need::Package(name, _) => {
                self.outline.packages.get_key_value(name).map(|(name, _)| name.as_str()).into_iter().collect()
            }
            Need::Api(api) => self.providers.get(api).cloned().unwrap_or_default(),
            Need::Label(label) => self.labelled.get(label.as_str()).cloned().unwrap_or_default(),
            // A single bundle has to satisfy all parts, so the packages for any one part suffice.
            Need::All(parts) => parts
                .iter()
                .find(|part| {
                    matches!(part, Need::Package(..) | Need::Api(_) | Need::Label(_) | Need::Any(_) | Need::All(_))
                })
                .map(|part| self.candidates(part))
                .unwrap_or_default(),
            Need::Any(parts) => parts.iter().flat_map(|part| self.candidates(part)).collect(),
            Need::Not(_) | Need::Rule { .. } | Need::Broken(_) => BTreeSet::new(),
        }
    }
}

/// Returns the first fitting entry of each channel, from the head down.
fn matches(package: &OutlinePackage, fits: impl Fn(&str) -> bool) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (name, channel) in &package.channels {
        let view = channel.view();
        let Some(head) = view.heads().first().copied() else { continue };
        let names = view.chain(head).numbers.into_iter().map(|number| &*channel.entries[number].name);
        if let Some(entry) = names.into_iter().find(|entry| fits(entry) && !view.is_skipped(entry)) {
            found.push((name.as_str(), entry));
        }
    }
    found
}
