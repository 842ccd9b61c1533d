//! Upgrade graphs and resolution input from page data.

use catalog::graph::{Graph, GraphInput, GraphInputChannel};
use fbc::blob::ChannelEntry;
use fbc::release::Release;
use fbc::version::Version;
use resolve::input::{CandidateBundle, CandidateChannel, CatalogInput};

use crate::summary::{self, PackageSummary};

/// Builds the upgrade graph of a package.
pub fn graph(package: &PackageSummary, v0: bool) -> Graph<'_> {
    let detail = &package.detail;
    let mut deprecations: Vec<(&str, &str, &str)> = Vec::new();
    if let Some(message) = &detail.deprecation {
        deprecations.push((fbc::blob::PACKAGE, "", message));
    }
    for channel in &detail.channels {
        if let Some(message) = &channel.deprecation {
            deprecations.push((fbc::blob::CHANNEL, &channel.name, message));
        }
    }
    for bundle in &detail.bundles {
        if let Some(message) = &bundle.deprecation {
            deprecations.push((fbc::blob::BUNDLE, &bundle.name, message));
        }
    }
    let channels = detail.channels.iter().map(|channel| GraphInputChannel {
        name: &channel.name,
        entries: channel
            .entries
            .iter()
            .map(|entry| {
                let skips = entry.skips.iter().map(String::as_str).collect();
                (entry.name.as_str(), entry.replaces.as_str(), skips, entry.skip_range.as_str())
            })
            .collect(),
    });
    Graph::of_outline(
        GraphInput {
            name: &package.row.name,
            default_channel: &detail.default_channel,
            channels: channels.collect(),
            bundles: detail
                .bundles
                .iter()
                .map(|bundle| (bundle.name.as_str(), bundle.version.as_str(), bundle.release.as_str()))
                .collect(),
            deprecations,
        },
        v0,
    )
}

/// Adds a package to the input of a resolution.
pub(crate) fn add_to_source(package: &PackageSummary, source: &mut CatalogInput) {
    let (name, detail) = (&package.row.name, &package.detail);
    source.packages.insert(name.clone(), detail.deprecation.clone());
    for channel in &detail.channels {
        source.channels.push(CandidateChannel {
            package: name.clone(),
            name: channel.name.clone(),
            default: channel.name == detail.default_channel,
            deprecation: channel.deprecation.clone(),
            entries: channel.entries.iter().map(entry).collect(),
        });
    }
    for bundle in &detail.bundles {
        let version = Version::parse_strict(&bundle.version).ok();
        source.bundles.push(CandidateBundle {
            package: name.clone(),
            release: Release::parse(&bundle.release).ok().flatten(),
            deprecation: bundle.deprecation.clone(),
            ..CandidateBundle::installed(&bundle.name, version, &bundle.properties)
        });
    }
}

fn entry(entry: &summary::EntrySummary) -> ChannelEntry {
    ChannelEntry {
        name: entry.name.as_str().into(),
        replaces: entry.replaces.as_str().into(),
        skips: entry.skips.iter().map(|skip| skip.as_str().into()).collect(),
        skip_range: entry.skip_range.as_str().into(),
    }
}
