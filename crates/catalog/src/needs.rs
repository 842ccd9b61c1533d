//! What bundles provide and require, as clusters of the first generation read it.
//!
//! Every requirement is a condition on one bundle: `all` means one bundle that meets all parts, not several together.
//! An unreadable requirement is kept as [`Need::Broken`], because a cluster that encounters it resolves nothing at all.

use fbc::json::{JsonKind, Raw};
use fbc::property;
use fbc::quote::quote;
use fbc::range::{RangeError, VersionRange};
use fbc::shape::Shape;
use fbc::version::Version;

/// The type of properties that hold a constraint.
pub const CONSTRAINT: &str = "olm.constraint";
/// The type of properties that declare a label.
pub const LABEL: &str = "olm.label";
/// The type of properties that require a label.
pub const LABEL_REQUIRED: &str = "olm.label.required";
/// The type of properties that exclude a bundle from resolution.
pub const DEPRECATED: &str = "olm.deprecated";

/// The shape of a label, or of a required label.
pub const LABEL_VALUE: Shape = Shape::Object(&[("label", Shape::Str)]);
/// The shape of a constraint. Clusters reject unknown fields.
pub static CONSTRAINT_VALUE: Shape = Shape::Object(&[
    ("failureMessage", Shape::Str),
    ("cel", CEL),
    ("package", PACKAGE),
    ("gvk", API),
    ("all", Shape::Object(&PARTS)),
    ("any", Shape::Object(&PARTS)),
    ("not", Shape::Object(&PARTS)),
]);
const CEL: Shape = Shape::Object(&[("rule", Shape::Str)]);
const PACKAGE: Shape = Shape::Object(&[("packageName", Shape::Str), ("versionRange", Shape::Str)]);
const API: Shape = Shape::Object(&[("group", Shape::Str), ("kind", Shape::Str), ("version", Shape::Str)]);
static PARTS: [(&str, Shape); 1] = [("constraints", Shape::List(&CONSTRAINT_VALUE))];

/// The maximum size of a constraint; clusters reject longer ones.
const MAX_SIZE: usize = 131_072;
/// The maximum nesting of a constraint; opm rejects deeper ones.
const MAX_DEPTH: usize = 50;

/// What a bundle provides and requires.
#[derive(Debug, Clone, Default)]
pub struct BundleNeeds {
    /// The APIs it provides: group, version, kind.
    pub provides: Vec<[String; 3]>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The packages it declares, with their versions if valid.
    pub packages: Vec<(String, Option<Version>)>,
    /// Its requirements, each satisfied by one bundle.
    pub needs: Vec<Requirement>,
    /// Whether clusters never choose it (`olm.deprecated`).
    pub forbidden: bool,
}

/// A requirement of a bundle.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// The index of the property that declares it.
    pub property: usize,
    /// The required condition.
    pub need: Need,
}

/// A condition on one bundle.
#[derive(Debug, Clone)]
pub enum Need {
    /// It belongs to the package, with a version in the range.
    Package(String, VersionRange),
    /// It provides the API.
    Api([String; 3]),
    /// It has the label.
    Label(String),
    /// It meets all of these.
    All(Vec<Need>),
    /// It meets any of these.
    Any(Vec<Need>),
    /// It meets none of these.
    Not(Vec<Need>),
    /// A rule in the Common Expression Language holds for it.
    Rule {
        rule: String,
        /// The message of its author.
        message: String,
    },
    /// It cannot be read, for this reason.
    Broken(NeedError),
}

/// Why a requirement cannot be read, in the words of the cluster software.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NeedError {
    /// An `olm.constraint` is too long.
    #[error("olm.constraint value is greater than max constraint size: {MAX_SIZE}")]
    TooLong,
    /// An `olm.constraint` cannot be parsed.
    #[error("parse olm.constraint: {0}")]
    Constraint(Box<NeedError>),
    /// Constraints are nested too deep.
    #[error("nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// A constraint requires nothing.
    #[error("constraint is empty")]
    Empty,
    /// A constraint, or a part of it, is not an object.
    #[error("an object is expected, not {0}")]
    NotObject(JsonKind),
    /// A constraint has an unknown member.
    #[error("json: unknown field {}", quote(.0))]
    UnknownField(String),
    /// The range of a required package is invalid.
    #[error("package {} in invalid range {}: {source}", quote(package), quote(range))]
    Range {
        package: String,
        range: String,
        /// Why it is invalid.
        source: RangeError,
    },
}

impl BundleNeeds {
    /// Reads the properties of a bundle.
    pub fn read(bundle: Raw<'_>) -> BundleNeeds {
        BundleNeeds::of(property::of(bundle))
    }

