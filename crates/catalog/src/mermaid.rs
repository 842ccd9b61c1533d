//! Upgrade graphs as text for the Mermaid diagram tool.
//!
//! The text is that of older tools, byte for byte, with its peculiarities: of several deprecated
//! packages only one is marked, names of deprecated channels and bundles count in all packages,
//! and the numbers of marked links follow the order of channel names, whatever their package.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use fbc::blob::{BUNDLE, CHANNEL, PACKAGE};
use fbc::quote::quote;
use fbc::range::VersionRange;
use fbc::{BlobContent, Fbc};

use crate::selection::{BundleVersions, GraphError, GraphOptions, SelectedChannel, SelectedEntry, bad_range, select};

const PREAMBLE: &str = "graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
";

/// Draws the upgrade graphs of a catalog for Mermaid, and returns warnings with the text.
///
/// The catalog need not be valid, but every bundle needs a version. An unknown package results in a graph without
/// nodes.
///
/// # Errors
/// Fails when bundles have no valid version, or the minimum edge is unknown.
pub fn mermaid(fbc: &Fbc, options: &GraphOptions) -> Result<(String, Vec<String>), GraphError> {
    let versions = BundleVersions::of(fbc);
    if !versions.problems.is_empty() {
        return Err(GraphError::Bundles(versions.problems));
    }
    let channels = select(fbc, &versions, options)?;
    let mut drawing = Drawing {
        versions,
        v0_semantics: options.v0_semantics,
        deprecated: Deprecated::of(fbc),
        links: 0,
        packages: BTreeMap::new(),
        deprecated_package: None,
        deprecated_channels: Vec::new(),
        classes: BTreeMap::new(),
        marked_links: Vec::new(),
        warnings: Vec::new(),
    };
    for channel in &channels {
        drawing.channel(channel);
    }
    Ok(drawing.finish())
}

/// The names of deprecated objects, regardless of their package.
#[derive(Default)]
struct Deprecated<'a> {
    packages: HashSet<&'a str>,
    channels: HashSet<&'a str>,
    bundles: HashSet<&'a str>,
}

impl<'a> Deprecated<'a> {
    fn of(fbc: &'a Fbc) -> Deprecated<'a> {
        let mut deprecated = Deprecated::default();
        for blob in fbc.blobs() {
            let BlobContent::Deprecations { entries } = &blob.content else { continue };
            for entry in entries {
                match &*entry.schema {
                    PACKAGE => deprecated.packages.insert(&blob.package),
                    CHANNEL => deprecated.channels.insert(&entry.name),
                    BUNDLE => deprecated.bundles.insert(&entry.name),
                    _ => false,
                };
            }
        }
        deprecated
    }
}

struct Drawing<'a> {
    versions: BundleVersions<'a>,
    v0_semantics: bool,
    deprecated: Deprecated<'a>,
    /// The number of links so far.
    links: usize,
    /// The text of each package's channels.
    packages: BTreeMap<&'a str, String>,
    deprecated_package: Option<&'a str>,
    deprecated_channels: Vec<String>,
    /// The nodes of each class.
    classes: BTreeMap<&'static str, BTreeSet<String>>,
    marked_links: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> Drawing<'a> {
    fn channel(&mut self, channel: &SelectedChannel<'a>) {
        let id = format!("{}-{}", channel.package, channel.name);
        let text = self.packages.entry(channel.package).or_default();
        let name = quote(channel.name);
        push(text, format_args!("    %% channel {name}\n    subgraph {id}[{name}]\n"));
        if self.deprecated.packages.contains(channel.package) {
            self.deprecated_package = Some(channel.package);
        }
        if self.deprecated.channels.contains(channel.name) {
            self.deprecated_channels.push(id.clone());
        }
        let mut entries: Vec<&SelectedEntry<'_>> = channel.entries.iter().collect();
        entries.sort_by(|a, b| self.versions.or_zero(b.name).cmp_precedence(self.versions.or_zero(a.name)));
        let mut skipped = HashSet::new();
        for entry in entries {
            self.entry(channel, &id, entry, &mut skipped);
        }
        push(self.packages.entry(channel.package).or_default(), format_args!("    end\n"));
    }

