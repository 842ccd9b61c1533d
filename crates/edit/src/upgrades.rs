//! Determines how clusters are affected when one catalog replaces another.
//!
//! The rules are those of OLM v0: a cluster that runs a bundle upgrades to the first entry on the chain of its channel,
//! from the head down, that replaces or skips the bundle or whose `skipRange` contains its version, and so on from
//! there. Entries that another entry skips are not on the chain.

mod compare;
mod formats;
mod report;
mod words;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use catalog::channel;
use fbc::blob::ChannelEntry;
use fbc::version::Version;

use crate::outline::{Outline, OutlineChannel, OutlinePackage};

pub use compare::{Offered, compare, source_of};
pub use formats::{github, text};
pub use report::{BundleUpgrades, CatalogOffer, ChannelUpgrades, UpgradeReport};
pub use words::regressions;

/// Bundles that clusters never select, by package and name.
pub type Forbidden = HashSet<(String, String)>;

/// Bundles that cannot be installed, by package and name, with the reason.
pub type Unmet = HashMap<(String, String), String>;

/// A catalog, with the bundles that clusters never select or cannot install.
#[derive(Debug, Clone, Copy)]
pub struct UpgradeCatalog<'a> {
    pub outline: &'a Outline,
    /// The bundles that clusters never select.
    pub forbidden: &'a Forbidden,
    /// The bundles that clusters would select but cannot install.
    pub unmet: &'a Unmet,
}

/// The upgrade status of a cluster that runs a bundle and follows a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeStatus {
    /// It runs the newest version.
    Latest,
    /// It reaches the newest version on this path.
    Upgraded(UpgradeRun),
    /// It stops at the end of this path, or does not upgrade at all without one.
    Stuck(Option<UpgradeRun>),
    /// It stops at the end of this path because the next bundle cannot be installed.
    HeldBack {
        /// The path up to that point, if any.
        path: Option<UpgradeRun>,
        /// The next bundle.
        by: String,
        /// The reason why it cannot be installed.
        why: String,
    },
    /// Its bundle is not in the channel, and no entry upgrades it.
    NoPath,
    /// The channel does not exist.
    ChannelGone,
    /// The package does not exist.
    PackageGone,
    /// The channel does not have exactly one head, so the newest version is ambiguous.
    Broken(Vec<String>),
}

/// A sequence of upgrades.
///
/// Each bundle has its own path with only the next step, so that all bundles together cover every step. A list of all
/// steps per bundle would grow with the square of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRun {
    /// The next bundle.
    pub next: String,
    /// The last bundle.
    pub end: String,
    /// The number of upgrades.
    pub steps: usize,
}

