//! Reports missing content and the bundles that need it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use image::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::lock::Role;

/// Maximum number of printed causes of failures.
const CAUSES: usize = 10;

/// Maximum number of named images of a cause.
const NAMED: usize = 3;

/// How bundles with missing images are handled. Images that failed are not missing: then the run fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// The set stays incomplete until the images are available.
    #[default]
    Fail,
    /// The bundles are removed from the catalog.
    Drop,
    /// The bundles stay in the catalog.
    Keep,
}

/// A missing image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingImage {
    /// The image, as referenced by its source.
    pub image: String,
    pub role: Role,
    /// The resolved name, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The reason.
    pub cause: String,
    /// The number of attempts; 0 if nothing was tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The bundles that need it, as `package/bundle`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether this is a failure of the run: it is unknown whether the registry has the image.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The cause without the name of the image, which failures of other images share.
    #[serde(skip)]
    pub shared_cause: String,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why content is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The reason.
    pub text: String,
    /// The number of attempts; 0 if nothing was tried.
    pub tries: u32,
    /// How to fix it.
    pub help: Option<String>,
    /// Whether this is a failure of the run, and not a statement about the image.
    pub failed: bool,
    /// The reason without the name of the image.
    pub shared: String,
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause { shared: text.clone(), text, tries: 0, help: None, failed: false }
    }
}

impl From<&Error> for Cause {
    fn from(error: &Error) -> Cause {
        let help = error.help().or_else(|| advice(error.kind())).map(str::to_owned);
        let (failed, shared) = (!error.is_missing(), error.cause());
        Cause { text: error.to_string(), tries: error.tries(), help, failed, shared }
    }
}

/// Returns advice for an error kind.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Network => Some("run the command again: it resumes where it stopped"),
        ErrorKind::NotFound => Some(
            "its registry does not have it; --missing drop removes the bundles that need it, --missing keep only the image",
        ),
        ErrorKind::Reference => Some("not a valid image; --missing drop removes the bundles that reference it"),
        ErrorKind::Unauthorized => Some("log in with 'podman login', or set REGISTRY_AUTH_FILE"),
        ErrorKind::Digest => Some("its registry returns content that does not match its digest; repair the registry"),
        ErrorKind::Limit => Some("raise the limit with a variable: see docs/limits.md"),
        _ => None,
    }
}

impl MissingImage {
    /// Returns an image that is missing for this cause.
    pub fn new(image: String, source: Option<String>, role: Role, used_by: Vec<String>, cause: Cause) -> MissingImage {
        let Cause { text, tries, help, failed, shared } = cause;
        MissingImage { image, role, source, cause: text, tries, used_by, help, failed, shared_cause: shared }
    }

    /// Returns the bundles that need it as package and name.
    pub fn bundles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.used_by.iter().filter_map(|user| {
            let (package, bundle) = user.split_once('/')?;
            Some((package.to_owned(), bundle.to_owned()))
        })
    }
}

/// Formats images for users, each kind with its number: the missing ones, and those that failed.
pub fn text(missing: &[MissingImage]) -> String {
    let (failed, missing): (Vec<&MissingImage>, Vec<&MissingImage>) = missing.iter().partition(|one| one.failed);
    let mut out = String::new();
    if !missing.is_empty() {
        let _ = writeln!(out, "missing images: {}", missing.len());
        by_bundle(&mut out, &missing);
    }
    if !failed.is_empty() {
        let _ = writeln!(out, "failed images: {}", failed.len());
        by_cause(&mut out, &failed);
    }
    out
}

/// Formats failures, one line for each cause: a registry that is down fails all its images.
fn by_cause(out: &mut String, failed: &[&MissingImage]) {
    let mut causes: BTreeMap<(&str, Option<&str>), Vec<&MissingImage>> = BTreeMap::new();
    for one in failed {
        causes.entry((&one.shared_cause, one.help.as_deref())).or_default().push(one);
    }
    for ((cause, help), images) in causes.iter().take(CAUSES) {
        let tries = images.iter().map(|one| one.tries).max().unwrap_or_default();
        let tries = if tries > 1 { format!(" (tried {tries} times)") } else { String::new() };
        let names: BTreeSet<&str> = images.iter().map(|one| one.image.as_str()).collect();
        let named: Vec<&str> = names.iter().copied().take(NAMED).collect();
        let named = match names.len() {
            count if count <= NAMED => named.join(", "),
            count => format!("{count} images, such as {}", named.join(", ")),
        };
        let _ = writeln!(out, "{cause}{tries}: {named}");
        if let Some(help) = help {
            let _ = writeln!(out, "  help: {help}");
        }
    }
    if causes.len() > CAUSES {
        let _ = writeln!(out, "and {} other causes", causes.len() - CAUSES);
    }
}

