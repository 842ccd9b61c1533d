//! Install modes: the requested and supported namespaces of an operator.

use std::fmt;

use fbc::fault::{Class, Fault};
use fbc::quote::quote;

use super::names::is_dns_label;

/// Why an install mode cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallModeError {
    /// No such type exists.
    #[error("unknown install mode type")]
    Unknown,
    /// The number of namespaces does not match the type.
    #[error("install mode {} must have {expected}", quote(mode.name()))]
    Count {
        mode: ModeType,
        /// What it requires.
        expected: &'static str,
    },
    /// The only namespace is the operator's own.
    #[error("use install mode {} to watch operator's namespace {}", quote("OwnNamespace"), quote(_0))]
    Own(String),
    /// A name cannot be one of a namespace.
    #[error(
        "invalid target namespace {}: expected lowercase letters, digits and '-', at most 63 characters, with a \
         letter or digit at both ends",
        quote(_0)
    )]
    Namespace(String),
    /// The operator supports no install mode.
    #[error("operator {} is not installable: no supported install modes", quote(_0))]
    NotInstallable(String),
    /// The CSV declares the type as not supported.
    #[error("install mode type {} not supported in CSV {}", quote(mode.name()), quote(csv))]
    NotSupported {
        /// The requested type.
        mode: ModeType,
        /// The name of the CSV.
        csv: String,
    },
    /// OLM v1 knows fewer modes.
    #[error("--olm v1 does not support --install-mode {_0}: an operator watches all namespaces, its own, or one")]
    NotInV1(InstallMode),
    /// The CSV does not mention the type.
    #[error("operator {} does not support install mode {}", quote(csv), quote(mode.name()))]
    NotListed {
        /// The requested type.
        mode: ModeType,
        /// The name of the CSV.
        csv: String,
    },
}

impl Fault for InstallModeError {
    fn class(&self) -> Class {
        match self {
            InstallModeError::NotInV1(_) => Class::Usage,
            _ => Class::Refused,
        }
    }
}

/// The type of an install mode, as in CSVs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeType {
    /// It watches its own namespace.
    OwnNamespace,
    /// It watches one other namespace.
    SingleNamespace,
    /// It watches several namespaces.
    MultiNamespace,
    /// It watches all namespaces.
    AllNamespaces,
}

impl ModeType {
    /// All types in order of preference.
    const PREFERRED: [ModeType; 4] =
        [ModeType::AllNamespaces, ModeType::OwnNamespace, ModeType::SingleNamespace, ModeType::MultiNamespace];

    fn name(self) -> &'static str {
        match self {
            ModeType::OwnNamespace => "OwnNamespace",
            ModeType::SingleNamespace => "SingleNamespace",
            ModeType::MultiNamespace => "MultiNamespace",
            ModeType::AllNamespaces => "AllNamespaces",
        }
    }

    /// Finds a type by name.
    pub fn named(name: &str) -> Option<ModeType> {
        ModeType::PREFERRED.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for ModeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A requested install mode: a type, and the namespaces to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallMode {
    pub mode: ModeType,
    /// The namespaces, sorted.
    pub namespaces: Vec<String>,
}

impl InstallMode {
    /// Parses `TYPE[=ns1,ns2]`.
    ///
    /// # Errors
    /// Fails if the type is unknown.
    pub fn parse(text: &str) -> Result<InstallMode, InstallModeError> {
        let (mode, namespaces) = text.split_once('=').unwrap_or((text, ""));
        let mode = ModeType::named(mode.trim()).ok_or(InstallModeError::Unknown)?;
        let mut namespaces: Vec<String> =
            namespaces.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        namespaces.sort();
        namespaces.dedup();
        Ok(InstallMode { mode, namespaces })
    }

    /// Returns the install mode of an operator in the namespace `own` that watches these namespaces; none means all.
    pub(crate) fn watching(namespaces: &[String], own: &str) -> InstallMode {
        let (mode, namespaces) = match namespaces {
            [] => (ModeType::AllNamespaces, Vec::new()),
            [one] if one == own => (ModeType::OwnNamespace, Vec::new()),
            [one] => (ModeType::SingleNamespace, vec![one.clone()]),
            several => (ModeType::MultiNamespace, several.to_vec()),
        };
        InstallMode { mode, namespaces }
    }

    /// Checks that the namespaces match the type, for an operator in `own`.
    fn check(&self, own: &str) -> Result<(), InstallModeError> {
        let to_error = |expected| Err(InstallModeError::Count { mode: self.mode, expected });
        match (self.mode, self.namespaces.as_slice()) {
            (ModeType::AllNamespaces | ModeType::OwnNamespace, [_, ..]) => to_error("zero target namespaces"),
            (ModeType::SingleNamespace, [one]) if one == own => Err(InstallModeError::Own(own.to_owned())),
            (ModeType::SingleNamespace, [] | [_, _, ..]) => to_error("exactly one target namespace"),
            (ModeType::MultiNamespace, []) => to_error("at least one target namespace"),
            _ => match self.namespaces.iter().find(|name| !is_dns_label(name)) {
                Some(name) => Err(InstallModeError::Namespace(name.clone())),
                None => Ok(()),
            },
        }
    }
}

impl fmt::Display for InstallMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        if self.namespaces.is_empty() { Ok(()) } else { write!(f, "={}", self.namespaces.join(",")) }
    }
}

