//! Describes the result of a resolution.

use catalog::chain::EntryEdge;
use schemars::JsonSchema;
use serde::Serialize;

use crate::explain::explain;
use crate::input::ClusterNamespace;
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{self, Chosen, InclusionReason, Resolution, ResolutionRefusal, SolutionItem};

/// What a cluster does in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NamespacePlan {
    Resolved(PlannedChanges),
    Conflict(PlanConflict),
}

/// The changes of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedChanges {
    /// Always true.
    resolved: bool,
    pub bundles: Vec<PlannedChange>,
}

/// Why nothing in a namespace changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanConflict {
    /// Always false.
    resolved: bool,
    /// The reason of the condition that OLM sets, or `GaveUp`.
    pub reason: &'static str,
    /// The message of OLM, or ours if opm gave up.
    message: String,
    /// The conflict, line by line.
    pub explanation: Vec<String>,
    /// Who refuses.
    #[serde(skip)]
    pub refusal: ResolutionRefusal,
}

/// The change of one bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    /// `install`, `upgrade` or `keep`.
    pub action: &'static str,
    /// The bundle.
    pub name: String,
    pub package: String,
    pub version: Option<String>,
    /// Its channel, unless it stays.
    pub channel: Option<String>,
    /// Its catalog, unless it stays.
    pub catalog: Option<String>,
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// The field of the channel entry that leads to it.
    pub edge: Option<&'static str>,
    /// Why it is installed.
    pub reasons: Vec<String>,
    /// Why no newer one is.
    pub passed_over: Vec<String>,
    /// Its catalog and channel in words; empty for a bundle that stays.
    #[serde(skip)]
    pub origin: String,
}

impl PlannedChange {
    /// Returns the bundle that it upgrades.
    pub fn upgraded(&self) -> Option<&str> {
        self.replaces.as_deref().filter(|_| self.action == "upgrade")
    }

    /// Returns why it is installed, and why no newer one is.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        self.reasons.iter().chain(&self.passed_over)
    }
}

/// Resolves a namespace as OLM v0 does.
pub fn namespace(pool: &Pool<'_>, state: &ClusterNamespace) -> NamespacePlan {
    let conflict = |reason, refusal: ResolutionRefusal, explanation| {
        let message = refusal.to_string();
        NamespacePlan::Conflict(PlanConflict { resolved: false, reason, message, explanation, refusal })
    };
    match resolver::resolve(pool, state) {
        Resolution::Solved(chosen) => {
            let bundles = chosen.iter().map(|chosen| change(pool, state, chosen)).collect();
            NamespacePlan::Resolved(PlannedChanges { resolved: true, bundles })
        }
        Resolution::Unsatisfiable(found) => {
            let lines = explain(pool, state, &found).iter().map(|line| line.trim_end().to_owned()).collect();
            conflict("ConstraintsNotSatisfiable", ResolutionRefusal::Olm(found.message()), lines)
        }
        Resolution::Error(ResolutionRefusal::GaveUp) => conflict("GaveUp", ResolutionRefusal::GaveUp, Vec::new()),
        Resolution::Error(refusal) => conflict("ErrorPreventedResolution", refusal, Vec::new()),
    }
}

/// Describes the change of a bundle.
fn change(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> PlannedChange {
    let bundle = resolver::bundle(pool, state, chosen.item);
    let replaces = chosen.replaces.map(|place| state.installed[place].name.clone());
    let moved = match chosen.item {
        // A bundle whose range covers its own version is up to date.
        SolutionItem::Member(node) if replaces.as_ref() != Some(&bundle.name) => Some(node),
        _ => None,
    };
    let member = moved.map(|node| pool.member(node));
    PlannedChange {
        action: match (moved, &replaces) {
            (None, _) => "keep",
            (Some(_), Some(_)) => "upgrade",
            (Some(_), None) => "install",
        },
        name: bundle.name.clone(),
        package: bundle.package.clone(),
        version: bundle.version.as_ref().map(ToString::to_string),
        channel: member.map(|member| member.channel.to_string()),
        catalog: member.map(|member| pool.sources[member.source].name.clone()),
        replaces,
        edge: resolver::edge(pool, state, chosen).map(EntryEdge::field),
        reasons: reasons(pool, state, chosen),
        passed_over: passed_over(pool, state, chosen),
        origin: moved.map(|node| origin(pool, node)).unwrap_or_default(),
    }
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
fn reasons(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> Vec<String> {
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
fn passed_over(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> Vec<String> {
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
