//! How registries are spoken to, where command lines of other tools have more to say than ours.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What such a command line says.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegistrySettings {
    /// A file with credentials, before all others.
    pub(crate) auth_file: Option<PathBuf>,
    /// How often to retry.
    pub(crate) retries: Option<image::Retries>,
    /// Hosts whose certificates count or do not, whatever holds for others.
    pub(crate) certificates: BTreeMap<String, bool>,
}

impl RegistrySettings {
    /// Lets a client be made so.
    pub(crate) fn apply(&self, options: &mut image::Options) -> Result<(), String> {
        if let Some(file) = &self.auth_file {
            let name = file.to_str().ok_or_else(|| format!("{}: the name is not UTF-8", file.display()))?;
            std::fs::metadata(file).map_err(|error| format!("{name}: {error}"))?;
            options.environment = options.environment.clone().with("REGISTRY_AUTH_FILE", name);
        }
        options.retries = self.retries.unwrap_or(options.retries);
        options.certificates.clone_from(&self.certificates);
        Ok(())
    }
}
