//! Requests to registries: credentials, tokens, and trying again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::challenge::{Actions, Challenge};
use super::endpoint::{Endpoint, Source};
use crate::auth::{Auth, Credentials, Found};
use crate::http::{Answer, Ask, Body, Http, Trust, days_before, encode, host_of};
use crate::progress::{Event, Progress};
use crate::{Digest, Error, ErrorKind};

/// How often to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// How often, after the first time.
    pub count: u32,
    /// How long to wait the first time; then twice as long, and so on.
    pub first: Duration,
    /// How long to wait at most, also when the registry asks for more.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { count: 4, first: Duration::from_millis(250), longest: Duration::from_secs(120) }
    }
}

pub(crate) struct Settings {
    pub(crate) use_http: bool,
    pub(crate) skip_tls_verify: bool,
    pub(crate) retries: Retries,
    pub(crate) retry_statuses: Vec<u16>,
    pub(crate) progress: Arc<dyn Progress>,
}

/// Registries that are being or have been called, by host and by whether certificates matter.
type Endpoints = HashMap<(String, bool), Arc<OnceCell<Endpoint>>>;

/// All registries.
pub(crate) struct Registry {
    pub(crate) http: Http,
    pub(crate) auth: Arc<Auth>,
    pub(crate) settings: Settings,
    endpoints: Mutex<Endpoints>,
    tokens: Mutex<HashMap<(String, String), Token>>,
    pub(super) flights: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    /// Blobs that are known to be what their names say.
    pub(super) checked: Mutex<HashSet<Digest>>,
}

#[derive(Clone)]
struct Token {
    value: HeaderValue,
    until: Instant,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// What is asked of a repository.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// What follows the repository, or a whole address.
    pub(crate) path: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) actions: Actions,
    /// Whether it may be asked again after a failure.
    pub(crate) retry: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn get(path: &'a str) -> Call<'a> {
        Call {
            method: Method::GET,
            path,
            headers: HeaderMap::new(),
            body: Body::Empty,
            actions: Actions::Pull,
            retry: true,
        }
    }
}

