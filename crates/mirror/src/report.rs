//! What is missing, and whom that hits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use image::{Error, ErrorKind};
use serde::Serialize;

use crate::lock::Role;

/// What becomes of bundles whose images are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// The set is not whole until they are there.
    #[default]
    Fail,
    /// They leave the catalog.
    Drop,
    /// They stay in the catalog.
    Keep,
}

/// An image that is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// The image, as somebody names it.
    pub image: String,
    /// What it is for.
    pub role: Role,
    /// What the name means on this machine, if that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Why it is missing.
    pub cause: String,
    /// How often it was tried; 0 where there was nothing to try.
    #[serde(skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The bundles that need it, each behind its package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why something is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The reason.
    pub text: String,
    /// How often it was tried; 0 where there was nothing to try.
    pub tries: u32,
    /// What can be done about it.
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

/// Returns what can be done about a failure of some kind.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Network => Some("run the command again: what is there is not moved twice"),
        ErrorKind::NotFound => Some(
            "its registry does not have it; --missing drop leaves the bundles out that need it, --missing keep only the image",
        ),
        ErrorKind::Reference => Some("this can be no image; --missing drop leaves the bundles out that name it"),
        ErrorKind::Unauthorized => Some("log in with 'podman login', or set REGISTRY_AUTH_FILE"),
        ErrorKind::Digest => Some("its registry gives other bytes than it promises, and has to be repaired"),
        ErrorKind::Limit => Some("variables set the limits: see docs/limits.md"),
        _ => None,
    }
}

impl Missing {
    /// Returns the bundles that need it: package and name.
    pub fn bundles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.used_by.iter().filter_map(|user| {
            let (package, bundle) = user.split_once('/')?;
            Some((package.to_owned(), bundle.to_owned()))
        })
    }
}

/// Shows what is missing, by package and bundle; images that no bundle needs come last.
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

/// Returns the bundles that lack something.
pub fn bundles(missing: &[Missing]) -> BTreeSet<(String, String)> {
    missing.iter().flat_map(Missing::bundles).collect()
}

/// Returns what is missing as a document.
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
