//! `policy.json`: the requirements for images.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::signature::identity::{Identity, IdentityError};
use crate::signature::strict::{self, JsonError, StrictObject, StrictValue};

/// A policy file. Parsing is strict: anything unknown makes the whole file invalid, because a typo must not disable a
/// check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    default: Vec<PolicyRequirement>,
    transports: BTreeMap<String, BTreeMap<String, Vec<PolicyRequirement>>>,
}

/// Why a text is not a valid policy.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PolicyError(#[from] PolicyFault);

#[derive(Debug, thiserror::Error)]
enum PolicyFault {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{transport} {scope:?}: {source}")]
    InScope { transport: String, scope: String, source: Box<PolicyFault> },
    #[error("invalid scope {scope:?} of {transport}: {fault}")]
    Scope { transport: String, scope: String, fault: ScopeFault },
    #[error("a list of requirements is empty")]
    NoRequirements,
    #[error("requirements are {0}, not a list")]
    NotRequirements(&'static str),
    #[error("unknown type of requirement {0:?}")]
    UnknownRequirement(String),
    #[error("unknown keyType {0:?}")]
    UnknownKeyType(String),
    #[error("exactly one of {0} is needed")]
    NotOne(&'static str),
    #[error("fulcio needs a rekorPublicKey, which proves the time of signing")]
    FulcioWithoutLog,
    #[error("pki and a rekorPublicKey cannot be used together")]
    PkiWithLog,
    #[error("caIntermediatesPath and caIntermediatesData cannot be used together")]
    TwoIntermediates,
    #[error("pki has neither \"subjectEmail\" nor \"subjectHostname\"")]
    NoSubject,
    #[error("{0:?} is empty")]
    Empty(String),
    #[error("{0:?} is empty, or one of its paths is")]
    EmptyPath(String),
    #[error("{0:?} is not base64")]
    NotBase64(String),
}

/// Why a scope can never match an image.
#[derive(Debug, thiserror::Error)]
enum ScopeFault {
    #[error("it is not absolute")]
    Relative,
    #[error("the scope of everything is \"\"")]
    Root,
    #[error("it is not a canonical path")]
    NotCanonical,
    #[error("the only scope is \"\"")]
    NotEmpty,
}

/// One requirement for an image. An image must meet all listed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyRequirement {
    /// Accepts any image.
    InsecureAcceptAnything,
    /// Rejects every image.
    Reject,
    /// Simple signing: an OpenPGP message with a claim.
    SignedBy(SignedBy),
    /// A sigstore signature, as made by cosign.
    SigstoreSigned(SigstoreSigned),
    /// The base layer belongs to a signed image. No tool implements this.
    SignedBaseLayer,
}

/// The parameters of `signedBy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    /// The type of the keys; tools implement only `GPGKeys`.
    pub key_type: String,
    /// The keyrings.
    pub keys: Vec<Material>,
    /// The images that the signature is valid for.
    pub identity: Identity,
}

/// The parameters of `sigstoreSigned`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigstoreSigned {
    pub trust: TrustedSigners,
    /// Keys of transparency logs; one of them must have logged the signature.
    pub rekor: Vec<Material>,
    /// The images that the signature is valid for.
    pub identity: Identity,
}

/// The trusted signers of a sigstore signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedSigners {
    /// The owners of these keys.
    Keys(Vec<Material>),
    /// The owner of a short-lived certificate for this identity.
    Fulcio {
        /// Certificates of the authorities.
        authorities: Material,
        /// The identity issuer.
        issuer: String,
        /// The identity.
        email: String,
    },
    /// The owner of a certificate for this subject.
    Pki {
        /// The root certificates.
        roots: Material,
        /// The intermediate certificates.
        intermediates: Option<Material>,
        /// The required email address.
        email: Option<String>,
        /// The required host name.
        hostname: Option<String>,
    },
}

/// Keys or certificates, in a file or inline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// In a file.
    Path(PathBuf),
    /// In the policy itself.
    Data(Vec<u8>),
}

/// The part of a policy that applies to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied<'a> {
    /// The transport and the scope; `None` is the default of the policy.
    pub scope: Option<(&'a str, &'a str)>,
    pub requirements: &'a [PolicyRequirement],
}

impl SignaturePolicy {
    /// Parses a policy.
    ///
    /// # Errors
    /// Fails when anything is unknown, duplicate or invalid.
    pub fn parse(text: &[u8]) -> Result<SignaturePolicy, PolicyError> {
        Ok(read(text)?)
    }

    /// Returns the requirements for an image with these scopes, narrowest first.
    pub fn applied<'a>(&'a self, transport: &str, scopes: &[String]) -> Applied<'a> {
        let found = self.transports.get_key_value(transport).and_then(|(transport, rules)| {
            let (scope, requirements) = scopes.iter().find_map(|scope| rules.get_key_value(scope))?;
            Some(Applied { scope: Some((transport, scope)), requirements })
        });
        found.unwrap_or(Applied { scope: None, requirements: &self.default })
    }
}