    fn entry<'e>(
        &mut self,
        channel: &SelectedChannel<'a>,
        channel_id: &str,
        entry: &SelectedEntry<'e>,
        skipped: &mut HashSet<&'e str>,
    ) {
        let text = self.packages.entry(channel.package).or_default();
        let node = |name: &str| format!("{channel_id}-{name}[{}]", quote(name));
        let this = node(entry.name);
        push(text, format_args!("      {this}\n"));
        let deprecated = self.deprecated.bundles.contains(entry.name);
        let class = match (deprecated, self.v0_semantics && skipped.contains(entry.name)) {
            (true, true) => Some("deprecatedskipped"),
            (true, false) => Some("deprecated"),
            (false, true) => Some("skipped"),
            (false, false) => None,
        };
        if let Some(class) = class {
            self.classes.entry(class).or_default().insert(format!("{channel_id}-{}", entry.name));
        }
        let mut link = |text: &mut String, from: &str, label: std::fmt::Arguments<'_>, marked: bool| {
            push(text, format_args!("      {}-- {label} --> {this}\n", node(from)));
            if self.v0_semantics && marked {
                self.marked_links.push(self.links.to_string());
            }
            self.links += 1;
        };
        for &skip in &entry.skips {
            link(text, skip, format_args!("skip"), !skipped.insert(skip));
        }
        let is_skipped = skipped.contains(entry.name);
        if !entry.skip_range.is_empty() {
            match VersionRange::parse(entry.skip_range) {
                Ok(range) => {
                    let label = format!("\"skipRange({})\"", entry.skip_range);
                    for from in &channel.entries {
                        if range.contains(self.versions.or_zero(from.name)) {
                            link(text, from.name, format_args!("{label}"), is_skipped);
                        }
                    }
                }
                Err(error) => self.warnings.push(bad_range(channel.package, entry.name, &error)),
            }
        }
        if !entry.replaces.is_empty() {
            link(text, entry.replaces, format_args!("replace"), is_skipped);
        }
    }

    fn finish(self) -> (String, Vec<String>) {
        let mut out = PREAMBLE.to_owned();
        for (name, channels) in self.packages {
            let name = quote(name);
            push(&mut out, format_args!("  %% package {name}\n  subgraph {name}\n"));
            out.push_str(&channels);
            out.push_str("  end\n");
        }
        if let Some(package) = self.deprecated_package {
            push(&mut out, format_args!("style {package} fill:#989695\n"));
        }
        for channel in self.deprecated_channels {
            push(&mut out, format_args!("style {channel} fill:#DCD0FF\n"));
        }
        for (class, nodes) in self.classes {
            let nodes: Vec<String> = nodes.into_iter().collect();
            push(&mut out, format_args!("class {} {class}\n", nodes.join(",")));
        }
        if !self.marked_links.is_empty() {
            let style = "stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;";
            push(&mut out, format_args!("linkStyle {} {style}\n", self.marked_links.join(",")));
        }
        (out, self.warnings)
    }
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::fbc;

    fn draw(catalog: &str, options: &GraphOptions) -> String {
        match mermaid(&fbc(catalog), options) {
            Ok((text, warnings)) => {
                let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
                warnings + text.strip_prefix(PREAMBLE).expect("starts like every graph")
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn entries_are_sorted_by_descending_version_with_edges_in_a_fixed_order() {
        insta::assert_snapshot!(draw("
            package foo default stable
            channel foo/stable
              foo.v1.0.0
              foo.v1.2.0 replaces foo.v1.1.0 skips foo.v1.0.1,foo.v1.0.0 range <1.1.0
              foo.v1.1.0 replaces foo.v1.0.0
        ", &GraphOptions::default()), @r#"
        %% package "foo"
        subgraph "foo"
          %% channel "stable"
          subgraph foo-stable["stable"]
            foo-stable-foo.v1.2.0["foo.v1.2.0"]
            foo-stable-foo.v1.0.1["foo.v1.0.1"]-- skip --> foo-stable-foo.v1.2.0["foo.v1.2.0"]
            foo-stable-foo.v1.0.0["foo.v1.0.0"]-- skip --> foo-stable-foo.v1.2.0["foo.v1.2.0"]
            foo-stable-foo.v1.0.0["foo.v1.0.0"]-- "skipRange(<1.1.0)" --> foo-stable-foo.v1.2.0["foo.v1.2.0"]
            foo-stable-foo.v1.1.0["foo.v1.1.0"]-- replace --> foo-stable-foo.v1.2.0["foo.v1.2.0"]
            foo-stable-foo.v1.1.0["foo.v1.1.0"]
            foo-stable-foo.v1.0.0["foo.v1.0.0"]-- replace --> foo-stable-foo.v1.1.0["foo.v1.1.0"]
            foo-stable-foo.v1.0.0["foo.v1.0.0"]
          end
        end
        "#);
    }

    #[test]
    fn names_are_quoted_and_ids_are_not() {
        insta::assert_snapshot!(draw("
            channel p/a\"b
              e\\1
        ", &GraphOptions::default()), @r#"
        %% package "p"
        subgraph "p"
          %% channel "a\"b"
          subgraph p-a"b["a\"b"]
            p-a"b-e\1["e\\1"]
          end
        end
        "#);
    }

    #[test]
    fn links_into_skipped_entries_are_marked_by_v0_semantics() {
        let options = GraphOptions { v0_semantics: true, ..GraphOptions::default() };
        insta::assert_snapshot!(draw("
            channel p/c
              p.v3.0.0 replaces p.v2.0.0 skips p.v2.0.0
              p.v2.0.0 replaces p.v1.0.0
              p.v1.0.0
            deprecated p olm.bundle/p.v2.0.0 old
            deprecated p olm.bundle/p.v1.0.0 older
        ", &options), @r#"
          %% package "p"
          subgraph "p"
            %% channel "c"
            subgraph p-c["c"]
              p-c-p.v3.0.0["p.v3.0.0"]
              p-c-p.v2.0.0["p.v2.0.0"]-- skip --> p-c-p.v3.0.0["p.v3.0.0"]
              p-c-p.v2.0.0["p.v2.0.0"]-- replace --> p-c-p.v3.0.0["p.v3.0.0"]
              p-c-p.v2.0.0["p.v2.0.0"]
              p-c-p.v1.0.0["p.v1.0.0"]-- replace --> p-c-p.v2.0.0["p.v2.0.0"]
              p-c-p.v1.0.0["p.v1.0.0"]
            end
          end
        class p-c-p.v1.0.0 deprecated
        class p-c-p.v2.0.0 deprecatedskipped
        linkStyle 2 stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;
        "#);
    }

    #[test]
    fn only_the_last_deprecated_package_is_marked_but_deprecated_channels_of_all() {
        insta::assert_snapshot!(draw("
            channel b/c
              b.v1.0.0
            channel a/d
              a.v1.0.0
            channel a/c
              a.v1.0.0
            deprecated a olm.package old
            deprecated b olm.package old
            deprecated b olm.channel/c old
        ", &GraphOptions::default()), @r#"
          %% package "a"
          subgraph "a"
            %% channel "c"
            subgraph a-c["c"]
              a-c-a.v1.0.0["a.v1.0.0"]
            end
            %% channel "d"
            subgraph a-d["d"]
              a-d-a.v1.0.0["a.v1.0.0"]
            end
          end
          %% package "b"
          subgraph "b"
            %% channel "c"
            subgraph b-c["c"]
              b-c-b.v1.0.0["b.v1.0.0"]
            end
          end
        style a fill:#989695
        style b-c fill:#DCD0FF
        style a-c fill:#DCD0FF
        "#);
    }

    #[test]
    fn an_invalid_range_is_omitted_with_a_warning() {
        insta::assert_snapshot!(draw("
            channel p/c
              p.v2.0.0 range >=one
        ", &GraphOptions::default()), @r#"
        warning: ignoring invalid SkipRange for package/edge "p"/"p.v2.0.0": Could not get version from string: ">=one"
          %% package "p"
          subgraph "p"
            %% channel "c"
            subgraph p-c["c"]
              p-c-p.v2.0.0["p.v2.0.0"]
            end
          end
        "#);
    }

    #[test]
    fn a_minimum_edge_removes_older_entries() {
        let options = GraphOptions { minimum_edge: Some("p.v2.0.0".into()), ..GraphOptions::default() };
        insta::assert_snapshot!(draw("
            channel p/c
              p.v1.0.0
              p.v2.0.0 replaces p.v1.0.0
              p.v2.1.0 replaces p.v1.0.0 skips p.v1.0.0
              p.v3.0.0 replaces p.v2.0.0 skips p.v1.0.0 range <2.0.0
              p.v4.0.0
            channel p/old
              p.v1.0.0
            channel q/c
              q.v9.0.0
        ", &options), @r#"
        %% package "p"
        subgraph "p"
          %% channel "c"
          subgraph p-c["c"]
            p-c-p.v4.0.0["p.v4.0.0"]
            p-c-p.v3.0.0["p.v3.0.0"]
            p-c-p.v2.0.0["p.v2.0.0"]-- replace --> p-c-p.v3.0.0["p.v3.0.0"]
            p-c-p.v2.0.0["p.v2.0.0"]
          end
        end
        "#);
    }

    #[test]
    fn all_bad_versions_and_an_unknown_minimum_edge_are_errors() {
        let bad = "
            channel p/c
              p.v1.0
              p.vx
        ";
        insta::assert_snapshot!(draw(bad, &GraphOptions::default()), @r#"
        error: bundle "p.v1.0" has invalid version "1.0": No Major.Minor.Patch elements found
        bundle "p.vx" has invalid version "x": No Major.Minor.Patch elements found
        "#);
        let options = GraphOptions { minimum_edge: Some("p.v9".into()), ..GraphOptions::default() };
        insta::assert_snapshot!(draw("channel p/c", &options), @r#"error: unknown minimum edge name: "p.v9""#);
    }

    #[test]
    fn an_unknown_package_gives_an_empty_graph() {
        let options = GraphOptions { package: Some("q".into()), ..GraphOptions::default() };
        assert_eq!(draw("channel p/c\n p.v1.0.0", &options), "");
    }
}
