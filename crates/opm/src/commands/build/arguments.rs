//! Parsers for the arguments of image commands.

use std::path::PathBuf;

use image::{Location, Platform, Reference};

use crate::choice::InvalidValue;

pub(crate) fn reference(text: &str) -> Result<Reference, InvalidValue> {
    Ok(Reference::parse(text).map_err(|error| error.to_string())?)
}

pub(crate) fn output(text: &str) -> Result<Location, InvalidValue> {
    match Location::parse(text) {
        Ok(Location::Registry(_)) | Err(_) => Err("expected oci:DIR, oci-archive:FILE or docker-archive:FILE".into()),
        Ok(location) => Ok(location),
    }
}

pub(super) fn platform(text: &str) -> Result<Platform, InvalidValue> {
    Ok(text.parse().map_err(|error: image::PlatformError| error.to_string())?)
}

pub(super) fn binary(text: &str) -> Result<(Platform, PathBuf), InvalidValue> {
    let (of, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or("expected PLATFORM=FILE")?;
    Ok((platform(of)?, path.into()))
}

pub(super) fn label(text: &str) -> Result<(String, String), InvalidValue> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("expected KEY=VALUE")?;
    Ok((key.into(), value.into()))
}
