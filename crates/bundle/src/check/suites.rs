//! Validators that can be selected by name or suite.

use std::io;

use super::bundle::PlatformsError;
use super::hub::Categories;
use super::{
    Collector, author, certified, community, good_practices, hub, image_exists, multiarch, objects, openshift,
    operator_group, pod_security, removed_apis, schema, scorecard, whole_bundle,
};
use crate::whole::{BundleObject, ParsedBundle};

/// The bundle to check, with further input.
pub(super) struct CheckInput<'a> {
    pub(super) whole: &'a ParsedBundle,
    /// The Kubernetes version that the bundle targets, as given by the user.
    pub(super) kubernetes: Option<&'a str>,
    /// The total size of all files in bytes, and their size as OLM v0 stores them: compressed, in base64.
    pub(super) size: (u64, u64),
    /// The Dockerfile of the bundle's index, if given: its path, and its text if it can be read.
    pub(super) index: Option<(&'a str, io::Result<String>)>,
    /// Looks up the platforms of an image: operating systems with architectures. `None` disables image lookups.
    pub(super) platforms: Option<&'a PlatformsOf<'a>>,
    /// The container tool given by the user.
    pub(super) container_tool: Option<&'a str>,
    /// The categories to accept instead of the standard ones.
    pub(super) categories: Option<&'a Categories>,
}

/// Looks up the platforms of an image within one check, which remembers them.
type PlatformsOf<'a> = dyn Fn(&str) -> Result<Vec<(String, String)>, PlatformsError> + 'a;

impl<'a> CheckInput<'a> {
    /// Creates the input for a bundle of `size`, without optional data.
    pub(super) fn new(whole: &'a ParsedBundle, size: (u64, u64)) -> CheckInput<'a> {
        CheckInput {
            whole,
            kubernetes: None,
            size,
            index: None,
            platforms: None,
            container_tool: None,
            categories: None,
        }
    }
}

impl CheckInput<'_> {
    /// Returns the first CSV, which is the one that the existing tools check.
    pub(super) fn csv(&self) -> Option<&BundleObject> {
        self.whole.csv()
    }
}

/// A selectable check.
pub struct Validator {
    pub name: &'static str,
    /// The suites that contain it.
    pub suites: &'static [&'static str],
    /// Whether operator-sdk has a validator with this name.
    pub optional: bool,
    /// What it checks.
    pub about: &'static str,
    run: fn(&CheckInput<'_>, &mut Collector),
}

