//! CEL rules, constraints of bundles, and the version ranges of OLM v1.

use catalog::needs::{BundleNeeds, Need};
use fbc::json::Raw;
use fbc::version::Version;
use olm_cel::CelRule;
use resolve::masterminds::MastermindsRange;

const PROPERTIES: &str = r#"[{"type":"olm.package","value":{"packageName":"p","version":"1.2.3"}},
    {"type":"a","value":"b"},{"type":"n","value":{"count":3,"list":[1,2],"null":null}}]"#;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match CelRule::compile(text) {
        Ok(rule) => {
            let first = rule.holds(PROPERTIES);
            assert_eq!(rule.holds(PROPERTIES), first, "the same rule gives another result");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(raw) = Raw::parse(text, 1_000) {
        let need = Need::read(raw);
        assert!(!need.to_string().is_empty());
        let met = need.met_by("p", None, &BundleNeeds::default(), &|_| None);
        assert!(!matches!(need, Need::Broken(_)) || met.is_none());
    }
    if let Ok(range) = MastermindsRange::parse(text) {
        assert_eq!(range.as_str(), text);
        for version in ["1.2.3", "0.0.1-rc.1"].into_iter().filter_map(|text| Version::parse_strict(text).ok()) {
            range.contains(&version);
        }
    }
}
