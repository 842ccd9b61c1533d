//! What becomes of clusters when one catalog takes the place of another.
//!
//! The rules are those of cluster software of the first generation: a cluster that runs a bundle goes to the first
//! entry on the chain of its channel, from the head down, that replaces or skips the bundle or whose `skipRange` has
//! its version, and so on from there. Entries that another entry skips are not on the chain.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fbc::blob::Entry;
use fbc::range::VersionRange;
use fbc::version::Version;

use crate::outline::{Channel, Outline, Package};

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
    /// It comes to the newest there is by these steps, the last of which is that.
    Upgraded(Vec<String>),
    /// It comes no further than the last of these steps, or not at all if there are none.
    Stuck(Vec<String>),
    /// It comes no further than the last of these steps, since what comes next cannot be installed.
    HeldBack {
        /// The steps until then.
        steps: Vec<String>,
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
    /// The channel has not one head, so that clusters cannot tell what is newest.
    Broken(Vec<String>),
}

impl Fate {
    /// Tells whether the cluster comes to the newest there is.
    pub fn is_good(&self) -> bool {
        matches!(self, Fate::Latest | Fate::Upgraded(_))
    }

    /// Returns the bundle that the cluster runs in the end, if it runs another.
    pub fn destination(&self) -> Option<&str> {
        match self {
            Fate::Upgraded(steps) | Fate::Stuck(steps) | Fate::HeldBack { steps, .. } => {
                steps.last().map(String::as_str)
            }
            _ => None,
        }
    }
}

/// What becomes of one bundle in one channel.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The bundle.
    pub bundle: String,
    /// Its version, if the old catalog tells it.
    pub version: Option<Version>,
    /// What becomes of it with the old catalog.
    pub before: Fate,
    /// What becomes of it with the new one.
    pub now: Fate,
}

