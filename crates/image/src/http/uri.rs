//! URLs: resolving relative ones and percent-encoding.

use fbc::spelling::percent;
use http::Uri;

/// Resolves the `Location` of a response from `base`.
pub(crate) fn join(base: &Uri, location: &str) -> Option<Uri> {
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    let location = location.split('#').next().unwrap_or_default();
    let text = if location.starts_with("http://") || location.starts_with("https://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let folder = &base.path()[..=base.path().rfind('/')?];
        format!("{scheme}://{authority}{folder}{location}")
    };
    let uri: Uri = text.parse().ok()?;
    (uri.authority().is_some() && matches!(uri.scheme_str(), Some("http" | "https"))).then_some(uri)
}

/// Percent-encodes a query value.
pub(crate) fn encode(text: &str) -> String {
    percent::encode_but(text, b"/:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_urls_are_resolved() {
        let base: Uri = "https://example.com:5000/v2/a/blobs/uploads/?x=y".parse().unwrap();
        for (location, expected) in [
            ("/v2/b", "https://example.com:5000/v2/b"),
            ("u1?state=a", "https://example.com:5000/v2/a/blobs/uploads/u1?state=a"),
            ("?state=a", "https://example.com:5000/v2/a/blobs/uploads/?state=a"),
            ("//cdn.example.com/x", "https://cdn.example.com/x"),
            ("http://cdn.example.com/x#part", "http://cdn.example.com/x"),
        ] {
            assert_eq!(join(&base, location).unwrap().to_string(), expected);
        }
        assert_eq!(
            join(&base, "ftp://example.com/").and_then(|uri| uri.scheme_str().map(str::to_owned)).as_deref(),
            Some("https")
        );
        assert_eq!(join(&base, "https://"), None);
    }

    #[test]
    fn text_in_a_query_is_encoded() {
        assert_eq!(encode("repository:a/b:pull push&ü"), "repository:a/b:pull%20push%26%C3%BC");
    }
}
