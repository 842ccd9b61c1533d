//! Derives names of fields and types from the names in a catalog.

/// Returns the name of a field: characters that GraphQL does not allow separate words, which become camel case.
pub(super) fn field(name: &str) -> String {
    if name.is_empty() {
        return "value".into();
    }
    let mut out = String::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        match out.is_empty() {
            true if !part.bytes().any(|byte| byte.is_ascii_lowercase()) => out.push_str(&part.to_ascii_lowercase()),
            true => {
                out.push_str(&part[..1].to_ascii_lowercase());
                out.push_str(&part[1..]);
            }
            false => out.push_str(&capitalized(part)),
        }
    }
    if out.starts_with(|c: char| c.is_ascii_alphabetic()) { out } else { format!("field_{out}") }
}

/// Returns the type name of a schema or a field: `olm.bundle` becomes `OlmBundle`.
pub(super) fn kind(name: &str) -> String {
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let out: String = parts.map(capitalized).collect();
    match out.bytes().next() {
        None => "Unknown".into(),
        Some(first) if first.is_ascii_digit() => format!("Schema{out}"),
        Some(_) => out,
    }
}

/// Returns the name of the field that lists the blobs of a schema: `olm.bundle` becomes `olmbundles`.
pub(super) fn root(schema: &str) -> String {
    let plain: String = schema.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("field_{plain}s") } else { format!("{plain}s") }
}

fn capitalized(part: &str) -> String {
    let (first, rest) = part.split_at(1);
    first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_converted_to_valid_identifiers() {
        let fields = [
            ("defaultChannel", "defaultChannel"),
            ("csv-description", "csvDescription"),
            ("URL", "url"),
            ("CSV_Name", "csvName"),
            ("base64data", "base64data"),
            ("9lives", "field_9lives"),
            ("", "value"),
            ("é", "field_"),
            ("Name", "name"),
        ];
        for (name, wanted) in fields {
            assert_eq!(field(name), wanted, "{name}");
        }
        for (name, wanted) in [("olm.bundle", "OlmBundle"), ("1x.y", "XY"), ("_1", "Schema1"), ("é", "Unknown")] {
            assert_eq!(kind(name), wanted, "{name}");
        }
        assert_eq!((root("olm.bundle"), root("1.a")), ("olmbundles".into(), "field_1as".into()));
    }
}
