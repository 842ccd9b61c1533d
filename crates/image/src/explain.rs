//! Explains how an image is reached: the settings that apply and the responses of registries. Contains no secrets.

mod text;

use std::path::PathBuf;
use std::time::Instant;

use http::Uri;
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::Credentials;
use crate::client::{Client, Inner};
use crate::http::{HostCertificates, TlsTrust};
use crate::registry::{Challenge, RegistrySource, address};
use crate::{Digest, Error, ErrorKind, Location, Reference};

/// The number of tags to suggest.
const MAX_TAGS: usize = 10;

/// How an image is reached.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The image, as named by the user.
    pub reference: String,
    /// The `registries.conf` files that were read.
    pub registries_conf: Vec<PathBuf>,
    /// The file with the rule for this image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<PathBuf>,
    /// The policy, if one exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,
    /// The signatures that the policy requires, by requirement type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<&'static str>,
    /// A problem that prevents any request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ExplainedProblem>,
    /// The sources to try, in order.
    pub places: Vec<ExplainedSource>,
}

impl Explanation {
    /// Returns why none of the sources has the image.
    pub fn verdict(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.text.clone());
        }
        if self.places.iter().any(|place| place.digest.is_some()) {
            return None;
        }
        let answers: Vec<String> = self.places.iter().map(ExplainedSource::verdict).collect();
        match answers.as_slice() {
            [answer] => Some(answer.clone()),
            _ => Some(format!("{} is nowhere: {}", self.reference, answers.join("; "))),
        }
    }
}

/// A problem and its solution.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedProblem {
    /// The error message.
    pub text: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    pub(crate) kind: ErrorKind,
}

impl From<&Error> for ExplainedProblem {
    fn from(error: &Error) -> ExplainedProblem {
        ExplainedProblem { text: error.to_string(), help: error.help().map(Into::into), kind: error.kind() }
    }
}

/// A source of an image: its registry or a mirror.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedSource {
    /// The reference of the image at this source.
    pub reference: String,
    /// Whether it is a mirror.
    pub mirror: bool,
    /// The URL of the endpoint.
    pub address: String,
    /// Whether certificates are verified.
    pub verified: bool,
    /// The proxy, if one is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    pub certificates: SourceCertificates,
    pub credentials: Option<CredentialsUsed>,
    /// The auth files that were searched, if none had credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<PathBuf>,
    /// The status of the registry's response to the ping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The authentication it requires: none, a password, or a token from a realm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_for: Option<String>,
    /// The digest of the image at this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The media type: a manifest or an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The nearest existing tags, if this one is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether the registry has the repository, if that was asked.
    #[serde(skip)]
    pub(crate) has_repository: Option<bool>,
    /// The error, if the source failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ExplainedProblem>,
    /// The elapsed time in milliseconds.
    pub milliseconds: u64,
}

impl ExplainedSource {
    /// Returns what the source answered.
    fn verdict(&self) -> String {
        let reference = &self.reference;
        let Some(problem) = &self.problem else { return format!("{reference} cannot be read") };
        let host = self.address.split_once("://").map_or(&*self.address, |(_, host)| host);
        match (problem.kind, &self.credentials) {
            (ErrorKind::Unauthorized, None) => {
                format!("{host} requires credentials for {reference}, and there are none")
            }
            (ErrorKind::Unauthorized, Some(used)) => {
                format!("{host} rejected the credentials of {:?} in {} for {reference}", used.key, used.file.display())
            }
            (ErrorKind::NotFound, _) => match self.has_repository {
                Some(true) => format!("{host} has no {reference}: the repository exists, the tag does not"),
                Some(false) => format!("{host} has no {reference}: the repository does not exist"),
                None => format!("{host} has no {reference}"),
            },
            (ErrorKind::Certificate, _) => format!("the certificate of {host} is not trusted"),
            _ if self.status.is_none() => format!("{reference} cannot be reached"),
            _ => format!("{reference} cannot be read: {host} answered with an error"),
        }
    }
}

/// The certificates used for a source.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceCertificates {
    /// The number of root certificates: the system's and those of `--ca-file`.
    pub roots: usize,
    /// The `certs.d` directory of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The CA certificates in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<PathBuf>,
    /// The client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<PathBuf>,
    /// The directories that were searched, if none exists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<PathBuf>,
}

/// The source of credentials, without the credentials.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsUsed {
    pub file: PathBuf,
    /// The key of the entry.
    pub key: String,
    /// The credential helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<String>,
    /// The kind: a password or an identity token.
    pub kind: &'static str,
}

impl Client {
    /// Explains how an image is reached by trying all its sources.
    pub fn explain(&self, reference: &Reference) -> Explanation {
        self.block_on(self.explain_async(reference))
    }

