//! Renders a bundle directory as a catalog with one version.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bundle::{BundleCheck, BundleDirectory, Finding, Severity};
use fbc::Limits;
use fbc::scratch::TempFolder;
use serde_json::{Value, json};
use site::pages::problems::ProblemRow;

use crate::cache::store::Fingerprint;
use crate::run::{CatalogOrigin, OriginError, PollOutcome};

/// The placeholder image: a bundle directory has none yet.
const IMAGE: &str = "localhost/preview:latest";

/// Renders the bundle directory as a catalog whenever it changes.
pub(super) struct BundleDir {
    directory: PathBuf,
    limits: Limits,
    scratch: TempFolder,
    state: Mutex<PreviewState>,
}

#[derive(Default)]
struct PreviewState {
    last: Option<Fingerprint>,
    number: usize,
}

impl BundleDir {
    /// # Errors
    /// Fails if the temporary directory cannot be created.
    pub(super) fn new(directory: &Path, limits: Limits) -> io::Result<BundleDir> {
        let scratch = TempFolder::private("opm-preview-")?;
        Ok(BundleDir { directory: directory.to_path_buf(), limits, scratch, state: Mutex::default() })
    }

    /// Writes the catalog of the current bundle.
    fn write(&self, target: &Path) -> Result<(), OriginError> {
        let options =
            bundle::RenderOptions { image: IMAGE, image_template: None, migrate: false, limits: self.limits.clone() };
        let rendered = bundle::render(&self.directory, &options)?;
        let blob: Value = serde_json::from_str(&rendered.json)?;
        let (package, name) = (&blob["package"], &blob["name"]);
        let text = [
            json!({"schema": "olm.package", "name": package, "defaultChannel": "preview"}),
            json!({"schema": "olm.channel", "package": package, "name": "preview", "entries": [{"name": name}]}),
            blob.clone(),
        ];
        let text: String = text.iter().map(|blob| format!("{blob}\n")).collect();
        let written = fs::create_dir_all(target).and_then(|()| fs::write(target.join("catalog.json"), text));
        written.map_err(|error| format!("{}: {error}", target.display()).into())
    }
}

impl CatalogOrigin for BundleDir {
    fn poll(&self) -> Result<PollOutcome, OriginError> {
        let now = Fingerprint::at(&self.directory)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.as_ref() == Some(&now) {
            return Ok(PollOutcome::Unchanged);
        }
        state.number += 1;
        let target = self.scratch.path().join(state.number.to_string());
        state.last = Some(now);
        match self.write(&target) {
            Ok(()) => Ok(PollOutcome::Catalog(target)),
            Err(reason) => Ok(PollOutcome::Unusable(reason)),
        }
    }

    fn served(&self) {
        let number = self.state.lock().unwrap_or_else(PoisonError::into_inner).number;
        for old in 1..number {
            let _ = fs::remove_dir_all(self.scratch.path().join(old.to_string()));
        }
    }
}

/// Returns the findings of `opm bundle validate`.
pub(super) fn problems(directory: &Path, limits: &Limits) -> Vec<ProblemRow> {
    let bundle = BundleDirectory::read(directory.to_path_buf(), Some(directory.display().to_string()), limits);
    let mut findings = match bundle::check(bundle, &BundleCheck::plain(limits, fbc::spelling::calendar::today()), None)
    {
        Ok(checked) => checked.findings,
        Err(error) => vec![Finding::new("bundle-format", Severity::Error, error.to_string())],
    };
    findings.sort_by_key(|finding| finding.severity < Severity::Error);
    findings.into_iter().map(|finding| ProblemRow::of_finding(finding, directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_those_of_the_checks_with_levels_and_waivers() {
        let directory = testkit::BundleDir::new().manifest(
            "csv.yaml",
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1.0.0}\n\
             spec: {version: 1.0.0, installModes: [{type: AllNamespaces, supported: true}]}\n",
        );
        let shown = || -> Vec<String> {
            let problems = problems(directory.path(), &Limits::default()).into_iter();
            problems.map(|problem| format!("{} {} {}", problem.warning, problem.rule, problem.place)).collect()
        };
        let minimum = "true csv-min-kube-version manifests/csv.yaml:4:7".to_owned();
        assert!(shown().contains(&minimum), "{:?}", shown());
        let configure = |text: &str| fs::write(directory.path().join(".opm.yaml"), text).unwrap();
        configure("checks: {levels: {csv-min-kube-version: off}}");
        assert!(!shown().contains(&minimum), "{:?}", shown());
        configure("checks: {waivers: [{id: csv-min-kube-version, reason: it runs everywhere}]}");
        assert!(!shown().contains(&minimum), "{:?}", shown());
        configure("checks: []");
        assert_eq!(shown(), ["false bundle-format "]);
    }
}
