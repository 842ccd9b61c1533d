//! How an image would be reached: which files count, and what the registry says. No secret is in it.

use std::path::PathBuf;
use std::time::Instant;

use http::Uri;
use serde::Serialize;

use crate::auth::Credentials;
use crate::client::{Client, Inner};
use crate::http::{HostCertificates, Trust};
use crate::registry::{Challenge, Source, address};
use crate::{Digest, Error, ErrorKind, Location, Reference};

/// How an image would be reached.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The image, as it was named.
    pub reference: String,
    /// The files with settings for registries that were read.
    pub registries_conf: Vec<PathBuf>,
    /// The one among them with the rule for this image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<PathBuf>,
    /// The policy, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,
    /// The signatures that it asks for, by the types of its requirements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<&'static str>,
    /// What stands in the way before any registry is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The places that would be asked, in order.
    pub places: Vec<Place>,
}

impl Explanation {
    /// Returns whether one of the places has the image.
    pub fn is_good(&self) -> bool {
        self.problem.is_none() && self.places.iter().any(|place| place.digest.is_some())
    }
}

/// What went wrong, and what can be done about it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What went wrong.
    pub text: String,
    /// What can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        Problem { text: error.to_string(), help: error.help().map(Into::into) }
    }
}

/// A place that an image may be at: its registry, or a mirror.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// What the image is called there.
    pub reference: String,
    /// Whether it is a mirror.
    pub mirror: bool,
    /// The address that was asked, with its scheme.
    pub address: String,
    /// Whether certificates count.
    pub verified: bool,
    /// The proxy in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The certificates that are used.
    pub certificates: Certificates,
    /// The credentials that are used.
    pub credentials: Option<CredentialsUsed>,
    /// The files that were searched for credentials, if none were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<PathBuf>,
    /// How the registry answered when it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What it asks for: nothing, a password, or a token from somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_for: Option<String>,
    /// The digest of the image there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What the image is: a manifest or an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// Certificates that are used for a place.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// How many root certificates are known: the system's, and those of `--ca-file`.
    pub roots: usize,
    /// The directory with certificates for just this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Authorities in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<PathBuf>,
    /// The certificate that we show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<PathBuf>,
    /// The directories that were looked at, if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<PathBuf>,
}

/// Where credentials come from. What they are is not told.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsUsed {
    /// The file.
    pub file: PathBuf,
    /// The key in it.
    pub key: String,
    /// The program that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<String>,
    /// What they are: a password or an identity token.
    pub kind: &'static str,
}

impl Client {
    /// Finds out how an image would be reached, by trying all of its places.
    pub fn explain(&self, reference: &Reference) -> Explanation {
        self.block_on(self.explain_async(reference))
    }

    /// Does what [`Client::explain`] does, for those who can wait in other ways.
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
            let error = Error::new(ErrorKind::Offline, "the network may not be used, so that nobody was asked");
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
    async fn explain_place(&self, source: &Source, mirror: bool) -> Place {
        let host = address(source.reference.host());
        let mut place = Place {
            reference: source.reference.to_string(),
            mirror,
            address: format!("https://{host}"),
            verified: true,
            proxy: None,
            certificates: Certificates::default(),
            credentials: None,
            searched: Vec::new(),
            status: None,
            asks_for: None,
            digest: None,
            media_type: None,
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
                place.verified = endpoint.trust == Trust::Verified;
                place.status = Some(endpoint.status);
                place.asks_for = Some(match &endpoint.challenge {
                    None => "nothing".into(),
                    Some(Challenge::Basic) => "a password".into(),
                    Some(Challenge::Bearer { realm, .. }) => format!("a token from {}", without_query(realm)),
                });
                match self.registry.manifest(source, &source.reference.version()).await {
                    Err(error) => place.problem = Some((&error).into()),
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
                // The name and the word in front of the host are nobody's business.
                let host = proxy.authority().map(|it| it.as_str().rsplit('@').next().unwrap_or_default().to_owned());
                format!("{scheme}://{}", host.unwrap_or_default())
            });
        }
        if place.address.starts_with("https") {
            place.certificates = self.certificates(host);
        }
        place
    }

    fn certificates(&self, host: &str) -> Certificates {
        let roots = self.registry.http.root_count();
        match HostCertificates::find(&self.options.environment, host) {
            None => {
                let searched = HostCertificates::directories(&self.options.environment, host);
                Certificates { roots, searched, ..Certificates::default() }
            }
            Some(own) => Certificates {
                roots,
                directory: Some(own.directory),
                authorities: own.authorities,
                ours: own.identity.map(|(certificate, _)| certificate),
                searched: Vec::new(),
            },
        }
    }
}

fn without_query(address: &str) -> &str {
    address.split('?').next().unwrap_or(address)
}
