//! Servers as credentials know them: scheme, host and port.

use http::{HeaderValue, Uri};

/// A server: scheme, host and port. Credentials belong to one and go to no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    https: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Returns the server of an address, or nothing if it names none that speaks HTTP.
    pub(crate) fn of(uri: &Uri) -> Option<Origin> {
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        Some(Origin { https, host, port })
    }

    /// Returns whether an address is at this server.
    pub(crate) fn has(&self, uri: &Uri) -> bool {
        Origin::of(uri).as_ref() == Some(self)
    }
}

/// A value of `Authorization`, bound to the server it is for. No request to another server has it.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    origin: Origin,
    value: HeaderValue,
}

impl Authorization {
    pub(crate) fn new(origin: Origin, mut value: HeaderValue) -> Authorization {
        value.set_sensitive(true);
        Authorization { origin, value }
    }

    /// Returns the value for a request to `uri`, if that is the server it belongs to.
    pub(super) fn for_request(&self, uri: &Uri) -> Option<HeaderValue> {
        self.origin.has(uri).then(|| self.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Option<Origin> {
        Origin::of(&text.parse().unwrap())
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
