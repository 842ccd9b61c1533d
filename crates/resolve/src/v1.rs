//! Selects what the second generation of cluster software installs: the newest bundle of one package. Dependencies play
//! no part.

use std::collections::{HashMap, HashSet};

use catalog::chain::EntryEdge;
use fbc::release::cmp_version_release;
use fbc::version::Version;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::RequestError;
use crate::input::CandidateBundle;
use crate::masterminds::MastermindsRange;
use crate::plan::origin;
use crate::pool::{MemberIndex, Pool};
use crate::request::InstallRequest;

/// A request to install a package.
#[derive(Debug, Default)]
pub struct V1Request<'a> {
    pub package: &'a str,
    /// The channels; all of them if empty.
    pub channels: &'a [String],
    /// The allowed versions; all of them if unset.
    pub range: Option<&'a MastermindsRange>,
    pub installed: Option<&'a CandidateBundle>,
    /// Whether any version is allowed, not only upgrades that the catalog provides.
    pub any_version: bool,
}

/// Why no bundle is chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", upgrading(.from.as_ref()))]
pub struct NoChoice {
    /// The version to upgrade from.
    pub from: Option<Version>,
    pub reason: NoChoiceReason,
}

/// The reason why no bundle is chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoChoiceReason {
    /// No bundle fits this request.
    #[error("no bundles found for {0}")]
    None(String),
    /// Bundles of several catalogs fit.
    #[error("found bundles for {request} in multiple catalogs with the same priority [{}]", catalogs.join(" "))]
    Several { request: String, catalogs: Vec<String> },
}

/// Returns the prefix that clusters put before errors during an upgrade.
fn upgrading(from: Option<&Version>) -> String {
    from.map(|it| format!("error upgrading from currently installed version \"{it}\": ")).unwrap_or_default()
}

/// Chooses the bundle to install.
///
/// # Errors
/// Fails with the message of clusters when there is no bundle, or several.
pub fn select(pool: &Pool<'_>, request: &V1Request<'_>) -> Result<MemberIndex, NoChoice> {
    select_among(pool, request, pool.of_package(request.package))
}

/// Chooses the bundle to install among `nodes`.
fn select_among(pool: &Pool<'_>, request: &V1Request<'_>, nodes: &[MemberIndex]) -> Result<MemberIndex, NoChoice> {
    let mut best: Vec<MemberIndex> = Vec::new();
    for source in 0..pool.sources.len() {
        let fits = |&node: &MemberIndex| pool.member(node).source == source && is_eligible(pool, request, node);
        let found = nodes.iter().copied().filter(fits);
        best.extend(found.min_by(|&a, &b| compare(pool, a, b)));
    }
    // A catalog without a deprecation is preferred, then a higher priority.
    if best.iter().any(|&node| !is_deprecated(pool, node)) {
        best.retain(|&node| !is_deprecated(pool, node));
    }
    let priority = |node: MemberIndex| pool.sources[pool.member(node).source].priority;
    let highest = best.iter().map(|&node| priority(node)).max();
    best.retain(|&node| Some(priority(node)) == highest);
    let reason = match best.as_slice() {
        [only] => return Ok(*only),
        [] => NoChoiceReason::None(described(request)),
        several => {
            let name = |&node: &MemberIndex| pool.sources[pool.member(node).source].name.clone();
            let mut catalogs: Vec<String> = several.iter().map(name).collect();
            catalogs.sort_unstable();
            NoChoiceReason::Several { request: described(request), catalogs }
        }
    };
    Err(NoChoice { from: request.installed.and_then(|old| old.version.clone()), reason })
}

/// What clusters install for several packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExtensionChoices {
    /// Whether a bundle is chosen for each package.
    pub resolved: bool,
    pub bundles: Vec<ExtensionChoice>,
}

/// What a cluster installs for a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ExtensionChoice {
    Chosen(ChosenBundle),
    Failed(FailedChoice),
}

