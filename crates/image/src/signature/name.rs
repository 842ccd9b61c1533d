//! Image names in signatures and policies: `busybox`, `quay.io/a/b:v1`, `quay.io/a/b@sha256:…`.

use std::fmt;

/// A full image name: `busybox` is `docker.io/library/busybox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Registry and repository path.
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Why a text is not an image name: it violates the grammar of references.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an image name")]
pub struct NameError(String);

impl Name {
    /// Parses a name, full or in the short form for Docker Hub.
    ///
    /// # Errors
    /// Fails when the text violates the grammar of references.
    pub fn parse(text: &str) -> Result<Name, NameError> {
        let invalid = || NameError(shorten(text));
        if text.len() == 64 && text.bytes().all(is_hex) {
            return Err(invalid());
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest.to_owned())),
            Some(_) => return Err(invalid()),
            None => (text, None),
        };
        let (name, tag) = match rest.rfind(':') {
            // A colon before a slash belongs to the port.
            Some(colon) if !rest[colon..].contains('/') => (&rest[..colon], Some(rest[colon + 1..].to_owned())),
            _ => (rest, None),
        };
        let (mut host, mut path) = match name.split_once('/') {
            Some((host, path)) if looks_like_host(host) => (host, path.to_owned()),
            _ => ("docker.io", name.to_owned()),
        };
        if host == "index.docker.io" {
            host = "docker.io";
        }
        if host == "docker.io" && !path.contains('/') {
            path = format!("library/{path}");
        }
        let good = is_host(host) && path.split('/').all(is_component) && tag.as_deref().is_none_or(is_tag);
        let repository = format!("{host}/{path}");
        if !good || repository.len() > 255 {
            return Err(invalid());
        }
        Ok(Name { repository, tag, digest })
    }

    /// Returns registry and repository path.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns whether the name has neither tag nor digest.
    pub(crate) fn is_bare(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }

    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the name in another repository, if that is valid.
    pub(crate) fn moved(&self, repository: &str) -> Option<Name> {
        let other = Name::parse(repository).ok()?;
        (other.is_bare() && other.repository == repository)
            .then(|| Name { repository: other.repository, ..self.clone() })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

/// Returns the start of a long text for messages.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().nth(200).is_none() { text.to_owned() } else { text.chars().take(200).chain(['…']).collect() }
}

/// Checks the digest of a manifest.
pub(crate) fn is_digest(text: &str) -> bool {
    let length = |algorithm: &str| match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => 0,
    };
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        length(algorithm) > 0 && hex.len() == length(algorithm) && hex.bytes().all(is_hex)
    })
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn looks_like_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Checks a host name or address with an optional port.
pub(crate) fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => (None, port),
            _ => return false,
        },
        None => {
            let end = host.find(':').unwrap_or(host.len());
            (Some(&host[..end]), &host[end..])
        }
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(digits)) && name.is_none_or(|it| it.split('.').all(label))
}

/// Letters and digits, separated by a dot, one or two underscores, or hyphens.
fn is_component(component: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = component.as_bytes();
    loop {
        let letters = rest.iter().take_while(|byte| word(byte)).count();
        if letters == 0 {
            return false;
        }
        rest = &rest[letters..];
        if rest.is_empty() {
            return true;
        }
        let (between, after) = rest.split_at(rest.iter().take_while(|byte| !word(byte)).count());
        if !matches!(between, b"." | b"_" | b"__") && !between.iter().all(|byte| *byte == b'-') {
            return false;
        }
        rest = after;
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_expanded() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        for (short, full) in [
            ("busybox", "docker.io/library/busybox"),
            ("me/app:v1", "docker.io/me/app:v1"),
            ("index.docker.io/busybox:v1", "docker.io/library/busybox:v1"),
            ("localhost/a", "localhost/a"),
            ("host:5000/a/b:v1", "host:5000/a/b:v1"),
            ("[::1]:5000/a", "[::1]:5000/a"),
        ] {
            assert_eq!(Name::parse(short).unwrap().to_string(), full);
        }
        let name = Name::parse(&format!("quay.io/a:v1@{digest}")).unwrap();
        assert_eq!((name.repository(), name.tag(), name.is_bare()), ("quay.io/a", Some("v1"), false));
    }

    #[test]
    fn invalid_names_are_rejected() {
        let hex = "a1".repeat(32);
        for text in
            ["", "/", "a//b", "A", "quay.io/A", "a:", "a:-x", "a@", "a@sha256:12", "a@md5:1", "a b", &hex, "-/a"]
        {
            assert!(Name::parse(text).is_err(), "{text}");
        }
        assert!(Name::parse(&"a".repeat(300)).is_err());
    }
}
