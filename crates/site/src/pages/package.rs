//! A package: its description, channels and versions.

use maud::{Markup, html};
use serde_json::Value;

use super::{crumbs, deprecations, hero, tabs};
use crate::csv::LEVELS;
use crate::frame::{ConsoleSection, Page, PageContext, block, date};
use crate::markdown::{self, LinkBase};
use crate::summary::{ChannelSummary, PackageSummary, VersionSummary};
use crate::text::{count, size, t};

/// The facts about other packages on a package page.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// Packages that require this one, with the requirement.
    pub needed_by: Vec<(String, String)>,
}

/// Renders the page of a package.
pub fn page(context: &PageContext<'_>, package: &PackageSummary, neighbours: &Neighbours) -> Page {
    let (row, detail) = (&package.row, &package.detail);
    let head = package.bundle(&row.head);
    let channel = detail.channels.iter().find(|channel| channel.name == detail.default_channel);
    let body = html! {
        (hero(context, package, row.title()))
        (tabs(context, package, "overview"))
        (deprecations(&[
            ("This package", detail.deprecation.as_deref()),
            ("The default channel", channel.and_then(|channel| channel.deprecation.as_deref())),
            ("This version", head.and_then(|head| head.deprecation.as_deref())),
        ]))
        (track(context, package))
        div.two {
            div {
                section.section { h2 #about { "About" } (description(package)) }
                (channels(context, package))
                (versions(context, package))
                (kinds(context, package, head))
                @if !neighbours.needed_by.is_empty() {
                    section.section {
                        h2 #needed { "Needed by" }
                        ul { @for (name, what) in &neighbours.needed_by { li { a href=(context.links.package(name)) { (t(name)) } " " span.soft { (t(what)) } } } }
                    }
                }
                (customs(package))
            }
            aside aria-label="Facts" { (facts(context, package)) }
        }
    };
    let title = row.title().to_owned();
    Page { title, section: ConsoleSection::Packages, crumbs: crumbs(context, package, &[]), body, name: "package" }
}

/// The newest entries of the default channel, on one line.
fn track(context: &PageContext<'_>, package: &PackageSummary) -> Markup {
    let graph = crate::outline::graph(package, true);
    let Some(channel) =
        graph.packages.first().and_then(|package| package.channels.iter().find(|channel| channel.default))
    else {
        return html! {};
    };
    let spine: Vec<&catalog::graph::GraphNode<'_>> =
        channel.nodes.iter().filter(|node| node.spine && node.is_entry()).take(7).collect();
    if spine.len() < 2 {
        return html! {};
    }
    let more = channel.nodes.iter().filter(|node| node.is_entry()).count() > spine.len();
    html! {
        ol.track aria-label={ "Newest versions of channel " (t(channel.name)) } {
            @for (place, node) in spine.iter().rev().enumerate() {
                li.head[node.head].dep[node.deprecation.is_some()].skip[node.skipped].more[place == 1 && more] {
                    a href=[context.links.version(&package.row.name, node.name)] { (t(node.version.as_deref().unwrap_or(node.name))) }
                    @let made = package.bundle(node.name).map(|bundle| bundle.date.as_str()).unwrap_or_default();
                    @if crate::date::Day::read(made).is_some() { (date(made)) }
                }
            }
        }
    }
}

/// Shows the description of a package.
pub fn description(package: &PackageSummary) -> Markup {
    let head = &package.detail.head;
    let text = if head.description.trim().is_empty() { &package.detail.description } else { &head.description };
    words(text, head.annotation("repository"))
}

/// Shows Markdown, with a table of contents where it has several headings.
pub fn words(text: &str, repository: &str) -> Markup {
    if text.trim().is_empty() {
        return html! { p.soft { "It has no description." } };
    }
    let rendered = markdown::render(text, &LinkBase::of_repository(repository));
    html! {
        @if rendered.headings.len() >= 3 {
            details.toc {
                summary { "Contents" }
                ol { @for (_, id, words) in &rendered.headings { li { a href={ "#" (id) } { (t(words)) } } } }
            }
        }
        div.md dir="auto" { (rendered.html) }
    }
}

fn channels(context: &PageContext<'_>, package: &PackageSummary) -> Markup {
    let detail = &package.detail;
    let head = |channel: &ChannelSummary| package.bundle(&channel.head);
    let made = |channel: &ChannelSummary| head(channel).map(|head| head.date.as_str()).unwrap_or_default();
    let dated = detail.channels.iter().any(|channel| !made(channel).is_empty());
    let noted = detail.channels.iter().any(|channel| channel.deprecation.is_some());
    html! {
        section.section {
            h2 #channels { "Channels" }
            div.scroll tabindex="0" role="group" aria-label="Channels" {
                table {
                    caption { "Which version a new installation gets from which channel" }
                    thead { tr { th scope="col" { "Channel" } th scope="col" { "Head" } @if dated { th scope="col" { "Date" } } th.num scope="col" { "Entries" } @if noted { th scope="col" { "Notes" } } } }
                    tbody {
                        @for channel in &detail.channels {
                            tr {
                                th scope="row" { (t(&channel.name)) " " @if channel.name == detail.default_channel { span.pill.head { "default" } } }
                                td { a.ver href=[context.links.version(&package.row.name, &channel.head)] { (t(&head(channel).map(VersionSummary::full_version).unwrap_or_else(|| channel.head.clone()))) } }
                                @if dated { td { (date(made(channel))) } }
                                td.num { (channel.entries.len()) }
                                @if noted { td { @if let Some(message) = &channel.deprecation { span.pill.warn { "deprecated" } " " span dir="auto" { (t(message)) } } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn versions(context: &PageContext<'_>, package: &PackageSummary) -> Markup {
    let (name, detail, files) = (&package.row.name, &package.detail, context.links.are_files());
    let skipped: std::collections::BTreeSet<&str> = detail
        .channels
        .iter()
        .flat_map(|channel| &channel.entries)
        .flat_map(|entry| &entry.skips)
        .map(String::as_str)
        .collect();
    let mut places: std::collections::HashMap<&str, Vec<(&str, bool)>> = std::collections::HashMap::new();
    for channel in &detail.channels {
        for entry in &channel.entries {
            places.entry(&entry.name).or_default().push((&channel.name, channel.head == entry.name));
        }
    }
    let kube = detail.bundles.iter().any(|bundle| !bundle.kube.is_empty());
    let dated = detail.bundles.iter().any(|bundle| !bundle.date.is_empty());
    html! {
        section.section {
            h2 #versions { "Versions" }
            div.scroll tabindex="0" role="group" aria-label="Versions" {
                table.sortable data-filter="versions" {
                    caption { (count(detail.bundles.len(), "version", "versions")) " in all channels, newest first" }
                    thead { tr { th scope="col" { "Version" } @if dated { th scope="col" { "Date" } } th scope="col" { "Channels" } @if kube { th scope="col" { "Kubernetes" } } th.num scope="col" { "Size" } @if !files { th.live scope="col" { "Compare" } } } }
                    tbody {
                        @for (place, bundle) in detail.bundles.iter().enumerate() {
                            tr {
                                th scope="row" {
                                    a.ver href=[context.links.version(name, &bundle.name)] { (t(&bundle.full_version())) }
                                    @if bundle.deprecation.is_some() { " " span.pill.warn { "deprecated" } }
                                    @if skipped.contains(bundle.name.as_str()) { " " span.pill { "skipped" } }
                                }
                                @if dated { td { (date(&bundle.date)) } }
                                td {
                                    @match places.get(bundle.name.as_str()) {
                                        Some(channels) => { @for (channel, head) in channels { span.pill.head[*head] { (t(channel)) @if *head { " head" } } " " } },
                                        None => span.pill.bad { "in no channel" },
                                    }
                                }
                                @if kube { td { (t(&bundle.kube)) } }
                                td.num data-v=(bundle.size) { (size(bundle.size)) }
                                @if !files { td.live {
                                    @if let Some(before) = detail.bundles.get(place + 1) {
                                        a href={ (context.links.of_package(name, "compare")) "?from=" (fbc::spelling::percent::encode(&before.name)) "&to=" (fbc::spelling::percent::encode(&bundle.name)) } { "with " (t(&before.full_version())) }
                                    }
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn kinds(context: &PageContext<'_>, package: &PackageSummary, head: Option<&VersionSummary>) -> Markup {
    let Some(head) = head else { return html! {} };
    let offered = head.values(fbc::property::GVK);
    let needs = needs(head);
    let described = |value: &Value| package.detail.head.owned.iter().find(|api| value["kind"] == api.kind.as_str());
    html! {
        @if !offered.is_empty() {
            section.section {
                h2 #kinds { "Kinds it offers" }
                div.scroll tabindex="0" role="group" aria-label="Kinds" {
                    table {
                        thead { tr { th scope="col" { "Kind" } th scope="col" { "Version" } th scope="col" { "Group" } th scope="col" { "What it is" } } }
                        tbody { @for value in &offered {
                            @let (group, kind) = (crate::csv::text(&value["group"]), crate::csv::text(&value["kind"]));
                            tr {
                                th scope="row" { a.kind href=(context.links.kind(&group, &kind)) { (t(&kind)) } }
                                td.ver { (t(value["version"].as_str().unwrap_or_default())) }
                                td { (t(&group)) }
                                td dir="auto" { (t(&described(value).map(|api| crate::text::summary(if api.description.is_empty() { &api.title } else { &api.description }, 160)).unwrap_or_default())) }
                            }
                        } }
                    }
                }
            }
        }
        @if !needs.is_empty() {
            section.section { h2 #needs { "What it needs" } (need_list(context, &needs)) }
        }
    }
}

/// A requirement of a bundle: its description, and the package, or group and kind.
pub type NeedRow = (String, Option<(String, Option<String>)>);

/// Returns the requirements of a bundle.
pub fn needs(bundle: &VersionSummary) -> Vec<NeedRow> {
    let read = resolve::input::CandidateBundle::installed(&bundle.name, None, &bundle.properties);
    read.facts
        .needs
        .iter()
        .map(|requirement| {
            let target = match &requirement.need {
                catalog::needs::Need::Package(name, _) => Some((name.clone(), None)),
                catalog::needs::Need::Api([group, _, kind]) => Some((group.clone(), Some(kind.clone()))),
                _ => None,
            };
            (requirement.need.to_string(), target)
        })
        .collect()
}

/// Shows the requirements of a bundle.
pub(crate) fn need_list(context: &PageContext<'_>, needs: &[NeedRow]) -> Markup {
    html! {
        ul { @for (words, target) in needs {
            li { @match target {
                Some((name, None)) if !context.links.are_files() => a href=(context.links.package(name)) { (t(words)) },
                Some((group, Some(kind))) if !context.links.are_files() => a href=(context.links.kind(group, kind)) { (t(words)) },
                _ => (t(words)),
            } }
        } }
    }
}

fn fact(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn facts(context: &PageContext<'_>, package: &PackageSummary) -> Markup {
    let (row, csv) = (&package.row, &package.detail.head);
    let base = LinkBase::default();
    let link = |target: &str, words: &str| match markdown::safe_link(target, &base) {
        Some(target) => html! { a href=(t(&target)) rel="noopener noreferrer nofollow" { (t(words)) } },
        None => html! { (t(words)) },
    };
    let text = |name: &str, value: &str| {
        if value.is_empty() {
            html! {}
        } else {
            fact(name, html! { (t(value)) })
        }
    };
    let list = |name: &str, values: &[String]| match values {
        [] => html! {},
        values => fact(name, html! { ul.pills { @for value in values { li.pill { (t(value)) } } } }),
    };
    let subscriptions = crate::csv::json_list(csv.annotation("operators.openshift.io/valid-subscription"));
    html! {
        dl.facts {
            @if row.capability > 0 {
                (fact("Capability level", html! {
                    (LEVELS[usize::from(row.capability - 1).min(4)]) " " span.soft.small { (row.capability) " of 5" }
                    span.level aria-hidden="true" { @for step in 1..=5 { i.on[step <= row.capability] {} } }
                }))
            }
            @if !csv.provider.is_empty() { (fact("Provider", link(&csv.provider_url, &csv.provider))) }
            (list("Categories", &row.categories))
            (text("Install modes", &csv.modes_in_words()))
            (text("Minimum Kubernetes", &csv.kube))
            (text("Maximum Kubernetes", csv.annotation("operatorhub.io/ui-metadata-max-k8s-version")))
            (list("Architectures", &row.arches))
            (list("Infrastructure", &row.features))
            (list("Subscriptions", &subscriptions))
            (text("Suggested namespace", csv.annotation("operatorframework.io/suggested-namespace")))
            @let repository = csv.annotation("repository");
            @if !repository.is_empty() { (fact("Repository", link(repository, repository.trim_start_matches("https://")))) }
            (text("Support", csv.annotation("support")))
            @let image = csv.annotation("containerImage");
            @if !image.is_empty() { (fact("Container image", crate::frame::copyable(image))) }
            @if !csv.links.is_empty() { (fact("Links", html! { ul { @for (name, target) in csv.links.iter().take(50) { li { (link(target, if name.is_empty() { target } else { name })) } } } })) }
            @if !csv.maintainers.is_empty() { (fact("Maintainers", html! { ul { @for (name, mail) in csv.maintainers.iter().take(50) { li { (link(&format!("mailto:{mail}"), if name.is_empty() { mail } else { name })) } } } })) }
            (list("Keywords", &row.keywords))
            @if !context.links.are_files() {
                div.live { dt { "Data" } dd { a href=(context.links.part(&format!("d/{}.json", crate::links::package_path(&row.name)))) { "JSON" } } }
            }
        }
    }
}

/// Shows blobs of other schemas; support phases as a table.
fn customs(package: &PackageSummary) -> Markup {
    html! {
        @for (schema, name, value) in &package.detail.customs {
            @let phases = crate::csv::items(&value["versions"]);
            @if schema.starts_with("io.openshift.operators.lifecycles.") && !phases.is_empty() {
                section.section {
                    h2 { "Support" }
                    div.scroll tabindex="0" role="group" aria-label="Support phases" {
                        table {
                            thead { tr { th scope="col" { "Version" } th scope="col" { "Phase" } th scope="col" { "From" } th scope="col" { "Until" } } }
                            tbody { @for version in phases { @for phase in crate::csv::items(&version["phases"]) {
                                tr {
                                    th scope="row" { (t(version["name"].as_str().or(version["version"].as_str()).unwrap_or_default())) }
                                    td { (t(phase["name"].as_str().unwrap_or_default())) }
                                    td { (date(phase["startDate"].as_str().or(phase["start"].as_str()).unwrap_or_default())) }
                                    td { (date(phase["endDate"].as_str().or(phase["end"].as_str()).unwrap_or_default())) }
                                }
                            } } }
                        }
                    }
                }
            } @else {
                section.section {
                    h2 { (t(schema)) }
                    @if value.is_null() { p.soft { "This blob is too large to be shown here." } }
                    @else { (block(if name.is_empty() { "JSON" } else { name }, &format!("{value:#}"))) }
                }
            }
        }
    }
}