/// The namespaces that an operator will watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// The namespaces; empty means all, `None` means that the user must name them.
    pub namespaces: Option<Vec<String>>,
    /// The requested install mode.
    pub asked: Option<InstallMode>,
    /// A warning for the user.
    pub warning: Option<&'static str>,
    /// The type in use.
    pub mode: ModeType,
}

impl Targets {
    /// Decides which namespaces the operator `csv` in the namespace `own` watches; `modes` are its supported install
    /// modes.
    ///
    /// # Errors
    /// Fails if the requested mode is invalid or not supported.
    pub fn decide(
        asked: Option<&InstallMode>,
        modes: &[(String, bool)],
        csv: &str,
        own: &str,
    ) -> Result<Targets, InstallModeError> {
        if let Some(asked) = asked {
            asked.check(own)?;
        }
        let supported: Vec<ModeType> =
            modes.iter().filter(|(_, supported)| *supported).filter_map(|(name, _)| ModeType::named(name)).collect();
        if supported.is_empty() {
            return Err(InstallModeError::NotInstallable(csv.to_owned()));
        }
        let mode = match asked {
            Some(asked) if supported.contains(&asked.mode) => asked.mode,
            Some(asked) if modes.iter().any(|(name, _)| name == asked.mode.name()) => {
                return Err(InstallModeError::NotSupported { mode: asked.mode, csv: csv.to_owned() });
            }
            Some(asked) => return Err(InstallModeError::NotListed { mode: asked.mode, csv: csv.to_owned() }),
            None => {
                let first = ModeType::PREFERRED.into_iter().find(|mode| supported.contains(mode));
                first.unwrap_or(ModeType::AllNamespaces)
            }
        };
        let named = asked.map(|asked| asked.namespaces.clone());
        let namespaces = match mode {
            ModeType::AllNamespaces => Some(Vec::new()),
            ModeType::OwnNamespace => Some(vec![own.to_owned()]),
            ModeType::SingleNamespace | ModeType::MultiNamespace => named,
        };
        let warning = (mode == ModeType::MultiNamespace)
            .then_some("The selected install mode MultiNamespace may cause tenancy issues and is not recommended");
        Ok(Targets { namespaces, asked: asked.cloned(), warning, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(supported: &[&str]) -> Vec<(String, bool)> {
        ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .iter()
            .map(|name| ((*name).to_owned(), supported.contains(name)))
            .collect()
    }

    fn decide(requested: &str, supported: &[&str]) -> Result<Option<Vec<String>>, InstallModeError> {
        let requested = InstallMode::parse(requested)?;
        Targets::decide(Some(&requested), &modes(supported), "foo.v1", "own").map(|targets| targets.namespaces)
    }

    #[test]
    fn target_namespaces_must_match_the_mode() {
        let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let refused = |requested: &str| decide(requested, &all).unwrap_err().to_string();
        assert_eq!(refused("Nowhere"), "unknown install mode type");
        assert_eq!(refused("AllNamespaces=a"), "install mode \"AllNamespaces\" must have zero target namespaces");
        assert_eq!(refused("OwnNamespace=a"), "install mode \"OwnNamespace\" must have zero target namespaces");
        assert_eq!(
            refused("SingleNamespace=a,b"),
            "install mode \"SingleNamespace\" must have exactly one target namespace"
        );
        assert_eq!(
            refused("SingleNamespace=own"),
            "use install mode \"OwnNamespace\" to watch operator's namespace \"own\""
        );
        assert_eq!(
            refused("MultiNamespace"),
            "install mode \"MultiNamespace\" must have at least one target namespace"
        );
        assert!(refused("MultiNamespace=a,B").starts_with("invalid target namespace \"B\": "));
        assert_eq!(decide("MultiNamespace=b, a", &all).unwrap(), Some(vec!["a".into(), "b".into()]));
        assert_eq!(decide("OwnNamespace", &all).unwrap(), Some(vec!["own".into()]));
        assert_eq!(decide("AllNamespaces", &all).unwrap(), Some(vec![]));
    }

    #[test]
    fn only_supported_modes_are_accepted() {
        assert_eq!(
            decide("AllNamespaces", &["OwnNamespace"]).unwrap_err().to_string(),
            "install mode type \"AllNamespaces\" not supported in CSV \"foo.v1\""
        );
        let some = [("OwnNamespace".to_owned(), true)];
        let requested = InstallMode::parse("AllNamespaces").unwrap();
        assert_eq!(
            Targets::decide(Some(&requested), &some, "foo.v1", "own").unwrap_err().to_string(),
            "operator \"foo.v1\" does not support install mode \"AllNamespaces\""
        );
        assert_eq!(
            Targets::decide(None, &[], "foo.v1", "own").unwrap_err().to_string(),
            "operator \"foo.v1\" is not installable: no supported install modes"
        );
    }

    #[test]
    fn the_widest_supported_type_is_chosen() {
        let chosen = |supported: &[&str]| {
            let targets = Targets::decide(None, &modes(supported), "foo.v1", "own").unwrap();
            (targets.mode, targets.namespaces)
        };
        assert_eq!(chosen(&["OwnNamespace", "AllNamespaces"]), (ModeType::AllNamespaces, Some(vec![])));
        assert_eq!(chosen(&["SingleNamespace", "OwnNamespace"]), (ModeType::OwnNamespace, Some(vec!["own".into()])));
        assert_eq!(chosen(&["MultiNamespace", "SingleNamespace"]), (ModeType::SingleNamespace, None));
    }
}