impl PolicyRequirement {
    /// Returns the type as written in a policy.
    pub fn kind(&self) -> &'static str {
        match self {
            PolicyRequirement::InsecureAcceptAnything => "insecureAcceptAnything",
            PolicyRequirement::Reject => "reject",
            PolicyRequirement::SignedBy(_) => "signedBy",
            PolicyRequirement::SigstoreSigned(_) => "sigstoreSigned",
            PolicyRequirement::SignedBaseLayer => "signedBaseLayer",
        }
    }

    /// Returns whether the requirement needs signatures.
    pub fn needs_signatures(&self) -> bool {
        matches!(self, PolicyRequirement::SignedBy(_) | PolicyRequirement::SigstoreSigned(_))
    }
}

fn read(text: &[u8]) -> Result<SignaturePolicy, PolicyFault> {
    let mut fields = StrictObject::of(strict::parse(text)?, "the policy")?;
    let default = requirements(fields.required("default")?)?;
    let mut transports = BTreeMap::new();
    if let Some(value) = fields.any("transports") {
        for (transport, scopes) in StrictObject::of(value, "transports")?.rest() {
            let mut rules = BTreeMap::new();
            for (scope, value) in StrictObject::of(scopes, "a transport")?.rest() {
                check_scope(&transport, &scope)?;
                let listed = requirements(value).map_err(|source| PolicyFault::InScope {
                    transport: transport.clone(),
                    scope: scope.clone(),
                    source: Box::new(source),
                })?;
                rules.insert(scope, listed);
            }
            transports.insert(transport, rules);
        }
    }
    fields.end()?;
    Ok(SignaturePolicy { default, transports })
}

/// Checks the scopes of transports with a defined form.
fn check_scope(transport: &str, scope: &str) -> Result<(), PolicyFault> {
    let invalid = |fault| Err(PolicyFault::Scope { transport: transport.to_owned(), scope: scope.to_owned(), fault });
    match transport {
        _ if scope.is_empty() => Ok(()),
        "dir" | "oci" | "oci-archive" => {
            if !scope.starts_with('/') {
                invalid(ScopeFault::Relative)
            } else if scope == "/" {
                invalid(ScopeFault::Root)
            } else if scope.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
                invalid(ScopeFault::NotCanonical)
            } else {
                Ok(())
            }
        }
        "docker-archive" | "docker-daemon" | "tarball" => invalid(ScopeFault::NotEmpty),
        _ => Ok(()),
    }
}

fn requirements(value: StrictValue) -> Result<Vec<PolicyRequirement>, PolicyFault> {
    match value {
        StrictValue::List(items) if items.is_empty() => Err(PolicyFault::NoRequirements),
        StrictValue::List(items) => items.into_iter().map(requirement).collect(),
        other => Err(PolicyFault::NotRequirements(other.kind())),
    }
}

fn requirement(value: StrictValue) -> Result<PolicyRequirement, PolicyFault> {
    let mut fields = StrictObject::of(value, "a requirement")?;
    let requirement = match fields.required_text("type")?.as_str() {
        "insecureAcceptAnything" => PolicyRequirement::InsecureAcceptAnything,
        "reject" => PolicyRequirement::Reject,
        "signedBy" => PolicyRequirement::SignedBy(signed_by(&mut fields)?),
        "sigstoreSigned" => PolicyRequirement::SigstoreSigned(sigstore_signed(&mut fields)?),
        "signedBaseLayer" => {
            Identity::read(fields.required("baseLayerIdentity")?)?;
            PolicyRequirement::SignedBaseLayer
        }
        other => return Err(PolicyFault::UnknownRequirement(other.to_owned())),
    };
    fields.end()?;
    Ok(requirement)
}

fn signed_by(fields: &mut StrictObject) -> Result<SignedBy, PolicyFault> {
    let key_type = fields.required_text("keyType")?;
    if !["GPGKeys", "signedByGPGKeys", "X509Certificates", "signedByX509CAs"].contains(&key_type.as_str()) {
        return Err(PolicyFault::UnknownKeyType(key_type));
    }
    let mut sources = Vec::new();
    sources.extend(path(fields, "keyPath")?);
    sources.extend(paths(fields, "keyPaths")?);
    sources.extend(data(fields, "keyData")?);
    let keys = only(sources, "keyPath, keyPaths and keyData")?;
    Ok(SignedBy { key_type, keys, identity: identity(fields)? })
}

