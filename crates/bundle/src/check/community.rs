//! Requirements of the community operators repository.

use fbc::version::Version;
use serde_json::Value;

use super::csv::annotation as annotation_pointer;
use super::suites::CheckInput;
use super::{Collector, removed_apis};
use crate::pointer::{list, text};

/// The first OpenShift version without the APIs that Kubernetes 1.22 removed.
const LIMIT: (u64, u64) = (4, 9);
const LABEL: &str = "com.redhat.openshift.versions";

/// Checks the OpenShift versions of a bundle that uses APIs removed in Kubernetes 1.22.
pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(csv) = input.csv() else { return };
    if removed_apis::used(input, 22).is_empty() {
        return;
    }
    findings.set_object(csv);
    let place = annotation_pointer("olm.properties");
    let error = |text: String| format!("Error: Value : ({}) {text}", csv.name());
    let properties = csv.value.pointer("/metadata/annotations").and_then(|all| all.get("olm.properties")?.as_str());
    match properties {
        None => {
            let text = "csv.Annotations not specified olm.maxOpenShiftVersion for an OCP version < 4.9. This annotation is \
                        required to prevent the user from upgrading their OCP cluster before they have installed a version \
                        of their operator which is compatible with 4.9. For further information see \
                        https://docs.openshift.com/container-platform/4.8/operators/operator_sdk/osdk-working-bundle-images.html#osdk-control-compat_osdk-working-bundle-images";
            findings.error("community-max-openshift", "/metadata/annotations", error(text.into()));
        }
        Some(text) => check_maximum(text, &error, place, findings),
    }
    check_index(input, &error, findings);
}

fn check_maximum(text_of: &str, error: &dyn Fn(String) -> String, place: String, findings: &mut Collector) {
    const ID: &str = "community-max-openshift";
    let listed = serde_json::from_str::<Value>(text_of).ok().filter(|listed| {
        let fits = |item: &Value| item.get("type").is_some_and(Value::is_string);
        listed.as_array().is_some_and(|items| items.iter().all(fits))
    });
    let Some(listed) = listed else {
        let text = format!(
            "csv.Annotations has an invalid value specified for olm.properties. Please, check the value ({text_of})"
        );
        findings.error(ID, place, error(text));
        return;
    };
    let maximum = list(&listed, "").iter().find(|item| text(item, "/type") == "olm.maxOpenShiftVersion");
    let Some(maximum) = maximum.map(|item| text(item, "/value")) else {
        let text = "csv.Annotations.olm.properties with the key `olm.maxOpenShiftVersion` and a value with an OCP version \
                    which is < 4.9 is required for any operator bundle that is using APIs which were deprecated and removed \
                    in Kubernetes 1.22";
        findings.error(ID, place, error(text.into()));
        return;
    };
    match Version::parse_tolerant(maximum) {
        Err(why) => {
            let text = format!(
                "csv.Annotations.olm.properties has an invalid value. Unable to parse ({maximum}) using semver : {why}"
            );
            findings.error(ID, place, error(text));
        }
        Ok(version) if maximum.trim_start_matches('v').split('.').count() > 2 => {
            let text = format!(
                "Warning: Value : csv.Annotations.olm.properties with the key olm.maxOpenShiftVersion must specify only \
                 major.minor versions, {maximum} will be truncated to {}.{}",
                version.major(),
                version.minor()
            );
            findings.warning(ID, place, text);
        }
        Ok(version) if (version.major(), version.minor()) >= LIMIT => {
            let text = format!(
                "csv.Annotations.olm.properties with the key and value for olm.maxOpenShiftVersion has the OCP version value \
                 {maximum} which is >= of 4.9. This value must be < 4.9"
            );
            findings.error(ID, place, error(text));
        }
        Ok(_) => {}
    }
}