/// The bundle that is chosen for a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChosenBundle {
    /// `install`, `upgrade` or `keep`.
    pub action: &'static str,
    /// The bundle.
    pub name: String,
    pub package: String,
    pub version: Option<String>,
    /// The catalog.
    pub catalog: String,
    /// The bundle that it upgrades.
    pub replaces: Option<String>,
    /// Whether it is deprecated, because there is nothing else.
    pub deprecated: bool,
    /// Its catalog and channel in words.
    #[serde(skip)]
    pub origin: String,
    /// Whether it has dependencies, which this generation does not install.
    #[serde(skip)]
    pub has_dependencies: bool,
}

/// A package for which no bundle is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedChoice {
    /// `fail`.
    action: &'static str,
    package: String,
    /// The message of the cluster.
    message: String,
    #[serde(skip)]
    pub error: NoChoice,
}

/// Chooses a bundle for each request, and for each installed package without one, which follows its channel in
/// `channels`.
///
/// # Errors
/// Fails when the version of a request is not a range.
pub fn choose(
    pool: &Pool<'_>,
    requests: &[InstallRequest],
    installed: &[CandidateBundle],
    channels: &[InstallRequest],
    any_version: bool,
) -> Result<ExtensionChoices, RequestError> {
    let mut requests = requests.to_vec();
    for csv in installed {
        if !requests.iter().any(|request| request.package == csv.package) {
            let channel = channels.iter().find(|it| it.package == csv.package).and_then(|it| it.channel.clone());
            let (text, package) = (csv.name.clone(), csv.package.clone());
            requests.push(InstallRequest { text, package, channel, version: None });
        }
    }
    let choose = |request: &InstallRequest| {
        let range = request.version.as_deref().map(MastermindsRange::parse).transpose();
        let range = range.map_err(|error| RequestError::Range { text: request.text.clone(), error })?;
        let channels: Vec<String> =
            request.channel.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
        let installed = installed.iter().find(|csv| csv.package == request.package);
        let package = &request.package;
        let range = range.as_ref();
        let choice = match select(pool, &V1Request { package, channels: &channels, range, installed, any_version }) {
            Ok(node) => ExtensionChoice::Chosen(chosen(pool, node, installed)),
            Err(error) => {
                let (package, message) = (package.clone(), error.to_string());
                ExtensionChoice::Failed(FailedChoice { action: "fail", package, message, error })
            }
        };
        Ok(choice)
    };
    let bundles = requests.iter().map(choose).collect::<Result<Vec<_>, RequestError>>()?;
    let resolved = bundles.iter().all(|choice| matches!(choice, ExtensionChoice::Chosen(_)));
    Ok(ExtensionChoices { resolved, bundles })
}

/// Describes the chosen bundle.
fn chosen(pool: &Pool<'_>, node: MemberIndex, installed: Option<&CandidateBundle>) -> ChosenBundle {
    let member = pool.member(node);
    let name = &member.bundle.name;
    let action = match installed {
        None => "install",
        Some(old) if old.name == *name => "keep",
        Some(_) => "upgrade",
    };
    ChosenBundle {
        action,
        name: name.clone(),
        package: member.bundle.package.clone(),
        version: member.bundle.version.as_ref().map(ToString::to_string),
        catalog: pool.sources[member.source].name.clone(),
        replaces: installed.filter(|_| action == "upgrade").map(|old| old.name.clone()),
        deprecated: is_deprecated(pool, node),
        origin: origin(pool, node),
        has_dependencies: !member.bundle.facts.needs.is_empty(),
    }
}

/// The upgrades of a cluster of the second generation, step by step.
#[derive(Debug)]
pub struct V1Path {
    /// The bundles in order, each with the edge that leads to it.
    pub steps: Vec<(MemberIndex, Option<EntryEdge>)>,
    /// Why it ends.
    pub end: V1End,
}

/// The end of a [`V1Path`].
#[derive(Debug, PartialEq, Eq)]
pub enum V1End {
    /// No edge leads to a higher version.
    Latest,
    /// The target is reached.
    Reached,
    /// There is no upgrade.
    Failed(NoChoice),
    /// The upgrades lead back to a bundle.
    Cycle(String),
}

