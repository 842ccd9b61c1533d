//! Error responses of registries.

use std::time::Duration;

use fbc::spelling::calendar;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Deserialize;

use super::client::Registry;
use super::endpoint::RegistrySource;
use crate::http::{HttpResponse, host_of};
use crate::{Error, ErrorKind};

/// An error response, with the registry's message if it has one.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    status: StatusCode,
    message: Option<String>,
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct ErrorList {
    errors: Vec<RegistryError>,
}

#[derive(Deserialize)]
struct RegistryError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl ErrorResponse {
    /// Reads the parts of a response that an error message needs.
    pub(crate) async fn read(mut response: HttpResponse) -> ErrorResponse {
        let status = response.status();
        let retry_after = response.header(RETRY_AFTER).and_then(retry_after);
        let content = response.read_prefix(16 << 10).await;
        let error = serde_json::from_slice::<ErrorList>(&content).ok().and_then(|it| it.errors.into_iter().next());
        let message = error.map(|error| {
            let code = error.code.to_lowercase().replace('_', " ");
            let message = sanitize(&error.message);
            match (code.is_empty(), message.is_empty() || message.to_lowercase() == code) {
                (true, _) => message,
                (false, true) => sanitize(&code),
                (false, false) => format!("{}: {message}", sanitize(&code)),
            }
        });
        ErrorResponse { status, message: message.filter(|message| !message.is_empty()), retry_after }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns whether the registry gave no reason besides the status.
    pub(crate) fn has_no_message(&self) -> bool {
        self.message.is_none()
    }

    /// Returns the delay that the registry asks for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<ErrorResponse> for Error {
    fn from(error_response: ErrorResponse) -> Error {
        let status = error_response.status;
        let kind = match status {
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Unauthorized,
            _ => ErrorKind::Network,
        };
        let plain = match status {
            StatusCode::UNAUTHORIZED => "unauthorized: authentication required".to_owned(),
            StatusCode::TOO_MANY_REQUESTS => "toomanyrequests: the registry limits how often it is asked".to_owned(),
            status => format!("status {status}"),
        };
        match error_response.message {
            None => Error::new(kind, plain),
            Some(message) if status.is_server_error() => Error::new(kind, format!("{plain}: {message}")),
            Some(message) => Error::new(kind, message),
        }
    }
}

/// Turns an error response into an error with the registry's message.
pub(crate) async fn response_error(response: HttpResponse) -> Error {
    ErrorResponse::read(response).await.into()
}

impl Registry {
    /// Reports denied access and the credentials that the registry rejected.
    pub(super) async fn denied(&self, source: &RegistrySource, response: HttpResponse) -> Error {
        let error = response_error(response).await;
        let name = source.reference.name();
        match self.credentials(source).await {
            Err(why) => why,
            Ok(Some(found)) => {
                let (key, file) = (found.key, found.file.display().to_string());
                error.hint(format!("{name} rejected the credentials of {key:?} in {file}"))
            }
            Ok(None) if let Some(failure) = self.auth.store_failure(source.reference.host()) => {
                error.hint(format!("no credentials for {name}: {failure}"))
            }
            Ok(None) => {
                let paths: Vec<String> = self.auth.paths().iter().map(|path| path.display().to_string()).collect();
                error.hint(format!("no credentials for {name} in {}", paths.join(", ")))
            }
        }
    }

    /// Reports denied access by a server that the registry redirected to. It gets no credentials.
    pub(super) async fn denied_after_redirect(&self, source: &RegistrySource, response: HttpResponse) -> Error {
        let elsewhere = host_of(response.uri()).to_owned();
        let host = source.reference.host().to_owned();
        let hint = format!("{host} redirects to {elsewhere}, which does not receive the credentials of {host}");
        response_error(response).await.hint(hint)
    }
}

/// Parses `Retry-After`: seconds or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = calendar::parse_http_date(text)?;
    Some(Duration::from_secs(u64::try_from((then - calendar::now()).max(0)).ok()?))
}

/// Sanitizes foreign text for printing: shortens it and drops control characters.
fn sanitize(text: &str) -> String {
    let text: String = text.chars().take(300).map(|char| if char.is_control() { ' ' } else { char }).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_in_seconds_or_a_date() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let far = retry_after("Fri, 01 Jan 2100 00:00:00 GMT").unwrap();
        assert!(far > Duration::from_secs(60 * 60 * 24 * 365));
        for text in ["", "soon", "-3", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT"] {
            assert_eq!(retry_after(text), None, "{text}");
        }
    }
}
