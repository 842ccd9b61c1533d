//! The facts of a bundle that a run needs.

use serde_json::Value;

/// The facts from the CSV of a bundle.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The package.
    pub package: String,
    /// The name of the CSV.
    pub csv: String,
    /// The channels in the annotations.
    pub channels: Vec<String>,
    /// The install modes, and whether each is supported.
    pub install_modes: Vec<(String, bool)>,
    /// The names of its owned CRDs.
    pub owned_crds: Vec<String>,
}

impl Facts {
    /// Reads the facts from the JSON of a CSV.
    ///
    /// # Errors
    /// Fails if the text is not JSON.
    pub fn read(package: &str, channels: &[String], csv: &str) -> Result<Facts, serde_json::Error> {
        let csv: Value = serde_json::from_str(csv)?;
        let modes = csv["spec"]["installModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mode = |mode: &Value| {
            let name = mode["type"].as_str().unwrap_or_default().to_owned();
            (name, mode["supported"].as_bool().unwrap_or_default())
        };
        Ok(Facts {
            package: package.to_owned(),
            csv: csv["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            channels: channels.to_vec(),
            install_modes: modes.iter().map(mode).collect(),
            owned_crds: owned_crds(&csv),
        })
    }
}

/// Returns the names of the CRDs that a CSV owns.
pub(crate) fn owned_crds(csv: &Value) -> Vec<String> {
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array();
    let mut names: Vec<String> = owned
        .into_iter()
        .flatten()
        .filter_map(|crd| crd["name"].as_str())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    // A CRD is listed once per version.
    names.sort();
    names.dedup();
    names
}