impl UpgradeStatus {
    /// Returns the path to the last reachable upgrade, if any.
    pub fn path(&self) -> Option<&UpgradeRun> {
        match self {
            UpgradeStatus::Upgraded(path) => Some(path),
            UpgradeStatus::Stuck(path) | UpgradeStatus::HeldBack { path, .. } => path.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the cluster reaches the newest version.
    pub fn is_good(&self) -> bool {
        matches!(self, UpgradeStatus::Latest | UpgradeStatus::Upgraded(_))
    }
}

/// The upgrade status of one bundle in one channel.
#[derive(Debug, Clone)]
pub struct UpgradeOutcome {
    pub bundle: String,
    /// The version, if the old catalog contains the bundle.
    pub version: Option<Version>,
    /// The status with the old catalog.
    pub before: UpgradeStatus,
    /// The status with the new catalog.
    pub now: UpgradeStatus,
}

impl UpgradeOutcome {
    /// Returns whether clusters are worse off than before.
    pub fn is_regression(&self) -> bool {
        self.before.is_good() && !self.now.is_good()
    }
}

/// The effects on clusters that follow one channel.
#[derive(Debug, Clone)]
pub struct ChannelReport {
    pub package: String,
    pub channel: String,
    /// The outcome for every bundle that the old channel mentions, by name.
    pub outcomes: Vec<UpgradeOutcome>,
    /// The smallest change of the new catalog that fixes all regressions.
    pub fix: Option<Fix>,
}

/// A change that fixes regressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// The bundle also skips these.
    AddSkips {
        /// The target of the upgrade.
        bundle: String,
        /// The bundles to skip.
        skips: Vec<String>,
    },
    /// A version range upgrades to the bundle directly.
    SkipRange {
        /// The target of the upgrade.
        bundle: String,
        /// The complete range to set.
        range: String,
    },
    /// Restore the channel.
    KeepChannel,
    /// Restore the package.
    KeepPackage,
    /// Give the channel a single head.
    OneHead,
}

/// Above this number of names, a range is the better fix.
const MAX_SKIPS: usize = 5;

/// Reports the outcome for every bundle of `old` under `new`, by package and channel.
pub fn check(old: UpgradeCatalog<'_>, new: UpgradeCatalog<'_>) -> Vec<ChannelReport> {
    let channels = |(name, package): (&'_ String, &'_ OutlinePackage)| {
        let report =
            |(channel, members): (&String, &OutlineChannel)| check_channel(name, package, channel, members, old, new);
        package.channels.iter().map(report).collect::<Vec<_>>()
    };
    old.outline.packages.iter().flat_map(channels).collect()
}

/// Returns the entries of `new` that reach the newest version of the channel `old`, but not of `new`, as listed.
pub(crate) fn lost<'v>(
    old: &OutlineChannel,
    new: &OutlineChannel,
    version: &dyn Fn(&str) -> Option<&'v Version>,
) -> Vec<String> {
    let (outline, forbidden, unmet) = (Outline::default(), Forbidden::new(), Unmet::new());
    let side = UpgradeCatalog { outline: &outline, forbidden: &forbidden, unmet: &unmet };
    let was = Simulated::new("", old, side, version, std::iter::empty());
    let is = Simulated::new("", new, side, version, std::iter::empty());
    let names = new.entries.iter().map(|entry| &*entry.name);
    names.filter(|name| was.status(name).is_good() && !is.status(name).is_good()).map(str::to_owned).collect()
}

fn check_channel(
    name: &str,
    package: &OutlinePackage,
    channel: &str,
    members: &OutlineChannel,
    old: UpgradeCatalog<'_>,
    new: UpgradeCatalog<'_>,
) -> ChannelReport {
    let version = |bundle: &str| {
        let found = package.bundles.get(bundle).or_else(|| new.outline.packages.get(name)?.bundles.get(bundle));
        found.and_then(|bundle| bundle.version.as_ref()).map(|(version, _)| version)
    };
    let now_package = new.outline.packages.get(name);
    let now_channel = now_package.and_then(|package| package.channels.get(channel));
    // Includes bundles that are only mentioned: clusters may run them and can upgrade.
    let bundles: BTreeSet<&str> = members
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().chain([&entry.name, &entry.replaces]).map(|name| &**name))
        .filter(|name| !name.is_empty())
        .collect();
    let was = Simulated::new(name, members, old, &version, bundles.iter().copied());
    let now = now_channel.map(|members| Simulated::new(name, members, new, &version, bundles.iter().copied()));
    let outcomes: Vec<UpgradeOutcome> = bundles
        .iter()
        .map(|&bundle| UpgradeOutcome {
            bundle: bundle.to_owned(),
            version: version(bundle).cloned(),
            before: was.status(bundle),
            now: match (&now, now_package) {
                (Some(now), _) => now.status(bundle),
                (None, Some(_)) => UpgradeStatus::ChannelGone,
                (None, None) => UpgradeStatus::PackageGone,
            },
        })
        .collect();
    let worse: Vec<&UpgradeOutcome> = outcomes.iter().filter(|outcome| outcome.is_regression()).collect();
    let fix = if worse.is_empty() {
        None
    } else {
        match (now_package, now_channel) {
            (None, _) => Some(Fix::KeepPackage),
            (_, None) => Some(Fix::KeepChannel),
            (_, Some(members)) => find_fix(name, members, new, &worse, &version),
        }
    };
    ChannelReport { package: name.to_owned(), channel: channel.to_owned(), outcomes, fix }
}