/// All validators.
pub const VALIDATORS: &[Validator] = &[
    Validator {
        name: "bundle",
        suites: &["olm-v0", "community", "certified"],
        optional: false,
        about: "owned CRDs, names with a release, accounts, the size of the bundle, related images",
        run: whole_bundle::check,
    },
    Validator {
        name: "operatorhubv2",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "what operatorhub.io asks of a CSV",
        run: |input, findings| on_csv(input, findings, hub::check_common),
    },
    Validator {
        name: "capabilities",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "the annotation capabilities",
        run: |input, findings| on_csv(input, findings, hub::check_capabilities),
    },
    Validator {
        name: "categories",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "the annotation categories",
        run: |input, findings| {
            on_csv(input, findings, |csv, findings| hub::check_categories(csv, input.categories, findings));
        },
    },
    Validator {
        name: "operatorhub",
        suites: &[],
        optional: true,
        about: "operatorhubv2, capabilities and categories together; deprecated",
        run: |input, findings| {
            on_csv(input, findings, |csv, findings| hub::check(csv, input.categories, findings));
            let text = "Warning: : The \"operatorhub\" validator is deprecated; for equivalent validation use \"operatorhub/v2\", \
                        \"standardcapabilities\" and \"standardcategories\" validators";
            findings.warning("hub-deprecated", "", text);
        },
    },
    Validator {
        name: "community",
        suites: &["community"],
        optional: true,
        about: "the OpenShift versions of bundles that use APIs removed in Kubernetes 1.22; deprecated",
        run: community::check,
    },
    Validator {
        name: "alpha-deprecated-apis",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "APIs that newer versions of Kubernetes removed",
        run: removed_apis::check,
    },
    Validator {
        name: "removed-apis",
        suites: &["olm-v0", "olm-v1", "community", "certified"],
        optional: false,
        about: "APIs that Kubernetes 1.16, 1.27, 1.29 and 1.32 removed",
        run: removed_apis::check_unchecked,
    },
    Validator {
        name: "multiarch",
        suites: &[],
        optional: true,
        about: "whether images are for the platforms that the CSV names; asks their registries",
        run: multiarch::check,
    },
    Validator {
        name: "images",
        suites: &[],
        optional: false,
        about: "whether registries have all images; asks them",
        run: image_exists::check,
    },
    Validator {
        name: "pod-security",
        suites: &["olm-v0", "olm-v1", "community", "certified"],
        optional: false,
        about: "whether the suggested namespace allows what pods do",
        run: pod_security::check,
    },
    Validator {
        name: "scorecard",
        suites: &["certified"],
        optional: false,
        about: "examples, schemas, resources and descriptors, as the OLM tests of scorecard require them",
        run: scorecard::check,
    },
    Validator {
        name: "operator-group",
        suites: &["community", "certified"],
        optional: false,
        about: "annotations of OperatorGroups",
        run: operator_group::check,
    },
    Validator {
        name: "network-policy",
        suites: &["community", "certified"],
        optional: false,
        about: "no NetworkPolicy, which the public pipelines refuse",
        run: operator_group::check_network_policy,
    },
    Validator {
        name: "good-practices",
        suites: &["operatorframework", "community"],
        optional: true,
        about: "resource requests, channel names, descriptions, names of versions, permissions to create CRDs",
        run: good_practices::check,
    },
    Validator {
        name: "bundle-objects",
        suites: &["certified"],
        optional: false,
        about: "objects that harm the stability of a cluster",
        run: |input, findings| {
            for object in &input.whole.objects {
                findings.set_object(object);
                objects::check(&object.value, findings);
            }
        },
    },
    Validator {
        name: "required-fields",
        suites: &["community"],
        optional: false,
        about: "the fields that the community's pipeline requires",
        run: community::check_fields,
    },
    Validator {
        name: "certification",
        suites: &["certified"],
        optional: false,
        about: "feature annotations, related images, restricted networks, security context constraints",
        run: certified::check,
    },
    Validator {
        name: "schemas",
        suites: &["olm-v0", "olm-v1", "community", "certified"],
        optional: false,
        about: "whether schemas of CRDs are structural, and examples fit them",
        run: schema::check,
    },
    Validator {
        name: "openshift-versions",
        suites: &["community"],
        optional: false,
        about: "the versions of OpenShift that the bundle is for",
        run: openshift::check,
    },
    Validator {
        name: "marketplace",
        suites: &["marketplace"],
        optional: false,
        about: "links of the marketplace",
        run: openshift::check_marketplace,
    },
    Validator {
        name: "author",
        suites: &["olm-v0", "olm-v1", "community", "certified"],
        optional: false,
        about: "accounts that are never created, fixed namespaces, conditions, ignored namespaces, images by tag",
        run: author::check,
    },
];

/// The suites that users can select.
pub const SUITES: [&str; 5] = ["olm-v0", "olm-v1", "community", "certified", "marketplace"];

/// Runs the named validators, in the order of the table.
pub(super) fn run_validators(input: &CheckInput<'_>, names: &[&str]) -> Collector {
    let mut findings = Collector::default();
    for validator in VALIDATORS.iter().filter(|validator| names.contains(&validator.name)) {
        findings.set_file("");
        let known = findings.list.len();
        (validator.run)(input, &mut findings);
        findings.list[known..].iter_mut().for_each(|finding| finding.suites = validator.suites.to_vec());
    }
    findings
}

fn on_csv(input: &CheckInput<'_>, findings: &mut Collector, check: impl Fn(&serde_json::Value, &mut Collector)) {
    if let Some(csv) = input.csv() {
        findings.set_object(csv);
        check(&csv.value, findings);
    }
}

#[cfg(test)]
mod tests;
