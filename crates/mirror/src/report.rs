//! Reports missing content and the bundles that need it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use image::{Error, ErrorKind};
use serde::Serialize;

use crate::lock::Role;

/// How bundles with missing images are handled.
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// The image, as referenced by its source.
    pub image: String,
    /// The role.
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
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause { text, tries: 0, help: None }
    }
}

impl From<&Error> for Cause {
    fn from(error: &Error) -> Cause {
        let help = error.help().or_else(|| advice(error.kind())).map(str::to_owned);
        Cause { text: error.to_string(), tries: error.tries(), help }
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

impl Missing {
    /// Returns the bundles that need it as package and name.
    pub fn bundles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.used_by.iter().filter_map(|user| {
            let (package, bundle) = user.split_once('/')?;
            Some((package.to_owned(), bundle.to_owned()))
        })
    }
}

/// Formats missing images by package and bundle; images that no bundle needs come last.
pub fn text(missing: &[Missing]) -> String {
    let mut by_bundle: BTreeMap<(String, String), Vec<&Missing>> = BTreeMap::new();
    let mut others = Vec::new();
    for one in missing {
        let mut bundles = one.bundles().peekable();
        if bundles.peek().is_none() {
            others.push(one);
        }
        for bundle in bundles {
            by_bundle.entry(bundle).or_default().push(one);
        }
    }
    let mut out = String::new();
    let mut last = None;
    for ((package, bundle), images) in &by_bundle {
        if last != Some(package) {
            let _ = writeln!(out, "package {package}");
            last = Some(package);
        }
        let _ = writeln!(out, "  bundle {bundle}");
        for one in images {
            line(&mut out, "    ", one);
        }
    }
    for one in others {
        line(&mut out, "", one);
    }
    out
}

fn line(out: &mut String, indent: &str, one: &Missing) {
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
pub fn bundles(missing: &[Missing]) -> BTreeSet<(String, String)> {
    missing.iter().flat_map(Missing::bundles).collect()
}

/// Returns the missing images as JSON.
pub fn json(missing: &[Missing]) -> String {
    let mut text = serde_json::to_string_pretty(&serde_json::json!({ "missing": missing })).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t18_a_report_names_packages_and_bundles() {
        let missing = |image: &str, role, used_by: &[&str], help: Option<&str>| Missing {
            image: image.into(),
            role,
            source: None,
            cause: "manifest unknown".into(),
            tries: if help.is_some() { 15 } else { 1 },
            used_by: used_by.iter().map(|user| (*user).to_owned()).collect(),
            help: help.map(str::to_owned),
        };
        let all = [
            missing("q.io/a:v1", Role::Related, &["etcd/etcd.v1", "etcd/etcd.v2"], None),
            missing("q.io/x:v1", Role::Additional, &[], Some("ask for it elsewhere")),
            missing("", Role::Related, &["buoy/buoy.v1"], None),
        ];
        insta::assert_snapshot!(text(&all), @r"
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
}
