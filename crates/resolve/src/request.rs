//! Parses requests: a package, a channel of it, or a version.

use crate::error::RequestError;
use crate::input::{CandidateBundle, ClusterNamespace, NamespaceSubscription};
use crate::place::MemberPlace;
use crate::pool::{MemberIndex, Pool};
use fbc::version::Version;

/// A request: `PACKAGE[@CHANNEL][=VERSION]`, or the name of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallRequest {
    /// The request as written.
    pub text: String,
    pub package: String,
    pub channel: Option<String>,
    /// A version, a range, or the name of a bundle.
    pub version: Option<String>,
}

/// Parses a request.
///
/// # Errors
/// Fails with the expected syntax.
pub fn parse(text: &str) -> Result<InstallRequest, RequestError> {
    let (rest, version) = match text.split_once('=') {
        Some((rest, version)) => (rest, Some(version)),
        None => (text, None),
    };
    let (package, channel) = match rest.split_once('@') {
        Some((package, channel)) => (package, Some(channel)),
        None => (rest, None),
    };
    if [Some(package), channel, version].contains(&Some("")) {
        return Err(RequestError::Syntax);
    }
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok(InstallRequest {
        text: text.to_owned(),
        package: package.to_owned(),
        channel: owned(channel),
        version: owned(version),
    })
}

impl InstallRequest {
    /// Resolves ambiguities with the catalogs: `etcd.v1.0.0` is a bundle, and `etcd@1.0.0` a version.
    pub fn resolve(&self, pool: &Pool<'_>) -> InstallRequest {
        let mut request = self.clone();
        let packages = |name: &str| !pool.of_package(name).is_empty();
        if !packages(&request.package) && request.version.is_none() {
            let bundle = pool.members().find(|(_, member)| member.bundle.name == request.package);
            if let Some((_, member)) = bundle {
                request.version = Some(member.bundle.name.clone());
                request.package = member.bundle.package.clone();
            }
        }
        let is_channel =
            |name: &str| pool.of_package(&request.package).iter().any(|&it| pool.member(it).channel == name);
        if let Some(channel) = request.channel.take_if(|channel| !is_channel(channel)) {
            match Version::parse_tolerant(&channel) {
                Ok(_) if request.version.is_none() => request.version = Some(channel),
                _ => request.channel = Some(channel),
            }
        }
        request
    }

    /// Returns the matching members, if the request names a version or bundle.
    pub fn members(&self, pool: &Pool<'_>) -> Vec<MemberIndex> {
        let Some(version) = &self.version else { return Vec::new() };
        let parsed = Version::parse_tolerant(version).ok();
        let nodes = pool.of_package(&self.package).iter().copied().filter(|&node| {
            let member = pool.member(node);
            let same = |own: &Version| parsed.as_ref().is_some_and(|it| it.cmp_precedence(own).is_eq());
            let fits = member.bundle.name == *version || member.bundle.version.as_ref().is_some_and(same);
            fits && self.channel.as_ref().is_none_or(|channel| channel == member.channel)
        });
        nodes.collect()
    }

