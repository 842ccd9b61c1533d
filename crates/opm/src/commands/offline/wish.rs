//! A package, a channel of it, or a version: how users name what they mean.

use fbc::version::Version;
use resolve::pool::{Node, Pool};

use crate::exit::Failure;

/// What somebody named: `PACKAGE[@CHANNEL][=VERSION]`, or the name of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) text: String,
    pub(crate) package: String,
    pub(crate) channel: Option<String>,
    /// A version, a range, or the name of a bundle.
    pub(crate) version: Option<String>,
}

/// Reads a wish.
pub(crate) fn wish(text: &str) -> Result<Wish, String> {
    const EXPECTED: &str =
        "expected PACKAGE, PACKAGE@CHANNEL, PACKAGE=VERSION, PACKAGE@CHANNEL=VERSION or a bundle name";
    let (rest, version) = match text.split_once('=') {
        Some((rest, version)) => (rest, Some(version)),
        None => (text, None),
    };
    let (package, channel) = match rest.split_once('@') {
        Some((package, channel)) => (package, Some(channel)),
        None => (rest, None),
    };
    if [Some(package), channel, version].contains(&Some("")) {
        return Err(EXPECTED.to_owned());
    }
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok(Wish { text: text.to_owned(), package: package.to_owned(), channel: owned(channel), version: owned(version) })
}

impl Wish {
    /// Finds out what is meant, now that the catalogs are known: `etcd.v1.0.0` is a bundle, and `etcd@1.0.0` a version.
    pub(crate) fn settle(&self, pool: &Pool<'_>) -> Wish {
        let mut wish = self.clone();
        let packages = |name: &str| !pool.of_package(name).is_empty();
        if !packages(&wish.package) && wish.version.is_none() {
            let bundle = pool.members().find(|(_, member)| member.bundle.name == wish.package);
            if let Some((_, member)) = bundle {
                wish.version = Some(member.bundle.name.clone());
                wish.package = member.bundle.package.clone();
            }
        }
        let is_channel = |name: &str| pool.of_package(&wish.package).iter().any(|&it| pool.member(it).channel == name);
        if let Some(channel) = wish.channel.take_if(|channel| !is_channel(channel)) {
            match Version::parse_tolerant(&channel) {
                Ok(_) if wish.version.is_none() => wish.version = Some(channel),
                _ => wish.channel = Some(channel),
            }
        }
        wish
    }

    /// Returns the members that are meant, if a version or bundle is named.
    pub(crate) fn members(&self, pool: &Pool<'_>) -> Vec<Node> {
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

    /// Says that nothing of the name is there, and what is.
    pub(crate) fn unknown(&self, pool: &Pool<'_>) -> Failure {
        let nodes = pool.of_package(&self.package);
        let catalogs: Vec<&str> = pool.sources.iter().map(|source| source.name.as_str()).collect();
        if nodes.is_empty() {
            let stem = self.package.split(['.', '-']).next().unwrap_or_default();
            let mut alike: Vec<&str> = pool
                .sources
                .iter()
                .flat_map(|source| source.packages.keys().map(String::as_str))
                .filter(|name| !stem.is_empty() && name.contains(stem))
                .collect();
            alike.sort_unstable();
            alike.dedup();
            alike.truncate(10);
            let help = if alike.is_empty() { String::new() } else { format!("\nhelp: there is {}", alike.join(", ")) };
            let what = format!("no package or bundle {:?} in {}{help}", self.package, catalogs.join(", "));
            return Failure::message(what);
        }
        if let Some(channel) = &self.channel {
            let mut channels: Vec<&str> = nodes.iter().map(|&node| pool.member(node).channel).collect();
            channels.sort_unstable();
            channels.dedup();
            if !channels.contains(&channel.as_str()) {
                let there = channels.join(", ");
                return Failure::message(format!("package {} has no channel {channel:?}, only {there}", self.package));
            }
        }
        let mut versions: Vec<&Version> =
            nodes.iter().filter_map(|&node| pool.member(node).bundle.version.as_ref()).collect();
        versions.sort_by(|a, b| b.cmp_precedence(a));
        versions.dedup();
        let shown: Vec<String> = versions.iter().take(10).map(ToString::to_string).collect();
        let more = versions.len().saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let wanted = self.version.as_deref().unwrap_or_default();
        Failure::message(format!("package {} has no version {wanted}, only {}{more}", self.package, shown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let parts = |text: &str| wish(text).map(|wish| (wish.package, wish.channel, wish.version));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("etcd"), Ok(("etcd".into(), None, None)));
        assert_eq!(parts("etcd@stable"), Ok(("etcd".into(), some("stable"), None)));
        assert_eq!(parts("etcd=1.0.0"), Ok(("etcd".into(), None, some("1.0.0"))));
        assert_eq!(parts("etcd@stable=>=1.0.0"), Ok(("etcd".into(), some("stable"), some(">=1.0.0"))));
        assert!(["", "@x", "etcd@", "etcd="].iter().all(|text| wish(text).is_err()));
    }
}
