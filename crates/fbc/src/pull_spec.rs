//! Pull specs: checks whether a text is an image reference, `[domain/]path[:tag][@digest]`.

/// The maximum length of a name, including domain and path.
const MAX_NAME_LENGTH: usize = 255;
const MAX_TAG_LENGTH: usize = 128;
/// Fewer digits than this are not recognized as a digest.
const MIN_DIGEST_DIGITS: usize = 32;

/// The defaults that complete a short name such as `busybox` before its length is checked.
const DEFAULT_DOMAIN: &str = "docker.io";
const DEFAULT_DOMAIN_ALIAS: &str = "index.docker.io";
const DEFAULT_NAMESPACE: &str = "library/";

/// The reason why a text is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullSpecError {
    /// The text is not in the form of a pull spec.
    #[error("invalid reference format")]
    Format,
    /// The text would be valid in lower case.
    #[error("invalid reference format: repository name must be lowercase")]
    UpperCase,
    /// The text is the identifier of an image, not its name.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(Box<str>),
    /// The name is too long.
    #[error("repository name must not be more than {MAX_NAME_LENGTH} characters")]
    NameTooLong,
    /// The digest algorithm is not supported by registries.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
    /// The digest has the wrong length for its algorithm.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// The digest is not lower case.
    #[error("invalid checksum digest format")]
    DigestFormat,
}

/// Checks that `text` is a pull spec.
///
/// An empty text is accepted: the caller decides whether an image may be missing.
pub fn check(text: &str) -> Result<(), PullSpecError> {
    if text.is_empty() {
        return Ok(());
    }
    if text.len() == 64 && text.bytes().all(is_lower_hex) {
        return Err(PullSpecError::Identifier(text.into()));
    }
    let (domain, remainder) = split_domain(text);
    let name = remainder.split(':').next().unwrap_or_default();
    if name.chars().any(|c| !c.to_lowercase().eq([c])) {
        return Err(PullSpecError::UpperCase);
    }
    let Some(parts) = Parts::parse(domain, remainder) else {
        let lower_case = Parts::parse(&domain.to_lowercase(), &remainder.to_lowercase()).is_some();
        return Err(if lower_case { PullSpecError::UpperCase } else { PullSpecError::Format });
    };
    if parts.name_length > MAX_NAME_LENGTH {
        return Err(PullSpecError::NameTooLong);
    }
    parts.digest.map_or(Ok(()), check_digest)
}

/// The parts of a pull spec that remain to be checked.
struct Parts<'a> {
    /// The length of the name with defaults for domain and namespace.
    name_length: usize,
    /// The algorithm and digits.
    digest: Option<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn parse(domain: &str, remainder: &'a str) -> Option<Parts<'a>> {
        let (tagged, digest) = match remainder.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(split_digest(digest)?)),
            None => (remainder, None),
        };
        let (path, tag) = match tagged.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (tagged, None),
        };
        // A first component that looks like a domain but is not one may be part of the path: `a.b_c/x`.
        let valid = (is_domain(domain) || is_path_component(domain))
            && path.split('/').all(is_path_component)
            && tag.is_none_or(is_tag);
        let namespace = match domain {
            DEFAULT_DOMAIN if !path.contains('/') => DEFAULT_NAMESPACE,
            _ => "",
        };
        let name_length = domain.len() + 1 + namespace.len() + path.len();
        valid.then_some(Parts { name_length, digest })
    }
}

/// Splits off the domain, or uses the default if it is missing.
fn split_domain(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((DEFAULT_DOMAIN_ALIAS, remainder)) => (DEFAULT_DOMAIN, remainder),
        Some((domain, remainder)) if domain.contains(['.', ':']) || domain == "localhost" => (domain, remainder),
        _ => (DEFAULT_DOMAIN, text),
    }
}

/// Accepts labels of letters, digits and inner hyphens, joined by dots, and an optional port.
fn is_domain(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(is_label)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Accepts runs of lower-case letters and digits joined by `.`, `_`, `__` or hyphens.
fn is_path_component(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends_well = |end: Option<&u8>| end.is_some_and(|&byte| is_letter(byte));
    ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes.split(|&byte| is_letter(byte)).all(|separator| {
            matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|&byte| byte == b'-')
        })
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= MAX_TAG_LENGTH
        && bytes.first().is_some_and(|&byte| is_word(byte))
        && bytes.iter().all(|&byte| is_word(byte) || byte == b'.' || byte == b'-')
}