impl Outcome {
    /// Tells whether somebody is worse off.
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

/// Tells what becomes of every bundle of `old` under `new`, by package and channel.
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
    let was = Simulated::new(name, members, old);
    let now_package = new.outline.packages.get(name);
    let now_channel = now_package.and_then(|package| package.channels.get(channel));
    let now = now_channel.map(|members| Simulated::new(name, members, new));
    // Also what is only mentioned: clusters may run it, and can upgrade.
    let bundles: BTreeSet<&str> = members
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().chain([&entry.name, &entry.replaces]).map(|name| &**name))
        .filter(|name| !name.is_empty())
        .collect();
    let version = |bundle: &str| {
        let found = package.bundles.get(bundle).or_else(|| now_package?.bundles.get(bundle));
        found.and_then(|bundle| bundle.version.as_ref()).map(|(version, _)| version)
    };
    let outcomes: Vec<Outcome> = bundles
        .into_iter()
        .map(|bundle| Outcome {
            bundle: bundle.to_owned(),
            version: version(bundle).cloned(),
            before: was.fate(bundle, &version),
            now: match (&now, now_package) {
                (Some(now), _) => now.fate(bundle, &version),
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
    let simulated = Simulated::new(package, channel, side);
    let Ok(chain) = &simulated.chain else { return Some(Fix::OneHead) };
    let head = chain.first()?.name.to_string();
    // Where they get stuck: it is enough to help them on from there.
    let stuck: BTreeSet<String> =
        worse.iter().map(|outcome| outcome.now.destination().unwrap_or(&outcome.bundle).to_owned()).collect();
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
        let tried = Simulated::new(package, &channel, side);
        let good = worse.iter().all(|outcome| tried.fate(&outcome.bundle, version).is_good());
        let nobody_else = channel.entries.iter().all(|entry| {
            let before = simulated.fate(&entry.name, version).is_good();
            !before || tried.fate(&entry.name, version).is_good()
        });
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
struct Simulated<'a> {
    /// What clusters choose from, newest first; the heads if there is not one.
    chain: Result<Vec<&'a Entry>, Vec<String>>,
    /// For each bundle the first place in the chain that replaces or skips it.
    edges: HashMap<&'a str, usize>,
    /// The places in the chain that have a range, with it.
    ranges: Vec<(usize, VersionRange)>,
    names: HashSet<&'a str>,
    /// The places in the chain that cannot be installed, with the reasons.
    unmet: BTreeMap<usize, String>,
}

impl<'a> Simulated<'a> {
    fn new(package: &str, channel: &'a Channel, side: Side<'_>) -> Simulated<'a> {
        let entries: Vec<&Entry> = channel.entries.iter().collect();
        let key = |entry: &Entry| (package.to_owned(), entry.name.to_string());
        let usable = |entry: &&Entry| !side.forbidden.contains(&key(entry));
        let chain: Result<Vec<&Entry>, Vec<String>> = match catalog::chain::chain(&entries) {
            Ok(chain) => Ok(chain.into_iter().map(|place| entries[place]).filter(usable).collect()),
            Err(error) => Err(error.heads().into_iter().map(str::to_owned).collect()),
        };
        let mut edges: HashMap<&str, usize> = HashMap::new();
        let mut ranges = Vec::new();
        let mut unmet = BTreeMap::new();
        for (place, entry) in chain.iter().flatten().enumerate() {
            if let Some(why) = side.unmet.get(&key(entry)) {
                unmet.insert(place, why.clone());
                continue;
            }
            for from in entry.skips.iter().chain([&entry.replaces]) {
                edges.entry(from).or_insert(place);
            }
            if let Some(range) = VersionRange::parse(&entry.skip_range).ok().filter(|_| !entry.skip_range.is_empty()) {
                ranges.push((place, range));
            }
        }
        Simulated { chain, edges, ranges, names: entries.into_iter().map(|entry| &*entry.name).collect(), unmet }
    }

    /// Returns the place in the chain that a bundle is upgraded to.
    fn next(&self, bundle: &str, version: Option<&Version>) -> Option<usize> {
        let edge = self.edges.get(bundle).copied();
        let by_range = version.and_then(|version| {
            let before = self.ranges.iter().take_while(|(place, _)| edge.is_none_or(|edge| *place < edge));
            before.into_iter().find(|(_, range)| range.contains(version)).map(|(place, _)| *place)
        });
        by_range.or(edge)
    }

    /// Follows the upgrades from a bundle on.
    fn fate<'v>(&self, bundle: &str, version: &dyn Fn(&str) -> Option<&'v Version>) -> Fate {
        let chain = match &self.chain {
            Ok(chain) => chain,
            Err(heads) => return Fate::Broken(heads.clone()),
        };
        let mut steps: Vec<String> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut at = bundle;
        while seen.insert(at) {
            match self.next(at, version(at)).and_then(|place| chain.get(place)) {
                Some(next) if *next.name != *at => {
                    at = &next.name;
                    steps.push(at.to_owned());
                }
                _ => break,
            }
        }
        let newest = chain.first().is_some_and(|newest| *newest.name == *at);
        let leads = |(place, _): &(&usize, &String)| {
            chain.get(**place).is_some_and(|entry| catalog::chain::Edge::between(entry, at, version(at)).is_some())
        };
        if let Some((place, why)) = self.unmet.iter().find(leads).filter(|_| !newest) {
            let by = chain.get(*place).map(|entry| entry.name.to_string()).unwrap_or_default();
            return Fate::HeldBack { steps, by, why: why.clone() };
        }
        match (newest, steps.is_empty()) {
            (true, true) => Fate::Latest,
            (true, false) => Fate::Upgraded(steps),
            (false, true) if !self.names.contains(bundle) => Fate::NoPath,
            (false, _) => Fate::Stuck(steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::outline;

    fn told(old: &str, new: &str) -> String {
        let (old, new) = (outline(old), outline(new));
        let (none, all) = (Forbidden::new(), Unmet::new());
        let unmet = Unmet::from([(("p".to_owned(), "p.v9.0.0".to_owned()), "it requires q".to_owned())]);
        let reports = check(
            Side { outline: &old, forbidden: &none, unmet: &all },
            Side { outline: &new, forbidden: &none, unmet: &unmet },
        );
        let mut out = String::new();
        for report in reports {
            for outcome in &report.outcomes {
                let mark = if outcome.is_regression() { "!" } else { " " };
                out += &format!("{mark} {} {:?}\n", outcome.bundle, outcome.now);
            }
            if let Some(fix) = report.fix {
                out += &format!("{fix:?}\n");
            }
        }
        out
    }

    #[test]
    fn clusters_go_where_the_rules_send_them() {
        let chain = "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v2.0.0";
        insta::assert_snapshot!(told(chain, chain), @r#"
          p.v1.0.0 Upgraded(["p.v2.0.0", "p.v3.0.0"])
          p.v2.0.0 Upgraded(["p.v3.0.0"])
          p.v3.0.0 Latest
        "#);
        insta::assert_snapshot!(told(chain, "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v1.0.0 s=p.v2.0.0"), @r#"
          p.v1.0.0 Upgraded(["p.v3.0.0"])
          p.v2.0.0 Upgraded(["p.v3.0.0"])
          p.v3.0.0 Latest
        "#);
        insta::assert_snapshot!(told("p/c: p.v2.0.0-rc1", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v2.0.0 R=>=1.0.0_<3.0.0"), @r#"  p.v2.0.0-rc1 Upgraded(["p.v3.0.0"])"#);
        insta::assert_snapshot!(told("p/c: p.v1.0.0", "p/c: p.v2.0.0 r=p.v1.0.0"), @r#"  p.v1.0.0 Upgraded(["p.v2.0.0"])"#);
    }

    #[test]
    fn the_skipped_middle_strands_what_is_below() {
        // A valid chain, but nothing leads from v1 to v3.
        insta::assert_snapshot!(told("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 s=p.v2.0.0,p.v1.5.0"), @r#"
        ! p.v1.0.0 Stuck([])
          p.v2.0.0 Upgraded(["p.v3.0.0"])
        AddSkips { bundle: "p.v3.0.0", skips: ["p.v1.0.0"] }
        "#);
    }

    #[test]
    fn what_is_gone_needs_a_way_on() {
        insta::assert_snapshot!(told("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0\np/d: p.v1.0.0\nq/c: q.v1.0.0", "p/c: p.v3.0.0 r=p.v0.9.0"), @r#"
        ! p.v1.0.0 NoPath
        ! p.v2.0.0 NoPath
        AddSkips { bundle: "p.v3.0.0", skips: ["p.v1.0.0", "p.v2.0.0"] }
        ! p.v1.0.0 ChannelGone
        KeepChannel
        ! q.v1.0.0 PackageGone
        KeepPackage
        "#);
    }

    #[test]
    fn what_cannot_be_installed_holds_clusters_back() {
        insta::assert_snapshot!(told("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v9.0.0 r=p.v2.0.0"), @r#"
        ! p.v1.0.0 HeldBack { steps: ["p.v2.0.0"], by: "p.v9.0.0", why: "it requires q" }
        ! p.v2.0.0 HeldBack { steps: [], by: "p.v9.0.0", why: "it requires q" }
        "#);
    }

    #[test]
    fn many_are_helped_by_a_range() {
        let old = "p/c: p.v1.0.0; p.v1.0.1 r=p.v1.0.0; p.v1.0.2 r=p.v1.0.1; p.v1.0.3 r=p.v1.0.2; p.v1.0.4 r=p.v1.0.3; p.v1.0.5 r=p.v1.0.4";
        let told = told(old, "p/c: p.v2.0.0 R=<1.0.0");
        assert!(told.ends_with("SkipRange { bundle: \"p.v2.0.0\", range: \"<1.0.0 || >=1.0.0 <2.0.0\" }\n"), "{told}");
    }

    #[test]
    fn several_heads_stop_everybody() {
        insta::assert_snapshot!(told("p/c: p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0"), @r#"
        ! p.v1.0.0 Broken(["p.v1.0.0", "p.v2.0.0"])
        OneHead
        "#);
    }
}
