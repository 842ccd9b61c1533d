//! What to apply to a cluster to install a package.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{crumbs, deprecations, hero, tabs};
use crate::frame::{Context, Page, Section, block};
use crate::manifest::yaml;
use crate::shelf::Package;
use crate::text::t;

/// What is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The channel; the default one if empty.
    pub channel: String,
    /// Version or bundle; the head if empty.
    pub version: String,
}

impl Asked {
    /// Reads the query of an address.
    pub fn read(query: &str) -> Asked {
        let mut asked = Asked::default();
        for (key, value) in crate::rank::pairs(query) {
            match key.as_str() {
                "channel" => asked.channel = value,
                "version" => asked.version = value,
                _ => {}
            }
        }
        asked
    }
}

/// Makes the page.
pub fn page(context: &Context<'_>, package: &Package, asked: &Asked) -> Page {
    let (row, detail) = (&package.row, &package.detail);
    let name = if asked.channel.is_empty() { detail.default_channel.as_str() } else { asked.channel.as_str() };
    let channel = detail.channels.iter().find(|channel| channel.name == name).or(detail.channels.first());
    let head = channel.map(|channel| channel.head.as_str()).unwrap_or_default();
    let chosen = super::path::find(package, &asked.version).unwrap_or_else(|| head.to_owned());
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
                    (block("v1.yaml", &v1(package, channel_name, &version, older, &namespace, &context.facts.image)))
                    p.small.soft { "The service account needs the rights of the operator's manifests; review them on " a href=(context.links.version(&row.name, &chosen)) { "the page of the version" } "." }
                }
            }
            aside { (mode_facts(&csv.modes_in_words(), &namespace)) }
        }
    };
    Page {
        title: format!("Install {}", package.title()),
        section: Section::Packages,
        crumbs: crumbs(context, package, &[("Install", None)]),
        body,
        name: "install",
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
    package: &Package,
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

fn v1(package: &Package, channel: &str, version: &str, older: bool, namespace: &str, image: &str) -> String {
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
