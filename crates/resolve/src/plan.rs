//! Describes the result of a resolution.

use catalog::chain::EntryEdge;

use crate::explain::explain;
use crate::input::ClusterNamespace;
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{self, Chosen, InclusionReason, Resolution, SolutionItem};

/// The change of one bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange {
    /// `install`, `upgrade` or `keep`.
    pub action: &'static str,
    /// The bundle.
    pub name: String,
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// Its catalog and channel; empty for a bundle that stays.
    pub origin: String,
    /// Why it is installed, and why no newer one is.
    pub reasons: Vec<String>,
}

/// Describes the change of every bundle.
pub fn steps(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &[Chosen]) -> Vec<PlannedChange> {
    let step = |chosen: &Chosen| {
        let name = resolver::bundle(pool, state, chosen.item).name.clone();
        let old = chosen.replaces.map(|place| state.installed[place].name.clone());
        let (action, origin) = match chosen.item {
            // A bundle whose range covers its own version is up to date.
            SolutionItem::Member(node) if old.as_ref() != Some(&name) => {
                (if old.is_some() { "upgrade" } else { "install" }, origin(pool, node))
            }
            _ => ("keep", String::new()),
        };
        let reasons = reasons(pool, state, chosen).into_iter().chain(passed_over(pool, state, chosen)).collect();
        PlannedChange { action, name, replaces: old.filter(|_| action == "upgrade"), origin, reasons }
    };
    chosen.iter().map(step).collect()
}

/// Describes the catalog and channel of a member.
pub fn origin(pool: &Pool<'_>, node: MemberIndex) -> String {
    let member = pool.member(node);
    let version = member.bundle.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let source = &pool.sources[member.source].name;
    format!("{}{version}, channel {} of {source}", member.bundle.package, member.channel)
}

/// Describes the edge by which a bundle replaces another.
pub fn by(edge: EntryEdge, old: &str) -> String {
    match edge {
        EntryEdge::Replaces => format!("it replaces {old}"),
        EntryEdge::Skips => format!("it skips {old}"),
        EntryEdge::SkipRange => format!("the version of {old} is in its skipRange"),
    }
}

/// Explains why a bundle is installed.
pub fn reasons(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> Vec<String> {
    let words = |reason: &InclusionReason| match reason {
        InclusionReason::Subscription(place) => {
            let request = &state.subscriptions[*place];
            match (&request.installed, chosen.item) {
                (None, _) => "requested".to_owned(),
                (Some(_), SolutionItem::Installed(_)) => "nothing upgrades it".to_owned(),
                (Some(old), SolutionItem::Member(_)) => match resolver::edge(pool, state, chosen) {
                    Some(edge) => by(edge, old),
                    None => format!("upgrades {old}"),
                },
            }
        }
        InclusionReason::Needed { by, need } => format!("{} requires {need}", resolver::bundle(pool, state, *by).name),
        InclusionReason::Unmanaged => "installed without a Subscription".to_owned(),
    };
    let mut told: Vec<String> = Vec::new();
    for reason in chosen.reasons.iter().map(words) {
        if !told.contains(&reason) {
            told.push(reason);
        }
    }
    told
}

/// Explains why a Subscription does not get the first bundle of its channel.
pub fn passed_over(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> Vec<String> {
    let asked = chosen.reasons.iter().find_map(|reason| match reason {
        InclusionReason::Subscription(place) => Some(*place),
        _ => None,
    });
    let (Some(place), SolutionItem::Member(node)) = (asked, chosen.item) else { return Vec::new() };
    let chain = pool.chain_of(node);
    let newest = chain.as_ref().as_ref().ok().and_then(|chain| chain.first().copied()).filter(|newest| *newest != node);
    let request = &state.subscriptions[place];
    let (Some(newest), None, None) = (newest, &request.installed, &request.starting_csv) else { return Vec::new() };
    let name = &pool.member(newest).bundle.name;
    let mut forced = state.clone();
    forced.subscriptions[place].starting_csv = Some(name.clone());
    let why = match resolver::resolve(pool, &forced) {
        Resolution::Unsatisfiable(conflict) => explain(pool, &forced, &conflict),
        Resolution::Error(refusal) => vec![refusal.to_string()],
        Resolution::Solved(_) => return Vec::new(),
    };
    let heading = format!("{name} is newer, but cannot be installed:");
    std::iter::once(heading).chain(why.into_iter().map(|line| format!("  {line}"))).collect()
}
