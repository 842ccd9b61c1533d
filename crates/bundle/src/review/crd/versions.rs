//! The order of API versions: v1alpha1, v1beta1, v1, v2.

use std::cmp::Ordering;

/// Compares two versions as Kubernetes does; invalid version names come first, by name.
pub(super) fn order(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => a.cmp(b),
    }
}

/// Returns stability, major and minor number; GA ranks above beta, beta above alpha.
fn parse(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some(minor) = rest.strip_prefix(word) {
            return Some((stability, major, minor.parse().ok()?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_kubernetes() {
        let mut names = ["v2", "foo", "v1beta2", "v1", "v11alpha2", "v1beta1", "v1alpha10", "bar", "v1alpha2"];
        names.sort_by(|a, b| order(a, b));
        assert_eq!(names, ["bar", "foo", "v1alpha2", "v1alpha10", "v11alpha2", "v1beta1", "v1beta2", "v1", "v2"]);
    }
}
