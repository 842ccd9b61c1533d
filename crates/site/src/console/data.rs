//! The data behind pages: for scripts, programs and downloads.

use std::sync::PoisonError;

use catalog::graph::{EdgeKind, Graph};
use serde_json::{Value, json};

use super::{ConsoleReply, Handler, JSON, ReplyKind};
use crate::outline;
use crate::pages::changes::ComparedCatalog;
use crate::pages::{compare, list};
use crate::summary::PackageSummary;
use crate::text::script_json;

impl Handler<'_> {
    pub(super) fn part(&self, parts: &[&str]) -> Option<ConsoleReply> {
        match parts {
            ["i", name] => self.icon(name),
            ["d", "index.json"] => {
                Some(ConsoleReply::data(JSON, script_json(&list::index(&self.index.rows, self.context.facts))))
            }
            ["d", "revision.json"] => {
                let facts = &self.context.facts;
                let state: Vec<&str> = self.state.notices.iter().map(|notice| notice.text.as_str()).collect();
                let history = self.console.history.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = history.last().filter(|swap| swap.to == facts.revision).map(|swap| swap.count);
                let since = self.parameter("since").and_then(|revision| history.changed_since(&revision));
                let value = json!({"revision": facts.revision, "packages": facts.packages, "channels": facts.channels,
                    "bundles": facts.bundles, "changed": since.or(changed), "state": state});
                Some(ConsoleReply::data(JSON, script_json(&value)))
            }
            ["d", "changes.json"] => {
                let compared = self.state.compared.as_deref().map(Vec::as_slice).unwrap_or_default();
                Some(ConsoleReply::data(JSON, script_json(&changes_data(compared))))
            }
            ["d", "p", name] => {
                let row = self.index.row_at(name.strip_suffix(".json")?)?;
                let package = self.index.package(self.store, &row.name).ok()?;
                Some(ConsoleReply::data(JSON, script_json(&package_data(&package))))
            }
            ["d", "p", package, file] => {
                let row = self.index.row_at(package)?;
                let package = self.index.package(self.store, &row.name).ok()?;
                if let Some(kind) = file.strip_prefix("compare.") {
                    return self.comparison(&package, kind);
                }
                let graph = outline::graph(&package, true);
                Some(match *file {
                    "graph.svg" => ConsoleReply {
                        kind: ReplyKind::Icon,
                        ..ConsoleReply::data("image/svg+xml", catalog::draw::svg::svg(&graph))
                    },
                    "graph.dot" => {
                        ConsoleReply::data("text/vnd.graphviz; charset=utf-8", catalog::draw::dot::dot(&graph))
                    }
                    "graph.mmd" => ConsoleReply::data("text/plain; charset=utf-8", mermaid(&graph)),
                    "graph.txt" => {
                        ConsoleReply::data("text/plain; charset=utf-8", catalog::draw::text::text(&graph, None))
                    }
                    "graph.json" => ConsoleReply::data(JSON, script_json(&graph_data(&package))),
                    _ => return None,
                })
            }
            _ => None,
        }
        .or_else(|| self.unknown("There is no such data."))
    }

    /// Compares two versions, for programs and for authors of change logs.
    fn comparison(&self, package: &PackageSummary, kind: &str) -> Option<ConsoleReply> {
        let (older, newer) = self.pair(package)?;
        let (old, new) = (self.manifest(package, older).ok()?, self.manifest(package, newer).ok()?);
        let sections = compare::differences((package, older, &old), (package, newer, &new));
        match kind {
            "json" => Some(ConsoleReply::data(JSON, script_json(&compare::data(&sections, &older.name, &newer.name)))),
            "md" => {
                let text = compare::markdown(&sections, &older.name, &newer.name);
                Some(ConsoleReply::data("text/markdown; charset=utf-8", text))
            }
            _ => None,
        }
    }

    fn icon(&self, name: &str) -> Option<ConsoleReply> {
        let (digest, extension) = name.split_once('.')?;
        let (row, format) = self.index.icon(digest)?;
        if format.extension() != extension {
            return None;
        }
        let body = self.store.icon(&row.name).ok()?;
        Some(ConsoleReply { status: 200, media_type: format.media_type(), kind: ReplyKind::Icon, location: None, body })
    }
}

