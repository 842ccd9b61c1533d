//! Registry settings that the command lines of other tools support and opm's does not.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The settings from such a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegistrySettings {
    /// A credentials file that takes precedence over all others.
    pub(crate) auth_file: Option<PathBuf>,
    /// The retry policy.
    pub(crate) retries: Option<image::Retries>,
    /// Whether to verify certificates, by host; overrides the global setting.
    pub(crate) certificates: BTreeMap<String, bool>,
}

impl RegistrySettings {
    /// Applies the settings to client options.
    pub(crate) fn apply(&self, options: &mut image::Options) -> Result<(), String> {
        if let Some(file) = &self.auth_file {
            let name = file.to_str().ok_or_else(|| format!("{}: the path is not valid UTF-8", file.display()))?;
            std::fs::metadata(file).map_err(|error| format!("{name}: {error}"))?;
            options.environment = options.environment.clone().with("REGISTRY_AUTH_FILE", name);
        }
        options.retries = self.retries.unwrap_or(options.retries);
        options.certificates.clone_from(&self.certificates);
        Ok(())
    }
}
