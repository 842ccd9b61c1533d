//! The answer to "which upgrades follow?": the one that `upgrade-path`, the console and its export give.

mod text;

use std::collections::HashMap;

use catalog::chain::EntryEdge;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::RequestError;
use crate::input::CandidateBundle;
use crate::path::{self, Start, V0End};
use crate::plan::origin;
use crate::pool::{MemberIndex, Pool};
use crate::request::{self, InstallRequest};
use crate::resolver::ResolutionRefusal;
use crate::v1;

/// The maximum number of other channels to try.
const OTHER_CHANNELS: usize = 20;

/// Compares the CRDs of an installed bundle and of the one that would replace it.
pub type CompareCrds<'a> = dyn Fn(&str, &str) -> Crds + 'a;

/// A question about the first catalog of a pool.
#[derive(Clone, Copy, Default)]
pub struct Question<'a> {
    pub package: &'a str,
    /// The installed version or bundle, even if the catalog no longer contains it.
    pub from: &'a str,
    /// The version or bundle to stop at; the newest if unset.
    pub to: Option<&'a str>,
    /// The channel; the default one if unset.
    pub channel: Option<&'a str>,
    /// For a cluster with OLM v1: compares the CRDs of two bundles.
    pub v1: Option<&'a CompareCrds<'a>>,
}

/// The verdict of OLM v1 on the CRDs of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Crds {
    /// The objects of one of the bundles are unknown.
    Unknown,
    /// It accepts them.
    Accepted,
    /// It refuses them, with these messages.
    Refused(Vec<String>),
}

impl From<Option<Vec<String>>> for Crds {
    /// Takes the messages of refused changes, if the CRDs are known.
    fn from(refused: Option<Vec<String>>) -> Crds {
        match refused {
            None => Crds::Unknown,
            Some(messages) if messages.is_empty() => Crds::Accepted,
            Some(messages) => Crds::Refused(messages),
        }
    }
}

/// The upgrades of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradePath {
    pub package: String,
    pub channel: String,
    /// Why it is this channel, if neither the question nor the package names it.
    pub channel_reason: Option<Box<str>>,
    /// The installed bundle.
    pub from: String,
    /// The target, if it is not the newest.
    pub to: Option<String>,
    /// The steps in order.
    pub steps: Vec<UpgradeStep>,
    /// Why it ends.
    pub end: Ending,
    /// Whether the cluster reaches the target, or the newest bundle.
    pub arrived: bool,
    /// Why it does not.
    pub explanation: Vec<String>,
    /// The message of the cluster if it cannot resolve the namespace, or ours if the path is unknown.
    pub refusal: Option<ResolutionRefusal>,
    /// The channels in which it would.
    pub elsewhere: Vec<String>,
    /// Whether this is the path of OLM v1.
    pub v1: bool,
    /// The bundle whose CRDs OLM v1 refuses.
    pub refused: Option<String>,
    /// The number of steps whose CRDs OLM v1 compares, and we could not.
    pub not_compared: usize,
}

/// One upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeStep {
    /// The bundle that is installed after it.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// The field of the channel entry that leads to it.
    pub edge: &'static str,
    /// The other bundles that are installed or upgraded with it.
    pub along: Vec<Along>,
}

/// A bundle that is installed or upgraded with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Along {
    /// The bundle.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its version.
    pub version: Option<String>,
    /// Its package, version, channel and catalog in words.
    #[serde(skip)]
    pub origin: String,
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// The requirements that it meets; none if its own Subscription upgrades it.
    pub reasons: Vec<String>,
}

/// An upgrade path as programs read it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathReport<'a> {
    package: &'a str,
    channel: &'a str,
    /// Why it is this channel, if neither the question nor the package names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_reason: Option<&'a str>,
    /// The installed bundle.
    from: &'a str,
    /// The steps in order.
    steps: &'a [UpgradeStep],
    end: Ending,
    /// Whether the cluster reaches the target, or the newest bundle.
    arrived: bool,
    /// Why it does not.
    explanation: Vec<String>,
    /// The channels in which it would.
    elsewhere: &'a [String],
    /// The bundle whose CRDs OLM v1 refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Option<&'a str>>,
    /// The number of steps whose CRDs OLM v1 compares, and opm could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_compared: Option<usize>,
}

impl<'a> From<&'a UpgradePath> for PathReport<'a> {
    fn from(path: &'a UpgradePath) -> PathReport<'a> {
        let refusal = path.refusal.as_ref().map(ToString::to_string);
        PathReport {
            package: &path.package,
            channel: &path.channel,
            channel_reason: path.channel_reason.as_deref(),
            from: &path.from,
            steps: &path.steps,
            end: path.end,
            arrived: path.arrived,
            explanation: path.explanation.iter().cloned().chain(refusal).collect(),
            elsewhere: &path.elsewhere,
            refused: path.v1.then_some(path.refused.as_deref()),
            not_compared: path.v1.then_some(path.not_compared),
        }
    }
}

