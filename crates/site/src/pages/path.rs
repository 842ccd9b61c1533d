//! The upgrade path from one version to another, or where it ends and why.

use std::collections::HashMap;

use fbc::version::Version;
use maud::{Markup, html};
use resolve::RequestError;
use resolve::input::CatalogInput;
use resolve::pool::Pool;
use resolve::resolver::ResolutionRefusal;
use resolve::upgrade_path::{CompareCrds, Ending, Onward, Question, UpgradePath, onward, upgrade_path};

use super::{crumbs, hero, tabs};
use crate::frame::{ConsoleSection, Page, PageContext, block};
use crate::summary::PackageSummary;
use crate::text::{count, t};

/// The parameters of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathParameters {
    /// Version or bundle that is installed.
    pub from: String,
    /// Version or bundle to stop at; the newest if empty.
    pub to: String,
    /// The channel; the default one if empty.
    pub channel: String,
    /// Whether the cluster runs OLM v1.
    pub v1: bool,
}

impl PathParameters {
    /// Parses the query of a URL.
    pub fn read(query: &str) -> PathParameters {
        let mut parameters = PathParameters::default();
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

/// An upgrade path, and what it brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathAnswer {
    pub path: UpgradePath,
    /// The permissions that the end has and the start lacks, if both are known.
    pub gained: Option<Vec<String>>,
}

/// Computes the upgrade path; `crds` is the verdict of OLM v1 on the CRDs of two bundles.
///
/// # Errors
/// Fails when the request is invalid.
pub fn answer(
    source: &[CatalogInput],
    package: &PackageSummary,
    parameters: &PathParameters,
    crds: &CompareCrds<'_>,
) -> Result<PathAnswer, RequestError> {
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let question = Question {
        package: &package.row.name,
        from: &parameters.from,
        to: given(&parameters.to),
        channel: given(&parameters.channel),
        v1: parameters.v1.then_some(crds),
    };
    upgrade_path(&Pool::new(source, "operators"), &question).map(|path| PathAnswer { path, gained: None })
}

/// Finds a bundle by name or version.
pub fn find(package: &PackageSummary, text: &str) -> Option<String> {
    let parsed = Version::parse_tolerant(text).ok();
    let same = |version: &str| {
        let own = Version::parse_strict(version).ok();
        parsed.as_ref().zip(own.as_ref()).is_some_and(|(a, b)| a.cmp_precedence(b).is_eq())
    };
    let bundles = &package.detail.bundles;
    let found = bundles.iter().find(|bundle| bundle.name == text || bundle.full_version() == text);
    found.or_else(|| bundles.iter().find(|bundle| same(&bundle.version))).map(|bundle| bundle.name.clone())
}

/// Renders the page.
pub fn page(
    context: &PageContext<'_>,
    package: &PackageSummary,
    parameters: &PathParameters,
    answer: Option<&Result<PathAnswer, RequestError>>,
    onward: &[ChannelPaths],
) -> Page {
    let files = context.links.are_files();
    let body = html! {
        (hero(context, package, &format!("Upgrade path of {}", package.title())))
        (tabs(context, package, "path"))
        (picker(context, package, parameters))
        @match answer {
            Some(Ok(answer)) => (steps(context, package, parameters, answer)),
            Some(Err(reason)) => div.note.bad role="alert" { p { (t(&reason.to_string())) } },
            None if files => div.still { div #answer role="status" {} (overview(package, onward)) },
            None => p.soft.live { "Choose the installed version and the target version." },
        }
    };
    Page {
        title: format!("Upgrade path of {}", package.title()),
        section: ConsoleSection::Packages,
        crumbs: crumbs(context, package, &[("Upgrade path", None)]),
        body,
        name: "path",
    }
}

fn picker(context: &PageContext<'_>, package: &PackageSummary, parameters: &PathParameters) -> Markup {
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

fn steps(
    context: &PageContext<'_>,
    package: &PackageSummary,
    parameters: &PathParameters,
    answer: &PathAnswer,
) -> Markup {
    let (name, path) = (&package.row.name, &answer.path);
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
    let olm = if parameters.v1 { " --olm v1" } else { "" };
    html! {
        h2 { @if path.arrived && path.steps.is_empty() { "Nothing to do" } @else if path.arrived { (count(path.steps.len(), "step", "steps")) } @else { "It does not get there" } }
        ol.steps {
            li.start { (link(&path.from)) " " span.soft { "installed" } }
            @for (place, step) in path.steps.iter().enumerate() {
                li.end[path.arrived && place + 1 == path.steps.len()] {
                    (link(&step.name)) " " span.pill { (step.edge) }
                    @if package.bundle(&step.name).is_some_and(|bundle| bundle.deprecation.is_some()) { " " span.pill.warn { "deprecated" } }
                    @for along in &step.along { p.small.soft { "Also " (t(&along.action())) } }
                }
            }
        }
        @if !path.arrived {
            div.note.bad { @for line in &ending(path) { p { (t(line)) } } }
            @for channel in &path.elsewhere {
                p { "Channel " a href={ (context.links.of_package(name, "path")) "?from=" (fbc::spelling::percent::encode(&parameters.from)) "&to=" (fbc::spelling::percent::encode(&parameters.to)) "&channel=" (fbc::spelling::percent::encode(channel)) } { (t(channel)) } " leads on." }
            }
        } @else { @for line in &ending(path) { p.soft { (t(line)) } } }
        @if let Some(gained) = &answer.gained { (permissions(gained)) }
        @if path.not_compared > 0 { p.small.soft { "The CRDs of " (count(path.not_compared, "step", "steps")) " were not compared: the catalog does not contain the objects." } }
        @if parameters.v1 { p.small.soft { "This generation installs no dependencies." } }
        (block("The same in a shell", &format!("opm upgrade-path CATALOG {name} --from {}{to}{channel}{olm}", parameters.from)))
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

/// Explains the end of a path.
fn ending(path: &UpgradePath) -> Vec<String> {
    let newest = match (path.end, &path.to, &path.refused) {
        (Ending::Latest, Some(to), _) => Some(format!("The cluster goes on to the last of them, and never runs {to}.")),
        (Ending::Latest, None, _) if path.v1 => Some("No edge of the channel leads to a higher version.".to_owned()),
        (Ending::Latest, None, _) => Some("It is the newest version of the channel.".to_owned()),
        (_, _, Some(refused)) => Some(format!("OLM v1 refuses the upgrade to {refused}:")),
        _ => None,
    };
    let said = path.refusal.as_ref().map(ResolutionRefusal::said);
    newest.into_iter().chain(path.explanation.iter().cloned()).chain(said).collect()
}

/// The upgrades from every bundle of a channel, for pages without a server.
pub struct ChannelPaths {
    channel: String,
    /// The paths, in the order of the rows.
    paths: Vec<Onward>,
}

/// Follows the upgrades from every bundle of a package.
pub fn all(pool: &Pool<'_>, package: &PackageSummary) -> Vec<ChannelPaths> {
    let graph = crate::outline::graph(package, true);
    let channels = graph.packages.first().map(|package| package.channels.as_slice()).unwrap_or_default();
    let of_channel = |channel: &catalog::graph::GraphChannel<'_>| {
        let next = |next: usize| channel.nodes[next].name;
        let bundles: Vec<(&str, Option<&str>)> =
            channel.nodes.iter().map(|node| (node.name, node.next.map(next))).collect();
        let paths = onward(pool, &package.row.name, channel.name, &bundles);
        ChannelPaths { channel: channel.name.to_owned(), paths }
    };
    channels.iter().map(of_channel).collect()
}

/// The upgrades from every version, which the script shows for the chosen one.
fn overview(package: &PackageSummary, onward: &[ChannelPaths]) -> Markup {
    let shown = |name: &str| package.bundle(name).map_or_else(|| name.to_owned(), |bundle| bundle.full_version());
    html! {
        @for ChannelPaths { channel, paths } in onward {
            @let place: HashMap<&str, usize> = paths.iter().enumerate().map(|(place, path)| (path.from(), place)).collect();
            @let default = *channel == package.detail.default_channel;
            details.fold open[default] data-channel=(t(channel)) {
                summary { (t(channel)) @if default { span.pill.head { "default" } } }
                div.scroll tabindex="0" role="group" aria-label={ "Next steps in " (t(channel)) } {
                    table {
                        thead { tr { th scope="col" { "Installed" } th scope="col" { "Next" } } }
                        tbody { @for onward in paths {
                            @match onward {
                                Onward::To { from, next } => tr data-n=[place.get(next.as_str())] {
                                    th.ver scope="row" { (t(&shown(from))) }
                                    td.ver { (t(&shown(next))) }
                                },
                                Onward::Path(path) => {
                                    @let steps: Vec<String> = path.steps.iter().filter_map(|step| place.get(step.name.as_str())).map(ToString::to_string).collect();
                                    @let end = if path.arrived { String::new() } else { ending(path).join("\n") };
                                    tr data-p=[(!steps.is_empty()).then(|| steps.join(" "))] data-e=[(!end.is_empty()).then_some(end)] {
                                        th.ver scope="row" { (t(&shown(&path.from))) }
                                        td.ver { @match path.steps.first() { Some(step) => (t(&shown(&step.name))), None if !path.arrived => span.pill.bad { "no way up" }, None => span.soft { "newest" } } }
                                    }
                                },
                            }
                        } }
                    }
                }
            }
        }
    }
}
