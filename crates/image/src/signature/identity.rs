//! `signedIdentity` of a policy: the image names that a signature is valid for.

use crate::signature::error::SignatureError;
use crate::signature::name::{Name, NameError, is_host};
use crate::signature::strict::{JsonError, StrictObject, StrictValue};

/// How the name in a signature must match the requested image name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The same name, including tag or digest.
    MatchExact,
    /// The same name; for an image by digest, the same repository.
    MatchRepoDigestOrExact,
    /// The same repository with any tag.
    MatchRepository,
    /// This name, whatever the requested name.
    ExactReference(Name),
    /// This repository, whatever the requested name.
    ExactRepository(Name),
    /// Like [`Identity::MatchRepoDigestOrExact`], after replacing a prefix.
    RemapIdentity {
        /// The prefix of requested names.
        prefix: String,
        /// The prefix of names in signatures.
        signed_prefix: String,
    },
}

/// Why a `signedIdentity` is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("dockerReference {0} has neither tag nor digest")]
    Bare(Name),
    #[error("unknown type of signedIdentity {0:?}")]
    Unknown(String),
    #[error("prefix {0:?} is not a full name of a registry, namespace or repository")]
    Prefix(String),
}

impl Identity {
    /// Parses a `signedIdentity`.
    pub(crate) fn read(value: StrictValue) -> Result<Identity, IdentityError> {
        let mut fields = StrictObject::of(value, "signedIdentity")?;
        let kind = fields.required_text("type")?;
        let identity = match kind.as_str() {
            "matchExact" => Identity::MatchExact,
            "matchRepoDigestOrExact" => Identity::MatchRepoDigestOrExact,
            "matchRepository" => Identity::MatchRepository,
            "exactReference" => {
                let name = Name::parse(&fields.required_text("dockerReference")?)?;
                if name.is_bare() {
                    return Err(IdentityError::Bare(name));
                }
                Identity::ExactReference(name)
            }
            "exactRepository" => Identity::ExactRepository(Name::parse(&fields.required_text("dockerRepository")?)?),
            "remapIdentity" => Identity::RemapIdentity {
                prefix: prefix(fields.required_text("prefix")?)?,
                signed_prefix: prefix(fields.required_text("signedPrefix")?)?,
            },
            other => return Err(IdentityError::Unknown(other.to_owned())),
        };
        fields.end()?;
        Ok(identity)
    }

    /// Checks that a signature for `signed` is valid for the requested image `image`.
    pub(crate) fn check(&self, image: Option<&Name>, signed: &str) -> Result<(), SignatureError> {
        let signed = Name::parse(signed)?;
        let unnamed = || SignatureError::Unnamed;
        let good = match self {
            Identity::MatchExact => {
                let image = image.ok_or_else(unnamed)?;
                !image.is_bare() && !signed.is_bare() && signed == *image
            }
            Identity::MatchRepoDigestOrExact => repository_or_exact(image.ok_or_else(unnamed)?, &signed),
            Identity::MatchRepository => signed.repository() == image.ok_or_else(unnamed)?.repository(),
            Identity::ExactReference(name) => !signed.is_bare() && signed == *name,
            Identity::ExactRepository(name) => signed.repository() == name.repository(),
            Identity::RemapIdentity { prefix, signed_prefix } => {
                let image = image.ok_or_else(unnamed)?;
                match remap(image, prefix, signed_prefix) {
                    Some(image) => repository_or_exact(&image, &signed),
                    None => {
                        let (image, prefix) = (image.clone(), signed_prefix.clone());
                        return Err(SignatureError::NotMoved { image, prefix });
                    }
                }
            }
        };
        if good { Ok(()) } else { Err(SignatureError::OtherName { signed, expected: self.expected(image) }) }
    }

    fn expected(&self, image: Option<&Name>) -> String {
        let image = image.map(ToString::to_string).unwrap_or_default();
        match self {
            Identity::MatchExact | Identity::MatchRepoDigestOrExact => format!("not for {image}"),
            Identity::MatchRepository => format!("not for the repository of {image}"),
            Identity::ExactReference(name) => format!("and the policy wants {name}"),
            Identity::ExactRepository(name) => format!("and the policy wants the repository {}", name.repository()),
            Identity::RemapIdentity { prefix, signed_prefix } => {
                format!("not for {image} with {signed_prefix} in place of {prefix}")
            }
        }
    }
}

fn repository_or_exact(image: &Name, signed: &Name) -> bool {
    match (signed.is_bare(), image.tag(), image.is_bare()) {
        (true, _, _) | (_, _, true) => false,
        (_, Some(_), _) => signed == image,
        // The digest of the image is compared elsewhere.
        (_, None, _) => signed.repository() == image.repository(),
    }
}

