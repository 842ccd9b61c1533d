//! Install modes and watched namespaces.

use std::collections::BTreeSet;

/// An install mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallModeType {
    AllNamespaces,
    /// Several namespaces.
    MultiNamespace,
    /// The namespace of the installation.
    OwnNamespace,
    /// One other namespace.
    SingleNamespace,
}

impl InstallModeType {
    /// Parses a mode from its name in CSVs.
    pub fn parse(text: &str) -> Option<InstallModeType> {
        Some(match text {
            "AllNamespaces" => InstallModeType::AllNamespaces,
            "MultiNamespace" => InstallModeType::MultiNamespace,
            "OwnNamespace" => InstallModeType::OwnNamespace,
            "SingleNamespace" => InstallModeType::SingleNamespace,
            _ => return None,
        })
    }
}

/// Formats modes as Go prints a list.
pub(crate) fn shown(modes: &[InstallModeType]) -> String {
    let names: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
    format!("[{}]", names.join(" "))
}

/// Why a bundle cannot watch namespaces, in the words of OLM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("at least one target namespace must be specified")]
    None,
    #[error("exactly one target namespace must be specified")]
    NotOne,
    #[error("supported install modes {} do not support targeting own namespace", shown(.0))]
    Own(Vec<InstallModeType>),
    #[error("supported install modes {} do not support targeting all namespaces", shown(.0))]
    All(Vec<InstallModeType>),
    #[error("supported install modes {} do not support target namespaces [{}]", shown(modes), targets.join(" "))]
    Others { modes: Vec<InstallModeType>, targets: Vec<String> },
}

/// Checks that the supported modes allow the target namespaces; returns the reason if they do not.
pub(crate) fn check_targets(modes: &[InstallModeType], namespace: &str, targets: &[String]) -> Result<(), WatchError> {
    let set: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let supports = |mode| modes.contains(&mode);
    let own = || Err(WatchError::Own(modes.to_vec()));
    match set.len() {
        0 if supports(InstallModeType::MultiNamespace) => return Err(WatchError::None),
        0 => return Err(WatchError::NotOne),
        1 if set.contains("") => {
            if supports(InstallModeType::AllNamespaces) {
                return Ok(());
            }
            return Err(WatchError::All(modes.to_vec()));
        }
        1 if set.contains(namespace) => return if supports(InstallModeType::OwnNamespace) { Ok(()) } else { own() },
        1 if supports(InstallModeType::SingleNamespace) => return Ok(()),
        1 => {}
        _ if set.contains(namespace) && !supports(InstallModeType::OwnNamespace) => return own(),
        _ if supports(InstallModeType::MultiNamespace) && !set.contains("") => return Ok(()),
        _ => {}
    }
    Err(WatchError::Others { modes: modes.to_vec(), targets: targets.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_must_match_the_modes() {
        use InstallModeType::*;
        let check = |modes: &[InstallModeType], targets: &[&str]| {
            let targets: Vec<String> = targets.iter().map(|&target| target.to_owned()).collect();
            check_targets(modes, "ns", &targets).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(check(&[AllNamespaces], &[""]), "");
        assert_eq!(check(&[OwnNamespace], &["ns"]), "");
        assert_eq!(check(&[SingleNamespace], &["other"]), "");
        assert_eq!(check(&[MultiNamespace], &["a", "b"]), "");
        assert_eq!(check(&[], &[]), "exactly one target namespace must be specified");
        assert_eq!(check(&[MultiNamespace], &[]), "at least one target namespace must be specified");
        assert_eq!(
            check(&[OwnNamespace], &[""]),
            "supported install modes [OwnNamespace] do not support targeting all namespaces"
        );
        assert_eq!(
            check(&[AllNamespaces], &["ns"]),
            "supported install modes [AllNamespaces] do not support targeting own namespace"
        );
        assert_eq!(
            check(&[MultiNamespace], &["a", "ns"]),
            "supported install modes [MultiNamespace] do not support targeting own namespace"
        );
        assert_eq!(
            check(&[AllNamespaces, OwnNamespace], &["a"]),
            "supported install modes [AllNamespaces OwnNamespace] do not support target namespaces [a]"
        );
        assert_eq!(
            check(&[MultiNamespace], &["", "a"]),
            "supported install modes [MultiNamespace] do not support target namespaces [ a]"
        );
    }
}
