//! Container engine settings: `registries.conf.d` for CRI-O and podman, `certs.d` for containerd.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use image::Reference;

use super::{MirroredPrefix, ResourceOptions, Resources, scope};
use crate::destination::MirrorDestination;
use crate::lock::LockedImage;

pub(super) fn add(
    resources: &mut Resources,
    images: &[(&LockedImage, Reference)],
    target: &MirrorDestination,
    options: &ResourceOptions,
) {
    if images.is_empty() {
        return;
    }
    resources.files.insert("registries.conf.d/50-mirror.conf".into(), registries(images, target, options));
    let mut hosts: BTreeMap<&str, BTreeSet<Option<String>>> = BTreeMap::new();
    for (image, source) in images {
        let whole = target.path(&image.path);
        let front = whole.strip_suffix(source.repository()).and_then(|front| match front {
            "" => Some(String::new()),
            front => front.strip_suffix('/').map(str::to_owned),
        });
        hosts.entry(source.host()).or_default().insert(front);
    }
    let scheme = if options.plain_http { "http" } else { "https" };
    for (host, fronts) in hosts {
        let fronts: Vec<&Option<String>> = fronts.iter().collect();
        let [Some(front)] = fronts.as_slice() else {
            resources.notes.push(format!(
                "containerd cannot map images of {host} to their paths at the mirror; opm writes no hosts.toml for it"
            ));
            continue;
        };
        let path = if front.is_empty() { String::new() } else { format!("/{front}") };
        let mirror = format!("{scheme}://{}/v2{path}", target.host);
        let server = match (options.no_fallback, host) {
            (true, _) => mirror.clone(),
            (false, "docker.io") => "https://registry-1.docker.io".to_owned(),
            (false, host) => format!("https://{host}"),
        };
        let mut text = format!("server = {server:?}\n");
        if options.no_fallback {
            text += "override_path = true\n";
        }
        let _ = write!(text, "\n[host.{mirror:?}]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\n");
        resources.files.insert(format!("certs.d/{host}/hosts.toml"), text);
    }
}

fn registries(images: &[(&LockedImage, Reference)], target: &MirrorDestination, options: &ResourceOptions) -> String {
    // By digest, by tag, or both.
    let mut scopes: BTreeMap<MirroredPrefix, (bool, bool)> = BTreeMap::new();
    for (image, source) in images {
        let found = scopes.entry(scope(image, source, target)).or_default();
        found.0 |= source.digest().is_some();
        found.1 |= source.tag().is_some();
    }
    let mut sources: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (scope, found) in &scopes {
        let what = match found {
            (true, true) => "all",
            (true, false) => "digest-only",
            _ => "tag-only",
        };
        sources.entry(&scope.source).or_default().push((&scope.mirror, what));
    }
    let mut text = String::new();
    for (source, mirrors) in sources {
        let _ = write!(text, "[[registry]]\nprefix = {source:?}\nlocation = {source:?}\n");
        if options.no_fallback {
            text += "blocked = true\n";
        }
        for (mirror, what) in mirrors {
            let _ = write!(text, "\n[[registry.mirror]]\nlocation = {mirror:?}\npull-from-mirror = {what:?}\n");
            if options.plain_http {
                text += "insecure = true\n";
            }
        }
        text.push('\n');
    }
    text
}
