//! Authentication challenges.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The permission to request for a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Actions {
    Pull,
    Push,
    Delete,
}

impl Actions {
    pub(crate) fn scope(self, repository: &str) -> String {
        let actions = match self {
            Actions::Pull => "pull",
            Actions::Push => "pull,push",
            Actions::Delete => "pull,delete",
        };
        format!("repository:{repository}:{actions}")
    }
}

/// An authentication challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User name and password.
    Basic,
    /// A token.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The name of the registry at the token server.
        service: Option<String>,
        /// The scope that the token must have.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Returns the preferred challenge of a response: bearer before basic.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Challenge> {
        let mut best = None;
        for header in headers.get_all(WWW_AUTHENTICATE) {
            for challenge in header.to_str().map(Challenge::parse).unwrap_or_default() {
                match challenge {
                    Challenge::Bearer { .. } => return Some(challenge),
                    Challenge::Basic => best = Some(challenge),
                }
            }
        }
        best
    }

    /// Parses `Scheme name=value, name="value", Scheme ...`, skipping unknown schemes.
    pub fn parse(text: &str) -> Vec<Challenge> {
        let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let after = after.trim_start_matches(' ');
            if let Some(value) = after.strip_prefix('=') {
                let (value, after) = read_value(value.trim_start());
                if let Some((_, parameters)) = found.last_mut() {
                    parameters.push((word.to_ascii_lowercase(), value));
                }
                rest = after;
            } else {
                if !word.is_empty() {
                    found.push((word.to_ascii_lowercase(), Vec::new()));
                }
                rest = after;
            }
            rest = rest.trim_start_matches([' ', ',', '\t']);
        }
        let challenge = |(scheme, parameters): (String, Vec<(String, String)>)| {
            let get = |name: &str| parameters.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
            match scheme.as_str() {
                "basic" => Some(Challenge::Basic),
                "bearer" => {
                    Some(Challenge::Bearer { realm: get("realm")?, service: get("service"), scope: get("scope") })
                }
                _ => None,
            }
        };
        found.into_iter().filter_map(challenge).collect()
    }
}

fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.into(), service: service.map(Into::into), scope: scope.map(Into::into) }
    }

    #[test]
    fn challenges_are_parsed() {
        assert_eq!(Challenge::parse("Basic realm=\"kit\""), [Challenge::Basic]);
        assert_eq!(
            Challenge::parse(
                r#"Bearer realm="https://a.test/token",service="reg, \"x\"",scope="repository:a/b:pull,push""#
            ),
            [bearer("https://a.test/token", Some("reg, \"x\""), Some("repository:a/b:pull,push"))]
        );
        assert_eq!(
            Challenge::parse("Negotiate, BEARER Realm=https://a.test/, Basic realm=x"),
            [bearer("https://a.test/", None, None), Challenge::Basic]
        );
        for text in ["", ",", "=", "Bearer", "Bearer realm", "Bearer realm=\"x", "\"", "Basic \\"] {
            let _ = Challenge::parse(text);
        }
    }
}