impl Registry {
    pub(crate) fn new(http: Http, auth: Auth, settings: Settings) -> Registry {
        let auth = Arc::new(auth);
        Registry {
            http,
            auth,
            settings,
            endpoints: Mutex::default(),
            tokens: Mutex::default(),
            flights: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// Returns how a registry is talked to. It is called once.
    pub(crate) async fn endpoint(&self, source: &Source) -> Result<Endpoint, Error> {
        let key = (source.reference.host().to_owned(), source.insecure);
        let cell = {
            let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(endpoints.entry(key).or_default())
        };
        cell.get_or_try_init(|| self.call(source.reference.host(), source.insecure)).await.cloned()
    }

    /// Asks something of a repository, with credentials if the registry wants them, and again if
    /// that may help. Answers of other kinds are the caller's.
    pub(crate) async fn request(&self, source: &Source, call: &Call<'_>) -> Result<Answer, Error> {
        let endpoint = self.endpoint(source).await?;
        let repository = source.reference.repository();
        let uri: Uri = if call.path.starts_with("http") && call.path.contains("://") {
            call.path.parse().map_err(|_| Error::new(ErrorKind::Network, format!("{:?} is no address", call.path)))?
        } else {
            endpoint.uri(repository, call.path)?
        };
        let mut challenge = endpoint.challenge.clone();
        let mut asked_again = false;
        let mut fresh = false;
        let retries = if call.retry { self.settings.retries.count } else { 0 };
        let mut tries = 0;
        loop {
            let mut headers = call.headers.clone();
            // An upload can lead to another server, which has its own ways.
            let at_home = format!("{}://{}", uri.scheme_str().unwrap_or_default(), host_of(&uri)) == endpoint.base;
            if at_home
                && let Some(challenge) = &challenge
                && let Some(value) = self.authorization(&endpoint, source, challenge, call.actions, fresh).await?
            {
                headers.insert(AUTHORIZATION, value);
            }
            fresh = false;
            let ask = Ask {
                method: call.method.clone(),
                uri: uri.clone(),
                headers,
                body: call.body.clone(),
                trust: endpoint.trust,
            };
            let what = || format!("{} {}", call.method, source.reference);
            let answer = match self.http.ask(ask).await {
                Ok(answer) => answer,
                Err(failure) if failure.is_passing() && tries < retries => {
                    self.wait(&what(), &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => return Err(failure.into_error(1)),
            };
            let status = answer.status();
            if status == StatusCode::UNAUTHORIZED && !asked_again && at_home {
                let stated = Challenge::of(answer.headers());
                if stated.is_some() {
                    let mut answer = answer;
                    // Read to its end, so that the connection can be used again.
                    answer.beginning(64 << 10).await;
                    asked_again = true;
                    fresh = true;
                    challenge = stated;
                    continue;
                }
            }
            let asked_for = self.settings.retry_statuses.contains(&status.as_u16()) && tries < retries;
            if !asked_for && (status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN) {
                return Err(self.refused(source, answer).await);
            }
            if asked_for || status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
                let asked = answer.header(RETRY_AFTER).and_then(retry_after);
                let error = said(answer).await;
                if tries < retries {
                    self.wait(&what(), &error.to_string(), tries, asked).await.map_err(|_| error)?;
                    tries += 1;
                    continue;
                }
                return Err(error);
            }
            return Ok(answer);
        }
    }

    /// Waits before the next try, unless the registry asks for too much patience.
    pub(super) async fn wait(&self, what: &str, why: &str, tries: u32, asked: Option<Duration>) -> Result<(), Error> {
        let retries = &self.settings.retries;
        let usual = retries.first * 2u32.saturating_pow(tries.min(16));
        // Some chance, so that those who failed together do not come back together.
        let chance = std::hash::RandomState::new().build_hasher().finish() % 256;
        let usual = usual.mul_f64(0.75 + 0.5 * chance as f64 / 256.0).min(retries.longest);
        let pause = asked.map_or(usual, |asked| asked.max(usual));
        if pause > retries.longest {
            let text = format!("{why}; it asks to wait {} seconds", pause.as_secs());
            return Err(Error::new(ErrorKind::Network, text));
        }
        self.settings.progress.on(&Event::Waiting { what, why, pause });
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Finds credentials; it is done aside, because it may run a program.
    pub(crate) async fn credentials(&self, source: &Source) -> Result<Option<Found>, Error> {
        let auth = Arc::clone(&self.auth);
        let (host, repository) = (source.reference.host().to_owned(), source.reference.repository().to_owned());
        tokio::task::spawn_blocking(move || auth.find(&host, &repository))
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, format!("looking for credentials: {error}"))))
    }

    async fn authorization(
        &self,
        endpoint: &Endpoint,
        source: &Source,
        challenge: &Challenge,
        actions: Actions,
        fresh: bool,
    ) -> Result<Option<HeaderValue>, Error> {
        let (realm, service, stated) = match challenge {
            Challenge::Basic => {
                return Ok(match self.credentials(source).await?.map(|found| found.credentials) {
                    Some(Credentials::Password { user, password }) => Some(basic(&user, &password)?),
                    _ => None,
                });
            }
            Challenge::Bearer { realm, service, scope } => (realm, service, scope),
        };
        let needed = actions.scope(source.reference.repository());
        let stated = stated.iter().filter(|stated| **stated != needed).cloned();
        let scopes: Vec<String> = std::iter::once(needed.clone()).chain(stated).collect();
        let key = (endpoint.base.clone(), scopes.join(" "));
        if !fresh
            && let Some(token) = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && token.until > Instant::now()
        {
            return Ok(Some(token.value.clone()));
        }
        let token = self.fetch_token(endpoint, source, realm, service.as_deref(), &scopes).await?;
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(key, token.clone());
        Ok(Some(token.value))
    }

    async fn fetch_token(
        &self,
        endpoint: &Endpoint,
        source: &Source,
        realm: &str,
        service: Option<&str>,
        scopes: &[String],
    ) -> Result<Token, Error> {
        let wrong = |text: String| Error::new(ErrorKind::Unauthorized, format!("getting a token: {text}"));
        let base: Uri = realm.parse().map_err(|_| wrong(format!("{realm:?} is no address")))?;
        match base.scheme_str() {
            Some("https") => {}
            Some("http") if endpoint.trust == Trust::Anyone => {}
            _ => return Err(wrong(format!("{} is not reached with TLS", host_of(&base)))),
        }
        let credentials = self.credentials(source).await?.map(|found| found.credentials);
        let mut query: Vec<String> = service.iter().map(|service| format!("service={}", encode(service))).collect();
        query.extend(scopes.iter().map(|scope| format!("scope={}", encode(scope))));
        let mut headers = HeaderMap::new();
        let (method, address, body) = match &credentials {
            Some(Credentials::IdentityToken(token)) => {
                query.push("grant_type=refresh_token&client_id=opm".into());
                query.push(format!("refresh_token={}", encode(token)));
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
                (Method::POST, realm.to_owned(), Body::Bytes(query.join("&").into()))
            }
            other => {
                if let Some(Credentials::Password { user, password }) = other {
                    headers.insert(AUTHORIZATION, basic(user, password)?);
                    query.push(format!("account={}", encode(user)));
                }
                let mark = if base.query().is_some() { '&' } else { '?' };
                (Method::GET, format!("{realm}{mark}{}", query.join("&")), Body::Empty)
            }
        };
        let uri: Uri = address.parse().map_err(|_| wrong(format!("{realm:?} is no address")))?;
        let mut tries = 0;
        loop {
            let ask = Ask {
                method: method.clone(),
                uri: uri.clone(),
                headers: headers.clone(),
                body: body.clone(),
                trust: endpoint.trust,
            };
            let what = format!("token from {}", host_of(&uri));
            let mut answer = match self.http.ask(ask).await {
                Ok(answer) => answer,
                Err(failure) if failure.is_passing() && tries < self.settings.retries.count => {
                    self.wait(&what, &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => return Err(failure.into_error(1).context(what)),
            };
            match answer.status() {
                StatusCode::OK => {}
                status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                    let asked = answer.header(RETRY_AFTER).and_then(retry_after);
                    let error = said(answer).await.context(&what);
                    if tries < self.settings.retries.count {
                        self.wait(&what, &error.to_string(), tries, asked).await.map_err(|_| error)?;
                        tries += 1;
                        continue;
                    }
                    return Err(error);
                }
                _ => return Err(self.refused(source, answer).await.context("unable to retrieve auth token")),
            }
            let content = answer.whole(1 << 20).await.map_err(|failure| failure.into_error(1).context(&what))?;
            let answer: TokenAnswer = serde_json::from_slice(&content)
                .map_err(|_| wrong(format!("the answer of {what} is not understood")))?;
            let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| wrong(format!("there is none in the answer of {}", host_of(&uri))))?;
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong("it cannot be sent".into()))?;
            value.set_sensitive(true);
            // Renewed early enough that it does not run out on the way.
            let seconds = answer.expires_in.unwrap_or(60).clamp(15, 86_400) - 10;
            return Ok(Token { value, until: Instant::now() + Duration::from_secs(seconds) });
        }
    }

