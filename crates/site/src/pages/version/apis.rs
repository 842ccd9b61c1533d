//! The kinds that a version provides and requires, with their fields and examples.

use maud::{Markup, html};
use serde_json::Value;

use super::SharedSections;
use crate::csv::{DescribedApi, items, text};
use crate::frame::{PageContext, block};
use crate::manifest::{VersionManifest, yaml};
use crate::summary::{PackageSummary, VersionSummary};
use crate::text::{count, summary, t};

/// The maximum number of descriptors per kind.
const DESCRIPTORS: usize = 200;
/// The maximum number of fields, and their maximum depth.
const FIELDS: usize = 400;
const MAX_DEPTH: usize = 6;

pub(super) fn section(
    context: &PageContext<'_>,
    package: &PackageSummary,
    bundle: &VersionSummary,
    manifest: Option<&VersionManifest>,
    shared: Option<&SharedSections>,
) -> Markup {
    let offered = bundle.values(fbc::property::GVK);
    let Some(manifest) = manifest else { return kinds_only(context, &offered) };
    let mut apis: Vec<DescribedApi> = manifest.csv.owned.clone();
    for value in &offered {
        let (group, version, kind) = (text(&value["group"]), text(&value["version"]), text(&value["kind"]));
        if !apis.iter().any(|api| api.kind == kind && api.version == version) {
            apis.push(DescribedApi { group, version, kind, ..DescribedApi::default() });
        }
    }
    let internal = manifest.internal();
    let examples = manifest.examples();
    let (hidden, shown): (Vec<&DescribedApi>, Vec<&DescribedApi>) =
        apis.iter().partition(|api| internal.contains(&api.definition));
    html! {
        @if apis.is_empty() { p.soft { "It offers no kinds." } }
        @if let Err(reason) = &examples { div.note.warn { p { "The examples cannot be shown: " (t(&reason.to_string())) } } }
        @for (place, api) in shown.into_iter().enumerate() {
            details.fold {
                (heading(api))
                (super::once(context, package, bundle, shared, &format!("k{place}"), one(context, api, manifest, examples.as_deref().unwrap_or_default())))
            }
        }
        @if !hidden.is_empty() {
            details.fold { summary { (count(hidden.len(), "kind", "kinds")) " for the operator itself" }
                @for (place, api) in hidden.into_iter().enumerate() {
                    details.fold { (heading(api)) (super::once(context, package, bundle, shared, &format!("o{place}"), one(context, api, manifest, &[]))) }
                }
            }
        }
        @if !manifest.csv.required.is_empty() {
            h3 { "Kinds it needs" }
            ul { @for api in &manifest.csv.required { li { strong { (t(&api.kind)) } " " code { (t(&api.group)) "/" (t(&api.version)) } " " span dir="auto" { (t(&summary(&api.description, 200))) } } } }
        }
    }
}

fn kinds_only(context: &PageContext<'_>, offered: &[Value]) -> Markup {
    html! {
        ul { @for value in offered {
            @let (group, kind) = (text(&value["group"]), text(&value["kind"]));
            li { a href=(context.links.kind(&group, &kind)) { (t(&kind)) } " " code { (t(&group)) "/" (t(&text(&value["version"]))) } }
        } }
    }
}

fn heading(api: &DescribedApi) -> Markup {
    html! {
        summary {
            (t(if api.title.is_empty() { &api.kind } else { &api.title }))
            small { @if !api.title.is_empty() && api.title != api.kind { code { (t(&api.kind)) } " " } (t(&api.group)) "/" (t(&api.version)) @if api.service { " · API service" } }
        }
    }
}

fn one(
    context: &PageContext<'_>,
    api: &DescribedApi,
    manifest: &VersionManifest,
    examples: &[(String, Value)],
) -> Markup {
    let example = examples.iter().find(|(kind, _)| *kind == api.kind).map(|(_, value)| value);
    let schema = manifest.schema(&api.group, &api.version, &api.kind);
    let offered = !api.kind.is_empty();
    html! {
        @if !api.description.is_empty() { p dir="auto" { (t(&summary(&api.description, 2000))) } }
        @if let Some((version, _)) = schema {
            p { @if version["served"] == false { span.pill.bad { "not served" } " " } @if version["storage"] == true { span.pill { "stored in this version" } } }
        }
        @if offered { p.small { a href=(context.links.kind(&api.group, &api.kind)) { "Who offers " (t(&api.kind)) } } }
        @if let Some(example) = example { (block(&format!("Example {}", api.kind), &yaml(example))) }
        @if let Some((_, schema)) = schema {
            h3 { "Fields" }
            @let mut left = FIELDS;
            (tree(schema, 0, &mut left))
            @if left == 0 { p.soft { "Only the first " (FIELDS) " fields are shown." } }
        }
        @if !api.descriptors.is_empty() {
            h3 { "Described fields" }
            ul.tree { @for [path, name, words] in api.descriptors.iter().take(DESCRIPTORS) { li { code { (t(path)) } " " (t(name)) " " small dir="auto" { (t(&summary(words, 300))) } } } }
            @if api.descriptors.len() > DESCRIPTORS { p.soft { "and " (api.descriptors.len() - DESCRIPTORS) " more" } }
        }
    }
}

/// Takes one from the budget, if any is left.
fn take(left: &mut usize) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}

/// Shows the fields of a schema, nested.
fn tree(schema: &Value, depth: usize, left: &mut usize) -> Markup {
    let empty = serde_json::Map::new();
    let members =
        schema["properties"].as_object().or_else(|| schema["items"]["properties"].as_object()).unwrap_or(&empty);
    let required: Vec<&str> = items(&schema["required"]).iter().filter_map(Value::as_str).collect();
    html! {
        ul.tree {
            @for (name, field) in members {
                @if !(depth == 0 && matches!(name.as_str(), "apiVersion" | "kind" | "metadata")) && take(left) {
                    @let nested = depth < MAX_DEPTH && (field["properties"].is_object() || field["items"]["properties"].is_object());
                    li {
                        @if nested { details open[depth == 0 && name == "spec"] { summary { (field_line(name, field, &required)) } (tree(field, depth + 1, left)) } }
                        @else { (field_line(name, field, &required)) }
                    }
                }
            }
        }
    }
}

fn field_line(name: &str, field: &Value, required: &[&str]) -> Markup {
    let kind = match (field["type"].as_str(), field["items"]["type"].as_str()) {
        (Some("array"), Some(inner)) => format!("[]{inner}"),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "any".to_owned(),
    };
    html! {
        code { (t(name)) } " " small { (t(&kind)) @if required.contains(&name) { ", required" } }
        @if let Some(words) = field["description"].as_str() { " " small dir="auto" { (t(&summary(words, 160))) } }
    }
}