    /// Returns the error for a request without a match, with what exists.
    pub fn unknown(&self, pool: &Pool<'_>) -> RequestError {
        let nodes = pool.of_package(&self.package);
        if nodes.is_empty() {
            let stem = self.package.split(['.', '-']).next().unwrap_or_default();
            let mut alike: Vec<String> = pool
                .sources
                .iter()
                .flat_map(|source| source.packages.keys())
                .filter(|name| !stem.is_empty() && name.contains(stem))
                .cloned()
                .collect();
            alike.sort_unstable();
            alike.dedup();
            alike.truncate(10);
            let names = pool.sources.iter().flat_map(|source| source.packages.keys());
            if let Some(near) = fbc::similar::nearest(&self.package, names.map(String::as_str)) {
                alike = vec![near.to_owned()];
            }
            let catalogs = pool.sources.iter().map(|source| source.name.clone()).collect();
            return RequestError::NoPackage { name: self.package.clone(), catalogs, alike };
        }
        if let Some(channel) = &self.channel {
            let mut channels: Vec<&str> = nodes.iter().map(|&node| pool.member(node).channel).collect();
            channels.sort_unstable();
            channels.dedup();
            if !channels.contains(&channel.as_str()) {
                let channels = channels.into_iter().map(str::to_owned).collect();
                return RequestError::NoChannel { package: self.package.clone(), channel: channel.clone(), channels };
            }
        }
        let mut versions: Vec<&Version> =
            nodes.iter().filter_map(|&node| pool.member(node).bundle.version.as_ref()).collect();
        versions.sort_by(|a, b| b.cmp_precedence(a));
        versions.dedup();
        let anywhere = InstallRequest { channel: None, ..self.clone() };
        let mut elsewhere: Vec<String> =
            anywhere.members(pool).iter().map(|&node| pool.member(node).channel.to_owned()).collect();
        elsewhere.sort_unstable();
        elsewhere.dedup();
        if let Some(channel) = self.channel.clone().filter(|_| !elsewhere.is_empty()) {
            return RequestError::InOtherChannel {
                package: self.package.as_str().into(),
                channel: channel.into(),
                version: self.version.clone().unwrap_or_default().into(),
                elsewhere,
            };
        }
        RequestError::NoVersion {
            package: self.package.clone(),
            version: self.version.clone().unwrap_or_default(),
            versions: versions.into_iter().map(ToString::to_string).collect(),
        }
    }
}

/// Finds the installed bundle, in the catalogs if it is there.
///
/// # Errors
/// Fails when the version is unknown or not given.
pub fn installed(
    request: &InstallRequest,
    pool: &Pool<'_>,
) -> Result<(CandidateBundle, Option<MemberIndex>), RequestError> {
    let anywhere = InstallRequest { channel: None, ..request.clone() };
    let nodes = anywhere.members(pool);
    let in_channel = nodes.iter().copied().find(|&node| Some(pool.member(node).channel) == request.channel.as_deref());
    if let Some(node) = in_channel.or_else(|| nodes.first().copied()) {
        return Ok((pool.member(node).bundle.clone(), Some(node)));
    }
    // A bundle that was removed from the catalog can still be named, and upgraded from.
    let Some(version) = &request.version else {
        let named_version = request.package.rsplit_once(".v").and_then(|(_, it)| Version::parse_tolerant(it).ok());
        let package = request.package.split(".v").next().unwrap_or_default();
        return match named_version {
            Some(version) if !pool.of_package(package).is_empty() => {
                Ok((unknown(&request.package, package, Some(version)), None))
            }
            _ if pool.of_package(&request.package).is_empty() => Err(request.unknown(pool)),
            _ => Err(RequestError::VersionMissing(request.package.clone())),
        };
    };
    if pool.of_package(&request.package).is_empty() {
        return Err(request.unknown(pool));
    }
    Ok(match Version::parse_tolerant(version) {
        // Nearly all bundles are named like this.
        Ok(parsed) => (unknown(&format!("{}.v{version}", request.package), &request.package, Some(parsed)), None),
        Err(_) => {
            let parsed = version.rsplit_once(".v").and_then(|(_, it)| Version::parse_tolerant(it).ok());
            (unknown(version, &request.package, parsed), None)
        }
    })
}

/// Creates a bundle of which only the name is known.
pub fn unknown(name: &str, package: &str, version: Option<Version>) -> CandidateBundle {
    let mut bundle = CandidateBundle::installed(name, version.clone(), "[]");
    bundle.package = package.to_owned();
    bundle.facts.packages.push((package.to_owned(), version));
    bundle
}

/// Adds an installed bundle, with the Subscription that it probably has.
///
/// # Errors
/// Fails when the version is unknown or not given.
pub fn add_installed(
    request: &InstallRequest,
    pool: &Pool<'_>,
    state: &mut ClusterNamespace,
) -> Result<(), RequestError> {
    let request = request.resolve(pool);
    let (bundle, node) = installed(&request, pool)?;
    let channel = request.channel.clone().or_else(|| channel_of(pool, &bundle, node));
    let source = node.map_or_else(|| source_of(pool, &bundle.package), |node| pool.member(node).source);
    let source = &pool.sources[source];
    state.subscriptions.push(NamespaceSubscription {
        name: bundle.package.clone(),
        package: bundle.package.clone(),
        channel,
        starting_csv: None,
        installed: Some(bundle.name.clone()),
        source: (source.name.clone(), source.namespace.clone()),
    });
    state.installed.push(bundle);
    Ok(())
}

