//! Compared upgrades as text, and as annotations for code hosts.

use std::fmt::Write;

use fbc::locate::Locator;
use fbc::spelling::github::Annotation;
use fbc::{Fbc, path};

use super::{ChannelReport, UpgradeOutcome, regressions};
use crate::outline::Outline;

/// Formats the regressions, or the upgrades of `all` bundles; fixes refer to the new catalog as `new`.
pub fn text(reports: &[ChannelReport], new: &str, all: bool) -> String {
    let mut out = String::new();
    for report in reports {
        let shown: Vec<&UpgradeOutcome> =
            report.outcomes.iter().filter(|outcome| all || outcome.is_regression()).collect();
        if shown.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{} / {}", report.package, report.channel);
        let shown = shown.into_iter().map(|outcome| (outcome.is_regression(), outcome.words(), &outcome.bundle));
        let shown: Vec<_> = shown.collect();
        // Neighbours with one reason share it.
        for same in shown.chunk_by(|one, next| (one.0, &one.1) == (next.0, &next.1)) {
            let names = same.iter().map(|(is_regression, _, bundle)| {
                let mark = if *is_regression { "!" } else { " " };
                format!("  {mark} {bundle}")
            });
            out.push_str(&names.collect::<Vec<_>>().join("\n"));
            let each = if same.len() > 1 { "\n    each" } else { "" };
            let _ = writeln!(out, "{each} {}", same[0].1);
        }
        if let Some(advice) = report.advice(new) {
            let _ = writeln!(out, "    fix: {advice}");
        }
    }
    let count: usize = reports.iter().map(|report| report.outcomes.len()).sum();
    match regressions(reports) {
        0 => {
            let _ = writeln!(out, "nobody is stranded: {count} bundles in {} channels checked", reports.len());
        }
        lost => {
            let _ = writeln!(out, "{lost} of {count} bundles lose their upgrade");
        }
    }
    out
}

/// Returns workflow commands that annotate regressions at their channels on GitHub.
pub fn github(reports: &[ChannelReport], new: &str, outline: &Outline, fbc: &Fbc) -> String {
    let mut locator = Locator::new(fbc);
    let mut out = String::new();
    for report in reports {
        let regressions: Vec<&UpgradeOutcome> =
            report.outcomes.iter().filter(|outcome| outcome.is_regression()).collect();
        if regressions.is_empty() {
            continue;
        }
        let package = outline.packages.get(&report.package);
        let blob =
            package.and_then(|package| package.channels.get(&report.channel).and_then(|it| it.blob).or(package.blob));
        let place = blob.and_then(|index| fbc.blobs()[index].place(path!["name"]));
        let file = place.as_ref().and_then(|place| fbc.full_path_of(place.file));
        let file = file.map(|file| file.display().to_string());
        let located = place.as_ref().filter(|_| file.is_some()).and_then(|place| locator.locate(place));
        let mut message = format!("{} / {}", report.package, report.channel);
        for outcome in regressions {
            let _ = write!(message, "\n{} {}", outcome.bundle, outcome.words());
        }
        if let Some(advice) = report.advice(new) {
            let _ = write!(message, "\nfix: {advice}");
        }
        let annotation = Annotation {
            level: "error",
            file: file.as_deref(),
            line: located.map(|located| (located.line as u64, None)),
            title: "upgrades",
            message: &message,
        };
        out += &annotation.line();
    }
    out
}
