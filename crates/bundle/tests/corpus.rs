//! All checks on many published bundles: none panics, and every finding has a position.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bundle::rehearse::v1::{Certificates, Options, Profile};
use bundle::rehearse::{Bundle, v0, v1};
use bundle::review::{crd, security};
use bundle::{CheckInput, Finding, Optional, VALIDATORS, Whole};
use fbc::Limits;
use fbc::version::Version;
use serde_json::Value;
use testkit::published::BUNDLES;

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut directories: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    directories.sort();
    directories
}

fn judged(directory: &Path, whole: &Whole, limits: &Limits) -> Vec<Finding> {
    let mut found = bundle::check_format(directory, limits).list;
    let optional = [Optional::OperatorHub, Optional::BundleObjects];
    found.extend(bundle::check_content(directory, &optional, limits).list);
    let names: Vec<&str> = VALIDATORS.iter().map(|validator| validator.name).collect();
    let given = CheckInput::new(whole, (1, 1));
    found.extend(bundle::run_validators(&given, &names).list);
    found.extend(security::judge(whole, security::Options::default()).unwrap());
    found
}

fn installs(whole: &Whole) -> (bool, bool) {
    let bundle = Bundle::new(whole);
    let namespace = "operators".to_owned();
    let options = Options {
        profile: Profile::default(),
        namespace: namespace.clone(),
        extension: bundle.package.clone(),
        certificates: Certificates::CertManager,
        config: None,
    };
    let targets = if bundle.supports(bundle::rehearse::Mode::AllNamespaces) {
        vec![String::new()]
    } else {
        vec![namespace.clone()]
    };
    let older = v0::Options { namespace, targets, group: "group".into(), config: None };
    (v1::install(&bundle, &options).is_ok(), v0::install(&bundle, &older).is_ok())
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
        let mut before: Option<Whole> = None;
        for directory in versions {
            let whole = bundle::read_whole(&directory, &limits).unwrap();
            bundles += 1;
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            for finding in judged(&directory, &whole, &limits) {
                *seen.entry(finding.id).or_default() += 1;
            }
            for (id, count) in seen {
                let entry = counts.entry(id).or_default();
                entry.0 += count;
                entry.1 += 1;
            }
            let (by_v1, by_v0) = installs(&whole);
            newer += usize::from(by_v1);
            older += usize::from(by_v0);
            if let Some(before) = &before {
                let crds = |whole: &Whole| -> Vec<Value> {
                    whole.of_kind("CustomResourceDefinition").map(|object| object.value.clone()).collect()
                };
                let changes = crd::compare(&crds(before), &crds(&whole));
                steps += 1;
                blocked += usize::from(changes.iter().any(|change| change.blocks));
                breaking += usize::from(changes.iter().any(|change| change.meaning >= Some(bundle::Severity::Error)));
                let found = security::judge_change(before, &whole, security::Options::default()).unwrap();
                grown += usize::from(found.iter().any(|finding| {
                    finding.severity >= bundle::Severity::High
                        && (finding.id.starts_with("rights") || finding.id.starts_with("pod"))
                }));
            }
            before = Some(whole);
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
        let whole = bundle::read_whole(&directory, &limits).unwrap();
        for finding in judged(&directory, &whole, &limits).iter().filter(|finding| !finding.file.is_empty()) {
            let wanted = [(finding.document, finding.pointer.as_str())];
            let at = bundle::positions(&directory, &finding.file, &wanted, &limits)[0];
            assert!(at.is_some_and(|at| at.line > 0), "{}: {finding:?}", directory.display());
        }
    }
}
