//! What becomes of clusters when one catalog takes the place of another.
//!
//! The rules are those of cluster software of the first generation: a cluster that runs a bundle goes to the first
//! entry on the chain of its channel, from the head down, that replaces or skips the bundle or whose `skipRange` has
//! its version, and so on from there. Entries that another entry skips are not on the chain.

mod words;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use catalog::channel;
use fbc::blob::Entry;
use fbc::version::Version;

use crate::outline::{Channel, Outline, Package};

pub use words::regressions;

/// Names of bundles that clusters never choose, each with its package.
pub type Forbidden = HashSet<(String, String)>;

/// Bundles that cannot be installed, each with its package, and why not.
pub type Unmet = HashMap<(String, String), String>;

/// A catalog, and the bundles of it that clusters never choose.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What it says.
    pub outline: &'a Outline,
    /// What clusters never choose of it.
    pub forbidden: &'a Forbidden,
    /// What they would choose, but cannot install.
    pub unmet: &'a Unmet,
}

/// What becomes of a cluster that runs a bundle and follows a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It runs the newest there is.
    Latest,
    /// It comes to the newest there is this way.
    Upgraded(Way),
    /// It comes no further than the end of this way, or not at all if there is none.
    Stuck(Option<Way>),
    /// It comes no further than the end of this way, since what comes next cannot be installed.
    HeldBack {
        /// The way until then, if there is one.
        way: Option<Way>,
        /// What comes next.
        by: String,
        /// Why that cannot be installed.
        why: String,
    },
    /// What it runs is not in the channel, and nothing there upgrades it.
    NoPath,
    /// The channel is not there.
    ChannelGone,
    /// The package is not there.
    PackageGone,
    /// The channel has not one head, so that clusters do not know what is newest.
    Broken(Vec<String>),
}

/// The upgrades of a cluster, one after the other.
///
/// Each bundle has its own, so that all of them together say every step: a list of all steps for each bundle would grow
/// with the square of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The bundle that comes next.
    pub next: String,
    /// The bundle at the end.
    pub end: String,
    /// How many upgrades it takes.
    pub steps: usize,
}

impl Fate {
    /// Returns the upgrades until there are no more, if there are any.
    pub fn way(&self) -> Option<&Way> {
        match self {
            Fate::Upgraded(way) => Some(way),
            Fate::Stuck(way) | Fate::HeldBack { way, .. } => way.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the cluster comes to the newest there is.
    pub fn is_good(&self) -> bool {
        matches!(self, Fate::Latest | Fate::Upgraded(_))
    }
}

/// What becomes of one bundle in one channel.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The bundle.
    pub bundle: String,
    /// Its version, if the old catalog has it.
    pub version: Option<Version>,
    /// What becomes of it with the old catalog.
    pub before: Fate,
    /// What becomes of it with the new one.
    pub now: Fate,
}

impl Outcome {
    /// Returns whether somebody is worse off.
    pub fn is_regression(&self) -> bool {
        self.before.is_good() && !self.now.is_good()
    }
}

/// What becomes of those who follow one channel.
#[derive(Debug, Clone)]
pub struct ChannelReport {
    /// The package.
    pub package: String,
    /// The channel.
    pub channel: String,
    /// What becomes of every bundle that the old channel names, by name.
    pub outcomes: Vec<Outcome>,
    /// The smallest change of the new catalog that helps all who are worse off.
    pub fix: Option<Fix>,
}

/// A change that helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// The bundle skips these as well.
    AddSkips {
        /// The bundle that is upgraded to.
        bundle: String,
        /// What it is to skip.
        skips: Vec<String>,
    },
    /// These versions upgrade to the bundle directly.
    SkipRange {
        /// The bundle that is upgraded to.
        bundle: String,
        /// The whole range it is to have.
        range: String,
    },
    /// The channel comes back.
    KeepChannel,
    /// The package comes back.
    KeepPackage,
    /// The channel gets one head.
    OneHead,
}

/// More names than this are better put as a range.
const MOST_SKIPS: usize = 5;

/// Reports what becomes of every bundle of `old` under `new`, by package and channel.
pub fn check(old: Side<'_>, new: Side<'_>) -> Vec<ChannelReport> {
    let mut reports = Vec::new();
    for (name, package) in &old.outline.packages {
        for (channel, members) in &package.channels {
            reports.push(check_channel(name, package, channel, members, old, new));
        }
    }
    reports
}

fn check_channel(
    name: &str,
    package: &Package,
    channel: &str,
    members: &Channel,
    old: Side<'_>,
    new: Side<'_>,
) -> ChannelReport {
    let version = |bundle: &str| {
        let found = package.bundles.get(bundle).or_else(|| new.outline.packages.get(name)?.bundles.get(bundle));
        found.and_then(|bundle| bundle.version.as_ref()).map(|(version, _)| version)
    };
    let now_package = new.outline.packages.get(name);
    let now_channel = now_package.and_then(|package| package.channels.get(channel));
    // Also what is only mentioned: clusters may run it, and can upgrade.
    let bundles: BTreeSet<&str> = members
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().chain([&entry.name, &entry.replaces]).map(|name| &**name))
        .filter(|name| !name.is_empty())
        .collect();
    let was = Simulated::new(name, members, old, &version, bundles.iter().copied());
    let now = now_channel.map(|members| Simulated::new(name, members, new, &version, bundles.iter().copied()));
    let outcomes: Vec<Outcome> = bundles
        .iter()
        .map(|&bundle| Outcome {
            bundle: bundle.to_owned(),
            version: version(bundle).cloned(),
            before: was.fate(bundle),
            now: match (&now, now_package) {
                (Some(now), _) => now.fate(bundle),
                (None, Some(_)) => Fate::ChannelGone,
                (None, None) => Fate::PackageGone,
            },
        })
        .collect();
    let worse: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.is_regression()).collect();
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

