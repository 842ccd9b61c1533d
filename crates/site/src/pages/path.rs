//! The upgrade path from one version to another, or where it ends and why.

use catalog::chain::Edge;
use fbc::version::Version;
use maud::{Markup, html};
use resolve::input::{Bundle as Installed, Source};
use resolve::masterminds::Range;
use resolve::path::{self, End, Path, Start};
use resolve::pool::Pool;
use resolve::v1;

use super::{crumbs, hero, tabs};
use crate::frame::{Context, Page, Section, block};
use crate::shelf::Package;
use crate::text::{count, t};

/// The maximum number of steps.
const STEPS: usize = 1000;

/// The parameters of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Version or bundle that is installed.
    pub from: String,
    /// Version or bundle to stop at; the newest if empty.
    pub to: String,
    /// The channel; the default one if empty.
    pub channel: String,
    /// Whether the cluster runs OLM v1.
    pub v1: bool,
}

impl Parameters {
    /// Parses the query of a URL.
    pub fn read(query: &str) -> Parameters {
        let mut parameters = Parameters::default();
        for (key, value) in crate::rank::pairs(query) {
            match key.as_str() {
                "from" => parameters.from = value.trim().to_owned(),
                "to" => parameters.to = value.trim().to_owned(),
                "channel" => parameters.channel = value,
                "olm" => parameters.v1 = value == "v1",
                _ => {}
            }
        }
        parameters
    }
}

/// An upgrade path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The installed bundle.
    pub from: String,
    /// The steps: bundle, edge, side effects on other bundles.
    pub steps: Vec<(String, &'static str, Vec<String>)>,
    /// Whether it reaches the target.
    pub arrived: bool,
    /// Why it ends.
    pub end: Vec<String>,
    /// Channels in which the path would continue.
    pub elsewhere: Vec<String>,
    /// The permissions that the end has and the start lacks, if both are known.
    pub gained: Option<Vec<String>>,
}

/// Computes the upgrade path.
///
/// # Errors
/// Fails when the request is invalid.
pub fn answer(source: &[Source], package: &Package, parameters: &Parameters) -> Result<Answer, String> {
    let name = package.row.name.as_str();
    let channel = if parameters.channel.is_empty() {
        package.detail.default_channel.as_str()
    } else {
        parameters.channel.as_str()
    };
    if !package.detail.channels.iter().any(|one| one.name == channel) {
        return Err(format!("package {name} has no channel {channel:?}"));
    }
    let pool = Pool::new(source, "operators");
    let from = installed(source, package, &parameters.from)?;
    let to = match parameters.to.as_str() {
        "" => None,
        text => Some(find(package, text).ok_or_else(|| format!("package {name} has no version {text}"))?),
    };
    if parameters.v1 {
        return Ok(second(&pool, name, channel, from, to.as_deref()));
    }
    let way = |channel: &str| {
        let start = Start { source: 0, package: name, channel: Some(channel), from: from.clone(), to: to.as_deref() };
        let path = path::path(&pool, &start);
        let arrived = matches!((&path.end, &to), (End::Reached, _) | (End::Latest, None));
        (path, arrived)
    };
    let (path, arrived) = way(channel);
    let others = package.detail.channels.iter().filter(|other| other.name != channel && !arrived).take(20);
    let elsewhere = others.filter(|other| way(&other.name).1).map(|other| other.name.clone()).collect();
    Ok(in_words(&pool, &path, from.name, arrived, elsewhere))
}

fn in_words(pool: &Pool<'_>, path: &Path, from: String, arrived: bool, elsewhere: Vec<String>) -> Answer {
    let name = |node| pool.member(node).bundle.name.clone();
    let steps = path.steps.iter().map(|step| {
        let along = step.companions.iter().map(|along| match &along.replaces {
            Some(old) => format!("upgrades {old} to {}", name(along.node)),
            None => format!("installs {}", name(along.node)),
        });
        (name(step.to), step.edge.field(), along.collect())
    });
    let end = match &path.end {
        End::Latest => vec!["It is the newest version of the channel.".to_owned()],
        End::Reached => Vec::new(),
        End::Stuck(lines) => lines.clone(),
        End::Blocked(message, lines) => lines.iter().cloned().chain([format!("OLM says: {message}")]).collect(),
    };
    Answer { from, steps: steps.collect(), arrived, end, elsewhere, gained: None }
}

