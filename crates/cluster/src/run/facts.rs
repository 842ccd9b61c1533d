//! The facts of a bundle that a run needs.

use serde::Deserialize;

use crate::views::{CsvSpec, Named};

/// The facts from the CSV of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct CsvFacts {
    pub(crate) package: String,
    /// The name of the CSV.
    pub(crate) csv: String,
    /// Its version.
    pub(crate) version: String,
    /// The channels in the annotations.
    pub(crate) channels: Vec<String>,
    /// The install modes, and whether each is supported.
    pub(crate) install_modes: Vec<(String, bool)>,
    /// The names of its owned CRDs.
    pub(crate) owned_crds: Vec<String>,
}

impl CsvFacts {
    /// Reads the facts from the JSON of a CSV.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or a field has the wrong type.
    pub(crate) fn read(package: &str, channels: &[String], csv: &str) -> Result<CsvFacts, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct BundleCsv {
            metadata: Named,
            spec: CsvSpec,
        }
        let csv: BundleCsv = serde_json::from_str(csv)?;
        Ok(CsvFacts {
            package: package.to_owned(),
            csv: csv.metadata.name,
            version: csv.spec.version.clone(),
            channels: channels.to_vec(),
            owned_crds: owned_crds(&csv.spec),
            install_modes: csv.spec.install_modes.into_iter().map(|mode| (mode.kind, mode.supported)).collect(),
        })
    }
}

/// Returns the names of the CRDs that a CSV owns.
pub(crate) fn owned_crds(csv: &CsvSpec) -> Vec<String> {
    let owned = csv.definitions.owned.iter().map(|crd| crd.name.clone());
    let mut names: Vec<String> = owned.filter(|name| !name.is_empty()).collect();
    // A CRD is listed once per version.
    names.sort();
    names.dedup();
    names
}
