//! Image references: `host/path:tag` and `host/path@sha256:…`.

use std::fmt;
use std::str::FromStr;

use crate::Digest;

/// An image reference. It displays as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    text: String,
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageReferenceError {
    /// It violates the grammar.
    #[error("invalid reference format")]
    Format,
    /// The path has uppercase letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// The path is too long.
    #[error("repository name must not be more than {MAX_NAME} characters")]
    TooLong,
    /// The registry is missing, or the name is a short form.
    #[error("repository name must be canonical, with registry and full path, such as docker.io/library/etcd")]
    NotCanonical,
    /// It has neither tag nor digest.
    #[error("Docker reference {0} is not for an unknown digest case; tag or digest is needed, such as {0}:latest")]
    NoVersion(String),
}

/// The name of an image to build has a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot contain a digest before the image is built: use REPOSITORY:TAG")]
pub struct DigestBeforeBuild;

const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

impl Reference {
    /// Parses a reference with a registry and a tag or a digest.
    ///
    /// If it has both, the digest wins. `name:sha256@<64 digits>` is read as `name@sha256:<64 digits>`.
    ///
    /// # Errors
    /// Fails when the text is not such a reference.
    pub fn parse(text: &str) -> Result<Reference, ImageReferenceError> {
        let reference = Reference::parse_name(text)?;
        if reference.tag.is_none() && reference.digest.is_none() {
            return Err(ImageReferenceError::NoVersion(text.into()));
        }
        Ok(reference)
    }

    /// Parses a reference with a registry; tag and digest are optional.
    ///
    /// # Errors
    /// Fails when the text is not such a reference.
    pub fn parse_name(text: &str) -> Result<Reference, ImageReferenceError> {
        let (name, tag, digest) = split(text)?;
        let (host, repository) = match name.split_once('/') {
            Some((host, repository)) if looks_like_host(host) => (host, repository),
            _ => {
                check_path(name)?;
                return Err(ImageReferenceError::NotCanonical);
            }
        };
        if !is_host(host) {
            return Err(ImageReferenceError::Format);
        }
        check_path(repository)?;
        if name.len() > MAX_NAME {
            return Err(ImageReferenceError::TooLong);
        }
        if host == "index.docker.io" || host == "docker.io" && !repository.contains('/') {
            return Err(ImageReferenceError::NotCanonical);
        }
        Ok(Reference {
            text: text.into(),
            host: host.into(),
            repository: repository.into(),
            tag: tag.map(Into::into),
            digest,
        })
    }

    /// Returns the registry: a host name or address with an optional port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the repository path.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns registry and repository path.
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }

    /// Returns the tag, if present.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if present.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Checks that an image can be pushed with this name before its digest is known.
    ///
    /// # Errors
    /// Fails if the name has a digest.
    pub fn check_to_build(&self) -> Result<(), DigestBeforeBuild> {
        if self.digest.is_some() { Err(DigestBeforeBuild) } else { Ok(()) }
    }

    /// Returns the digest, or else the tag: the version to request from the registry.
    pub fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".into(),
        }
    }

    /// Returns the repository with another digest.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Reference {
        let text = format!("{}@{digest}", self.name());
        Reference { text, tag: None, digest: Some(digest), ..self.clone() }
    }

    /// Returns the reference with a digest added to its tag: `name:tag@digest`.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Reference {
        let written = self.text.split_once('@').map_or(&*self.text, |(written, _)| written);
        Reference { text: format!("{written}@{digest}"), digest: Some(digest), ..self.clone() }
    }

    /// Returns the repository with another tag, or `None` if the tag is invalid.
    pub fn with_tag(&self, tag: &str) -> Option<Reference> {
        is_tag(tag).then(|| Reference {
            text: format!("{}:{tag}", self.name()),
            tag: Some(tag.into()),
            digest: None,
            ..self.clone()
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Reference {
    type Err = ImageReferenceError;

    fn from_str(text: &str) -> Result<Reference, ImageReferenceError> {
        Reference::parse(text)
    }
}

/// Splits a reference into name, tag and digest.
fn split(text: &str) -> Result<(&str, Option<&str>, Option<Digest>), ImageReferenceError> {
    let invalid = ImageReferenceError::Format;
    let (rest, digest) = match text.split_once('@') {
        None => (text, None),
        Some((rest, digits)) if rest.ends_with(":sha256") => {
            let digest = format!("sha256:{digits}").parse().map_err(|_| invalid.clone())?;
            (rest.strip_suffix(":sha256").unwrap_or(rest), Some(digest))
        }
        Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| invalid.clone())?)),
    };
    // A colon before a slash belongs to the port.
    let (name, tag) = match rest.rfind(':') {
        Some(colon) if !rest[colon..].contains('/') => (&rest[..colon], Some(&rest[colon + 1..])),
        _ => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(invalid);
    }
    Ok((name, tag, digest))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

/// Distinguishes a registry from the first path component, as the container tools do.
fn looks_like_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Checks a host name or address with an optional port.
pub(crate) fn is_host(host: &str) -> bool {
    let (name, port) = if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return false;
        }
        (None, port)
    } else {
        let end = host.find(':').unwrap_or(host.len());
        (Some(&host[..end]), &host[end..])
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let port_is_good = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    port_is_good && name.is_none_or(|name| name.split('.').all(label))
}

