//! Size limits of images.

use crate::manifest::ImageManifest;
use crate::{Environment, Error, ErrorKind};

/// Size limits of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Maximum size of a config, in bytes.
    pub config: u64,
    /// Maximum number of layers of an image for one platform.
    pub layers: usize,
    /// Maximum size of a layer as transferred, in bytes.
    pub layer: u64,
    /// Maximum size of all configs and layers of an image as transferred, in bytes, over all platforms and referrers.
    pub image: u64,
    /// Maximum number of manifests and indexes of an image, including its referrers.
    pub manifests: usize,
    /// Maximum total size of these manifests and indexes, in bytes.
    pub manifest_bytes: u64,
    /// Maximum nesting depth of indexes.
    pub nesting: usize,
}

impl Default for ImageLimits {
    fn default() -> ImageLimits {
        ImageLimits {
            config: 8 << 20,
            layers: 512,
            layer: 16 << 30,
            image: 256 << 30,
            manifests: 4096,
            manifest_bytes: 128 << 20,
            nesting: 3,
        }
    }
}

impl ImageLimits {
    /// The variables that set limits, with their defaults.
    pub fn variables() -> [(&'static str, u64); 5] {
        let usual = ImageLimits::default();
        [
            ("OPM_MAX_IMAGE_SIZE", usual.image),
            ("OPM_MAX_IMAGE_LAYERS", usual.layers as u64),
            ("OPM_MAX_LAYER_SIZE", usual.layer),
            ("OPM_MAX_MANIFESTS", usual.manifests as u64),
            ("OPM_MAX_INDEX_DEPTH", usual.nesting as u64),
        ]
    }

    /// Applies the limits set in the environment.
    ///
    /// # Errors
    /// Fails when a variable is not a number in range.
    pub(crate) fn with_environment(mut self, environment: &Environment) -> Result<ImageLimits, Error> {
        let [image, layers, layer, manifests, nesting] = ImageLimits::variables().map(|(name, _)| name);
        set(environment, image, u64::MAX - 1, &mut self.image)?;
        set(environment, layer, u64::MAX - 1, &mut self.layer)?;
        set(environment, layers, 1 << 20, &mut self.layers)?;
        set(environment, manifests, 1 << 20, &mut self.manifests)?;
        set(environment, nesting, 16, &mut self.nesting)?;
        Ok(self)
    }

    /// Checks an image for one platform.
    pub(crate) fn check(&self, manifest: &ImageManifest) -> Result<(), Error> {
        let exceeded = |text: String| Err(Error::new(ErrorKind::Limit, text));
        if manifest.layers.len() > self.layers {
            return exceeded(format!("{} layers, the maximum is {}", manifest.layers.len(), self.layers));
        }
        if manifest.config.size > self.config {
            return exceeded(format!("a config of {} bytes, the maximum is {}", manifest.config.size, self.config));
        }
        if let Some(layer) = manifest.layers.iter().find(|layer| layer.size > self.layer) {
            return exceeded(format!("layer {} has {} bytes, the maximum is {}", layer.digest, layer.size, self.layer));
        }
        let sizes = std::iter::once(&manifest.config).chain(&manifest.layers).map(|blob| blob.size);
        match sizes.fold(0, u64::saturating_add) {
            total if total > self.image => exceeded(self.too_large()),
            _ => Ok(()),
        }
    }

    pub(crate) fn too_large(&self) -> String {
        format!("the image has more than {} bytes", self.image)
    }
}

fn set<T: TryFrom<u64>>(environment: &Environment, variable: &str, largest: u64, limit: &mut T) -> Result<(), Error> {
    let Some(text) = environment.get(variable) else { return Ok(()) };
    let value = text.parse::<u64>().ok().filter(|value| *value <= largest).and_then(|value| T::try_from(value).ok());
    let invalid = || format!("{variable} must be a whole number of at most {largest}, not {text:?}");
    *limit = value.ok_or_else(|| Error::new(ErrorKind::Unsupported, invalid()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_environment_sets_limits() {
        let with = |name: &str, value: &str| {
            ImageLimits::default().with_environment(&Environment::isolated(Path::new("/nonexistent"), &[(name, value)]))
        };
        assert_eq!(with("OPM_MAX_MANIFESTS", "7").unwrap().manifests, 7);
        for (name, _) in ImageLimits::variables() {
            assert_ne!(with(name, "1").unwrap(), ImageLimits::default(), "{name}");
            for value in ["many", "-1", "18446744073709551615"] {
                assert!(with(name, value).unwrap_err().to_string().contains(name), "{name}={value}");
            }
        }
    }
}