/// Finds the smallest change of a channel that fixes all regressions, and verifies it by simulation.
fn find_fix<'v>(
    package: &str,
    channel: &OutlineChannel,
    side: UpgradeCatalog<'_>,
    worse: &[&UpgradeOutcome],
    version: &dyn Fn(&str) -> Option<&'v Version>,
) -> Option<Fix> {
    let bundles = || worse.iter().map(|outcome| outcome.bundle.as_str());
    let simulated = Simulated::new(package, channel, side, version, bundles());
    let Ok(chain) = &simulated.chain else { return Some(Fix::OneHead) };
    let head = chain.first()?.name.to_string();
    // Fixing the bundles where upgrades stop is sufficient.
    let stuck: BTreeSet<String> =
        worse.iter().map(|outcome| outcome.now.path().map_or(&outcome.bundle, |path| &path.end).to_owned()).collect();
    let stuck: Vec<String> = stuck.into_iter().filter(|name| *name != head).collect();
    let helps = |fix: &Fix| {
        let mut channel = channel.clone();
        match fix {
            Fix::AddSkips { bundle, skips } => {
                crate::set_edge::add(&mut channel.entry_mut(bundle)?.skips, skips);
            }
            Fix::SkipRange { bundle, range } => channel.entry_mut(bundle)?.skip_range = range.as_str().into(),
            _ => return None,
        }
        let tried = Simulated::new(package, &channel, side, version, bundles());
        let good = worse.iter().all(|outcome| tried.status(&outcome.bundle).is_good());
        let nobody_else = channel
            .entries
            .iter()
            .all(|entry| !simulated.status(&entry.name).is_good() || tried.status(&entry.name).is_good());
        (good && nobody_else).then_some(())
    };
    let skips = Fix::AddSkips { bundle: head.clone(), skips: stuck.clone() };
    let range = || {
        let mut versions: Vec<&Version> = stuck.iter().map(|name| version(name)).collect::<Option<_>>()?;
        versions.sort_by(|a, b| a.cmp_precedence(b));
        let (lowest, newest) = (versions.first()?, version(&head)?);
        let range = format!(">={lowest} <{newest}");
        let old = channel.entry(&head).map(|entry| entry.skip_range.to_string()).filter(|old| !old.is_empty());
        let range = old.map_or(range.clone(), |old| format!("{old} || {range}"));
        Some(Fix::SkipRange { bundle: head.clone(), range }).filter(|fix| helps(fix).is_some())
    };
    let skips = Some(skips).filter(|fix| helps(fix).is_some());
    if stuck.len() > MAX_SKIPS { range().or(skips) } else { skips.or_else(range) }
}

/// A simulation of a channel as clusters see it.
struct Simulated<'a, 'b> {
    /// The entries that clusters select from, newest first; the heads if there is not exactly one.
    chain: Result<Vec<&'a ChannelEntry>, Vec<String>>,
    /// The positions in the chain, by name.
    places: HashMap<&'a str, usize>,
    names: HashSet<&'a str>,
    /// The positions in the chain that cannot be installed, with the reasons.
    unmet: BTreeMap<usize, String>,
    /// The next upgrade of each bundle that a cluster may run.
    steps: HashMap<&'b str, NextUpgrade>,
    /// For each position in the chain: the position where upgrades from it end, and their number.
    ends: Vec<(usize, usize)>,
}

/// The next upgrade of a bundle, by position in the chain.
#[derive(Clone, Copy, Default)]
struct NextUpgrade {
    /// The target.
    next: Option<usize>,
    /// The first target that is blocked because it cannot be installed.
    blocked: Option<usize>,
}