    /// Reads a list of properties: types, and values if present.
    pub fn of<'a>(properties: impl Iterator<Item = (std::borrow::Cow<'a, str>, Option<Raw<'a>>)>) -> BundleNeeds {
        let mut facts = BundleNeeds::default();
        for (index, (kind, value)) in properties.enumerate() {
            let mut need = |need| facts.needs.push(Requirement { property: index, need });
            match (&*kind, value) {
                (DEPRECATED, _) => facts.forbidden = true,
                (_, None) => {}
                (property::GVK, Some(value)) => facts.provides.push(api(value)),
                (LABEL, Some(value)) => facts.labels.push(value.get_str("label").into_owned()),
                (property::PACKAGE, Some(value)) => {
                    let version = Version::parse_strict(&value.get_str("version")).ok();
                    facts.packages.push((value.get_str("packageName").into_owned(), version));
                }
                (property::GVK_REQUIRED, Some(value)) => need(Need::Api(api(value))),
                (LABEL_REQUIRED, Some(value)) => need(Need::Label(value.get_str("label").into_owned())),
                (property::PACKAGE_REQUIRED, Some(value)) => need(package(value).unwrap_or_else(Need::Broken)),
                (CONSTRAINT, Some(value)) => need(Need::read(value)),
                _ => {}
            }
        }
        facts
    }
}

fn api(value: Raw<'_>) -> [String; 3] {
    ["group", "version", "kind"].map(|name| value.get_str(name).into_owned())
}

fn package(value: Raw<'_>) -> Result<Need, NeedError> {
    let (package, range) = (value.get_str("packageName").into_owned(), value.get_str("versionRange").into_owned());
    match VersionRange::parse(&range) {
        Ok(range) => Ok(Need::Package(package, range)),
        Err(source) => Err(NeedError::Range { package, range, source }),
    }
}

/// Rejects unknown members.
fn only(value: Raw<'_>, known: Shape) -> Result<(), NeedError> {
    if value.kind() != JsonKind::Object {
        return Err(NeedError::NotObject(value.kind()));
    }
    match value.members().find(|(key, _)| !known.fields().iter().any(|(known, _)| key.eq_ignore_ascii_case(known))) {
        Some((key, _)) => Err(NeedError::UnknownField(key.into_owned())),
        None => Ok(()),
    }
}

impl Need {
    /// Reads the value of an `olm.constraint`.
    pub fn read(value: Raw<'_>) -> Need {
        if value.text().len() > MAX_SIZE {
            return Need::Broken(NeedError::TooLong);
        }
        match Need::parse(value, 0) {
            Ok(need) => need,
            Err(reason) => Need::Broken(NeedError::Constraint(Box::new(reason))),
        }
    }

    fn parse(value: Raw<'_>, depth: usize) -> Result<Need, NeedError> {
        if depth > MAX_DEPTH {
            return Err(NeedError::TooDeep);
        }
        only(value, CONSTRAINT_VALUE)?;
        let named = |name: &str| value.get(name).filter(|value| !value.is_null());
        let message = value.get_str("failureMessage").into_owned();
        // All of them are parsed, as clusters do, even though only the first counts.
        let part = |name: &str, known: Shape| match named(name) {
            Some(value) => only(value, known).map(|()| Some(value)),
            None => Ok(None),
        };
        let parts = |name: &str| -> Result<Option<Vec<Need>>, NeedError> {
            let Some(value) = part(name, Shape::Object(&PARTS))? else { return Ok(None) };
            let list = value.get_items("constraints");
            list.map(|part| Need::parse(part, depth + 1)).collect::<Result<_, _>>().map(Some)
        };
        let gvk = part("gvk", API)?;
        let of_package = part("package", PACKAGE)?;
        let (all, any, not) = (parts("all")?, parts("any")?, parts("not")?);
        let cel = part("cel", CEL)?;
        if let Some(value) = gvk {
            Ok(Need::Api(api(value)))
        } else if let Some(value) = of_package {
            package(value)
        } else if let Some(parts) = all {
            Ok(Need::All(parts))
        } else if let Some(parts) = any {
            Ok(Need::Any(parts))
        } else if let Some(parts) = not {
            Ok(Need::Not(parts))
        } else if let Some(value) = cel {
            Ok(Need::Rule { rule: value.get_str("rule").into_owned(), message })
        } else {
            Err(NeedError::Empty)
        }
    }

    /// Returns whether a bundle meets this; `None` if that is unknown.
    ///
    /// `rule` returns whether a rule holds for the bundle.
    pub fn met_by(
        &self,
        package: &str,
        version: Option<&Version>,
        facts: &BundleNeeds,
        rule: &dyn Fn(&str) -> Option<bool>,
    ) -> Option<bool> {
        let part = |part: &Need| part.met_by(package, version, facts, rule);
        match self {
            Need::Package(name, range) => {
                let member = name == package || facts.packages.iter().any(|(of, _)| of == name);
                let versions = facts.packages.iter().filter_map(|(_, version)| version.as_ref()).chain(version);
                Some(member && versions.into_iter().any(|version| range.contains(version)))
            }
            Need::Api(api) => Some(facts.provides.contains(api)),
            Need::Label(label) => Some(facts.labels.contains(label)),
            // A part that decides makes the unknown ones irrelevant.
            Need::All(parts) => fold(parts.iter().map(part), false),
            Need::Any(parts) => fold(parts.iter().map(part), true),
            Need::Not(parts) => fold(parts.iter().map(part), true).map(|any| !any),
            Need::Rule { rule: text, .. } => rule(text),
            Need::Broken(_) => None,
        }
    }

