//! What bundles offer and need, read while their text is at hand.

use fbc::json::Raw;
use fbc::property;
use fbc::range::VersionRange;
use fbc::version::Version;

/// What a bundle offers and needs.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The APIs it provides: group, version, kind.
    pub provides: Vec<[String; 3]>,
    /// What it needs, each satisfied by one bundle.
    pub needs: Vec<Need>,
    /// Whether clusters never choose it (`olm.deprecated`).
    pub forbidden: bool,
}

/// A condition on one bundle.
#[derive(Debug, Clone)]
pub enum Need {
    /// It belongs to the package, in a version of the range.
    Package(String, Option<VersionRange>),
    /// It provides the API.
    Api([String; 3]),
    /// It meets all of these.
    All(Vec<Need>),
    /// It meets any of these.
    Any(Vec<Need>),
    /// It meets none of these.
    Not(Vec<Need>),
    /// It cannot be told here whether it does: a rule in a language of its own.
    Unknown,
}

/// Conditions nested deeper than this are not looked at.
const DEEPEST: usize = 20;

impl Facts {
    /// Reads the properties of a bundle.
    pub fn read(bundle: Raw<'_>) -> Facts {
        let mut facts = Facts::default();
        for (kind, value) in property::of(bundle) {
            let Some(value) = value else { continue };
            match &*kind {
                property::GVK => facts.provides.push(api(value)),
                property::GVK_REQUIRED => facts.needs.push(Need::Api(api(value))),
                property::PACKAGE_REQUIRED => facts.needs.push(package(value)),
                "olm.constraint" => facts.needs.push(constraint(value, 0)),
                "olm.deprecated" => facts.forbidden = true,
                _ => {}
            }
        }
        facts
    }
}

fn string(value: Raw<'_>, name: &str) -> String {
    value.get(name).and_then(Raw::as_str).unwrap_or_default().into_owned()
}

fn api(value: Raw<'_>) -> [String; 3] {
    ["group", "version", "kind"].map(|name| string(value, name))
}

fn package(value: Raw<'_>) -> Need {
    Need::Package(string(value, "packageName"), VersionRange::parse(&string(value, "versionRange")).ok())
}

fn constraint(value: Raw<'_>, depth: usize) -> Need {
    let parts = |value: Raw<'_>| -> Vec<Need> {
        let list = value.get("constraints").into_iter().flat_map(Raw::items);
        list.map(|part| constraint(part, depth + 1)).collect()
    };
    if depth > DEEPEST {
        return Need::Unknown;
    }
    let named = |name: &str| value.get(name).filter(|value| !value.is_null());
    if let Some(value) = named("gvk") {
        Need::Api(api(value))
    } else if let Some(value) = named("package") {
        package(value)
    } else if let Some(value) = named("all") {
        Need::All(parts(value))
    } else if let Some(value) = named("any") {
        Need::Any(parts(value))
    } else if let Some(value) = named("not") {
        Need::Not(parts(value))
    } else {
        Need::Unknown
    }
}

impl Need {
    /// Tells whether a bundle meets this; nothing when that cannot be told.
    pub fn met_by(&self, package: &str, version: Option<&Version>, facts: &Facts) -> Option<bool> {
        let parts = |parts: &[Need]| -> Vec<Option<bool>> {
            parts.iter().map(|part| part.met_by(package, version, facts)).collect()
        };
        match self {
            Need::Package(name, range) => {
                let fits = || version.zip(range.as_ref()).is_some_and(|(version, range)| range.contains(version));
                Some(name == package && fits())
            }
            Need::Api(api) => Some(facts.provides.contains(api)),
            Need::All(all) => parts(all).into_iter().try_fold(true, |all, part| part.map(|part| all && part)),
            Need::Any(any) => parts(any).into_iter().try_fold(false, |any, part| part.map(|part| any || part)),
            Need::Not(not) => parts(not).into_iter().try_fold(true, |none, part| part.map(|part| none && !part)),
            Need::Unknown => None,
        }
    }
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
            Need::Package(name, Some(range)) => write!(f, "package {name} {}", range.as_str()),
            Need::Package(name, None) => write!(f, "package {name}"),
            Need::Api([group, version, kind]) => write!(f, "{kind} ({group}/{version})"),
            Need::All(parts) => list(f, "all of ", parts),
            Need::Any(parts) => list(f, "any of ", parts),
            Need::Not(parts) => list(f, "none of ", parts),
            Need::Unknown => f.write_str("a rule that is not followed here"),
        }
    }
}