/// Formats missing images by package and bundle; images that no bundle needs come last.
fn by_bundle(out: &mut String, missing: &[&MissingImage]) {
    let mut by_bundle: BTreeMap<(String, String), Vec<&MissingImage>> = BTreeMap::new();
    let mut others: Vec<&MissingImage> = Vec::new();
    for one in missing {
        let mut bundles = one.bundles().peekable();
        if bundles.peek().is_none() {
            others.push(one);
        }
        for bundle in bundles {
            by_bundle.entry(bundle).or_default().push(one);
        }
    }
    let mut last = None;
    for ((package, bundle), images) in &by_bundle {
        if last != Some(package) {
            let _ = writeln!(out, "package {package}");
            last = Some(package);
        }
        let _ = writeln!(out, "  bundle {bundle}");
        for one in images {
            line(out, "    ", one);
        }
    }
    for one in others {
        line(out, "", one);
    }
}

fn line(out: &mut String, indent: &str, one: &MissingImage) {
    let role = match one.role {
        Role::Bundle => "the bundle itself",
        Role::Related => "a related image",
        Role::Additional => "an additional image",
        Role::Catalog => "a catalog",
    };
    let image = if one.image.is_empty() { "(no name)" } else { &one.image };
    let tries = if one.tries > 1 { format!(" (tried {} times)", one.tries) } else { String::new() };
    let source = one.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
    let _ = writeln!(out, "{indent}{image}{source}, {role}: {}{tries}", one.cause);
    if let Some(help) = &one.help {
        let _ = writeln!(out, "{indent}  help: {help}");
    }
}

/// Returns the bundles with missing images.
pub fn bundles(missing: &[MissingImage]) -> BTreeSet<(String, String)> {
    missing.iter().flat_map(MissingImage::bundles).collect()
}

/// Returns the missing images as JSON.
pub fn json(missing: &[MissingImage]) -> String {
    let mut text = serde_json::to_string_pretty(&serde_json::json!({ "missing": missing })).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m18_a_report_names_packages_and_bundles() {
        let missing = |image: &str, role, used_by: &[&str], help: Option<&str>| {
            let tries = if help.is_some() { 15 } else { 1 };
            let cause = Cause { tries, help: help.map(str::to_owned), ..Cause::from("manifest unknown".to_owned()) };
            MissingImage::new(image.into(), None, role, used_by.iter().map(|user| (*user).to_owned()).collect(), cause)
        };
        let all = [
            missing("q.io/a:v1", Role::Related, &["etcd/etcd.v1", "etcd/etcd.v2"], None),
            missing("q.io/x:v1", Role::Additional, &[], Some("ask for it elsewhere")),
            missing("", Role::Related, &["buoy/buoy.v1"], None),
        ];
        insta::assert_snapshot!(text(&all), @r"
        missing images: 3
        package buoy
          bundle buoy.v1
            (no name), a related image: manifest unknown
        package etcd
          bundle etcd.v1
            q.io/a:v1, a related image: manifest unknown
          bundle etcd.v2
            q.io/a:v1, a related image: manifest unknown
        q.io/x:v1, an additional image: manifest unknown (tried 15 times)
          help: ask for it elsewhere
        ");
        assert_eq!(bundles(&all).len(), 3);
    }

    #[test]
    fn m18_many_images_that_fail_for_one_cause_take_one_line() {
        let failed = |number: usize, host: &str| {
            let cause = Cause {
                tries: 1 + number as u32,
                help: Some("run the command again".into()),
                failed: true,
                ..Cause::from(format!("dial tcp {host}: connection refused"))
            };
            let image = format!("{host}/ns/image{number}:v1");
            MissingImage::new(image, None, Role::Related, vec![format!("etcd/etcd.v{number}")], cause)
        };
        let mut all: Vec<MissingImage> = (0..24).map(|number| failed(number, "a.test")).collect();
        all.extend((0..3).map(|number| failed(number, "b.test")));
        insta::assert_snapshot!(text(&all), @r"
        failed images: 27
        dial tcp a.test: connection refused (tried 24 times): 24 images, such as a.test/ns/image0:v1, a.test/ns/image10:v1, a.test/ns/image11:v1
          help: run the command again
        dial tcp b.test: connection refused (tried 3 times): b.test/ns/image0:v1, b.test/ns/image1:v1, b.test/ns/image2:v1
          help: run the command again
        ");
    }
}
