//! Sanitizes links of foreign text.

/// The base of relative links.
#[derive(Debug, Clone, Default)]
pub struct LinkBase {
    /// The URL of a repository on a known code host, with a trailing slash.
    repository: Option<String>,
}

/// Code hosts with URLs for files in repositories.
const HOSTS: [&str; 3] = ["github.com", "gitlab.com", "codeberg.org"];

impl LinkBase {
    /// Uses the repository of an operator as base, if its host is known.
    pub fn of_repository(repository: &str) -> LinkBase {
        let trimmed = repository.trim().trim_end_matches('/').trim_end_matches(".git");
        let known = trimmed
            .strip_prefix("https://")
            .and_then(|rest| rest.split_once('/'))
            .is_some_and(|(host, path)| HOSTS.contains(&host) && path.split('/').count() == 2 && is_plain(path));
        LinkBase { repository: known.then(|| format!("{trimmed}/blob/HEAD/")) }
    }
}

fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

/// Returns the target of a link, if it is allowed.
pub fn safe(target: &str, base: &LinkBase) -> Option<String> {
    let clean: String = target.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
    if clean.is_empty() || clean.len() > 4096 {
        return None;
    }
    if clean.starts_with('#') {
        return None;
    }
    if let Some((scheme, rest)) = clean.split_once(':')
        && !scheme.contains(['/', '?', '#'])
    {
        let scheme = scheme.to_ascii_lowercase();
        let address = match scheme.as_str() {
            "http" | "https" => rest.strip_prefix("//").filter(|rest| !rest.starts_with(['/', '?', '#'])).is_some(),
            "mailto" => rest.contains('@') && !rest.starts_with("//"),
            _ => false,
        };
        return address.then(|| format!("{scheme}:{rest}"));
    }
    if clean.starts_with("//") || clean.starts_with('\\') {
        return None;
    }
    let repository = base.repository.as_deref()?;
    let path = clean.trim_start_matches('/').trim_start_matches("./");
    (!path.split('/').any(|part| part == "..")).then(|| format!("{repository}{path}"))
}

/// Returns the host of a URL.
pub(super) fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// Returns whether a URL is an embedded image of a format without active content.
pub(super) fn is_picture(address: &str) -> bool {
    ["data:image/png;base64,", "data:image/jpeg;base64,", "data:image/gif;base64,", "data:image/webp;base64,"]
        .iter()
        .filter_map(|kind| address.strip_prefix(kind))
        .any(|data| data.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b)))
}

/// Finds the first URL in plain text: the text before it, the URL, the text after it.
pub(super) fn bare(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("http")?;
        let rest = &text[at..];
        let behind_word = text[..at].ends_with(|c: char| c.is_alphanumeric());
        if !behind_word && (rest.starts_with("http://") || rest.starts_with("https://")) {
            let stop = |c: char| c.is_whitespace() || c.is_control() || "<>\"'`|\\^{}".contains(c);
            let mut end = rest.find(stop).unwrap_or(rest.len());
            // Trailing punctuation, or a closing bracket that was opened before the URL, is not part of it.
            while let Some(last) = rest[..end].chars().next_back() {
                let unmatched = last == ')' && rest[..end].matches(')').count() > rest[..end].matches('(').count();
                if ".,;:!?]*_".contains(last) || unmatched {
                    end -= last.len_utf8();
                } else {
                    break;
                }
            }
            if end > "https://".len() {
                return Some((&text[..at], &rest[..end], &rest[end..]));
            }
        }
        from = at + 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_pages_and_mailboxes_are_kept() {
        let none = LinkBase::default();
        for bad in [
            "javascript:alert(1)",
            "java\nscript:x",
            "data:text/html,x",
            "vbscript:x",
            "//other.test",
            "file:///x",
            "#x",
            "",
            "x.md",
            "https:///x",
            "JaVaScRiPt:x",
            " javascript:x",
            "\u{1}javascript:x",
        ] {
            assert_eq!(safe(bad, &none), None, "{bad:?}");
        }
        assert_eq!(safe("HTTPS://a.test/x", &none).as_deref(), Some("https://a.test/x"));
        assert_eq!(safe("mailto:a@b.test", &none).as_deref(), Some("mailto:a@b.test"));
        let base = LinkBase::of_repository("https://github.com/a/b.git");
        assert_eq!(safe("docs/x.md", &base).as_deref(), Some("https://github.com/a/b/blob/HEAD/docs/x.md"));
        assert_eq!(safe("../x", &base), None);
        assert_eq!(safe("x", &LinkBase::of_repository("https://other.test/a/b")), None);
    }

    #[test]
    fn addresses_in_sentences_are_found() {
        assert_eq!(bare("see (https://a.test/x)."), Some(("see (", "https://a.test/x", ").")));
        assert_eq!(bare("xhttp://a.test"), None);
        assert_eq!(bare("http:// nothing"), None);
    }
}
