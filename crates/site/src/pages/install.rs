//! The manifests that install a package on a cluster.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{crumbs, deprecations, hero, tabs};
use crate::frame::{ConsoleSection, Page, PageContext, block};
use crate::manifest::yaml;
use crate::summary::{ChannelSummary, PackageSummary, VersionSummary};
use crate::text::t;

/// The parameters of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallParameters {
    /// The channel; the default one if empty.
    pub channel: String,
    /// Version or bundle; the head if empty.
    pub version: String,
}

impl InstallParameters {
    /// Parses the query of a URL.
    pub fn read(query: &str) -> InstallParameters {
        let mut parameters = InstallParameters::default();
        for (key, value) in crate::rank::pairs(query) {
            match key.as_str() {
                "channel" => parameters.channel = value,
                "version" => parameters.version = value,
                _ => {}
            }
        }
        parameters
    }
}

impl InstallParameters {
    /// Returns the selected channel and bundle.
    pub fn settle<'p>(&self, package: &'p PackageSummary) -> (&'p str, String) {
        let channel = self.channel(package);
        let head = channel.map(|channel| channel.head.as_str()).unwrap_or_default();
        let chosen = super::path::find(package, &self.version).unwrap_or_else(|| head.to_owned());
        (channel.map(|channel| channel.name.as_str()).unwrap_or_default(), chosen)
    }

    fn channel<'p>(&self, package: &'p PackageSummary) -> Option<&'p ChannelSummary> {
        let detail = &package.detail;
        let name = if self.channel.is_empty() { &detail.default_channel } else { &self.channel };
        detail.channels.iter().find(|channel| channel.name == *name).or(detail.channels.first())
    }
}

/// Obstacles to an installation.
#[derive(Debug, Clone, Default)]
pub struct Risks {
    /// Why the version cannot be installed from this catalog.
    pub blocked: Vec<String>,
    /// Kinds that other packages provide too, with those packages.
    pub rivals: Vec<(String, Vec<String>)>,
}

/// Renders the page.
pub fn page(
    context: &PageContext<'_>,
    package: &PackageSummary,
    parameters: &InstallParameters,
    risks: &Risks,
) -> Page {
    let (row, detail) = (&package.row, &package.detail);
    let channel = parameters.channel(package);
    let head = channel.map(|channel| channel.head.as_str()).unwrap_or_default();
    let (_, chosen) = parameters.settle(package);
    let bundle = package.bundle(&chosen);
    let older = chosen != head;
    let csv = &detail.head;
    let modes = csv.supported_modes();
    let namespace = match csv.annotation("operatorframework.io/suggested-namespace") {
        "" if modes.contains(&"AllNamespaces") || modes.is_empty() => "operators".to_owned(),
        "" => row.name.clone(),
        suggested => suggested.to_owned(),
    };
    let version = bundle.map(|bundle| bundle.full_version()).unwrap_or_default();
    let in_channel = channel.is_some_and(|channel| channel.entries.iter().any(|entry| entry.name == chosen));
    let channel_name = channel.map(|channel| channel.name.as_str()).unwrap_or_default();
    let body = html! {
        (hero(context, package, &format!("Install {}", package.title())))
        (tabs(context, package, "install"))
        (deprecations(&[("This package", detail.deprecation.as_deref()), ("This channel", channel.and_then(|channel| channel.deprecation.as_deref())), ("This version", bundle.and_then(|bundle| bundle.deprecation.as_deref()))]))
        @if !context.links.are_files() {
            form.form.live action=(context.links.of_package(&row.name, "install")) method="get" {
                label { "Channel" select.field name="channel" { @for one in &detail.channels { option value=(t(&one.name)) selected[one.name == channel_name] { (t(&one.name)) } } } }
                label { "Version" select.field name="version" { @for one in &detail.bundles { option value=(t(&one.name)) selected[one.name == chosen] { (t(&one.full_version())) } } } }
                button.button.main type="submit" { "Show" }
            }
        }
        (warnings(context, risks, &csv.modes))
        @if !in_channel { div.note.bad { p { "Channel " (t(channel_name)) " does not have version " (t(&version)) "." } } }
        div.two {
            div {
                section.section {
                    h2 #v0 { "With OLM v0" }
                    @if older { div.note { p { "The Subscription starts at an older version and waits for approval: without that, a cluster upgrades to " (t(&package.bundle(head).map(|bundle| bundle.full_version()).unwrap_or_default())) " at once." } } }
                    (block("v0.yaml", &v0(package, channel_name, &chosen, older, &namespace, &modes, &context.facts.image)))
                }
                section.section {
                    h2 #v1 { "With OLM v1" }
                    (second(&modes, bundle))
                    (block("v1.yaml", &v1(package, channel_name, &version, older, &namespace, &context.facts.image)))
                    p.small.soft { "The service account needs the permissions in the operator's manifests; review them on " a href=[context.links.version(&row.name, &chosen)] { "the page of the version" } "." }
                }
            }
            aside { (mode_facts(&csv.modes_in_words(), &namespace)) }
        }
    };
    Page {
        title: format!("Install {}", package.title()),
        section: ConsoleSection::Packages,
        crumbs: crumbs(context, package, &[("Install", None)]),
        body,
        name: "install",
    }
}

