//! Image templates that follow the cluster's version.

use k8s_openapi::jiff::Timestamp;

use super::status::second;
use crate::views::{Condition, condition};

/// The annotation with the template.
pub(crate) const TEMPLATE: &str = "olm.catalogImageTemplate";

/// The version of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterVersion {
    pub(crate) major: String,
    pub(crate) minor: String,
    /// The git version: `v1.20.2`, with distributor suffixes.
    pub(crate) git: String,
}

/// Why a template cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageTemplateError {
    #[error("the cluster does not say what {0} is")]
    NoValue(&'static str),
    #[error("nothing is known of {{{0}")]
    UnknownVariable(String),
    #[error("{0:?} is not an image reference")]
    NotAReference(String),
}

/// Resolves a template to an image.
pub(crate) fn resolve(template: &str, version: &ClusterVersion) -> Result<String, ImageTemplateError> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let patch = version.git.split('.').nth(2).map(digits).unwrap_or_default();
    let variables = [
        ("{kube_major_version}", digits(&version.major)),
        ("{kube_minor_version}", digits(&version.minor)),
        ("{kube_patch_version}", patch),
    ];
    let mut image = template.to_owned();
    for (variable, value) in variables {
        if image.contains(variable) && value.is_empty() {
            return Err(ImageTemplateError::NoValue(variable));
        }
        image = image.replace(variable, &value);
    }
    if let Some((_, rest)) = image.split_once('{') {
        return Err(ImageTemplateError::UnknownVariable(
            rest.split_inclusive('}').next().unwrap_or_default().to_owned(),
        ));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let whole =
        !image.is_empty() && image.chars().all(allowed) && !image.starts_with('/') && !image.ends_with([':', '/', '@']);
    if whole { Ok(image) } else { Err(ImageTemplateError::NotAReference(image)) }
}

/// Returns the conditions of a template for the status.
pub(crate) fn conditions(resolved: &Result<String, ImageTemplateError>, before: &[Condition]) -> Vec<Condition> {
    let condition = |kind: &str, reason: &str, message: &str| {
        let status = if resolved.is_ok() { "True" } else { "False" };
        let old = condition(before, kind).filter(|old| old.status == status);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: old.map_or_else(|| second(Timestamp::now()), |old| old.last_transition_time.clone()),
            ..Condition::default()
        }
    };
    match resolved {
        Ok(image) => vec![
            condition("TemplatesHaveResolved", "AllTemplatesResolved", "the image is that of the template"),
            condition("ResolvedImage", "AllTemplatesResolved", image),
        ],
        Err(error) => {
            let why = error.to_string();
            vec![
                condition("TemplatesHaveResolved", "UnableToResolve", &why),
                condition("ResolvedImage", "UnableToResolve", &why),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_follows_the_version_of_the_cluster() {
        let version = ClusterVersion { major: "1".into(), minor: "20+".into(), git: "v1.20.2-gke.1".into() };
        let template = "r.test/catalog:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}";
        assert_eq!(resolve(template, &version).unwrap(), "r.test/catalog:v1.20.2");
        assert_eq!(resolve("r.test/catalog", &version).unwrap(), "r.test/catalog");
        let error = |template: &str, version: &ClusterVersion| resolve(template, version).unwrap_err().to_string();
        assert_eq!(error("r.test/c:{other}", &version), "nothing is known of {other}");
        assert_eq!(error("r test", &version), "\"r test\" is not an image reference");
        assert_eq!(
            error(template, &ClusterVersion::default()),
            "the cluster does not say what {kube_major_version} is"
        );
    }
}