impl<'a, 'b> Simulated<'a, 'b>
where
    'a: 'b,
{
    /// Simulates the upgrades of `bundles` and of all entries of a channel.
    fn new<'v, 'c: 'b>(
        package: &str,
        channel: &'a OutlineChannel,
        side: UpgradeCatalog<'_>,
        version: &dyn Fn(&str) -> Option<&'v Version>,
        bundles: impl Iterator<Item = &'c str>,
    ) -> Simulated<'a, 'b> {
        let view = channel.view();
        let key = |entry: &ChannelEntry| (package.to_owned(), entry.name.to_string());
        let usable = |entry: &&ChannelEntry| !side.forbidden.contains(&key(entry));
        let chain: Result<Vec<&'a ChannelEntry>, Vec<String>> = match catalog::chain::chain(&view) {
            Ok(chain) => Ok(chain.into_iter().map(|number| &channel.entries[number]).filter(usable).collect()),
            Err(error) => Err(error.heads().into_iter().map(str::to_owned).collect()),
        };
        let mut unmet = BTreeMap::new();
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for (place, entry) in chain.iter().flatten().copied().enumerate() {
            match side.unmet.get(&key(entry)) {
                Some(why) => {
                    unmet.insert(place, why.clone());
                    closed.push((place, entry));
                }
                None => open.push((place, entry)),
            }
        }
        let names: HashSet<&str> = channel.entries.iter().map(|entry| &*entry.name).collect();
        let queried: BTreeSet<&'b str> = bundles.map(|name| -> &'b str { name }).chain(names.iter().copied()).collect();
        let queried: Vec<(&str, Option<&Version>)> = queried.into_iter().map(|name| (name, version(name))).collect();
        // The first of `candidates` that each bundle upgrades to, by position in the chain.
        let places = |candidates: Vec<(usize, &ChannelEntry)>| {
            let entries: Vec<&ChannelEntry> = candidates.iter().map(|(_, entry)| *entry).collect();
            let nexts = channel::next_upgrades(&queried, &entries).into_iter();
            nexts.map(move |next| next.map(|number| candidates[number].0)).collect::<Vec<_>>()
        };
        let steps = places(open).into_iter().zip(places(closed)).map(|(next, blocked)| NextUpgrade { next, blocked });
        let steps: HashMap<&str, NextUpgrade> = queried.iter().map(|(name, _)| *name).zip(steps).collect();
        let nexts: Vec<Option<usize>> = chain
            .iter()
            .flatten()
            .enumerate()
            .map(|(place, entry)| steps.get(&*entry.name)?.next.filter(|next| *next != place))
            .collect();
        Simulated {
            places: chain.iter().flatten().enumerate().map(|(place, entry)| (&*entry.name, place)).collect(),
            chain,
            names,
            unmet,
            steps,
            ends: channel::path_ends(&nexts),
        }
    }

    fn step(&self, bundle: &str) -> NextUpgrade {
        self.steps.get(bundle).copied().unwrap_or_default()
    }

    /// Returns the upgrade path from a bundle.
    fn path(&self, chain: &[&ChannelEntry], bundle: &str) -> Option<UpgradeRun> {
        let next = self.step(bundle).next.filter(|next| *chain[*next].name != *bundle)?;
        let (end, steps) = match self.places.get(bundle) {
            Some(place) => self.ends[*place],
            None => (self.ends[next].0, self.ends[next].1 + 1),
        };
        Some(UpgradeRun { next: chain[next].name.to_string(), end: chain[end].name.to_string(), steps })
    }

    /// Returns the status of a cluster that runs a bundle.
    fn status(&self, bundle: &str) -> UpgradeStatus {
        let chain = match &self.chain {
            Ok(chain) => chain,
            Err(heads) => return UpgradeStatus::Broken(heads.clone()),
        };
        let path = self.path(chain, bundle);
        let at = path.as_ref().map_or(bundle, |path| &path.end);
        let newest = chain.first().is_some_and(|newest| *newest.name == *at);
        if let Some(place) = self.step(at).blocked.filter(|_| !newest) {
            return UpgradeStatus::HeldBack {
                path,
                by: chain[place].name.to_string(),
                why: self.unmet[&place].clone(),
            };
        }
        match (newest, path) {
            (true, None) => UpgradeStatus::Latest,
            (true, Some(path)) => UpgradeStatus::Upgraded(path),
            (false, None) if !self.names.contains(bundle) => UpgradeStatus::NoPath,
            (false, path) => UpgradeStatus::Stuck(path),
        }
    }
}

#[cfg(test)]
mod tests;