    /// Returns the rules in this and its parts.
    pub fn rules(&self) -> Vec<&str> {
        match self {
            Need::Rule { rule, .. } => vec![rule],
            Need::All(parts) | Need::Any(parts) | Need::Not(parts) => parts.iter().flat_map(Need::rules).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns `decides` if any part is that, `None` if any is unknown, and the opposite otherwise.
fn fold(parts: impl Iterator<Item = Option<bool>>, decides: bool) -> Option<bool> {
    let mut result = Some(!decides);
    for part in parts {
        match part {
            Some(part) if part == decides => return Some(decides),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |f: &mut std::fmt::Formatter<'_>, word: &str, parts: &[Need]| {
            write!(f, "{word}(")?;
            for (i, part) in parts.iter().enumerate() {
                write!(f, "{}{part}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str(")")
        };
        match self {
            Need::Package(name, range) => write!(f, "package {name} {range}"),
            Need::Api([group, version, kind]) => write!(f, "{kind} ({group}/{version})"),
            Need::Label(label) => write!(f, "label {label}"),
            Need::All(parts) => list(f, "all of ", parts),
            Need::Any(parts) => list(f, "any of ", parts),
            Need::Not(parts) => list(f, "none of ", parts),
            Need::Rule { rule, message } if message.is_empty() => write!(f, "what satisfies the rule {}", quote(rule)),
            Need::Rule { rule, message } => write!(f, "what satisfies the rule {} ({message})", quote(rule)),
            Need::Broken(reason) => write!(f, "something that cannot be read: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(text: &str) -> Need {
        Need::read(Raw::parse(text, 1000).unwrap())
    }

    #[test]
    fn constraints_are_parsed_like_on_clusters() {
        let text = |json: &str| need(json).to_string();
        assert_eq!(text(r#"{"gvk":{"group":"g","version":"v","kind":"K"}}"#), "K (g/v)");
        assert_eq!(
            text(
                r#"{"failureMessage":"why","ALL":{"constraints":[{"package":{"packageName":"p","versionRange":">=1.0.0"}},{"not":{"constraints":[]}}]}}"#
            ),
            "all of (package p >=1.0.0, none of ())"
        );
        assert_eq!(text(r#"{"failureMessage":"why","cel":{"rule":"true"}}"#), "what satisfies the rule \"true\" (why)");
        for (json, reason) in [
            ("{}", "constraint is empty"),
            (r#"{"failureMessage":"why"}"#, "constraint is empty"),
            (r#"{"some":1}"#, "unknown field \"some\""),
            (r#"{"gvk":{"group":"g","name":"v"}}"#, "unknown field \"name\""),
            (r#"{"any":{"constraints":[{}]}}"#, "constraint is empty"),
            (r#"{"package":{"packageName":"p"}}"#, "invalid range"),
            ("[]", "an object is expected"),
        ] {
            assert!(matches!(need(json), Need::Broken(error) if error.to_string().contains(reason)), "{json}");
        }
        let deep = format!("{}{{}}{}", r#"{"not":{"constraints":["#.repeat(60), "]}}".repeat(60));
        assert!(matches!(need(&deep), Need::Broken(error) if error.to_string().contains("deeper")));
        let long = format!(r#"{{"failureMessage":"{}"}}"#, "x".repeat(MAX_SIZE));
        assert!(
            matches!(need(&long), Need::Broken(error) if error.to_string().contains("max constraint size: 131072"))
        );
    }

    #[test]
    fn one_decisive_part_is_enough() {
        let facts = BundleNeeds { labels: vec!["yes".to_owned()], ..BundleNeeds::default() };
        let (yes, no) = (Need::Label("yes".to_owned()), Need::Label("no".to_owned()));
        let unknown = Need::Rule { rule: String::new(), message: String::new() };
        let met = |need: Need| need.met_by("p", None, &facts, &|_| None);
        assert_eq!(met(Need::All(vec![unknown.clone(), no.clone()])), Some(false));
        assert_eq!(met(Need::Any(vec![unknown.clone(), yes.clone()])), Some(true));
        assert_eq!(met(Need::Not(vec![unknown.clone(), yes.clone()])), Some(false));
        assert_eq!(met(Need::All(vec![unknown, yes])), None);
        assert_eq!(
            (met(Need::All(vec![])), met(Need::Any(vec![])), met(Need::Not(vec![no]))),
            (Some(true), Some(false), Some(true))
        );
    }
}
