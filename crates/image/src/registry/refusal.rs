//! What a registry says when it does not give what was asked for.

use std::time::Duration;

use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Deserialize;
use spelling::calendar::{self, Date};

use super::client::Registry;
use super::endpoint::Source;
use crate::http::{Answer, host_of};
use crate::{Error, ErrorKind};

/// An answer that is not what was asked for, in the registry's own words if it has any.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    words: Option<String>,
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct Complaints {
    errors: Vec<Complaint>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Refusal {
    /// Reads an answer as far as it is of use for a message.
    pub(crate) async fn read(mut answer: Answer) -> Refusal {
        let status = answer.status();
        let retry_after = answer.header(RETRY_AFTER).and_then(retry_after);
        let content = answer.beginning(16 << 10).await;
        let complaint = serde_json::from_slice::<Complaints>(&content).ok().and_then(|it| it.errors.into_iter().next());
        let words = complaint.map(|complaint| {
            let code = complaint.code.to_lowercase().replace('_', " ");
            let message = clean(&complaint.message);
            match (code.is_empty(), message.is_empty() || message.to_lowercase() == code) {
                (true, _) => message,
                (false, true) => clean(&code),
                (false, false) => format!("{}: {message}", clean(&code)),
            }
        });
        Refusal { status, words: words.filter(|words| !words.is_empty()), retry_after }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns whether the registry gave no reason beside the status.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.words.is_none()
    }

    /// Returns how long the registry asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let status = refusal.status;
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
        match refusal.words {
            None => Error::new(kind, plain),
            Some(words) if status.is_server_error() => Error::new(kind, format!("{plain}: {words}")),
            Some(words) => Error::new(kind, words),
        }
    }
}

/// Makes an error of an answer, with the registry's own words.
pub(crate) async fn said(answer: Answer) -> Error {
    Refusal::read(answer).await.into()
}

impl Registry {
    /// Reports that a registry does not let us in, and which credentials it rejected.
    pub(super) async fn refused(&self, source: &Source, answer: Answer) -> Error {
        let error = said(answer).await;
        let name = source.reference.name();
        match self.credentials(source).await {
            Err(why) => why,
            Ok(Some(found)) => {
                let (key, file) = (found.key, found.file.display().to_string());
                error.hint(format!("{name} was shown the credentials of {key:?} in {file}"))
            }
            Ok(None) if let Some(failure) = self.auth.store_failure(source.reference.host()) => {
                error.hint(format!("no credentials for {name} were found: {failure}"))
            }
            Ok(None) => {
                let paths: Vec<String> = self.auth.paths().iter().map(|path| path.display().to_string()).collect();
                error.hint(format!("no credentials for {name} were found in {}", paths.join(", ")))
            }
        }
    }

    /// Reports that a server the registry redirected to does not let us in. It gets no credentials.
    pub(super) async fn refused_elsewhere(&self, source: &Source, answer: Answer) -> Error {
        let elsewhere = host_of(answer.uri()).rsplit('@').next().unwrap_or_default().to_owned();
        let host = source.reference.host().to_owned();
        let hint = format!("{host} redirects to {elsewhere}, which gets no credentials of {host}");
        said(answer).await.hint(hint)
    }
}

/// Reads how long a registry asks to wait: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // Such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    let words: Vec<&str> = text.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words.as_slice() else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| name == month)? as i64 + 1;
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| (0..10_000).contains(number));
    let days = Date::new(number(year)?, month, number(day)?)?.days();
    let then = ((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?;
    Some(Duration::from_secs(u64::try_from((then - calendar::now()).max(0)).ok()?))
}

/// Makes foreign words fit to print: short, and without control characters.
fn clean(text: &str) -> String {
    let text: String = text.chars().take(300).map(|char| if char.is_control() { ' ' } else { char }).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_seconds_or_dates() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let far = retry_after("Fri, 01 Jan 2100 00:00:00 GMT").unwrap();
        assert!(far > Duration::from_secs(60 * 60 * 24 * 365));
        for text in ["", "soon", "-3", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT"] {
            assert_eq!(retry_after(text), None, "{text}");
        }
    }
}
