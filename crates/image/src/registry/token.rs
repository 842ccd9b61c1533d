//! Who we are, as a registry wants to have it: a password, or a token from its realm.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::Deserialize;

use super::challenge::{Actions, Challenge};
use super::client::Registry;
use super::endpoint::{Endpoint, Source};
use super::refusal::Refusal;
use crate::auth::{Credentials, Found};
use crate::http::{Ask, Authorization, Body, Origin, Trust, encode, host_of};
use crate::{Error, ErrorKind};

#[derive(Clone)]
pub(super) struct Token {
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

/// Where tokens come from, as an endpoint named it in a challenge of its own.
struct Realm<'a> {
    uri: Uri,
    origin: Origin,
    trust: Trust,
    service: Option<&'a str>,
}

impl Registry {
    /// Finds credentials; it is done aside, because it may run a program.
    pub(crate) async fn credentials(&self, source: &Source) -> Result<Option<Found>, Error> {
        let auth = Arc::clone(&self.auth);
        let (host, repository) = (source.reference.host().to_owned(), source.reference.repository().to_owned());
        tokio::task::spawn_blocking(move || auth.find(&host, &repository))
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, format!("looking for credentials: {error}"))))
    }

    /// Returns who we are to an endpoint that gave this challenge. No other server gets it.
    pub(super) async fn authorization(
        &self,
        endpoint: &Endpoint,
        source: &Source,
        challenge: &Challenge,
        actions: Actions,
        fresh: bool,
    ) -> Result<Option<Authorization>, Error> {
        let (realm, service, stated) = match challenge {
            Challenge::Basic => {
                return Ok(match self.credentials(source).await?.map(|found| found.credentials) {
                    Some(Credentials::Password { user, password }) => {
                        Some(Authorization::new(endpoint.origin.clone(), basic(&user, &password)?))
                    }
                    _ => None,
                });
            }
            Challenge::Bearer { realm, service, scope } => (realm, service, scope),
        };
        let needed = actions.scope(source.reference.repository());
        let stated = stated.iter().filter(|stated| **stated != needed).cloned();
        let scopes: Vec<String> = std::iter::once(needed.clone()).chain(stated).collect();
        let key = (endpoint.origin.clone(), scopes.join(" "));
        let known = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let token = match known.filter(|token| !fresh && token.until > Instant::now()) {
            Some(token) => token,
            None => {
                let realm = Realm::of(endpoint, realm, service.as_deref())?;
                let token = self.fetch_token(source, &realm, &scopes).await?;
                self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(key, token.clone());
                token
            }
        };
        Ok(Some(Authorization::new(endpoint.origin.clone(), token.value)))
    }

    async fn fetch_token(&self, source: &Source, realm: &Realm<'_>, scopes: &[String]) -> Result<Token, Error> {
        let credentials = self.credentials(source).await?.map(|found| found.credentials);
        let ask = realm.ask(credentials.as_ref(), scopes)?;
        let mut tries = 0;
        loop {
            let what = format!("token from {}", host_of(&realm.uri));
            let mut answer = match self.http.ask(ask.clone()).await {
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
                    let refusal = Refusal::read(answer).await;
                    let asked = refusal.retry_after();
                    let error = Error::from(refusal).context(&what);
                    if tries < self.settings.retries.count {
                        self.wait(&what, &error.to_string(), tries, asked).await.map_err(|_| error)?;
                        tries += 1;
                        continue;
                    }
                    return Err(error);
                }
                _ => {
                    let error = if realm.origin.has(answer.uri()) {
                        self.refused(source, answer).await
                    } else {
                        self.refused_elsewhere(source, answer).await
                    };
                    return Err(error.context("unable to retrieve auth token"));
                }
            }
            let content = answer.whole(1 << 20).await.map_err(|failure| failure.into_error(1).context(&what))?;
            let answer: TokenAnswer = serde_json::from_slice(&content)
                .map_err(|_| wrong(format!("the answer of {what} is not understood")))?;
            let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
            let token =
                token.ok_or_else(|| wrong(format!("there is none in the answer of {}", host_of(&realm.uri))))?;
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong("it cannot be sent".into()))?;
            value.set_sensitive(true);
            // Renewed early enough that it does not run out on the way.
            let seconds = answer.expires_in.unwrap_or(60).clamp(15, 86_400) - 10;
            return Ok(Token { value, until: Instant::now() + Duration::from_secs(seconds) });
        }
    }
}

impl<'a> Realm<'a> {
    /// Reads the realm of a challenge that `endpoint` gave.
    fn of(endpoint: &Endpoint, realm: &str, service: Option<&'a str>) -> Result<Realm<'a>, Error> {
        let uri: Uri = realm.parse().map_err(|_| wrong(format!("{realm:?} is no address")))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if endpoint.trust == Trust::Anyone => {}
            _ => return Err(wrong(format!("{} is not reached with TLS", host_of(&uri)))),
        }
        let origin = Origin::of(&uri).ok_or_else(|| wrong(format!("{realm:?} is no address")))?;
        Ok(Realm { uri, origin, trust: endpoint.trust, service })
    }

    /// Makes the request for a token. What is secret in it is bound to this realm.
    fn ask(&self, credentials: Option<&Credentials>, scopes: &[String]) -> Result<Ask, Error> {
        let mut query: Vec<String> =
            self.service.iter().map(|service| format!("service={}", encode(service))).collect();
        query.extend(scopes.iter().map(|scope| format!("scope={}", encode(scope))));
        if let Some(Credentials::IdentityToken(token)) = credentials {
            query.push("grant_type=refresh_token&client_id=opm".into());
            query.push(format!("refresh_token={}", encode(token)));
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            let body = Body::Private(Bytes::from(query.join("&")));
            return Ok(Ask { headers, body, method: Method::POST, ..Ask::get(self.uri.clone(), self.trust) });
        }
        let mut authorization = None;
        if let Some(Credentials::Password { user, password }) = credentials {
            authorization = Some(Authorization::new(self.origin.clone(), basic(user, password)?));
            query.push(format!("account={}", encode(user)));
        }
        let mark = if self.uri.query().is_some() { '&' } else { '?' };
        let address = format!("{}{mark}{}", self.uri, query.join("&"));
        let uri: Uri = address.parse().map_err(|_| wrong(format!("{:?} is no address", self.uri)))?;
        Ok(Ask { authorization, ..Ask::get(uri, self.trust) })
    }
}

fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Unauthorized, format!("getting a token: {text}"))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, Error> {
    let encoded = base64_simd::STANDARD.encode_to_string(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}"))
        .map_err(|_| Error::new(ErrorKind::Unauthorized, "the credentials cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}
