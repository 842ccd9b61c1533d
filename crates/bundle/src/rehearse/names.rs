//! The names that clusters generate.

use serde_json::Value;
use sha2::{Digest, Sha224};

use crate::rehearse::ClusterRefusal;

/// The maximum length of a name that becomes part of a host name.
pub(crate) const LABEL: usize = 63;

/// Checks the name of a namespace, in the words of the API server.
pub(crate) fn check_namespace(name: &str) -> Result<(), ClusterRefusal> {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let mut faults = Vec::new();
    if !(bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|byte| inner(byte) || *byte == b'-'))
    {
        faults.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    if name.len() > LABEL {
        faults.push("must be no more than 63 characters");
    }
    if faults.is_empty() {
        return Ok(());
    }
    let message =
        format!("Namespace \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": {}", faults.join(", "));
    Err(ClusterRefusal { id: "namespace-name", message })
}

/// Joins a name and a suffix, truncating the name if the result is too long.
///
/// A total of exactly 63 bytes yields 64, as upstream does; the limits check reports it.
pub(crate) fn joined(base: &str, suffix: &str) -> String {
    if base.len() + suffix.len() <= LABEL {
        return format!("{base}-{suffix}");
    }
    let mut end = LABEL.saturating_sub(suffix.len() + 1).min(base.len());
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{suffix}", &base[..end])
}

/// Returns the name of the Service for a deployment with webhooks.
pub(crate) fn service(deployment: &str) -> String {
    joined(&deployment.replace('.', "-"), "service")
}

/// Returns the name of the Secret and Certificate of that Service.
pub(crate) fn certificate(service: &str) -> String {
    joined(service, "cert")
}

/// Returns the name of the Issuer of a Certificate.
pub(crate) fn issuer(certificate: &str) -> String {
    joined(certificate, "selfsigned-issuer")
}

/// Returns the name of a role of OLM v1: base 36 of a hash of the permission, as encoded by [`permission`].
pub(crate) fn role(csv: &str, account: &str, permission: &str) -> String {
    let hash = Sha224::digest(format!("{permission}\n").as_bytes());
    joined(&format!("{csv}-{account}"), &in_base(&hash, 36))
}

/// Encodes a permission as Go does: fields in declaration order, with HTML escapes.
pub(crate) fn permission(account: &str, rules: &[Value]) -> String {
    let mut out = String::from("{\"serviceAccountName\":");
    text(account, &mut out);
    out.push_str(",\"rules\":");
    out.push_str(&self::rules(rules));
    out.push('}');
    out
}

/// Encodes rules as Go does.
pub(crate) fn rules(rules: &[Value]) -> String {
    if rules.is_empty() {
        return "null".into();
    }
    let written: Vec<String> = rules.iter().map(rule).collect();
    format!("[{}]", written.join(","))
}

fn rule(rule: &Value) -> String {
    let mut out = String::from("{\"verbs\":");
    let list = |field: &str| rule.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts = |items: &[Value], out: &mut String| {
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            text(item.as_str().unwrap_or_default(), out);
        }
        out.push(']');
    };
    match rule.get("verbs") {
        Some(Value::Array(verbs)) => texts(verbs, &mut out),
        _ => out.push_str("null"),
    }
    for field in ["apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
        let items = list(field);
        if !items.is_empty() {
            out.push_str(&format!(",\"{field}\":"));
            texts(items, &mut out);
        }
    }
    out.push('}');
    out
}

/// Encodes a string as Go does.
pub(crate) fn text(text: &str, out: &mut String) {
    let quoted = Value::from(text).to_string();
    for c in quoted.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
}

/// Returns the hash that OLM v0 uses in names and labels: base 62 of SHA-224.
pub(crate) fn in_base62(text: &str) -> String {
    in_base(&Sha224::digest(text.as_bytes()), 62)
}

/// Formats bytes as a number.
fn in_base(bytes: &[u8], base: u32) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|&byte| byte != 0) {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / base) as u8;
            rest = value % base;
        }
        digits.push(DIGITS[rest as usize]);
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    digits.iter().rev().map(|&digit| digit as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_truncated_at_63_except_for_one_length() {
        assert_eq!(joined("a", "service"), "a-service");
        assert_eq!(joined(&"a".repeat(55), "service").len(), 63);
        assert_eq!(joined(&"a".repeat(56), "service").len(), 64);
        assert_eq!(joined(&"a".repeat(57), "service").len(), 63);
        assert_eq!(joined(&"é".repeat(57), "service").len(), 62);
        assert_eq!(service("a.b"), "a-b-service");
    }

    #[test]
    fn numbers_are_formatted_in_their_base() {
        assert_eq!(in_base(&[0, 0], 36), "0");
        assert_eq!(in_base(&[255], 36), "73");
        assert_eq!(in_base(&[1, 0], 62), "48");
    }

    #[test]
    fn permissions_are_formatted_like_in_go() {
        let rules: Value = serde_json::from_str(
            r#"[{"verbs":["get"],"apiGroups":["a<b"],"resources":[]},{"nonResourceURLs":["/x"]}]"#,
        )
        .unwrap();
        assert_eq!(
            permission("me", rules.as_array().unwrap()),
            r#"{"serviceAccountName":"me","rules":[{"verbs":["get"],"apiGroups":["a\u003cb"]},{"verbs":null,"nonResourceURLs":["/x"]}]}"#
        );
    }
}
