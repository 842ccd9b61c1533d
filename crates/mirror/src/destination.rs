//! The repositories and tags of images at the destination.

use image::{Digest, Reference};

use crate::error::DestinationError;

/// How a source path maps to a destination path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathLayout {
    /// The path of the source without its registry.
    #[default]
    Path,
    /// The path prefixed with its registry, so that sources never collide.
    Host,
}

/// The destination registry and the path prefix of all repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorDestination {
    /// The registry, with an optional port.
    pub host: String,
    /// The path prefix of all repositories; may be empty.
    pub prefix: String,
    /// Maximum number of path components.
    pub max_nested_paths: Option<usize>,
}

impl MirrorDestination {
    /// Parses `REGISTRY[/PATH]`, with an optional `docker://`.
    ///
    /// # Errors
    /// Fails when the text has another form.
    pub fn parse(text: &str, max_nested_paths: Option<usize>) -> Result<MirrorDestination, DestinationError> {
        let plain = text.strip_prefix("docker://").unwrap_or(text).trim_end_matches('/');
        let (host, prefix) = plain.split_once('/').unwrap_or((plain, ""));
        let probe = format!("{host}/{}", if prefix.is_empty() { "x" } else { prefix });
        match Reference::parse_name(&probe) {
            Ok(name) if name.tag().is_none() && name.digest().is_none() && name.host() == host => {}
            _ => return Err(DestinationError::Form(text.to_owned())),
        }
        Ok(MirrorDestination { host: host.into(), prefix: prefix.into(), max_nested_paths })
    }

    /// Returns the full path of a repository in the registry.
    pub fn path(&self, path: &str) -> String {
        let whole = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        match self.max_nested_paths {
            Some(most) => nested(&whole, most.max(1)),
            None => whole,
        }
    }

    /// Returns the repository for a path.
    ///
    /// # Errors
    /// Fails when the result is not a valid repository.
    pub fn repository(&self, path: &str) -> Result<Reference, DestinationError> {
        let name = format!("{}/{}", self.host, self.path(path));
        Reference::parse_name(&name).map_err(|source| DestinationError::Repository { name, source })
    }
}

impl std::fmt::Display for MirrorDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

/// Joins excess path components with `-`.
fn nested(path: &str, most: usize) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    if parts.len() <= most {
        return path.to_owned();
    }
    let (kept, joined) = parts.split_at(most - 1);
    let joined = joined.join("-");
    if kept.is_empty() { joined } else { format!("{}/{joined}", kept.join("/")) }
}

/// Returns the destination path of a source.
pub fn path_of(source: &Reference, layout: PathLayout) -> String {
    match layout {
        PathLayout::Path => source.repository().to_owned(),
        // A path cannot contain the colon of a port.
        PathLayout::Host => format!("{}/{}", source.host().replace(':', "-").to_lowercase(), source.repository()),
    }
}

/// Returns the destination tag of a source.
pub fn tag_of(source: &Reference, digest: &Digest) -> String {
    source.tag().map_or_else(|| format!("sha256-{}", digest.hex()), str::to_owned)
}

/// Returns whether a text is a repository path: components of lowercase letters and digits, joined by `.`, `_`, `__`
/// or any number of `-`.
pub(crate) fn is_path(text: &str) -> bool {
    let component = |part: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let joints = part.split(|c: char| plain(c as u8) && c.is_ascii());
        ends(part.bytes().next())
            && ends(part.bytes().last())
            && part.is_ascii()
            && joints.into_iter().all(|joint| {
                joint.is_empty() || matches!(joint, "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-')
            })
    };
    text.len() <= 255 && text.split('/').all(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m21_deep_paths_are_joined_and_none_is_empty() {
        let target = |text: &str, most| MirrorDestination::parse(text, most).unwrap();
        assert_eq!(target("reg.test:5000", None).path("a/b/c"), "a/b/c");
        assert_eq!(target("docker://reg.test/p/q/", None).path("a/b"), "p/q/a/b");
        assert_eq!(target("reg.test/p", Some(3)).path("a/b/c"), "p/a/b-c");
        assert_eq!(target("reg.test", Some(1)).path("a/b/c"), "a-b-c");
        assert_eq!(target("reg.test", Some(2)).path("a/b"), "a/b");
        for text in ["", "reg", "reg.test/UP", "reg.test/a:v1", "http://reg.test", "reg.test/a//b"] {
            assert!(MirrorDestination::parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn m1_paths_are_lowercase_components() {
        for good in ["a", "ns/other-name", "a.b/c_d/e__f/g---h", "0"] {
            assert!(is_path(good), "{good}");
        }
        for bad in ["", "/", "a/", "-a", "a-", "a..b", "a___b", "A", "a b", "a:b", "ä"] {
            assert!(!is_path(bad), "{bad}");
        }
    }
}