/// Obstacles in both generations of OLM.
fn warnings(context: &PageContext<'_>, risks: &Risks, modes: &[(String, bool)]) -> Markup {
    html! {
        @if !risks.blocked.is_empty() {
            div.note.bad #blocked {
                p { strong { "This version cannot be installed from this catalog." } }
                @for line in &risks.blocked { p { (t(line.trim())) } }
            }
        }
        @if !modes.is_empty() && modes.iter().all(|(_, supported)| !supported) {
            div.note.bad #modes { p { strong { "It supports no install mode." } " OLM v0 runs it in no OperatorGroup." } }
        } @else if modes.iter().any(|(mode, supported)| mode == "AllNamespaces" && !supported) {
            div.note #modes { p { "It does not support the mode AllNamespaces: in a namespace whose OperatorGroup selects all namespaces it fails." } }
        }
        @if !risks.rivals.is_empty() {
            div.note.warn #rivals {
                p { strong { "Other packages offer the same kinds." } " A namespace in which one of them is installed does not get this one." }
                ul { @for (kind, packages) in &risks.rivals {
                    li { code { (t(kind)) } " " @for (place, name) in packages.iter().enumerate() { @if place > 0 { ", " } a href=(context.links.package(name)) { (t(name)) } } }
                } }
            }
        }
    }
}

/// Obstacles in OLM v1.
fn second(modes: &[&str], bundle: Option<&VersionSummary>) -> Markup {
    let needs = bundle.map(super::package::needs).unwrap_or_default();
    html! {
        @if !modes.is_empty() && !modes.contains(&"AllNamespaces") {
            div.note.warn { p { "OLM v1 refuses it, unless the feature gate SingleOwnNamespaceInstallSupport is on: it does not support the mode AllNamespaces." } }
        }
        @if !needs.is_empty() {
            div.note.bad #needs { p { "OLM v1 refuses it: it requires " @for (place, (words, _)) in needs.iter().enumerate() { @if place > 0 { ", " } (t(words)) } ", and OLM v1 installs no dependencies." } }
        }
    }
}

fn mode_facts(modes: &str, namespace: &str) -> Markup {
    html! {
        dl.facts {
            @if !modes.is_empty() { div { dt { "It can watch" } dd { (modes) } } }
            div { dt { "Namespace" } dd { code { (t(namespace)) } } }
            div { dt { "Names" } dd { "Change names and namespaces to those of your cluster before you apply this." } }
        }
    }
}

fn documents(list: &[Value]) -> String {
    list.iter().map(yaml).collect::<Vec<_>>().join("---\n")
}

fn v0(
    package: &PackageSummary,
    channel: &str,
    bundle: &str,
    older: bool,
    namespace: &str,
    modes: &[&str],
    image: &str,
) -> String {
    let name = &package.row.name;
    let mut all = Vec::new();
    if !image.is_empty() {
        all.push(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "my-catalog", "namespace": "olm"}, "spec": {"sourceType": "grpc", "image": image}}));
    }
    if namespace != "operators" {
        all.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let spec = match modes.contains(&"AllNamespaces") {
            true => json!({}),
            false => json!({"targetNamespaces": [namespace]}),
        };
        all.push(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": namespace, "namespace": namespace}, "spec": spec}));
    }
    let mut spec = json!({"channel": channel, "name": name, "source": "my-catalog", "sourceNamespace": "olm"});
    if older {
        spec["startingCSV"] = json!(bundle);
        spec["installPlanApproval"] = json!("Manual");
    }
    all.push(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec}));
    documents(&all)
}

fn v1(package: &PackageSummary, channel: &str, version: &str, older: bool, namespace: &str, image: &str) -> String {
    let name = &package.row.name;
    let mut all = Vec::new();
    if !image.is_empty() {
        all.push(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "my-catalog"},
            "spec": {"source": {"type": "Image", "image": {"ref": image}}}}));
    }
    all.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": format!("{name}-installer"), "namespace": namespace}}));
    let mut catalog = json!({"packageName": name, "channels": [channel]});
    if older {
        catalog["version"] = json!(version);
    }
    all.push(
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": format!("{name}-installer")},
            "source": {"sourceType": "Catalog", "catalog": catalog}}}),
    );
    documents(&all)
}