impl Along {
    /// Describes what happens to the bundle.
    pub fn action(&self) -> String {
        match &self.replaces {
            Some(old) => format!("upgrades {old} to {}", self.name),
            None => format!("installs {}", self.name),
        }
    }
}

/// Why a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// There is no newer bundle.
    Latest,
    /// The target is reached.
    Reached,
    /// There is a newer bundle, but no edge leads to it.
    Stuck,
    /// The resolution fails.
    Blocked,
    /// The resolution takes too long to follow.
    Unknown,
    /// OLM v1 refuses the CRDs of the next bundle.
    Refused,
}

/// Follows the upgrades of a package.
///
/// # Errors
/// Fails when the question names something that does not exist.
pub fn upgrade_path(pool: &Pool<'_>, question: &Question<'_>) -> Result<UpgradePath, RequestError> {
    let package = question.package;
    let wish = |version: &str, channel: Option<&str>| InstallRequest {
        text: version.to_owned(),
        package: package.to_owned(),
        channel: channel.map(str::to_owned),
        version: Some(version.to_owned()),
    };
    let here = |&&node: &&MemberIndex| pool.member(node).source == 0;
    let nodes: Vec<MemberIndex> = pool.of_package(package).iter().filter(here).copied().collect();
    let wanted = wish(question.from, question.channel);
    let default = nodes.iter().copied().find(|&node| pool.is_default(node));
    let Some(default) = default else { return Err(wanted.unknown(pool)) };
    let default = pool.member(default).channel;
    if question.channel.is_some_and(|channel| !nodes.iter().any(|&node| pool.member(node).channel == channel)) {
        return Err(wanted.unknown(pool));
    }
    let (from, known) = request::installed(&wanted, pool)?;
    let followed = request::channel_of(pool, &from, known)
        .filter(|channel| nodes.iter().any(|&node| pool.member(node).channel == *channel));
    let channel = question.channel.or(followed.as_deref()).unwrap_or(default);
    let channel_reason = (question.channel.is_none() && channel != default)
        .then(|| format!("the default channel {default} neither lists nor upgrades {}", from.name).into());
    // A bundle that the catalog no longer contains is upgraded by its version.
    if known.is_none() && from.version.is_none() {
        return Err(RequestError::NotOfPackage { text: question.from.to_owned(), package: package.to_owned() });
    }
    let to = match question.to {
        None => None,
        Some(version) => {
            let members = wish(version, Some(channel)).members(pool);
            let anywhere = || wish(version, None).members(pool);
            let found = members.first().copied().or_else(|| anywhere().first().copied());
            let found = found.ok_or_else(|| wish(version, question.channel).unknown(pool))?;
            Some(pool.member(found).bundle.name.as_str())
        }
    };
    let follow = |channel: &str| {
        let start = Start { source: 0, package, channel: Some(channel), from: from.clone(), to };
        match question.v1 {
            Some(crds) => second(pool, &start, crds),
            None => first(pool, &start),
        }
    };
    let mut path = follow(channel);
    if !path.arrived {
        let mut others: Vec<&str> = nodes.iter().map(|&node| pool.member(node).channel).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| *other != channel);
        let leads_on = |other: &&str| follow(other).arrived;
        path.elsewhere = others.into_iter().take(OTHER_CHANNELS).filter(leads_on).map(str::to_owned).collect();
    }
    Ok(UpgradePath { channel_reason, ..path })
}

/// Follows the upgrades of OLM v0.
fn first(pool: &Pool<'_>, start: &Start<'_>) -> UpgradePath {
    let path = path::path(pool, start);
    let version = |node: MemberIndex| pool.member(node).bundle.version.as_ref().map(ToString::to_string);
    let steps = path.steps.iter().map(|step| {
        let along = step.companions.iter().map(|along| Along {
            name: pool.member(along.node).bundle.name.clone(),
            package: pool.member(along.node).bundle.package.clone(),
            version: version(along.node),
            origin: origin(pool, along.node),
            replaces: along.replaces.clone(),
            reasons: along.needed.clone(),
        });
        let name = pool.member(step.to).bundle.name.clone();
        UpgradeStep { name, version: version(step.to), edge: step.edge.field(), along: along.collect() }
    });
    let steps = steps.collect();
    let (end, explanation, refusal) = match path.end {
        V0End::Latest => (Ending::Latest, Vec::new(), None),
        V0End::Reached => (Ending::Reached, Vec::new(), None),
        V0End::Stuck(lines) => (Ending::Stuck, lines, None),
        V0End::Blocked(ResolutionRefusal::GaveUp, _) => (Ending::Unknown, Vec::new(), Some(ResolutionRefusal::GaveUp)),
        V0End::Blocked(refusal, lines) => (Ending::Blocked, lines, Some(refusal)),
    };
    ended(start, steps, end, explanation, refusal)
}