/// Follows the upgrades of OLM v1, which selects the highest version that an edge leads to.
fn second(pool: &Pool<'_>, package: &str, channel: &str, from: Installed, to: Option<&str>) -> Answer {
    let channels = [channel.to_owned()];
    let wanted = to.and_then(|to| pool.of_package(package).iter().find(|node| pool.member(**node).bundle.name == to));
    let wanted = wanted.and_then(|node| pool.member(*node).bundle.version.as_ref());
    let range = wanted.and_then(|version| Range::parse(&format!("={version}")).ok());
    let mut answer = Answer {
        from: from.name.clone(),
        steps: Vec::new(),
        arrived: to == Some(from.name.as_str()),
        end: Vec::new(),
        elsewhere: Vec::new(),
        gained: None,
    };
    let mut current = from;
    while !answer.arrived && answer.steps.len() < STEPS {
        let select = |range: Option<&Range>| {
            let installed = Some(&current);
            v1::select(pool, &v1::Request { package, channels: &channels, range, installed, any_version: false })
        };
        // A given target is selected as soon as an edge leads to it.
        let direct = range.as_ref().and_then(|range| select(Some(range)).ok());
        let node = match direct.map_or_else(|| select(None), Ok) {
            Ok(node) if pool.member(node).bundle.name != current.name => node,
            Ok(_) => {
                answer.arrived = to.is_none();
                answer.end.push("No edge of the channel leads to a higher version.".to_owned());
                break;
            }
            Err(message) => {
                answer.end.push(message);
                break;
            }
        };
        let member = pool.member(node);
        let edge = Edge::between(member.entry, &current.name, current.version.as_ref());
        answer.steps.push((member.bundle.name.clone(), edge.map_or("version", Edge::field), Vec::new()));
        answer.arrived = to == Some(member.bundle.name.as_str());
        current = member.bundle.clone();
    }
    answer
}

/// Finds a bundle by name or version.
pub fn find(package: &Package, text: &str) -> Option<String> {
    let parsed = Version::parse_tolerant(text).ok();
    let same = |version: &str| {
        let own = Version::parse_strict(version).ok();
        parsed.as_ref().zip(own.as_ref()).is_some_and(|(a, b)| a.cmp_precedence(b).is_eq())
    };
    let bundles = &package.detail.bundles;
    let found = bundles.iter().find(|bundle| bundle.name == text || bundle.full_version() == text);
    found.or_else(|| bundles.iter().find(|bundle| same(&bundle.version))).map(|bundle| bundle.name.clone())
}

/// Returns the installed bundle, even if the catalog no longer contains it.
fn installed(source: &[Source], package: &Package, text: &str) -> Result<Installed, String> {
    if let Some(name) = find(package, text) {
        let known = source.iter().flat_map(|source| &source.bundles);
        let mut known = known.filter(|bundle| bundle.package == package.row.name && bundle.name == name);
        return known.next().cloned().ok_or_else(|| format!("bundle {name} is not in the catalog"));
    }
    let version = Version::parse_tolerant(text)
        .map_err(|_| format!("{text:?} is neither a version nor a bundle of {}", package.row.name))?;
    let name = format!("{}.v{version}", package.row.name);
    Ok(Installed { package: package.row.name.clone(), ..Installed::installed(&name, Some(version), "[]") })
}

/// Renders the page.
pub fn page(
    context: &Context<'_>,
    package: &Package,
    parameters: &Parameters,
    answer: Option<&Result<Answer, String>>,
) -> Page {
    let files = context.links.are_files();
    let body = html! {
        (hero(context, package, &format!("Upgrade path of {}", package.title())))
        (tabs(context, package, "path"))
        (picker(context, package, parameters))
        @match answer {
            Some(Ok(answer)) => (steps(context, package, parameters, answer)),
            Some(Err(reason)) => div.note.bad role="alert" { p { (t(reason)) } },
            None if files => div.still { div #answer role="status" {} (overview(package)) },
            None => p.soft.live { "Choose the installed version and the target version." },
        }
    };
    Page {
        title: format!("Upgrade path of {}", package.title()),
        section: Section::Packages,
        crumbs: crumbs(context, package, &[("Upgrade path", None)]),
        body,
        name: "path",
    }
}

fn picker(context: &Context<'_>, package: &Package, parameters: &Parameters) -> Markup {
    let target = context.links.of_package(&package.row.name, "path");
    let detail = &package.detail;
    html! {
        form.form #path action=(target) method="get" {
            label { "Installed version"
                input.field name="from" list="all" required autocomplete="off" value=(t(&parameters.from)) placeholder="1.2.3";
            }
            label { "To" input.field name="to" list="all" autocomplete="off" value=(t(&parameters.to)) placeholder="newest"; }
            label { "Channel"
                select.field name="channel" { @for channel in &detail.channels {
                    @let chosen = if parameters.channel.is_empty() { channel.name == detail.default_channel } else { channel.name == parameters.channel };
                    option value=(t(&channel.name)) selected[chosen] { (t(&channel.name)) @if channel.name == detail.default_channel { " (default)" } }
                } }
            }
            @if !context.links.are_files() {
                label.live { "Cluster" select.field name="olm" { @for (value, label) in [("v0", "OLM v0"), ("v1", "OLM v1")] { option value=(value) selected[parameters.v1 == (value == "v1")] { (label) } } } }
            }
            button.button.main type="submit" { "Show path" }
            datalist #all { @for bundle in &detail.bundles { option value=(t(&bundle.full_version())) {} } }
        }
    }
}

