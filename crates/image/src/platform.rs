//! Selects an image of an index by platform.

use std::fmt;
use std::str::FromStr;

use crate::manifest::{Descriptor, ImageIndex, Platform};
use crate::{Error, ErrorKind};

/// The text is not a platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as linux/arm64")]
pub struct PlatformError;

impl Platform {
    /// Returns the platform of an image that only holds data.
    pub fn of_data() -> Platform {
        Platform { os: "linux".into(), architecture: "amd64".into(), ..Platform::default() }
    }

    /// Returns Linux on the architecture of this machine.
    pub fn host() -> Platform {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", ""),
            "arm" => ("arm", "v7"),
            "x86" => ("386", ""),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", ""),
            other => (other, ""),
        };
        Platform {
            architecture: architecture.into(),
            os: "linux".into(),
            variant: variant.into(),
            ..Platform::default()
        }
    }
}

/// Returns whether an image of an index matches one of `platforms`. An empty list matches all; an image without a
/// platform always matches.
pub(crate) fn is_among(image: &Descriptor, platforms: &[Platform]) -> bool {
    let Some(own) = &image.platform else { return true };
    let same = |wanted: &Platform| {
        wanted.os == own.os
            && wanted.architecture == own.architecture
            && (wanted.variant.is_empty() || wanted.variant == own.variant)
    };
    platforms.is_empty() || platforms.iter().any(same)
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Platform, PlatformError> {
        let parts: Vec<&str> = text.split('/').collect();
        let good = |part: &&str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if !(2..=3).contains(&parts.len()) || !parts.iter().all(good) {
            return Err(PlatformError);
        }
        let variant = parts.get(2).copied().unwrap_or_default();
        Ok(Platform {
            os: parts[0].into(),
            architecture: parts[1].into(),
            variant: variant.into(),
            ..Platform::default()
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

/// Selects an image of `index`: for the requested platform, or for this machine's, or else for linux/amd64, whose
/// files serve a catalog equally well.
pub(crate) fn choose<'a>(index: &'a ImageIndex, asked: Option<&Platform>) -> Result<&'a Descriptor, Error> {
    let host = Platform::host();
    let wanted = asked.unwrap_or(&host);
    let fallback = Platform { architecture: "amd64".into(), os: "linux".into(), ..Platform::default() };
    let found = find(index, wanted).or_else(|| find(index, &fallback).filter(|_| asked.is_none()));
    found.ok_or_else(|| {
        let there: Vec<String> = index
            .manifests
            .iter()
            .filter_map(|image| image.platform.as_ref())
            .filter(|platform| platform.os != "unknown")
            .map(ToString::to_string)
            .collect();
        let text = format!(
            "no image found in manifest list for architecture {:?}, variant {:?}, OS {:?}",
            wanted.architecture, wanted.variant, wanted.os
        );
        let error = Error::new(ErrorKind::NotFound, text);
        if there.is_empty() { error } else { error.hint(format!("it has images for {}", there.join(", "))) }
    })
}

fn find<'a>(index: &'a ImageIndex, wanted: &Platform) -> Option<&'a Descriptor> {
    let fits = |image: &&Descriptor| {
        image.platform.as_ref().is_some_and(|it| it.os == wanted.os && it.architecture == wanted.architecture)
    };
    let variant = |image: &Descriptor| image.platform.as_ref().map(|it| it.variant.clone()).unwrap_or_default();
    let exact = index.manifests.iter().filter(fits).find(|image| variant(image) == wanted.variant);
    // Ignore the variant if none was requested.
    exact.or_else(|| {
        index.manifests.iter().filter(fits).find(|image| wanted.variant.is_empty() || variant(image).is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn index(platforms: &[&str]) -> ImageIndex {
        let manifests = platforms
            .iter()
            .map(|name| Descriptor {
                platform: name.parse().ok(),
                ..Descriptor::new("", Digest::of(name.as_bytes()), name.len() as u64)
            })
            .collect();
        ImageIndex {
            schema_version: 2,
            media_type: None,
            manifests,
            annotations: Default::default(),
            other: Default::default(),
        }
    }

    fn chosen(platforms: &[&str], requested: Option<&str>) -> Result<String, String> {
        let requested: Option<Platform> = requested.map(|name| name.parse().unwrap());
        choose(&index(platforms), requested.as_ref())
            .map(|image| image.platform.as_ref().unwrap().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_requested_platform_is_selected() {
        let all = ["linux/amd64", "linux/arm/v6", "linux/arm/v7", "linux/arm64/v8"];
        assert_eq!(chosen(&all, Some("linux/arm/v7")).as_deref(), Ok("linux/arm/v7"));
        assert_eq!(chosen(&all, Some("linux/arm64")).as_deref(), Ok("linux/arm64/v8"));
        let refused = chosen(&all, Some("linux/s390x"));
        assert_eq!(
            refused,
            Err("no image found in manifest list for architecture \"s390x\", variant \"\", OS \"linux\"".into())
        );
    }

    #[test]
    fn without_a_request_amd64_is_the_fallback() {
        assert_eq!(chosen(&["linux/mips", "linux/amd64"], None).as_deref(), Ok("linux/amd64"));
        assert!(chosen(&["linux/mips", "windows/amd64"], None).is_err());
    }

    #[test]
    fn invalid_platforms_are_rejected() {
        for text in ["", "linux", "linux/", "/amd64", "a/b/c/d", "linux/am d64"] {
            assert_eq!(text.parse::<Platform>(), Err(PlatformError), "{text}");
        }
    }
}