/// Replaces a prefix; a name without the prefix stays unchanged.
fn remap(image: &Name, prefix: &str, signed_prefix: &str) -> Option<Name> {
    match image.repository().strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => image.moved(&format!("{signed_prefix}{rest}")),
        _ => Some(image.clone()),
    }
}

/// Checks a full name of a registry, a namespace or a repository.
fn prefix(text: String) -> Result<String, IdentityError> {
    let is_full = || Name::parse(&text).is_ok_and(|name| name.is_bare() && name.repository() == text);
    // As an image name, a namespace of Docker Hub would be expanded further.
    let is_namespace = || Name::parse(&format!("{text}/x")).is_ok_and(|name| name.repository() == format!("{text}/x"));
    if is_host(&text) || is_full() || is_namespace() {
        return Ok(text);
    }
    Err(IdentityError::Prefix(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::strict;

    fn outcome(identity: &str, image: Option<&str>, signed: &str) -> bool {
        let identity = Identity::read(strict::parse(identity.as_bytes()).unwrap()).unwrap();
        identity.check(image.map(|image| Name::parse(image).unwrap()).as_ref(), signed).is_ok()
    }

    #[test]
    fn names_match_by_the_identity_of_the_policy() {
        let digest = format!("quay.io/a/b@sha256:{}", "a1".repeat(32));
        let tagged = Some("quay.io/a/b:v1");
        let exact = r#"{"type": "matchExact"}"#;
        let default = r#"{"type": "matchRepoDigestOrExact"}"#;
        let repository = r#"{"type": "matchRepository"}"#;
        let one = r#"{"type": "exactReference", "dockerReference": "busybox:v1"}"#;
        let any = r#"{"type": "exactRepository", "dockerRepository": "vendor.test/x"}"#;
        let remap = r#"{"type": "remapIdentity", "prefix": "quay.io/a", "signedPrefix": "vendor.test"}"#;
        let host = r#"{"type": "remapIdentity", "prefix": "quay.io", "signedPrefix": "vendor.test/all"}"#;
        for (identity, image, signed, good) in [
            (exact, tagged, "quay.io/a/b:v1", true),
            (exact, tagged, "quay.io/a/b:v2", false),
            (exact, tagged, "quay.io/a/b", false),
            (exact, Some(digest.as_str()), "quay.io/a/b:v1", false),
            (exact, Some(digest.as_str()), digest.as_str(), true),
            (exact, None, "quay.io/a/b:v1", false),
            (default, tagged, "quay.io/a/b:v1", true),
            (default, tagged, "quay.io/a/b", false),
            (default, tagged, "quay.io/a/c:v1", false),
            (default, Some(digest.as_str()), "quay.io/a/b:v7", true),
            (default, Some(digest.as_str()), "quay.io/a/b", false),
            (default, Some(digest.as_str()), "quay.io/a/c:v7", false),
            (repository, tagged, "quay.io/a/b", true),
            (repository, tagged, "quay.io/a/b:other", true),
            (repository, tagged, "quay.io/a", false),
            (one, None, "docker.io/library/busybox:v1", true),
            (one, tagged, "busybox:v2", false),
            (any, tagged, "vendor.test/x", true),
            (any, tagged, "vendor.test/x:v3", true),
            (any, tagged, "vendor.test/xy", false),
            (remap, tagged, "vendor.test/b:v1", true),
            (remap, tagged, "quay.io/a/b:v1", false),
            (remap, Some("quay.io/ab/c:v1"), "quay.io/ab/c:v1", true),
            (host, tagged, "vendor.test/all/a/b:v1", true),
            (host, Some(digest.as_str()), "vendor.test/all/a/b:v9", true),
            (exact, tagged, "quay.io/a/B:v1", false),
        ] {
            assert_eq!(outcome(identity, image, signed), good, "{identity} {image:?} {signed}");
        }
    }

    #[test]
    fn invalid_identities_are_rejected() {
        for text in [
            "null",
            r#""matchExact""#,
            "{}",
            r#"{"type": "x"}"#,
            r#"{"type": "matchExact", "dockerReference": "a:v1"}"#,
            r#"{"type": "exactReference"}"#,
            r#"{"type": "exactReference", "dockerReference": "a"}"#,
            r#"{"type": "exactRepository", "dockerRepository": "A"}"#,
            r#"{"type": "remapIdentity", "prefix": "a.test"}"#,
            r#"{"type": "remapIdentity", "prefix": "a.test/x:v1", "signedPrefix": "b.test"}"#,
            r#"{"type": "remapIdentity", "prefix": "busybox/x", "signedPrefix": "b.test"}"#,
            r#"{"type": "remapIdentity", "prefix": "", "signedPrefix": "b.test"}"#,
        ] {
            assert!(Identity::read(strict::parse(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
    }
}