/// Writes a graph for Mermaid, with escaped names.
fn mermaid(graph: &Graph<'_>) -> String {
    let label = |text: &str| crate::text::shown(text).replace('"', "#quot;").replace(['<', '>', '`'], " ");
    let mut out = String::from("flowchart LR\n");
    let channels = graph.packages.iter().flat_map(|package| &package.channels);
    for (number, channel) in channels.enumerate() {
        out.push_str(&format!("  subgraph c{number}[\"{}\"]\n", label(channel.name)));
        for (row, node) in channel.nodes.iter().enumerate() {
            out.push_str(&format!(
                "    c{number}n{row}[\"{}\"]\n",
                label(node.version.as_deref().unwrap_or(node.name))
            ));
        }
        for edge in &channel.edges {
            let line = if edge.kind == EdgeKind::Replaces { "-->" } else { "-.->" };
            out.push_str(&format!("    c{number}n{} {line} c{number}n{}\n", edge.from, edge.to));
        }
        out.push_str("  end\n");
    }
    out
}

/// Returns the differences from other catalogs, as `opm diff` and `opm check-upgrades` report them.
pub fn changes_data(compared: &[ComparedCatalog]) -> Value {
    let one = |one: &ComparedCatalog| match &one.outcome {
        Err(reason) => json!({"against": one.name, "error": reason}),
        Ok(outcome) => {
            let lost = outcome.upgrades.iter().flat_map(|report| {
                let lost = report.outcomes.iter().filter(|outcome| outcome.is_regression());
                lost.map(|outcome| {
                    json!({"package": report.package, "channel": report.channel, "bundle": outcome.bundle,
                        "words": outcome.words(), "fix": report.advice("CATALOG")})
                })
            });
            json!({"against": one.name, "changes": outcome.changes, "stranded": lost.collect::<Vec<_>>()})
        }
    };
    compared.iter().map(one).collect()
}

/// Returns all data on the pages of a package.
pub fn package_data(package: &PackageSummary) -> Value {
    let row = &package.row;
    let versions: Vec<Value> = package
        .detail
        .bundles
        .iter()
        .map(|bundle| {
            json!({"name": bundle.name, "version": bundle.version, "release": bundle.release, "createdAt": bundle.date,
                "image": bundle.image, "minKubeVersion": bundle.kube, "deprecation": bundle.deprecation,
                "channels": package.channels_of(&bundle.name).map(|(channel, _)| channel.name.clone()).collect::<Vec<_>>()})
        })
        .collect();
    json!({
        "name": row.name, "displayName": row.title, "provider": row.provider, "defaultChannel": row.channel,
        "deprecation": package.detail.deprecation, "head": row.head, "versions": versions, "channels": graph_data(package),
    })
}

/// Returns the channels of a package with the next upgrade of every entry.
fn graph_data(package: &PackageSummary) -> Value {
    let graph = outline::graph(package, true);
    let channels = graph.packages.first().map(|package| package.channels.as_slice()).unwrap_or_default();
    channels
        .iter()
        .map(|channel| {
            let written = package.detail.channels.iter().find(|one| one.name == channel.name);
            let entries: Vec<Value> = channel
                .nodes
                .iter()
                .map(|node| {
                    let entry = written.and_then(|channel| channel.entries.iter().find(|entry| entry.name == node.name));
                    json!({
                        "name": node.name, "version": node.version, "entry": node.is_entry(), "head": node.head,
                        "skipped": node.skipped, "stuck": node.stuck, "deprecation": node.deprecation,
                        "next": node.next.map(|next| channel.nodes[next].name),
                        "replaces": entry.map(|entry| entry.replaces.as_str()).unwrap_or_default(),
                        "skips": entry.map(|entry| entry.skips.as_slice()).unwrap_or_default(),
                        "skipRange": entry.map(|entry| entry.skip_range.as_str()).unwrap_or_default(),
                    })
                })
                .collect();
            json!({"name": channel.name, "default": channel.default, "deprecation": channel.deprecation, "entries": entries})
        })
        .collect()
}