fn check_index(input: &CheckInput<'_>, error: &dyn Fn(String) -> String, findings: &mut Collector) {
    const ID: &str = "community-index";
    let content = match &input.index {
        None => {
            let text = "Warning: Value : please, inform the path of its index image file via the the optional key values and \
                        the key index-path to allow this validator check the labels configuration or migrate the API(s)";
            findings.warning(ID, "", text);
            return;
        }
        Some((path, Err(why))) => {
            findings.error(ID, "", error(format!("the index image in the path ({path}) was not found. Please, inform the path of the bundle operator index image via the optional key values and the key index-path. {why}")));
            return;
        }
        Some((_, Ok(content))) => content,
    };
    let Some(line) = content.lines().find(|line| line.contains(LABEL)) else {
        let text = format!(
            "this bundle is using APIs which were deprecated and removed in v1.22. You must provide compatible version(s) or \
             migrate the API(s): the label {LABEL} is missing"
        );
        findings.error(ID, "", error(text));
        return;
    };
    let Some((_, value)) = line.split_once(LABEL).and_then(|(_, rest)| rest.split_once('=')) else {
        findings.error(ID, "", error(format!("invalid syntax ({}) for ({LABEL})", line.trim())));
        return;
    };
    let value = value.trim().trim_matches('"');
    let upper = match value.strip_prefix('=') {
        Some(exact) => Some(exact),
        None => value.split_once('-').map(|(_, upper)| upper),
    };
    let upper = upper.map(|upper| Version::parse_tolerant(upper.trim_start_matches('v')));
    match upper {
        Some(Ok(version)) if (version.major(), version.minor()) < LIMIT => {}
        Some(Err(_)) => findings.error(ID, "", error(format!("unable to parse the value ({value}) on ({LABEL})"))),
        _ => {
            let text = format!(
                "this bundle is using APIs which were deprecated and removed in v1.22. The upper end of {LABEL} ({value}) \
                 must be < 4.9"
            );
            findings.error(ID, "", error(text));
        }
    }
}

/// Checks the fields that the community pipeline requires.
pub(super) fn check_fields(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let csv = &object.value;
    let count = |pointer: &str| text(csv, pointer).chars().count();
    let mut required = |id, pointer: &str, good: bool, what: &str| {
        if !good {
            findings.error(id, pointer, format!("{what} ({pointer})"));
        }
    };
    let named = count("/spec/displayName");
    required(
        "field-display-name",
        "/spec/displayName",
        (3..=50).contains(&named),
        "displayName has 3 to 50 characters",
    );
    required(
        "field-description",
        "/spec/description",
        count("/spec/description") >= 20,
        "description has 20 characters or more",
    );
    required("field-icon", "/spec/icon", !list(csv, "/spec/icon").is_empty(), "an icon is needed");
    required(
        "field-version",
        "/spec/version",
        Version::parse_strict(text(csv, "/spec/version")).is_ok(),
        "version is a semantic version",
    );
    required(
        "field-maintainers",
        "/spec/maintainers",
        !list(csv, "/spec/maintainers").is_empty(),
        "a maintainer is needed",
    );
    required(
        "field-provider",
        "/spec/provider",
        count("/spec/provider/name") >= 3,
        "the provider's name has 3 characters or more",
    );
    required("field-links", "/spec/links", !list(csv, "/spec/links").is_empty(), "a link is needed");
    let annotations = csv.pointer("/metadata/annotations");
    for key in ["capabilities", "categories", "containerImage", "createdAt", "repository", "support", "description"] {
        let found = annotations.and_then(|all| all.get(key)?.as_str()).unwrap_or_default();
        let good = if key == "description" { found.chars().count() >= 10 } else { !found.is_empty() };
        if !good {
            let what = if key == "description" { "has 10 characters or more" } else { "is recommended" };
            findings.warning("field-annotation", annotation_pointer(key), format!("annotation {key} {what}"));
        }
    }
    if list(csv, "/spec/keywords").is_empty() {
        findings.warning("field-keywords", "/spec/keywords", "keywords are recommended");
    }
}