/// Follows the upgrades of OLM v1, up to the first one that it refuses because of a CRD.
fn second(pool: &Pool<'_>, start: &Start<'_>, crds: &CompareCrds<'_>) -> UpgradePath {
    let channel = start.channel.unwrap_or_default();
    let path = v1::path(pool, start.package, channel, &start.from, start.to);
    let (mut steps, mut not_compared): (Vec<UpgradeStep>, usize) = (Vec::new(), 0);
    for (node, edge) in path.steps {
        let bundle = pool.member(node).bundle;
        match crds(steps.last().map_or(&start.from.name, |step| &step.name), &bundle.name) {
            Crds::Unknown => not_compared += 1,
            Crds::Accepted => {}
            Crds::Refused(messages) => {
                let path = ended(start, steps, Ending::Refused, messages, None);
                return UpgradePath { refused: Some(bundle.name.clone()), not_compared, v1: true, ..path };
            }
        }
        let version = bundle.version.as_ref().map(ToString::to_string);
        let edge = edge.map_or("version", EntryEdge::field);
        steps.push(UpgradeStep { name: bundle.name.clone(), version, edge, along: Vec::new() });
    }
    let path = match path.end {
        v1::V1End::Latest => ended(start, steps, Ending::Latest, Vec::new(), None),
        v1::V1End::Reached => ended(start, steps, Ending::Reached, Vec::new(), None),
        v1::V1End::Failed(none) => {
            ended(start, steps, Ending::Blocked, Vec::new(), Some(ResolutionRefusal::Olm(none.to_string())))
        }
        v1::V1End::Cycle(name) => {
            ended(start, steps, Ending::Stuck, vec![format!("the upgrades lead back to {name}")], None)
        }
    };
    UpgradePath { not_compared, v1: true, ..path }
}

fn ended(
    start: &Start<'_>,
    steps: Vec<UpgradeStep>,
    end: Ending,
    explanation: Vec<String>,
    refusal: Option<ResolutionRefusal>,
) -> UpgradePath {
    UpgradePath {
        package: start.package.to_owned(),
        channel: start.channel.unwrap_or_default().to_owned(),
        channel_reason: None,
        from: start.from.name.clone(),
        to: start.to.map(str::to_owned),
        steps,
        end,
        arrived: matches!((end, start.to), (Ending::Reached, _) | (Ending::Latest, None)),
        explanation,
        refusal,
        elsewhere: Vec::new(),
        v1: false,
        refused: None,
        not_compared: 0,
    }
}

/// The upgrades of OLM v0 from one bundle of a channel, for a reader that has those of all bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onward {
    /// The cluster upgrades to the next bundle, and goes on as that one does.
    To {
        /// The installed bundle.
        from: String,
        /// The next one.
        next: String,
    },
    /// The whole path: it does not go on as one of its bundles does, since other operators are involved.
    Path(UpgradePath),
}

impl Onward {
    /// Returns the installed bundle.
    pub fn from(&self) -> &str {
        match self {
            Onward::To { from, .. } => from,
            Onward::Path(path) => &path.from,
        }
    }
}

/// Follows the upgrades from each of these bundles of a channel; each comes with the bundle that its edges lead to.
///
/// The result is that of [`upgrade_path`] for each of them, in a fraction of the time: paths share their ends.
pub fn onward(pool: &Pool<'_>, package: &str, channel: &str, bundles: &[(&str, Option<&str>)]) -> Vec<Onward> {
    let nodes = pool.of_package(package).iter().map(|&node| pool.member(node).bundle);
    let alone = nodes.clone().all(|bundle| bundle.facts.needs.is_empty());
    let by_name: HashMap<&str, &CandidateBundle> = nodes.map(|bundle| (bundle.name.as_str(), bundle)).collect();
    let follow = |from: &str, to: Option<&str>| {
        let from = (*by_name.get(from)?).clone();
        Some(first(pool, &Start { source: 0, package, channel: Some(channel), from, to }))
    };
    let ask = |(name, next): &(&str, Option<&str>)| {
        if let Some(next) = next.filter(|_| alone) {
            let step = follow(name, Some(next))?;
            if step.steps.len() == 1 && step.arrived && step.steps[0].along.is_empty() {
                return Some(Onward::To { from: (*name).to_owned(), next: next.to_owned() });
            }
        }
        follow(name, None).map(Onward::Path)
    };
    bundles.iter().filter_map(ask).collect()
}
