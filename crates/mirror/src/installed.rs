//! The installed bundles of a cluster, and the bundles it needs to upgrade to the channel heads.

use std::collections::{BTreeMap, BTreeSet};

use edit::filter::image_set::PackageRequest;
use resolve::input::CatalogInput;
use resolve::objects::Objects;
use resolve::path::{Start, V0End, V0Path, by_edges, path};
use resolve::pool::Pool;

use crate::MirrorError;
use crate::session::MirrorProgress;

/// The installed bundles of a cluster.
pub struct InstalledBundles {
    /// The file or cluster, for messages.
    name: String,
    objects: Objects,
}

impl InstalledBundles {
    /// Reads Subscriptions and ClusterServiceVersions.
    ///
    /// # Errors
    /// Fails when a document cannot be parsed, or an object is damaged.
    pub fn read(name: &str, text: &[u8], limits: &fbc::Limits) -> Result<InstalledBundles, MirrorError> {
        let documents = fbc::stream::documents(text, limits).map_err(|error| MirrorError::from(error).named(name))?;
        let objects = Objects::read(&documents).map_err(|error| MirrorError::from(error).named(name))?;
        Ok(InstalledBundles { name: name.to_owned(), objects })
    }

    /// Returns the relevant fields in a fixed order, as part of a lock's request.
    pub(crate) fn request(&self) -> Vec<u8> {
        let mut lines: Vec<String> = Vec::new();
        for namespace in self.objects.namespaces() {
            let Ok((_, state)) = self.objects.namespace(Some(namespace)) else { continue };
            for it in &state.subscriptions {
                let channel = it.channel.as_deref().unwrap_or_default();
                let installed = it.installed.as_deref().unwrap_or_default();
                lines.push(format!("installed={namespace}/{} {channel} {installed}\n", it.package));
            }
        }
        lines.sort();
        lines.concat().into_bytes()
    }

    /// Returns the packages to mirror for the cluster: for each installed package, the bundles on its upgrade path.
    pub(crate) fn upgrade_paths(
        &self,
        catalog: &str,
        source: CatalogInput,
        wanted: &[PackageRequest],
        progress: &dyn MirrorProgress,
    ) -> Result<Vec<PackageRequest>, MirrorError> {
        let objects = &self.objects;
        let sources = [source];
        let pool = Pool::new(&sources, "operators");
        let mut kept: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        let mut keep = |package: &str, channel: &str, bundle: &str| {
            let channels = kept.entry(package.to_owned()).or_default();
            channels.entry(channel.to_owned()).or_default().insert(bundle.to_owned());
        };
        let namespaces: Vec<String> = objects.namespaces().map(str::to_owned).collect();
        for namespace in &namespaces {
            let (_, state) =
                objects.namespace(Some(namespace)).map_err(|error| MirrorError::from(error).named(&self.name))?;
            for subscription in &state.subscriptions {
                let is_wanted = wanted.is_empty() || wanted.iter().any(|it| it.name == subscription.package);
                let members = pool.of_package(&subscription.package);
                let Some(name) = subscription.installed.as_deref().filter(|_| is_wanted && !members.is_empty()) else {
                    continue;
                };
                let default = members.iter().copied().find(|node| pool.is_default(*node));
                let default = default.map(|node| pool.member(node).channel);
                let Some(channel) = subscription.channel.as_deref().or(default) else { continue };
                let from = state.installed.iter().find(|bundle| bundle.name == name).cloned().or_else(|| {
                    let known = members.iter().map(|node| pool.member(*node).bundle).find(|bundle| bundle.name == name);
                    known.cloned()
                });
                let Some(from) = from else {
                    let package = &subscription.package;
                    progress.warn(&format!("bundle {name} of package {package} is in no given catalog"));
                    continue;
                };
                // Keep the installed bundle too: new nodes pull it.
                for node in members.iter().map(|node| pool.member(*node)) {
                    if node.channel == channel && node.bundle.name == name {
                        keep(&subscription.package, channel, name);
                    }
                }
                let start = Start { source: 0, package: &subscription.package, channel: Some(channel), from, to: None };
                let V0Path { steps, end } = path(&pool, &start);
                let resolved = steps.iter().flat_map(|step| {
                    let along = step.companions.iter().map(|along| along.node);
                    std::iter::once(step.to).chain(along)
                });
                for member in resolved.map(|node| pool.member(node)) {
                    keep(&member.bundle.package, member.channel, &member.bundle.name);
                }
                // The obstacle can go away later, so keep the rest of the path to the head.
                if matches!(end, V0End::Stuck(_) | V0End::Blocked(..)) {
                    let last = steps.last().map_or(&start.from, |step| pool.member(step.to).bundle).clone();
                    let stuck = last.name.clone();
                    let rest = by_edges(&pool, &Start { from: last, ..start.clone() });
                    for member in rest.iter().map(|node| pool.member(*node)) {
                        keep(&member.bundle.package, member.channel, &member.bundle.name);
                    }
                    if let Some(head) = rest.last() {
                        let (package, head) = (&subscription.package, &pool.member(*head).bundle.name);
                        let text = format!(
                            "{package}: a cluster with {name} stops at {stuck}, because it cannot meet the dependencies of newer bundles; \
                             the bundles up to {head} are mirrored too ('opm upgrade-path' explains it)"
                        );
                        progress.note(&text);
                    }
                }
            }
        }
        let mut requests: Vec<PackageRequest> =
            wanted.iter().filter(|it| !kept.contains_key(&it.name)).cloned().collect();
        for (name, channels) in kept {
            let default = wanted.iter().find(|it| it.name == name).and_then(|it| it.default_channel.clone());
            requests.push(PackageRequest {
                name,
                default_channel: default,
                exactly: Some(channels),
                ..PackageRequest::default()
            });
        }
        if requests.is_empty() {
            return Err(MirrorError::NothingInstalled(catalog.to_owned()).named(&self.name));
        }
        Ok(requests)
    }
}
