//! The names of the objects of a run.

/// The field manager.
pub const FIELD_MANAGER: &str = "operator-sdk";
/// The channel of the bundle.
pub const CHANNEL: &str = "operator-sdk-run-bundle";
/// The OperatorGroup created if there is none.
pub const OPERATOR_GROUP: &str = "operator-sdk-og";
/// The label with the run that created an object.
pub const RUN_LABEL: &str = "opm.run/id";
/// The port of the registry.
pub const PORT: u16 = 50051;

/// Maximum length of a DNS label.
const LABEL: usize = 63;

/// Returns whether a text is a DNS label, as names of namespaces and volumes must be.
pub fn is_dns_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= LABEL
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| plain(*byte))
        && bytes.last().is_some_and(|byte| plain(*byte))
}

/// Converts a text for use in names: lowercase, with hyphens in place of other characters than letters and digits.
pub fn dns(text: &str) -> String {
    if is_dns_label(text) {
        return text.to_owned();
    }
    let parts: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    parts.join("-")
}

/// Keeps the last 63 characters of a name, without hyphens at its ends.
pub fn trim63(text: &str) -> &str {
    let skipped = text.chars().count().saturating_sub(LABEL);
    if skipped == 0 {
        return text;
    }
    let start = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
    text[start..].trim_matches('-')
}

/// Returns the name of the CatalogSource of a package.
pub fn catalog_source(package: &str) -> String {
    format!("{package}-catalog")
}

/// Returns the name of the Subscription to a CSV.
pub fn subscription(csv: &str) -> String {
    format!("{}-sub", dns(csv))
}

/// Returns the name of the pod that serves the catalog of a bundle.
pub fn pod(bundle_image: &str) -> String {
    trim63(&dns(bundle_image)).to_owned()
}

/// Returns the name prefix of the ConfigMaps of a catalog.
pub fn config_map_prefix(catalog_source: &str) -> String {
    format!("{catalog_source}-configmap-partition-")
}

/// Returns the catalog directory in the pod.
pub fn catalog_root(catalog_source: &str) -> String {
    format!("/{catalog_source}-configs")
}

/// Returns a unique ID for this run.
pub fn run_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    // The system's randomness seeds each of these.
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_named_after_its_image() {
        assert_eq!(
            pod("quay.io/example/example-operator-bundle:0.2.0"),
            "quay-io-example-example-operator-bundle-0-2-0"
        );
        assert_eq!(dns("already-fine-1"), "already-fine-1");
        assert_eq!(dns("__A..B//c-"), "a-b-c");
        assert_eq!(dns(""), "");
    }

    #[test]
    fn long_names_keep_their_end() {
        let digest = "0123456789abcdef".repeat(4);
        let name = pod(&format!("quay.io/example/bundle@sha256:{digest}"));
        assert_eq!(name, digest[1..]);
        let long = format!("{}-{}", "a".repeat(40), "b".repeat(62));
        assert_eq!(trim63(&long), "b".repeat(62));
        assert_eq!(trim63("-short-"), "-short-");
    }

    #[test]
    fn the_subscription_is_named_after_its_version() {
        assert_eq!(subscription("foo.v1.2.3"), "foo-v1-2-3-sub");
    }

    #[test]
    fn run_ids_are_unique() {
        assert_ne!(run_id(), run_id());
        assert_eq!(run_id().len(), 16);
    }
}
