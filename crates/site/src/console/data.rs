//! Data behind pages: for scripts, for programs, for downloads.

use serde_json::{Value, json};

use super::{Answer, Asked, JSON, Kind};
use crate::outline;
use crate::pages::list;
use crate::shelf::Package;
use crate::text::script_json;

impl Asked<'_> {
    pub(super) fn part(&self, parts: &[&str]) -> Option<Answer> {
        match parts {
            ["i", name] => self.icon(name),
            ["d", "index.json"] => Some(Answer::data(JSON, script_json(&list::index(&self.index.rows, &self.index.facts.revision)))),
            ["d", "revision.json"] => {
                let facts = &self.context.facts;
                let state: Vec<&str> = self.state.notices.iter().map(|notice| notice.text.as_str()).collect();
                let value = json!({"revision": facts.revision, "packages": facts.packages, "bundles": facts.bundles, "state": state});
                Some(Answer::data(JSON, script_json(&value)))
            }
            ["d", "p", name] => {
                let row = self.index.row_at(name.strip_suffix(".json")?)?;
                let package = self.index.package(self.store, &row.name).ok()?;
                Some(Answer::data(JSON, script_json(&package_data(&package))))
            }
            ["d", "p", package, file] => {
                let row = self.index.row_at(package)?;
                let package = self.index.package(self.store, &row.name).ok()?;
                let graph = outline::graph(&package, true);
                Some(match *file {
                    "graph.svg" => Answer { kind: Kind::Icon, ..Answer::data("image/svg+xml", catalog::draw::svg::svg(&graph)) },
                    "graph.dot" => Answer::data("text/vnd.graphviz; charset=utf-8", catalog::draw::dot::dot(&graph)),
                    "graph.txt" => Answer::data("text/plain; charset=utf-8", catalog::draw::text::text(&graph, None)),
                    "graph.json" => Answer::data(JSON, script_json(&graph_data(&package))),
                    _ => return None,
                })
            }
            _ => None,
        }
        .or_else(|| self.unknown("There is no such part."))
    }

    fn icon(&self, name: &str) -> Option<Answer> {
        let (digest, extension) = name.split_once('.')?;
        let (row, format) = self.index.icon(digest)?;
        if format.extension() != extension {
            return None;
        }
        let body = self.store.icon(&row.name).ok()?;
        Some(Answer { status: 200, media_type: format.media_type(), kind: Kind::Icon, location: None, body })
    }
}

/// Returns everything that the pages of a package say.
pub fn package_data(package: &Package) -> Value {
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

/// Returns the channels of a package with the next step of every entry.
fn graph_data(package: &Package) -> Value {
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
