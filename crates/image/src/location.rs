//! Image locations: a registry, a directory or a file.

use std::fmt;
use std::path::PathBuf;

use crate::{ImageReferenceError, Reference};

/// The location of an image, as a source or a target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A registry: `REF` or `docker://REF`.
    Registry(Reference),
    /// An OCI image layout directory: `oci:DIR[:TAG]`.
    Layout {
        /// The directory.
        path: PathBuf,
        /// The image to select; `None` means the only one.
        tag: Option<String>,
    },
    /// An OCI image layout in a tar file: `oci-archive:FILE[:TAG]`.
    LayoutArchive {
        /// The file.
        path: PathBuf,
        /// The image to select; `None` means the only one.
        tag: Option<String>,
    },
    /// A tar file in the format of `docker save`: `docker-archive:FILE[:REF]`.
    DockerArchive {
        /// The file.
        path: PathBuf,
        /// The image to select; `None` means the only one.
        reference: Option<String>,
    },
}

impl Location {
    /// Parses a location.
    ///
    /// # Errors
    /// Fails when the text is not a location.
    pub fn parse(text: &str) -> Result<Location, ImageReferenceError> {
        let file = |rest: &str| match rest.split_once(':') {
            Some((path, name)) if !path.is_empty() && !name.is_empty() => Ok((path.into(), Some(name.to_owned()))),
            None if !rest.is_empty() => Ok((rest.into(), None)),
            _ => Err(ImageReferenceError::Format),
        };
        if let Some(rest) = text.strip_prefix("docker://") {
            Ok(Location::Registry(Reference::parse(rest)?))
        } else if let Some(rest) = text.strip_prefix("oci:") {
            file(rest).map(|(path, tag)| Location::Layout { path, tag })
        } else if let Some(rest) = text.strip_prefix("oci-archive:") {
            file(rest).map(|(path, tag)| Location::LayoutArchive { path, tag })
        } else if let Some(rest) = text.strip_prefix("docker-archive:") {
            file(rest).map(|(path, reference)| Location::DockerArchive { path, reference })
        } else {
            Ok(Location::Registry(Reference::parse(text)?))
        }
    }

    /// Returns whether a text can only be an image: it has a transport prefix or is a full reference.
    pub fn is_image(text: &str) -> bool {
        Location::is_marked(text) || Reference::parse(text).is_ok()
    }

    /// Returns whether a text has a transport prefix.
    pub(crate) fn is_marked(text: &str) -> bool {
        ["docker://", "oci:", "oci-archive:", "docker-archive:"].iter().any(|mark| text.starts_with(mark))
    }
}

impl fmt::Display for Location {
    /// Writes a registry reference as given, without `docker://`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, path, name) = match self {
            Location::Registry(reference) => return reference.fmt(f),
            Location::Layout { path, tag } => ("oci", path, tag),
            Location::LayoutArchive { path, tag } => ("oci-archive", path, tag),
            Location::DockerArchive { path, reference } => ("docker-archive", path, reference),
        };
        write!(f, "{mark}:{}", path.display())?;
        name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_printed_as_it_was_written() {
        for text in [
            "quay.io/a/b:v1",
            "oci:dir",
            "oci:some/dir:v1",
            "oci-archive:/tmp/x.tar:v1",
            "docker-archive:x.tar:quay.io/a/b:v1",
        ] {
            assert_eq!(Location::parse(text).map(|location| location.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(Location::parse("docker://quay.io/a:v1"), Location::parse("quay.io/a:v1"));
    }

    #[test]
    fn an_incomplete_location_is_rejected() {
        for text in ["oci:", "oci::v1", "oci:dir:", "docker-archive:", "docker://", "docker://etcd:v1"] {
            assert!(Location::parse(text).is_err(), "{text}");
        }
    }
}