fn check_path(path: &str) -> Result<(), ImageReferenceError> {
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) && path.to_ascii_lowercase().split('/').all(is_component) {
        return Err(ImageReferenceError::Uppercase(path.into()));
    }
    if path.split('/').all(is_component) { Ok(()) } else { Err(ImageReferenceError::Format) }
}

/// Letters and digits, separated by a dot, one or two underscores, or hyphens.
fn is_component(component: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let mut at = 0;
    loop {
        let letters = bytes[at..].iter().take_while(|byte| word(byte)).count();
        if letters == 0 {
            return false;
        }
        at += letters;
        if at == bytes.len() {
            return true;
        }
        let between = &bytes[at..at + bytes[at..].iter().take_while(|byte| !word(byte)).count()];
        if !matches!(between, b"." | b"_" | b"__") && !between.iter().all(|byte| *byte == b'-') {
            return false;
        }
        at += between.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn parts_of_a_reference_are_found() {
        let digest = format!("sha256:{HEX}");
        for (text, host, repository, version) in [
            ("quay.io/a/b:v1".to_owned(), "quay.io", "a/b", "v1"),
            ("localhost/a:v1".to_owned(), "localhost", "a", "v1"),
            ("127.0.0.1:5000/a__b/c-d.e:V_1.2-3".to_owned(), "127.0.0.1:5000", "a__b/c-d.e", "V_1.2-3"),
            ("[::1]:5000/a:v1".to_owned(), "[::1]:5000", "a", "v1"),
            (format!("quay.io/a@{digest}"), "quay.io", "a", &digest),
            (format!("quay.io/a:v1@{digest}"), "quay.io", "a", &digest),
            (format!("quay.io/a:sha256@{HEX}"), "quay.io", "a", &digest),
        ] {
            let reference = Reference::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (reference.host(), reference.repository(), reference.version().as_str()),
                (host, repository, version)
            );
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn invalid_references_give_different_errors() {
        let message = |text: &str| Reference::parse(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            message("etcd:v1"),
            "repository name must be canonical, with registry and full path, such as docker.io/library/etcd"
        );
        assert_eq!(
            message("library/etcd:v1"),
            "repository name must be canonical, with registry and full path, such as docker.io/library/etcd"
        );
        assert_eq!(
            message("docker.io/etcd:v1"),
            "repository name must be canonical, with registry and full path, such as docker.io/library/etcd"
        );
        assert_eq!(
            message("quay.io/a/b"),
            "Docker reference quay.io/a/b is not for an unknown digest case; tag or digest is needed, such as quay.io/a/b:latest"
        );
        assert_eq!(
            message("quay.io/Test/ETCD:v1"),
            "invalid reference format: repository name (Test/ETCD) must be lowercase"
        );
        for text in [
            "",
            "/",
            "quay.io/",
            "quay.io//a:v1",
            "quay.io/a:",
            "quay.io/a:-v",
            "quay.io/a@sha256:12",
            "quay.io/a:sha256@abcd123",
            "quay.io/a___b:v1",
            "quay.io/a-:v1",
            "quay.io/../a:v1",
            "quay..io/a:v1",
            "quay.io:99999/a:v1",
            "[::g]/a:v1",
            "quay.io/ü:v1",
        ] {
            assert_eq!(message(text), "invalid reference format", "{text}");
        }
    }

    #[test]
    fn names_that_are_too_long_are_rejected() {
        let long = format!("quay.io/{}:v1", "a".repeat(250));
        assert_eq!(Reference::parse(&long), Err(ImageReferenceError::TooLong));
    }
}