fn sigstore_signed(fields: &mut StrictObject) -> Result<SigstoreSigned, PolicyFault> {
    let mut sources = Vec::new();
    sources.extend(path(fields, "keyPath")?.map(TrustedSigners::Keys));
    sources.extend(paths(fields, "keyPaths")?.map(TrustedSigners::Keys));
    sources.extend(data(fields, "keyData")?.map(TrustedSigners::Keys));
    sources.extend(datas(fields, "keyDatas")?.map(TrustedSigners::Keys));
    if let Some(value) = fields.any("fulcio") {
        sources.push(fulcio(value)?);
    }
    if let Some(value) = fields.any("pki") {
        sources.push(pki(value)?);
    }
    let trust = only(sources, "keyPath, keyPaths, keyData, keyDatas, fulcio and pki")?;
    let mut logs = Vec::new();
    logs.extend(path(fields, "rekorPublicKeyPath")?);
    logs.extend(paths(fields, "rekorPublicKeyPaths")?);
    logs.extend(data(fields, "rekorPublicKeyData")?);
    logs.extend(datas(fields, "rekorPublicKeyDatas")?);
    let some = !logs.is_empty();
    let rekor = if some {
        only(logs, "rekorPublicKeyPath, rekorPublicKeyPaths, rekorPublicKeyData and rekorPublicKeyDatas")?
    } else {
        Vec::new()
    };
    match (&trust, some) {
        (TrustedSigners::Fulcio { .. }, false) => Err(PolicyFault::FulcioWithoutLog),
        (TrustedSigners::Pki { .. }, true) => Err(PolicyFault::PkiWithLog),
        _ => Ok(SigstoreSigned { trust, rekor, identity: identity(fields)? }),
    }
}

fn fulcio(value: StrictValue) -> Result<TrustedSigners, PolicyFault> {
    let mut fields = StrictObject::of(value, "fulcio")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caPath")?);
    sources.extend(data(&mut fields, "caData")?);
    let mut authorities = only(sources, "caPath and caData in fulcio")?;
    let issuer = filled(&mut fields, "oidcIssuer")?.ok_or_else(|| fields.missing("oidcIssuer"))?;
    let email = filled(&mut fields, "subjectEmail")?.ok_or_else(|| fields.missing("subjectEmail"))?;
    fields.end()?;
    Ok(TrustedSigners::Fulcio { authorities: authorities.remove(0), issuer, email })
}

fn pki(value: StrictValue) -> Result<TrustedSigners, PolicyFault> {
    let mut fields = StrictObject::of(value, "pki")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caRootsPath")?);
    sources.extend(data(&mut fields, "caRootsData")?);
    let mut roots = only(sources, "caRootsPath and caRootsData in pki")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caIntermediatesPath")?);
    sources.extend(data(&mut fields, "caIntermediatesData")?);
    if sources.len() > 1 {
        return Err(PolicyFault::TwoIntermediates);
    }
    let email = filled(&mut fields, "subjectEmail")?;
    let hostname = filled(&mut fields, "subjectHostname")?;
    if email.is_none() && hostname.is_none() {
        return Err(PolicyFault::NoSubject);
    }
    fields.end()?;
    let intermediates = sources.into_iter().flatten().next();
    Ok(TrustedSigners::Pki { roots: roots.remove(0), intermediates, email, hostname })
}

fn identity(fields: &mut StrictObject) -> Result<Identity, IdentityError> {
    fields.any("signedIdentity").map_or(Ok(Identity::MatchRepoDigestOrExact), Identity::read)
}

fn only<T>(mut sources: Vec<T>, names: &'static str) -> Result<T, PolicyFault> {
    match (sources.pop(), sources.len()) {
        (Some(source), 0) => Ok(source),
        _ => Err(PolicyFault::NotOne(names)),
    }
}

fn filled(fields: &mut StrictObject, key: &str) -> Result<Option<String>, PolicyFault> {
    match fields.text(key)? {
        Some(text) if text.is_empty() => Err(PolicyFault::Empty(key.to_owned())),
        other => Ok(other),
    }
}

fn path(fields: &mut StrictObject, key: &str) -> Result<Option<Vec<Material>>, PolicyFault> {
    Ok(filled(fields, key)?.map(|path| vec![Material::Path(path.into())]))
}

fn paths(fields: &mut StrictObject, key: &str) -> Result<Option<Vec<Material>>, PolicyFault> {
    let Some(paths) = fields.texts(key)? else { return Ok(None) };
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err(PolicyFault::EmptyPath(key.to_owned()));
    }
    Ok(Some(paths.into_iter().map(|path| Material::Path(path.into())).collect()))
}

fn data(fields: &mut StrictObject, key: &str) -> Result<Option<Vec<Material>>, PolicyFault> {
    fields.text(key)?.map(|text| Ok(vec![Material::Data(decode(key, &text)?)])).transpose()
}

fn datas(fields: &mut StrictObject, key: &str) -> Result<Option<Vec<Material>>, PolicyFault> {
    let Some(texts) = fields.texts(key)? else { return Ok(None) };
    if texts.is_empty() {
        return Err(PolicyFault::Empty(key.to_owned()));
    }
    texts.iter().map(|text| Ok(Material::Data(decode(key, text)?))).collect::<Result<_, PolicyFault>>().map(Some)
}

fn decode(key: &str, text: &str) -> Result<Vec<u8>, PolicyFault> {
    let text: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).map_err(|_| PolicyFault::NotBase64(key.to_owned()))
}
