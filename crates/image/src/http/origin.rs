//! Origins: scheme, host and port.

use http::{HeaderValue, Uri};

/// An origin: scheme, host and port. Credentials belong to one origin and are sent to no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HttpOrigin {
    https: bool,
    host: String,
    port: u16,
}

impl HttpOrigin {
    /// Returns the origin of a URL, or `None` if it is not an HTTP URL.
    pub(crate) fn of(uri: &Uri) -> Option<HttpOrigin> {
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        Some(HttpOrigin { https, host, port })
    }

    /// Returns whether a request to `uri` would give up the TLS of this origin.
    pub(crate) fn leaves_tls(&self, uri: &Uri) -> bool {
        self.https && uri.scheme_str() != Some("https")
    }

    /// Returns whether a URL matches this origin.
    pub(crate) fn matches(&self, uri: &Uri) -> bool {
        HttpOrigin::of(uri).as_ref() == Some(self)
    }
}

/// An `Authorization` header bound to its origin. Requests to other origins do not carry it.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    origin: HttpOrigin,
    value: HeaderValue,
}

impl Authorization {
    pub(crate) fn new(origin: HttpOrigin, mut value: HeaderValue) -> Authorization {
        value.set_sensitive(true);
        Authorization { origin, value }
    }

    /// Returns the header for a request to `uri`, if the origin matches.
    pub(super) fn for_request(&self, uri: &Uri) -> Option<HeaderValue> {
        self.origin.matches(uri).then(|| self.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Option<HttpOrigin> {
        HttpOrigin::of(&text.parse().unwrap())
    }

    #[test]
    fn scheme_host_and_port_make_an_origin() {
        let registry = origin("https://reg.test/v2/").unwrap();
        for same in ["https://reg.test:443/x", "https://REG.test", "https://user:word@reg.test/"] {
            assert_eq!(origin(same).as_ref(), Some(&registry), "{same}");
        }
        for other in ["http://reg.test/", "http://reg.test:443/", "https://reg.test:444/", "https://a.reg.test/"] {
            assert_ne!(origin(other).as_ref(), Some(&registry), "{other}");
        }
        assert_eq!(origin("/v2/"), None);
        assert_eq!(origin("ftp://reg.test/"), None);
    }

    #[test]
    fn authorization_is_for_its_origin_only() {
        let secret = Authorization::new(origin("https://reg.test").unwrap(), HeaderValue::from_static("Basic x"));
        assert!(secret.for_request(&"https://reg.test/v2/".parse().unwrap()).is_some());
        assert!(secret.for_request(&"http://reg.test/v2/".parse().unwrap()).is_none());
        assert!(!format!("{secret:?}").contains("Basic x"));
    }
}