/// Splits a digest into algorithm and digits, if it looks like one.
fn split_digest(text: &str) -> Option<(&str, &str)> {
    let (algorithm, digits) = text.split_once(':')?;
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let valid = algorithm.split(['-', '_', '+', '.']).all(is_word)
        && digits.len() >= MIN_DIGEST_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then_some((algorithm, digits))
}

fn check_digest((algorithm, digits): (&str, &str)) -> Result<(), PullSpecError> {
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ if algorithm.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            return Err(PullSpecError::DigestFormat);
        }
        _ => return Err(PullSpecError::DigestAlgorithm),
    };
    if digits.len() != length {
        Err(PullSpecError::DigestLength)
    } else if !digits.bytes().all(is_lower_hex) {
        Err(PullSpecError::DigestFormat)
    } else {
        Ok(())
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(algorithm: &str, digit: &str, count: usize) -> String {
        format!("a/b@{algorithm}:{}", digit.repeat(count))
    }

    #[track_caller]
    fn refused(text: &str, error: PullSpecError) {
        assert_eq!(check(text), Err(error), "{text}");
    }

    #[test]
    fn images_are_named_with_or_without_domain_tag_and_digest() {
        for text in [
            "z",
            "localhost:5000/x",
            "localhost:5000",
            "HOST.com/x",
            "docker.io/x",
            "index.docker.io/x",
            "a/b:T_g.1-",
            "a/b__c",
            "a/b-----c.d_e",
            "a.b_c/x",
            "localhost:5000/a/b_c/d-e:v1.0_x.y",
            &format!("a/b:{}", "t".repeat(128)),
            &format!("a/b:t@sha256:{}", "0".repeat(64)),
            &digest("sha384", "a", 96),
            &digest("sha512", "f", 128),
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn an_empty_text_is_accepted() {
        assert_eq!(check(""), Ok(()));
    }

    #[test]
    fn other_forms_are_rejected() {
        for text in [
            "a//b",
            "a/b:",
            "a/b___c",
            "a/b._c",
            "a/-b",
            "a/b-",
            "/a",
            "a/",
            "quay.io/",
            "a b",
            "x@sha256:abc",
            "[::1]:5000/x",
            "docker://a/b",
            "https://a/b",
            "a_b.c:5000/x",
            "-a.b:1/x",
            "a.b:/x",
            "a/é",
            "a@b@c",
            ":t",
            "a:b:c",
            "a/b:-t",
        ] {
            refused(text, PullSpecError::Format);
        }
        refused(&format!("a/b:{}", "t".repeat(129)), PullSpecError::Format);
    }

    #[test]
    fn a_path_must_be_in_lower_case() {
        for text in ["Host/x", "quay.io/Foo/Bundle:v1", "A", "a/b@SHA256:00", "A.b_c/x"] {
            refused(text, PullSpecError::UpperCase);
        }
    }

    #[test]
    fn an_identifier_is_not_a_name() {
        let identifier = "0".repeat(64);
        refused(&identifier, PullSpecError::Identifier(identifier.as_str().into()));
        assert_eq!(check(&"0".repeat(63)), Ok(()));
    }

    #[test]
    fn digests_have_a_known_algorithm_and_its_length() {
        refused(&digest("md5", "0", 32), PullSpecError::DigestAlgorithm);
        refused(&digest("sha256", "0", 63), PullSpecError::DigestLength);
        refused(&digest("sha256", "A", 64), PullSpecError::DigestFormat);
        refused(&format!("a:t@SHA256:{}", "0".repeat(64)), PullSpecError::DigestFormat);
    }

    #[test]
    fn the_length_of_a_name_includes_the_implied_domain() {
        let longest = "a".repeat(MAX_NAME_LENGTH - "docker.io/library/".len());
        assert_eq!(check(&longest), Ok(()));
        refused(&format!("{longest}a"), PullSpecError::NameTooLong);
        assert_eq!(check(&format!("q.io/{}", "a".repeat(250))), Ok(()));
        refused(&format!("q.io/{}", "a".repeat(251)), PullSpecError::NameTooLong);
    }
}