/// Follows the upgrades of a package in a channel, each to the highest version that an edge leads to.
///
/// A target is selected as soon as an edge leads to it.
pub fn path(pool: &Pool<'_>, package: &str, channel: &str, from: &CandidateBundle, to: Option<&str>) -> V1Path {
    let channels = [channel.to_owned()];
    let nodes = pool.of_package(package);
    let wanted = to.and_then(|to| nodes.iter().find(|node| pool.member(**node).bundle.name == to));
    let wanted = wanted.and_then(|node| pool.member(*node).bundle.version.as_ref());
    let range = wanted.and_then(|version| MastermindsRange::parse(&format!("={version}")).ok());
    // A step looks only at bundles that can follow: those of the same version, and those with an edge.
    let mut by_name: HashMap<&str, Vec<MemberIndex>> = HashMap::new();
    let mut ranged = Vec::new();
    for &node in nodes {
        let member = pool.member(node);
        let names = member.entry.skips.iter().chain([&member.entry.replaces, &member.entry.name]);
        names.for_each(|name| by_name.entry(name).or_default().push(node));
        if !member.entry.skip_range.is_empty() {
            ranged.push(node);
        }
    }
    let (mut steps, mut seen, mut current) = (Vec::new(), HashSet::new(), from);
    loop {
        if to == Some(current.name.as_str()) {
            return V1Path { steps, end: V1End::Reached };
        }
        if !seen.insert(current.name.clone()) {
            return V1Path { steps, end: V1End::Cycle(current.name.clone()) };
        }
        let next: Vec<MemberIndex> =
            by_name.get(current.name.as_str()).into_iter().flatten().chain(&ranged).copied().collect();
        let select = |range: Option<&MastermindsRange>| {
            let request =
                V1Request { package, channels: &channels, range, installed: Some(current), any_version: false };
            select_among(pool, &request, &next)
        };
        let direct = range.as_ref().and_then(|range| select(Some(range)).ok());
        let node = match direct.map_or_else(|| select(None), Ok) {
            Ok(node) if pool.member(node).bundle.name != current.name => node,
            Ok(_) => return V1Path { steps, end: V1End::Latest },
            Err(none) => return V1Path { steps, end: V1End::Failed(none) },
        };
        let member = pool.member(node);
        steps.push((node, EntryEdge::between(member.entry, &current.name, current.version.as_ref())));
        current = member.bundle;
    }
}

/// Returns whether a bundle is a candidate.
pub(crate) fn is_eligible(pool: &Pool<'_>, request: &V1Request<'_>, node: MemberIndex) -> bool {
    let member = pool.member(node);
    let bundle = member.bundle;
    let listed = |channel: &str| request.channels.is_empty() || request.channels.iter().any(|name| name == channel);
    let in_range = request.range.is_none_or(|range| bundle.version.as_ref().is_some_and(|it| range.contains(it)));
    let successor = || {
        let Some(old) = request.installed.filter(|_| !request.any_version) else { return true };
        let same = bundle.name == old.name
            || bundle.version.as_ref().zip(old.version.as_ref()).is_some_and(|(a, b)| {
                cmp_version_release((a, bundle.release.as_ref()), (b, old.release.as_ref())).is_eq()
            });
        same || EntryEdge::between(member.entry, &old.name, old.version.as_ref()).is_some()
    };
    member.bundle.package == request.package && listed(member.channel) && in_range && successor()
}

/// Returns whether a bundle itself is deprecated; clusters ignore the deprecation of its channel or package.
pub fn is_deprecated(pool: &Pool<'_>, node: MemberIndex) -> bool {
    pool.member(node).bundle.deprecation.is_some()
}

/// Sorts the preferred bundle first.
fn compare(pool: &Pool<'_>, a: MemberIndex, b: MemberIndex) -> std::cmp::Ordering {
    let (one, other) = (pool.member(a).bundle, pool.member(b).bundle);
    let versions = match (&one.version, &other.version) {
        (Some(x), Some(y)) => cmp_version_release((y, other.release.as_ref()), (x, one.release.as_ref())),
        (x, y) => y.is_some().cmp(&x.is_some()),
    };
    is_deprecated(pool, a)
        .cmp(&is_deprecated(pool, b))
        .then(versions)
        .then_with(|| (&one.name, pool.member(a).channel).cmp(&(&other.name, pool.member(b).channel)))
}

