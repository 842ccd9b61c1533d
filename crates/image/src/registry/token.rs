//! Authorization: a password, or a token from the realm of the registry.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::Deserialize;

use super::challenge::{Actions, Challenge};
use super::client::Registry;
use super::endpoint::{Endpoint, RegistrySource};
use super::refusal::ErrorResponse;
use crate::auth::{Credentials, FoundCredentials};
use crate::http::{Authorization, HttpOrigin, HttpRequest, RequestBody, TlsTrust, encode, host_of};
use crate::{Error, ErrorKind};

#[derive(Clone)]
pub(super) struct Token {
    value: HeaderValue,
    until: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// The token server that an endpoint named in its own challenge.
struct Realm<'a> {
    uri: Uri,
    origin: HttpOrigin,
    trust: TlsTrust,
    service: Option<&'a str>,
}

impl Registry {
    /// Finds credentials on a blocking thread, because it may run a helper.
    pub(crate) async fn credentials(&self, source: &RegistrySource) -> Result<Option<FoundCredentials>, Error> {
        let auth = Arc::clone(&self.auth);
        let (host, repository) = (source.reference.host().to_owned(), source.reference.repository().to_owned());
        tokio::task::spawn_blocking(move || auth.find(&host, &repository))
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, format!("looking for credentials: {error}"))))
    }

    /// Returns the authorization for an endpoint's challenge, bound to that endpoint.
    pub(super) async fn authorization(
        &self,
        endpoint: &Endpoint,
        source: &RegistrySource,
        challenge: &Challenge,
        actions: Actions,
        fresh: bool,
    ) -> Result<Option<Authorization>, Error> {
        let (realm, service, requested) = match challenge {
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
        let requested = requested.iter().filter(|requested| **requested != needed).cloned();
        let scopes: Vec<String> = std::iter::once(needed.clone()).chain(requested).collect();
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

    async fn fetch_token(&self, source: &RegistrySource, realm: &Realm<'_>, scopes: &[String]) -> Result<Token, Error> {
        let credentials = self.credentials(source).await?.map(|found| found.credentials);
        let request = realm.request(credentials.as_ref(), scopes)?;
        let mut tries = 0;
        loop {
            let what = format!("token from {}", host_of(&realm.uri));
            let mut response = match self.http.send(request.clone()).await {
                Ok(response) => response,
                Err(failure) if failure.is_transient() && tries < self.settings.retries.count => {
                    self.wait(&what, &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => return Err(failure.into_error(1).context(what)),
            };
            match response.status() {
                StatusCode::OK => {}
                status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                    let error_response = ErrorResponse::read(response).await;
                    let retry_after = error_response.retry_after();
                    let error = Error::from(error_response).context(&what);
                    if tries < self.settings.retries.count {
                        self.wait(&what, &error.to_string(), tries, retry_after).await.map_err(|_| error)?;
                        tries += 1;
                        continue;
                    }
                    return Err(error);
                }
                _ => {
                    let error = if realm.origin.matches(response.uri()) {
                        self.denied(source, response).await
                    } else {
                        self.denied_after_redirect(source, response).await
                    };
                    return Err(error.context("unable to retrieve auth token"));
                }
            }
            let content = response.read_all(1 << 20).await.map_err(|failure| failure.into_error(1).context(&what))?;
            let response: TokenResponse = serde_json::from_slice(&content)
                .map_err(|_| token_error(format!("the response of {} is not valid JSON", host_of(&realm.uri))))?;
            let token = response.token.or(response.access_token).filter(|token| !token.is_empty());
            let token = token
                .ok_or_else(|| token_error(format!("the response of {} contains no token", host_of(&realm.uri))))?;
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| token_error("the token contains characters that HTTP headers do not allow".into()))?;
            value.set_sensitive(true);
            // Renew early, so that the token does not expire in flight.
            let seconds = response.expires_in.unwrap_or(60).clamp(15, 86_400) - 10;
            return Ok(Token { value, until: Instant::now() + Duration::from_secs(seconds) });
        }
    }
}

impl<'a> Realm<'a> {
    /// Parses the realm of an endpoint's challenge.
    fn of(endpoint: &Endpoint, realm: &str, service: Option<&'a str>) -> Result<Realm<'a>, Error> {
        let uri: Uri = realm.parse().map_err(|_| token_error(format!("invalid URL {realm:?}")))?;
        if endpoint.origin.leaves_tls(&uri) && !endpoint.plain_http {
            return Err(token_error(format!("{} does not use TLS", host_of(&uri)))
                .hint("nothing was sent; --use-http, or insecure in registries.conf, allows a registry without TLS"));
        }
        let origin = HttpOrigin::of(&uri).ok_or_else(|| token_error(format!("invalid URL {realm:?}")))?;
        Ok(Realm { uri, origin, trust: endpoint.trust, service })
    }

    /// Creates the token request. Its secrets are bound to this realm.
    fn request(&self, credentials: Option<&Credentials>, scopes: &[String]) -> Result<HttpRequest, Error> {
        let mut query: Vec<String> =
            self.service.iter().map(|service| format!("service={}", encode(service))).collect();
        query.extend(scopes.iter().map(|scope| format!("scope={}", encode(scope))));
        if let Some(Credentials::IdentityToken(token)) = credentials {
            query.push("grant_type=refresh_token&client_id=opm".into());
            query.push(format!("refresh_token={}", encode(token)));
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            let body = RequestBody::Private(Bytes::from(query.join("&")));
            return Ok(HttpRequest {
                headers,
                body,
                method: Method::POST,
                ..HttpRequest::get(self.uri.clone(), self.trust)
            });
        }
        let mut authorization = None;
        if let Some(Credentials::Password { user, password }) = credentials {
            authorization = Some(Authorization::new(self.origin.clone(), basic(user, password)?));
            query.push(format!("account={}", encode(user)));
        }
        let mark = if self.uri.query().is_some() { '&' } else { '?' };
        let address = format!("{}{mark}{}", self.uri, query.join("&"));
        let uri: Uri = address.parse().map_err(|_| token_error(format!("invalid URL {:?}", self.uri)))?;
        Ok(HttpRequest { authorization, ..HttpRequest::get(uri, self.trust) })
    }
}

fn token_error(text: String) -> Error {
    Error::new(ErrorKind::Unauthorized, format!("getting a token: {text}"))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, Error> {
    let encoded = base64_simd::STANDARD.encode_to_string(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).map_err(|_| {
        Error::new(ErrorKind::Unauthorized, "the credentials contain characters that HTTP headers do not allow")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
