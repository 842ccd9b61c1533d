//! Upgrade graphs as an interactive HTML page.

use crate::graph::{Graph, GraphPackage};

use super::escape::xml;
use super::svg::{STYLE, arrow_heads, inline, legend};
use super::words::count;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The width at which the legend wraps.
const LEGEND_WIDTH: i32 = 960;

/// Draws the upgrade graphs as one self-contained page.
///
/// Packages can be searched and expanded one by one; pointing at an entry, or focusing it with the keyboard, shows its
/// upgrade path. Without scripts the drawings remain.
pub fn html(graph: &Graph<'_>) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Names are untrusted. They are escaped, and the policy blocks fetches even if they were not.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    );
    put!(out, "<title>{}</title>\n<style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n", xml(&title(graph)));
    out.push_str("<svg class=\"opm\" width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\">");
    arrow_heads(&mut out);
    out.push_str("</svg>\n");
    let (signs, width, height) = legend(graph, LEGEND_WIDTH);
    put!(
        out,
        "<header>\n<div class=\"bar\"><h1>{}</h1>\n\
         <input id=\"q\" type=\"search\" placeholder=\"Package or channel\" aria-label=\"Filter by package or channel\">\n\
         <button id=\"open\" type=\"button\">Open all</button>\n<button id=\"close\" type=\"button\">Close all</button>\n\
         <span id=\"n\" class=\"none\" role=\"status\">{}</span></div>\n\
         <div class=\"legend\"><svg class=\"opm\" role=\"img\" aria-label=\"Legend\" width=\"{width}\" height=\"{height}\">\
         {signs}</svg></div>\n</header>\n<main>\n",
        xml(&title(graph)),
        count(graph.packages.len(), "package", "packages"),
    );
    let open = if graph.packages.len() == 1 { " open" } else { "" };
    for package in &graph.packages {
        write_package(package, open, &mut out);
    }
    if graph.packages.is_empty() {
        out.push_str("<p class=\"none\">Nothing to draw.</p>\n");
    }
    put!(out, "</main>\n<div id=\"path\" role=\"status\"></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn title(graph: &Graph<'_>) -> String {
    match graph.packages.as_slice() {
        [one] => format!("Upgrade graph of {}", one.name),
        _ => "Upgrade graphs".to_owned(),
    }
}

fn write_package(package: &GraphPackage<'_>, open: &str, out: &mut String) {
    put!(out, "<details{open} data-s=\"{}", xml(&package.name.to_lowercase()));
    for channel in &package.channels {
        put!(out, " {}", xml(&channel.name.to_lowercase()));
    }
    put!(out, "\">\n<summary><b>{}</b><span>", xml(package.name));
    let entries = package.channels.iter().flat_map(|channel| &channel.nodes).filter(|node| node.is_entry()).count();
    let channels = count(package.channels.len(), "channel", "channels");
    put!(out, "{channels} · {}", count(entries, "entry", "entries"));
    let default = package.channels.iter().find(|channel| channel.default);
    if let Some((channel, head)) = default.and_then(|channel| Some((channel, channel.head()?))) {
        let head = head.version.as_deref().unwrap_or(head.name);
        put!(out, " · {} {}", xml(channel.name), xml(head));
    }
    out.push_str("</span>");
    if let Some(message) = package.deprecation {
        put!(out, "<span class=\"depr\" title=\"{0}\">deprecated</span> <span>{0}</span>", xml(message));
    }
    put!(out, "</summary>\n<div class=\"scroll\">{}</div>\n</details>\n", inline(package));
}