/// Describes the request, in the words of clusters.
fn described(request: &V1Request<'_>) -> String {
    let mut text = format!("package {:?}", request.package);
    if let Some(range) = request.range {
        text += &format!(" matching version {:?}", range.as_str());
    }
    if !request.channels.is_empty() {
        text += &format!(" in channels [{}]", request.channels.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::read;

    fn shown(lines: &str, range: &str, channels: &[&str], installed: &str) -> String {
        let (sources, _) = read(lines);
        let pool = Pool::new(&sources, "here");
        let range = (!range.is_empty()).then(|| MastermindsRange::parse(range).unwrap());
        let channels: Vec<String> = channels.iter().map(|&name| name.to_owned()).collect();
        let installed = sources[0].bundles.iter().find(|bundle| bundle.name == installed);
        let request =
            V1Request { package: "a", channels: &channels, range: range.as_ref(), installed, any_version: false };
        match select(&pool, &request) {
            Ok(node) => pool.member(node).bundle.name.clone(),
            Err(none) => none.to_string(),
        }
    }

    #[test]
    fn the_highest_version_that_the_edges_allow_is_selected() {
        let skips = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 r=a.v2 s=a.v1\na/fast: a.v9 R=>=3.0.0";
        assert_eq!(shown(skips, "", &[], ""), "a.v9");
        assert_eq!(shown(skips, "", &["stable"], ""), "a.v3");
        assert_eq!(shown(skips, "<3", &[], ""), "a.v2");
        assert_eq!(shown(skips, "", &["stable"], "a.v1"), "a.v3");
        assert_eq!(shown(skips, "~2", &[], "a.v1"), "a.v2");
        assert_eq!(shown(skips, "", &[], "a.v3"), "a.v9");
        assert_eq!(shown(skips, "", &["stable"], "a.v3"), "a.v3");
        assert_eq!(
            shown(skips, "7.x", &["stable"], "a.v3"),
            "error upgrading from currently installed version \"3.0.0\": no bundles found for package \"a\" matching \
             version \"7.x\" in channels [stable]"
        );
    }

    #[test]
    fn priority_selects_among_several_catalogs() {
        let two = |one: i32, other: i32| {
            shown(&format!("catalog x {one}\na/stable*: a.v1\ncatalog y {other}\na/stable*: a.v2"), "", &[], "")
        };
        assert_eq!((two(1, 0).as_str(), two(0, 1).as_str()), ("a.v1", "a.v2"));
        assert_eq!(two(0, 0), "found bundles for package \"a\" in multiple catalogs with the same priority [x y]");
    }

    #[test]
    fn deprecated_bundles_are_selected_last() {
        let (mut sources, _) = read("catalog x\na/stable*: a.v1; a.v2 r=a.v1");
        sources[0].bundles[1].deprecation = Some("old".to_owned());
        let pool = Pool::new(&sources, "here");
        let request = V1Request { package: "a", ..V1Request::default() };
        assert_eq!(select(&pool, &request).map(|node| pool.member(node).bundle.name.as_str()), Ok("a.v1"));
    }

    #[test]
    fn a_deprecated_channel_does_not_deprecate_its_bundles() {
        let (mut sources, _) = read("catalog x\na/stable*: a.v1\na/new: a.v2");
        let channel = sources[0].channels.iter_mut().find(|channel| channel.name == "new").unwrap();
        channel.deprecation = Some("old".to_owned());
        let pool = Pool::new(&sources, "here");
        let request = V1Request { package: "a", ..V1Request::default() };
        let node = select(&pool, &request).unwrap();
        assert_eq!((pool.member(node).bundle.name.as_str(), is_deprecated(&pool, node)), ("a.v2", false));
    }
}
