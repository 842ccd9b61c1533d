//! Every rule on the semantics of catalogs, with a catalog that violates it and a similar one that does not.

mod cases;

use std::collections::BTreeSet;
use std::fs;

use catalog::rules::RULES;
use catalog::{Warnings, check, inspect};
use fbc::locate::Locator;
use fbc::{Fbc, LoadOptions};

use cases::{CASES, Changes};

/// A catalog without any problem.
const VALID: &str = "\
schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
- name: foo.v2.0.0
  replaces: foo.v1.0.0
---
schema: olm.bundle
package: foo
name: foo.v1.0.0
image: r.io/foo:v1
properties:
- type: olm.package
  value: {packageName: foo, version: 1.0.0}
---
schema: olm.bundle
package: foo
name: foo.v2.0.0
image: r.io/foo:v2
properties:
- type: olm.package
  value: {packageName: foo, version: 2.0.0}
relatedImages:
- {name: main, image: r.io/main:v2}
---
schema: olm.deprecations
package: foo
entries:
- reference: {schema: olm.bundle, name: foo.v1.0.0}
  message: old
";

fn changed(changes: Changes) -> String {
    changes.iter().fold(VALID.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} is not in the catalog");
        text.replacen(from, to, 1)
    })
}

/// Returns the problems of a catalog: rule, line and column, message.
fn problems(text: &str) -> Vec<(String, String, String)> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("catalog.yaml"), text).unwrap();
    let mut fbc = Fbc::default();
    let inspect_options = inspect(Warnings::Off);
    let options = LoadOptions { inspect: Some(&inspect_options), ..LoadOptions::default() };
    let loaded = fbc.load_dir(dir.path(), &options).unwrap();
    let checked = check(&fbc, loaded, Warnings::Off);
    assert_eq!(checked.problems().is_empty(), checked.catalog.is_ok());
    let mut locator = Locator::new(&fbc);
    let place = |problem: &fbc::Problem, locator: &mut Locator<'_>| {
        let located = problem.place.as_ref().and_then(|place| locator.locate(place));
        located.map(|located| format!("{}:{}", located.line, located.column)).unwrap_or_default()
    };
    let shown =
        |problem: &fbc::Problem| (problem.rule.to_owned(), place(problem, &mut locator), problem.message.clone());
    checked.problems().iter().map(shown).collect()
}

#[test]
fn each_rule_reports_its_violation_with_a_position() {
    for case in CASES {
        let found = problems(&changed(case.breaks));
        let expected = (case.rule.to_owned(), case.place.to_owned(), case.message.to_owned());
        assert!(found.contains(&expected), "{}: {found:#?}", case.rule);
    }
}

#[test]
fn each_rule_accepts_a_similar_valid_catalog() {
    assert_eq!(problems(VALID), []);
    for case in CASES {
        assert_eq!(problems(&changed(case.passes)), [], "{}", case.rule);
    }
}

#[test]
fn every_rule_has_a_case() {
    let cases: BTreeSet<&str> = CASES.iter().map(|case| case.rule).collect();
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(cases, rules);
}
