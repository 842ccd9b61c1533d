//! Renders a bundle directory as a catalog with one version.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bundle::{Finding, Severity};
use fbc::Limits;
use serde_json::{Value, json};
use serve::cache::store::Fingerprint;
use serve::run::{Origin, OriginError, Polled};
use site::pages::problems::Found;

use crate::interrupt::Unfinished;
use crate::limits;

/// The placeholder image: a bundle directory has none yet.
const IMAGE: &str = "localhost/preview:latest";

/// Renders the bundle directory as a catalog whenever it changes.
pub(super) struct BundleDir {
    directory: PathBuf,
    limits: Limits,
    scratch: Unfinished,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Fingerprint>,
    number: usize,
}

impl BundleDir {
    /// # Errors
    /// Fails if the temporary directory cannot be created.
    pub(super) fn new(directory: &Path, limits: Limits) -> io::Result<BundleDir> {
        let scratch = Unfinished::private("opm-preview-")?;
        Ok(BundleDir { directory: directory.to_path_buf(), limits, scratch, state: Mutex::default() })
    }

    /// Writes the catalog of the current bundle.
    fn write(&self, target: &Path) -> Result<(), OriginError> {
        let options =
            bundle::Options { image: IMAGE, image_template: None, migrate: false, limits: self.limits.clone() };
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

impl Origin for BundleDir {
    fn poll(&self) -> Result<Polled, OriginError> {
        let now = Fingerprint::at(&self.directory)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.as_ref() == Some(&now) {
            return Ok(Polled::Unchanged);
        }
        state.number += 1;
        let target = self.scratch.path().join(state.number.to_string());
        state.last = Some(now);
        match self.write(&target) {
            Ok(()) => Ok(Polled::Catalog(target)),
            Err(reason) => Ok(Polled::Unusable(reason)),
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
pub(super) fn problems(directory: &Path) -> Vec<Found> {
    let Ok(limits) = limits::from_env() else { return Vec::new() };
    let mut findings = bundle::check_format(directory, &limits).list;
    findings.extend(bundle::check_content(directory, &[], &limits).list);
    findings.sort_by_key(|finding| finding.severity != Severity::Error);
    findings.dedup_by(|b, a| a.message == b.message);
    crate::findings::locate(&mut findings, directory, None, &limits);
    findings.into_iter().map(found).collect()
}

fn found(finding: Finding) -> Found {
    let place = match finding.position {
        Some(position) => format!("{}:{}:{}", finding.file, position.line, position.column),
        None => finding.file,
    };
    Found {
        rule: finding.id.to_owned(),
        warning: finding.severity != Severity::Error,
        package: String::new(),
        message: finding.message,
        place,
        help: finding.help,
    }
}