    /// Says that a registry does not let us in, and what it was shown.
    async fn refused(&self, source: &Source, answer: Answer) -> Error {
        let mut error = said(answer).await;
        let name = source.reference.name();
        let hint = match self.credentials(source).await {
            Err(why) => return why,
            Ok(Some(found)) => {
                format!("{name} was shown the credentials of {:?} in {}", found.key, found.file.display())
            }
            Ok(None) => {
                let paths: Vec<String> = self.auth.paths().iter().map(|path| path.display().to_string()).collect();
                format!("no credentials for {name} were found in {}", paths.join(", "))
            }
        };
        error = error.hint(hint);
        error
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, Error> {
    let encoded = base64_simd::STANDARD.encode_to_string(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}"))
        .map_err(|_| Error::new(ErrorKind::Unauthorized, "the credentials cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
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
    let days = days_before(number(year)?, month, number(day)?)?;
    let then = ((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Duration::from_secs(u64::try_from(then).ok()?.saturating_sub(now.as_secs())))
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

/// Makes an error of an answer, with the registry's own words.
pub(crate) async fn said(mut answer: Answer) -> Error {
    let status = answer.status();
    let content = answer.beginning(16 << 10).await;
    let complaint = serde_json::from_slice::<Complaints>(&content).ok().and_then(|it| it.errors.into_iter().next());
    let text = match &complaint {
        Some(complaint) => {
            let code = complaint.code.to_lowercase().replace('_', " ");
            let message = clean(&complaint.message);
            match (code.is_empty(), message.is_empty() || message.to_lowercase() == code) {
                (true, _) => message,
                (false, true) => clean(&code),
                (false, false) => format!("{}: {message}", clean(&code)),
            }
        }
        None => String::new(),
    };
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
    match text.as_str() {
        "" => Error::new(kind, plain),
        _ if status.is_server_error() => Error::new(kind, format!("{plain}: {text}")),
        _ => Error::new(kind, text),
    }
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
