//! The rules for bundles, and their explanations.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// A rule for bundles.
struct Explained {
    /// The severity of its findings.
    severity: &'static str,
    /// The requirement.
    about: &'static str,
    /// How to fix a finding.
    fix: &'static str,
    /// The suites that reject a bundle for it. For others it is advice.
    rejecting: Vec<&'static str>,
}

/// All rules by name, except those of `opm security` and `opm crd-diff`, which have their own tables.
static RULES: LazyLock<BTreeMap<&str, Explained>> = LazyLock::new(|| {
    let rule = |line: &'static str| {
        let mut parts = line.split('|');
        let (id, severity, about, fix) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some((id, Explained { severity, about, fix, rejecting: parts.next()?.split_whitespace().collect() }))
    };
    include_str!("rules.txt").lines().filter_map(rule).collect()
});

/// How to fix any finding of `opm crd-diff`.
const CRD_FIX: &str =
    "add another version of the API instead of changing this one, or set enforcement: None for one upgrade";

fn is_crd_rule(name: &str) -> bool {
    crate::review::crd::IDS.iter().any(|(_, id)| *id == name)
}

/// Returns how to fix a finding of a rule; empty if its command explains that.
pub(crate) fn fix(name: &str) -> &'static str {
    match RULES.get(name) {
        Some(rule) => rule.fix,
        None if is_crd_rule(name) => CRD_FIX,
        None => "",
    }
}

/// Returns the suites that reject a bundle for an error of a rule.
pub(crate) fn rejecting(name: &str) -> &'static [&'static str] {
    match RULES.get(name) {
        Some(rule) => &rule.rejecting,
        None if is_crd_rule(name) => &["olm-v0", "olm-v1"],
        None => &[],
    }
}

/// Returns all rule names with a short description.
pub fn all() -> Vec<(&'static str, String)> {
    let checks = RULES.iter().map(|(id, rule)| (*id, rule.about.to_owned()));
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
    if let Some(Explained { severity, about, fix, rejecting }) = RULES.get(name) {
        let about = sentence(about);
        let _ = write!(text, "{name}: a check of bundles ({severity})\n\n  {about}.\n\n  To fix it: {fix}.\n");
        if !rejecting.is_empty() {
            let _ = write!(text, "\n  Suites that reject a bundle for it: {}.\n", rejecting.join(", "));
        }
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
             upgrades for most changes, whatever they mean for custom resources.\n\n  To fix it: {CRD_FIX}.\n"
        );
    }
    Some(text).filter(|text| !text.is_empty())
}