/// Returns the channel that an installed bundle probably follows: the default channel if it contains the bundle or
/// upgrades it, else the first channel that does.
pub(crate) fn channel_of(pool: &Pool<'_>, bundle: &CandidateBundle, node: Option<MemberIndex>) -> Option<String> {
    let leads = |node: &MemberIndex| {
        let member = pool.member(*node);
        member.bundle.name == bundle.name
            || catalog::chain::EntryEdge::between(member.entry, &bundle.name, bundle.version.as_ref()).is_some()
    };
    let mut nodes: Vec<MemberIndex> = pool.of_package(&bundle.package).iter().copied().filter(leads).collect();
    nodes.sort_by_key(|&node| (!pool.is_default(node), pool.member(node).channel));
    nodes.first().copied().or(node).map(|node| pool.member(node).channel.to_owned())
}

/// Returns the catalog of a package: the one with the highest priority that has it, then by name.
fn source_of(pool: &Pool<'_>, package: &str) -> usize {
    let mut sources: Vec<usize> = pool.of_package(package).iter().map(|&node| pool.member(node).source).collect();
    sources.sort_by_key(|&source| (-pool.sources[source].priority, &pool.sources[source].name));
    sources.first().copied().unwrap_or_default()
}

/// Adds a Subscription for the request, or changes the existing one.
///
/// # Errors
/// Fails when a Subscription cannot express the request.
pub fn subscribe(request: &InstallRequest, pool: &Pool<'_>, state: &mut ClusterNamespace) -> Result<(), RequestError> {
    let request = request.resolve(pool);
    let known = state.subscriptions.iter_mut().find(|it| it.package == request.package);
    if let Some(known) = known {
        if let Some(version) = request.version {
            return Err(RequestError::Subscribed { package: request.package, version });
        }
        if request.channel.is_some() {
            known.channel = request.channel;
        }
        return Ok(());
    }
    let mut nodes = request.members(pool);
    if request.version.is_some() && nodes.is_empty() {
        return Err(request.unknown(pool));
    }
    nodes.sort_by_key(|&node| (!MemberPlace::of(pool, node).is_on_chain(), !pool.is_default(node)));
    let first = nodes.first().map(|&node| *pool.member(node));
    let source = first.map_or_else(|| source_of(pool, &request.package), |member| member.source);
    let source = &pool.sources[source];
    let default = || {
        let nodes = pool.of_package(&request.package).iter();
        let mut here = nodes.filter(|&&node| pool.sources[pool.member(node).source].name == source.name);
        here.find(|&&node| pool.is_default(node)).map(|&node| pool.member(node).channel.to_owned())
    };
    state.subscriptions.push(NamespaceSubscription {
        name: request.package.clone(),
        package: request.package.clone(),
        channel: request.channel.clone().or_else(|| first.map(|member| member.channel.to_owned())).or_else(default),
        starting_csv: first.map(|member| member.bundle.name.clone()),
        installed: None,
        source: (source.name.clone(), source.namespace.clone()),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        let parts = |text: &str| parse(text).map(|request| (request.package, request.channel, request.version));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("etcd"), Ok(("etcd".into(), None, None)));
        assert_eq!(parts("etcd@stable"), Ok(("etcd".into(), some("stable"), None)));
        assert_eq!(parts("etcd=1.0.0"), Ok(("etcd".into(), None, some("1.0.0"))));
        assert_eq!(parts("etcd@stable=>=1.0.0"), Ok(("etcd".into(), some("stable"), some(">=1.0.0"))));
        assert!(["", "@x", "etcd@", "etcd="].iter().all(|text| parse(text).is_err()));
    }
}
