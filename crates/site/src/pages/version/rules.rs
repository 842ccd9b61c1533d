//! The permissions of a version on a cluster.

use bundle::Severity;
use bundle::review::facts::{PermissionRule, RightScope};
use maud::{Markup, html};

use crate::csv::{items, text};
use crate::frame::block;
use crate::manifest::{VersionManifest, yaml};
use crate::permissions::{Concern, Permissions};
use crate::summary::VersionSummary;
use crate::text::{count, t};

pub(super) fn section(
    bundle: &VersionSummary,
    manifest: Option<&VersionManifest>,
    permissions: Option<&Permissions>,
) -> Markup {
    let (Some(permissions), Some(manifest)) = (permissions, manifest) else { return unknown(bundle, manifest) };
    html! {
        @match &permissions.concerns {
            Ok(concerns) if concerns.is_empty() => p { span.pill.good { "nothing unusual" } " No finding of " code { "opm security" } " is medium or worse." },
            Ok(concerns) => ul.flags { @for concern in concerns { (item(concern)) } },
            Err(error) => div.note { p { "Unknown: " (t(error)) } },
        }
        @for (scope, heading) in [(RightScope::Cluster, "In the whole cluster"), (RightScope::Namespaces, "In the namespaces it watches")] {
            @for account in permissions.accounts(scope) {
                @let rules: Vec<&PermissionRule> = permissions.rules.iter().filter(|rule| rule.scope == scope && rule.account == account).collect();
                h3 { (heading) ", as " code { (t(account)) } }
                (table(&rules))
                details.fold { summary { "As YAML" } (block(if scope == RightScope::Cluster { "ClusterRole" } else { "Role" }, &yaml(&permissions.role(&bundle.name, scope, account)))) }
            }
        }
        @if permissions.rules.is_empty() { p { "It requires no permissions." } }
        (webhooks(manifest))
        (deployments(manifest))
    }
}

fn item(concern: &Concern) -> Markup {
    html! {
        li.high[concern.severity >= Severity::High] {
            b { (concern.severity.to_string()) ": " (concern.about) }
            @for message in &concern.messages { p { (t(message)) } }
            @if concern.more > 0 { p { "and " (concern.more) " more" } }
        }
    }
}

fn unknown(bundle: &VersionSummary, manifest: Option<&VersionManifest>) -> Markup {
    html! {
        div.note {
            @if manifest.is_some_and(|manifest| manifest.elsewhere) {
                p { "Unknown: the manifests of this version are in files of their own." }
            } @else {
                p { "Unknown: the catalog does not carry the manifests of this version. They are in its bundle image; this command shows them:" }
                (block("Shell", &format!("opm render {} --output yaml", bundle.image)))
            }
        }
    }
}

fn table(rules: &[&PermissionRule]) -> Markup {
    let words = |list: &[String]| {
        list.iter().map(|one| if one.is_empty() { "core" } else { one.as_str() }).collect::<Vec<_>>().join(", ")
    };
    let named = rules.iter().any(|rule| !rule.names.is_empty());
    html! {
        div.scroll tabindex="0" role="group" aria-label="Rules" {
            table.rules {
                caption { (count(rules.len(), "rule", "rules")) }
                thead { tr { th scope="col" { "Group" } th scope="col" { "Resources" } th scope="col" { "Verbs" } @if named { th scope="col" { "Only" } } } }
                tbody { @for rule in rules {
                    tr {
                        td { @if rule.groups.is_empty() && !rule.urls.is_empty() { span.soft { "addresses" } } @else { (t(&words(&rule.groups))) } }
                        td { (t(&rule.resources.join(", "))) @if !rule.urls.is_empty() { (t(&rule.urls.join(", "))) } }
                        td { @for verb in &rule.verbs { @if verb == "*" { span.pill.bad { "*" } } @else { (t(verb)) " " } } }
                        @if named { td { (t(&rule.names.join(", "))) } }
                    }
                } }
            }
        }
    }
}

fn webhooks(manifest: &VersionManifest) -> Markup {
    html! {
        @if !manifest.webhooks().is_empty() {
            h3 { "Webhooks" }
            ul { @for hook in manifest.webhooks() {
                li {
                    strong { (t(hook["type"].as_str().unwrap_or_default())) } " " code { (t(hook["generateName"].as_str().unwrap_or_default())) }
                    @for rule in items(&hook["rules"]) { " " (t(&items(&rule["resources"]).iter().map(text).collect::<Vec<_>>().join(", "))) }
                }
            } }
        }
    }
}

fn deployments(manifest: &VersionManifest) -> Markup {
    let list = items(&manifest.install()["deployments"]);
    html! {
        @if !list.is_empty() {
            h3 { "Deployments" }
            ul { @for deployment in list {
                li {
                    code { (t(deployment["name"].as_str().unwrap_or_default())) } ", "
                    @let pod = &deployment["spec"]["template"]["spec"];
                    (count(items(&pod["containers"]).len(), "container", "containers")) ", as "
                    code { (t(pod["serviceAccountName"].as_str().unwrap_or("default"))) }
                }
            } }
        }
    }
}