/// Looks for the smallest change of a channel that helps all who are worse off, and tries it.
fn find_fix<'v>(
    package: &str,
    channel: &Channel,
    side: Side<'_>,
    worse: &[&Outcome],
    version: &dyn Fn(&str) -> Option<&'v Version>,
) -> Option<Fix> {
    let bundles = || worse.iter().map(|outcome| outcome.bundle.as_str());
    let simulated = Simulated::new(package, channel, side, version, bundles());
    let Ok(chain) = &simulated.chain else { return Some(Fix::OneHead) };
    let head = chain.first()?.name.to_string();
    // Where they get stuck: it is enough to help them on from there.
    let stuck: BTreeSet<String> =
        worse.iter().map(|outcome| outcome.now.way().map_or(&outcome.bundle, |way| &way.end).to_owned()).collect();
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
        let good = worse.iter().all(|outcome| tried.fate(&outcome.bundle).is_good());
        let nobody_else = channel
            .entries
            .iter()
            .all(|entry| !simulated.fate(&entry.name).is_good() || tried.fate(&entry.name).is_good());
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
    if stuck.len() > MOST_SKIPS { range().or(skips) } else { skips.or_else(range) }
}

/// A channel as clusters see it.
struct Simulated<'a, 'b> {
    /// What clusters choose from, newest first; the heads if there is not one.
    chain: Result<Vec<&'a Entry>, Vec<String>>,
    /// The places in the chain by name.
    places: HashMap<&'a str, usize>,
    names: HashSet<&'a str>,
    /// The places in the chain that cannot be installed, with the reasons.
    unmet: BTreeMap<usize, String>,
    /// Where each bundle goes that somebody may run.
    steps: HashMap<&'b str, Step>,
    /// For each place in the chain the place where upgrades from it end, and how many they are.
    ends: Vec<(usize, usize)>,
}

/// Where a bundle goes, by places in the chain.
#[derive(Clone, Copy, Default)]
struct Step {
    /// What it is upgraded to.
    next: Option<usize>,
    /// The first that it would go to if that could be installed.
    blocked: Option<usize>,
}

impl<'a, 'b> Simulated<'a, 'b>
where
    'a: 'b,
{
    /// Works out where `bundles` and all entries of a channel go.
    fn new<'v, 'c: 'b>(
        package: &str,
        channel: &'a Channel,
        side: Side<'_>,
        version: &dyn Fn(&str) -> Option<&'v Version>,
        bundles: impl Iterator<Item = &'c str>,
    ) -> Simulated<'a, 'b> {
        let view = channel.view();
        let key = |entry: &Entry| (package.to_owned(), entry.name.to_string());
        let usable = |entry: &&Entry| !side.forbidden.contains(&key(entry));
        let chain: Result<Vec<&'a Entry>, Vec<String>> = match catalog::chain::chain(&view) {
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
        let asked: BTreeSet<&'b str> = bundles.map(|name| -> &'b str { name }).chain(names.iter().copied()).collect();
        let asked: Vec<(&str, Option<&Version>)> = asked.into_iter().map(|name| (name, version(name))).collect();
        // The first of `candidates` that each bundle upgrades to, by its place in the chain.
        let places = |candidates: Vec<(usize, &Entry)>| {
            let entries: Vec<&Entry> = candidates.iter().map(|(_, entry)| *entry).collect();
            let nexts = channel::next_upgrades(&asked, &entries).into_iter();
            nexts.map(move |next| next.map(|number| candidates[number].0)).collect::<Vec<_>>()
        };
        let steps = places(open).into_iter().zip(places(closed)).map(|(next, blocked)| Step { next, blocked });
        let steps: HashMap<&str, Step> = asked.iter().map(|(name, _)| *name).zip(steps).collect();
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

    fn step(&self, bundle: &str) -> Step {
        self.steps.get(bundle).copied().unwrap_or_default()
    }

    /// Returns the upgrades from a bundle on.
    fn way(&self, chain: &[&Entry], bundle: &str) -> Option<Way> {
        let next = self.step(bundle).next.filter(|next| *chain[*next].name != *bundle)?;
        let (end, steps) = match self.places.get(bundle) {
            Some(place) => self.ends[*place],
            None => (self.ends[next].0, self.ends[next].1 + 1),
        };
        Some(Way { next: chain[next].name.to_string(), end: chain[end].name.to_string(), steps })
    }

    /// Returns what becomes of a cluster that runs a bundle.
    fn fate(&self, bundle: &str) -> Fate {
        let chain = match &self.chain {
            Ok(chain) => chain,
            Err(heads) => return Fate::Broken(heads.clone()),
        };
        let way = self.way(chain, bundle);
        let at = way.as_ref().map_or(bundle, |way| &way.end);
        let newest = chain.first().is_some_and(|newest| *newest.name == *at);
        if let Some(place) = self.step(at).blocked.filter(|_| !newest) {
            return Fate::HeldBack { way, by: chain[place].name.to_string(), why: self.unmet[&place].clone() };
        }
        match (newest, way) {
            (true, None) => Fate::Latest,
            (true, Some(way)) => Fate::Upgraded(way),
            (false, None) if !self.names.contains(bundle) => Fate::NoPath,
            (false, way) => Fate::Stuck(way),
        }
    }
}

#[cfg(test)]
mod tests;
