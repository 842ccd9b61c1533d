//! Parsers for the arguments of image commands.

use std::path::PathBuf;

use image::{Location, Platform, Reference};

pub(crate) fn reference(text: &str) -> Result<Reference, String> {
    Reference::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn output(text: &str) -> Result<Location, String> {
    match Location::parse(text) {
        Ok(Location::Registry(_)) | Err(_) => Err("expected oci:DIR, oci-archive:FILE or docker-archive:FILE".into()),
        Ok(location) => Ok(location),
    }
}

pub(super) fn platform(text: &str) -> Result<Platform, String> {
    text.parse().map_err(|error: image::PlatformError| error.to_string())
}

pub(super) fn binary(text: &str) -> Result<(Platform, PathBuf), String> {
    let (of, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or("expected PLATFORM=FILE")?;
    Ok((platform(of)?, path.into()))
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("expected KEY=VALUE")?;
    Ok((key.into(), value.into()))
}
