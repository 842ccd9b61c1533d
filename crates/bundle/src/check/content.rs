//! Checks the objects of a bundle.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use fbc::Limits;
use serde_json::Value;

use super::hub::Categories;
use super::media_type::media_type_of;
use super::{Collector, MediaType, Optional, crd, csv, hub, manifest, meta, objects, read};
use crate::error::ReadError;
use crate::file;
use crate::pointer::{list, text};
use crate::whole::{ParsedBundle, several_csvs};

/// The kinds that a bundle may contain.
const KINDS: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// The options for checking objects, and data that is already available.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContentOptions<'a> {
    /// The bundle, if it was read before, so that no manifest is read twice.
    pub(super) known: Option<&'a ParsedBundle>,
    /// The optional checks to run.
    pub(super) optional: &'a [Optional],
    /// The categories to accept instead of the standard ones.
    pub(super) categories: Option<&'a Categories>,
}

/// Checks the objects in the directory `manifests` of a bundle, reusing available data.
pub(super) fn check_content(dir: &Path, options: &ContentOptions<'_>, limits: &Limits) -> Collector {
    let ContentOptions { known, optional, categories } = *options;
    let mut findings = Collector::default();
    let manifests = dir.join("manifests");
    let kind = match media_type_of(&manifests, known, limits) {
        // Charts are not checked.
        Ok(MediaType::Helm) => return findings,
        Ok(kind) => kind,
        Err(error) => {
            findings.error("bundle-readable", "", error.to_string());
            return findings;
        }
    };
    let names = match file::names(&manifests, limits) {
        Ok(names) => names,
        Err(error) => {
            findings.error("bundle-readable", "", error.to_string());
            return findings;
        }
    };
    let mut csvs: Vec<(String, Cow<'_, Value>)> = Vec::new();
    let mut crds: Vec<(String, Cow<'_, Value>)> = Vec::new();
    for name in names {
        let path = manifests.join(&name);
        let shown = name.display();
        findings.set_file(format!("manifests/{shown}"));
        if crate::file::is_directory(&path) {
            findings.error("bundle-readable", "", format!("Unable to read file {shown} in supported types"));
            continue;
        }
        let first = known.and_then(|known| known.first_of(&manifest(&name)?));
        let object = match first.map_or_else(|| read(&path, limits).map(Cow::Owned), |first| Ok(Cow::Borrowed(first))) {
            Ok(object) => object,
            Err(error) => {
                findings.error("bundle-readable", "", format!("{shown}: {error}"));
                if let (ReadError::Document(error), Some(finding)) = (&error, findings.list.last_mut()) {
                    finding.position = error.position();
                    if let Some(help) = error.help() {
                        finding.help = help.into();
                    }
                }
                continue;
            }
        };
        let object_kind = text(&object, "/kind");
        if object_kind.is_empty() {
            findings.error("bundle-readable", "", format!("{shown}: Object 'Kind' is missing"));
            continue;
        }
        if kind == MediaType::RegistryV1 && !KINDS.contains(&object_kind) {
            let text = format!("{object_kind} is not supported type for registryV1 bundle: {shown}");
            findings.error("object-kind", "/kind", text);
            continue;
        }
        match object_kind {
            "ClusterServiceVersion" => {
                csv::check(&object, &mut findings);
                if optional.contains(&Optional::OperatorHub) {
                    hub::check(&object, categories, &mut findings);
                }
                csvs.push((format!("manifests/{shown}"), object));
            }
            "CustomResourceDefinition" => {
                crd::check(&object, &mut findings);
                crds.push((format!("manifests/{shown}"), object));
            }
            _ => {
                meta::check(&object, &mut findings);
                if optional.contains(&Optional::BundleObjects) {
                    objects::check(&object, &mut findings);
                }
            }
        }
    }
    if let [(_, _), (second, _), ..] = csvs.as_slice() {
        findings.set_file(second);
        let text = several_csvs(csvs.iter().map(|(file, _)| file.as_str()));
        findings.error("csv-several", "", text);
    }
    if let Some((file, csv)) = csvs.first() {
        check_owned(file, csv, &crds, &mut findings);
    }
    findings
}

/// Checks that a bundle contains the CRDs that its CSV owns.
fn check_owned(file: &str, csv: &Value, crds: &[(String, Cow<'_, Value>)], findings: &mut Collector) {
    findings.set_file(file);
    let bundle = text(csv, "/metadata/name");
    let mut defined: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for (_, crd) in crds {
        let (name, kind) = (text(crd, "/metadata/name"), text(crd, "/spec/names/kind"));
        let versions = list(crd, "/spec/versions").iter().map(|version| text(version, "/name"));
        defined.extend(versions.chain([text(crd, "/spec/version")]).map(|version| (name, version, kind)));
    }
    let all = list(csv, "/spec/customresourcedefinitions/owned");
    let owned_names: BTreeSet<&str> = all.iter().map(|owned| text(owned, "/name")).collect();
    for (at, owned) in all.iter().enumerate() {
        let (name, version, kind) = (text(owned, "/name"), text(owned, "/version"), text(owned, "/kind"));
        if !defined.contains(&(name, version, kind)) {
            let pointer = format!("/spec/customresourcedefinitions/owned/{at}");
            findings.error(
                "owned-crd",
                pointer,
                format!("owned CRD {name}/{version} not found in bundle \"{bundle}\""),
            );
        }
    }
    for (crd_file, crd) in crds {
        let name = text(crd, "/metadata/name");
        findings.set_file(crd_file);
        if !owned_names.contains(name) {
            let text = format!("CRD {name} is present in bundle \"{bundle}\" but not defined in CSV");
            findings.warning("crd-not-owned", "/metadata/name", text);
        }
    }
    findings.set_file(file);
    let substitutes = text(csv, "/metadata/annotations/olm.substitutesFor");
    let release = csv.pointer("/spec/release").map(|release| match release {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    if let Some(release) = release.filter(|release| !release.is_empty() && !substitutes.is_empty()) {
        findings.error("csv-release", "/spec/release", format!(
            "bundle \"{bundle}\" cannot have both a release version (\"{release}\") and olm.substitutesFor annotation (\"{substitutes}\")"
        ));
    }
}
