//! The rules for bundles, and their explanations.

use std::fmt::Write as _;

/// A rule for bundles.
struct Explained {
    id: &'static str,
    /// The severity of its findings.
    severity: &'static str,
    /// The requirement.
    about: &'static str,
    /// How to fix a finding.
    fix: &'static str,
}

/// Returns all rules except those of `opm security` and `opm crd-diff`, which have their own tables.
fn rules() -> impl Iterator<Item = Explained> {
    include_str!("rules.txt").lines().filter_map(|line| {
        let mut parts = line.split('|');
        let (id, severity, about) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Explained { id, severity, about, fix: parts.next()? })
    })
}

/// Returns all rule names with a short description.
pub fn all() -> Vec<(&'static str, String)> {
    let checks = rules().map(|rule| (rule.id, rule.about.to_owned()));
    let security = crate::review::security::RULES.iter().map(|(id, about)| (*id, (*about).to_owned()));
    let crds = crate::review::crd::IDS.iter().map(|(rule, id)| (*id, format!("the rule {rule} for upgrades of CRDs")));
    checks.chain(security).chain(crds).collect()
}

/// Explains a rule; `None` if the name is unknown.
pub fn explain(name: &str) -> Option<String> {
    let mut text = String::new();
    let sentence = |about: &str| {
        let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    if let Some(Explained { severity, about, fix, .. }) = rules().find(|rule| rule.id == name) {
        let _ =
            write!(text, "{name}: a check of bundles ({severity})\n\n  {}.\n\n  To fix it: {fix}.\n", sentence(about));
    } else if let Some((_, about)) = crate::review::security::RULES.iter().find(|(id, _)| *id == name) {
        let _ = write!(
            text,
            "{name}: a finding of 'opm security'\n\n  {}.\n\n  docs/security.md has its severity; 'opm security \
             --allow {name}' accepts it.\n",
            sentence(about)
        );
    } else if let Some((rule, _)) = crate::review::crd::IDS.iter().find(|(_, id)| *id == name) {
        let _ = write!(
            text,
            "{name}: a finding of 'opm crd-diff'\n\n  The rule {rule} compares a CRD with the one before it: OLM v1 refuses \
             upgrades for most changes, whatever they mean for custom resources.\n\n  To fix it: add another version of \
             the API instead of changing this one, or set enforcement: None for one upgrade.\n"
        );
    }
    Some(text).filter(|text| !text.is_empty())
}
