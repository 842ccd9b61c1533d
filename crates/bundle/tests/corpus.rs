//! All checks on many published bundles: none panics, and every finding has a position.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bundle::rehearse::{InstallDecision, OlmGeneration, Rehearse};
use bundle::review::{crd, security};
use bundle::{BundleCheck, BundleDirectory, Finding, LoadedBundle, Optional};
use fbc::Limits;
use fbc::spelling::calendar::Date;
use fbc::version::Version;
use serde_json::Value;
use testkit::published::BUNDLES;

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut directories: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    directories.sort();
    directories
}

/// Returns the findings of all checks that need no registry.
fn judged(directory: &Path, limits: &Limits) -> Vec<Finding> {
    let suites = ["all".to_owned(), "marketplace".to_owned()];
    let request = BundleCheck {
        optional: &[Optional::OperatorHub, Optional::BundleObjects],
        suites: &suites,
        ..BundleCheck::plain(limits, Date::constant(2026, 1, 31))
    };
    let read = BundleDirectory::read(directory.to_owned(), None, limits);
    bundle::check(read, &request, None).unwrap().findings
}

fn installs(bundle: &LoadedBundle) -> (bool, bool) {
    let [v1, v0] = [OlmGeneration::V1, OlmGeneration::V0].map(|generation| Rehearse::new(generation).decide(bundle));
    (v1 == InstallDecision::Installs, v0 == InstallDecision::Installs)
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts are reported")]
fn every_check_judges_every_published_bundle() {
    let Some(unpacked) = BUNDLES.unpack() else { return };
    let limits = Limits::default();
    let started = Instant::now();
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut bundles, mut newer, mut older, mut steps, mut blocked, mut breaking, mut grown) = (0, 0, 0, 0, 0, 0, 0);
    // Without optimization all bundles take minutes.
    let step = if cfg!(debug_assertions) { 8 } else { 1 };
    for operator in directories(&unpacked.path().join("operators")).into_iter().step_by(step) {
        let mut versions = directories(&operator);
        let version = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Version::parse_tolerant(&name).ok()
        };
        versions.sort_by_cached_key(|path| {
            (version(path).map(|version| (version.major(), version.minor(), version.patch())), path.clone())
        });
        let mut before: Option<LoadedBundle> = None;
        for directory in versions {
            let bundle = LoadedBundle::from_directory(directory.clone(), None, &limits).unwrap();
            bundles += 1;
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            let review = security::review(None, &bundle, security::SecurityOptions::default()).unwrap();
            for finding in judged(&directory, &limits).into_iter().chain(review) {
                *seen.entry(finding.id).or_default() += 1;
            }
            for (id, count) in seen {
                let entry = counts.entry(id).or_default();
                entry.0 += count;
                entry.1 += 1;
            }
            let (by_v1, by_v0) = installs(&bundle);
            newer += usize::from(by_v1);
            older += usize::from(by_v0);
            if let Some(before) = &before {
                let crds = |bundle: &LoadedBundle| -> Vec<Value> {
                    bundle.whole.of_kind("CustomResourceDefinition").map(|object| object.value.clone()).collect()
                };
                let changes = crd::compare(&crds(before), &crds(&bundle));
                steps += 1;
                blocked += usize::from(changes.iter().any(|change| change.blocks));
                breaking += usize::from(changes.iter().any(|change| change.meaning >= Some(bundle::Severity::Error)));
                let found = security::review(Some(before), &bundle, security::SecurityOptions::default()).unwrap();
                grown += usize::from(found.iter().any(|finding| {
                    finding.severity >= bundle::Severity::High
                        && (finding.id.starts_with("rights") || finding.id.starts_with("pod"))
                }));
            }
            before = Some(bundle);
        }
    }
    eprintln!("{bundles} bundles in {:.1} s", started.elapsed().as_secs_f64());
    eprintln!("OLM v1 installs {newer}, OLM v0 {older}");
    eprintln!(
        "of {steps} steps OLM v1 blocks {blocked} for CRDs, {breaking} break in meaning; rights or pods grew to a high degree in {grown}"
    );
    for (id, (findings, bundles)) in &counts {
        eprintln!("{id}: {findings} in {bundles} bundles");
    }
    assert!(bundles * step > 300 && counts.len() > 30, "{bundles} {}", counts.len());
}

#[test]
fn findings_of_a_published_bundle_have_lines() {
    let Some(unpacked) = BUNDLES.unpack() else { return };
    let limits = Limits::default();
    let operators = directories(&unpacked.path().join("operators"));
    for directory in operators.iter().step_by(40).flat_map(|operator| directories(operator).into_iter().next_back()) {
        for finding in judged(&directory, &limits).iter().filter(|finding| !finding.file.is_empty()) {
            assert!(finding.position.is_some_and(|at| at.line > 0), "{}: {finding:?}", directory.display());
        }
    }
}