fn steps(context: &Context<'_>, package: &Package, parameters: &Parameters, answer: &Answer) -> Markup {
    let name = &package.row.name;
    let version =
        |bundle: &str| package.bundle(bundle).map(|bundle| bundle.full_version()).unwrap_or_else(|| bundle.to_owned());
    let link = |bundle: &str| match package.bundle(bundle) {
        Some(_) => {
            html! { a.ver href=[context.links.version(name, bundle)] { (t(&version(bundle))) } " " code.soft { (t(bundle)) } }
        }
        None => html! { code { (t(bundle)) } " " span.pill { "not in the catalog" } },
    };
    let channel =
        if parameters.channel.is_empty() { String::new() } else { format!(" --channel {}", parameters.channel) };
    let to = if parameters.to.is_empty() { String::new() } else { format!(" --to {}", parameters.to) };
    html! {
        h2 { @if answer.arrived && answer.steps.is_empty() { "Nothing to do" } @else if answer.arrived { (count(answer.steps.len(), "step", "steps")) } @else { "It does not get there" } }
        ol.steps {
            li.start { (link(&answer.from)) " " span.soft { "installed" } }
            @for (place, (bundle, edge, along)) in answer.steps.iter().enumerate() {
                li.end[answer.arrived && place + 1 == answer.steps.len()] {
                    (link(bundle)) " " span.pill { (edge) }
                    @if package.bundle(bundle).is_some_and(|bundle| bundle.deprecation.is_some()) { " " span.pill.warn { "deprecated" } }
                    @for line in along { p.small.soft { "Also " (t(line)) } }
                }
            }
        }
        @if !answer.arrived {
            div.note.bad { @for line in &answer.end { p { (t(line)) } } }
            @for channel in &answer.elsewhere {
                p { "Channel " a href={ (context.links.of_package(name, "path")) "?from=" (spelling::percent::encode(&parameters.from)) "&to=" (spelling::percent::encode(&parameters.to)) "&channel=" (spelling::percent::encode(channel)) } { (t(channel)) } " leads on." }
            }
        } @else { @for line in &answer.end { p.soft { (t(line)) } } }
        @if let Some(gained) = &answer.gained { (permissions(gained)) }
        @if parameters.v1 { p.small.soft { "This generation installs no dependencies." } }
        @else { (block("The same in a shell", &format!("opm upgrade-path CATALOG {name} --from {}{to}{channel}", parameters.from))) }
    }
}

/// The permissions that the upgrade adds.
fn permissions(gained: &[String]) -> Markup {
    html! {
        @if gained.is_empty() { p { span.pill.good { "no new permissions" } " The last version requires no permissions that the installed one lacks." } }
        @else {
            details.fold open[gained.len() < 10] {
                summary { (count(gained.len(), "permission", "permissions")) " gained along the path" }
                ul { @for line in gained { li { (t(line)) } } }
            }
        }
    }
}

/// The next upgrade of every version, for pages without a server.
fn overview(package: &Package) -> Markup {
    let graph = crate::outline::graph(package, true);
    let channels = graph.packages.first().map(|package| package.channels.as_slice()).unwrap_or_default();
    html! {
        p.soft { "Dependencies on other packages are not checked here; " code { "opm upgrade-path" } " does." }
        @for channel in channels {
            details.fold open[channel.default] data-channel=(t(channel.name)) {
                summary { (t(channel.name)) @if channel.default { span.pill.head { "default" } } }
                div.scroll tabindex="0" role="group" aria-label={ "Next steps in " (t(channel.name)) } {
                    table {
                        thead { tr { th scope="col" { "Installed" } th scope="col" { "Next" } } }
                        tbody { @for (row, node) in channel.nodes.iter().enumerate() {
                            tr data-i=(row) data-n=[node.next] {
                                th.ver scope="row" { (t(node.version.as_deref().unwrap_or(node.name))) }
                                td.ver { @match node.next { Some(next) => (t(channel.nodes[next].version.as_deref().unwrap_or(channel.nodes[next].name))), None if node.stuck => span.pill.bad { "no way up" }, None => span.soft { "newest" } } }
                            }
                        } }
                    }
                }
            }
        }
    }
}