    /// The async form of [`Client::explain`].
    pub(crate) async fn explain_async(&self, reference: &Reference) -> Explanation {
        let inner = self.inner();
        let mut explanation = Explanation {
            reference: reference.to_string(),
            registries_conf: Vec::new(),
            rule: None,
            policy: inner.policy_file(),
            signatures: inner.needed_signatures(reference),
            problem: None,
            places: Vec::new(),
        };
        if let Err(error) = inner.allow(&Location::Registry(reference.clone())) {
            explanation.problem = Some((&error).into());
        }
        let conf = match inner.conf() {
            Ok(conf) => conf,
            Err(error) => {
                explanation.problem = Some((&error).into());
                return explanation;
            }
        };
        explanation.registries_conf = conf.files().to_vec();
        explanation.rule = conf.file_for(reference).map(Into::into);
        if inner.options.offline {
            let error = Error::new(ErrorKind::Offline, "network access is disabled, so no registry was contacted");
            explanation.problem = Some((&error).into());
            return explanation;
        }
        match conf.candidates(reference) {
            Err(error) => explanation.problem = Some((&error).into()),
            Ok(candidates) => {
                for candidate in candidates {
                    explanation.places.push(inner.explain_place(&candidate.source, candidate.mirror).await);
                }
            }
        }
        explanation
    }
}

impl Inner {
    async fn explain_place(&self, source: &RegistrySource, mirror: bool) -> ExplainedSource {
        let host = address(source.reference.host());
        let mut place = ExplainedSource {
            reference: source.reference.to_string(),
            mirror,
            address: format!("https://{host}"),
            verified: true,
            proxy: None,
            certificates: SourceCertificates::default(),
            credentials: None,
            searched: Vec::new(),
            status: None,
            asks_for: None,
            digest: None,
            media_type: None,
            tags: Vec::new(),
            has_repository: None,
            problem: None,
            milliseconds: 0,
        };
        match self.registry.credentials(source).await {
            Err(error) => place.problem = Some((&error).into()),
            Ok(None) => place.searched = self.registry.auth.paths(),
            Ok(Some(found)) => {
                let kind = match found.credentials {
                    Credentials::Password { .. } => "password",
                    Credentials::IdentityToken(_) => "identity token",
                };
                let (file, key, helper) = (found.file, found.key, found.helper);
                place.credentials = Some(CredentialsUsed { file, key, helper, kind });
            }
        }
        let start = Instant::now();
        let outcome = if place.problem.is_some() { None } else { Some(self.registry.endpoint(source).await) };
        match outcome {
            None => {}
            Some(Err(error)) => place.problem = Some((&error).into()),
            Some(Ok(endpoint)) => {
                place.address = endpoint.base.clone();
                place.verified = endpoint.trust == TlsTrust::Verified;
                place.status = Some(endpoint.status);
                place.asks_for = Some(match &endpoint.challenge {
                    None => "nothing".into(),
                    Some(Challenge::Basic) => "a password".into(),
                    Some(Challenge::Bearer { realm, .. }) => format!("a token from {}", without_query(realm)),
                });
                match self.registry.manifest(source, &source.reference.version()).await {
                    Err(error) => {
                        place.problem = Some((&error).into());
                        if let (ErrorKind::NotFound, Some(tag)) = (error.kind(), source.reference.tag())
                            && let Ok(tags) = self.registry.known_tags(source).await
                        {
                            place.has_repository = Some(tags.is_some());
                            place.tags = nearest(tag, tags.unwrap_or_default());
                        }
                    }
                    Ok(document) => {
                        place.digest = Some(document.digest);
                        place.media_type = Some(document.media_type);
                    }
                }
            }
        }
        place.milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Ok(uri) = place.address.parse::<Uri>() {
            place.proxy = self.registry.http.proxy_for(&uri).map(|proxy| {
                let scheme = proxy.scheme_str().unwrap_or("http");
                // Drop user name and password of the proxy URL.
                let host = proxy.authority().map(|it| it.as_str().rsplit('@').next().unwrap_or_default().to_owned());
                format!("{scheme}://{}", host.unwrap_or_default())
            });
        }
        if place.address.starts_with("https") {
            place.certificates = self.certificates(host);
        }
        place
    }

    fn certificates(&self, host: &str) -> SourceCertificates {
        let roots = self.registry.http.root_count();
        match HostCertificates::find(&self.options.environment, host) {
            None => {
                let searched = HostCertificates::directories(&self.options.environment, host);
                SourceCertificates { roots, searched, ..SourceCertificates::default() }
            }
            Some(own) => SourceCertificates {
                roots,
                directory: Some(own.directory),
                authorities: own.authorities,
                ours: own.identity.map(|(certificate, _)| certificate),
                searched: Vec::new(),
            },
        }
    }
}

/// Returns the tags that are most like `tag`, the nearest first.
fn nearest(tag: &str, mut tags: Vec<String>) -> Vec<String> {
    // Registries are not trusted, and their tags are printed.
    let valid =
        |tag: &str| tag.len() <= 128 && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    tags.retain(|tag| valid(tag));
    tags.sort_by_cached_key(|other| (fbc::similar::distance(tag, other), other.clone()));
    tags.truncate(MAX_TAGS);
    tags
}

fn without_query(address: &str) -> &str {
    address.split('?').next().unwrap_or(address)
}
