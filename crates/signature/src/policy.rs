//! `policy.json`: the requirements for images.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::identity::Identity;
use crate::strict::{self, Fields, Value};

/// A policy file. Parsing is strict: anything unknown makes the whole file invalid, because a typo must not disable a
/// check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    default: Vec<Requirement>,
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

/// Why a text is not a valid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

/// One requirement for an image. An image must meet all listed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
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
    /// The trusted signers.
    pub trust: Trust,
    /// Keys of transparency logs; one of them must have logged the signature.
    pub rekor: Vec<Material>,
    /// The images that the signature is valid for.
    pub identity: Identity,
}

/// The trusted signers of a sigstore signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
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
    /// The requirements.
    pub requirements: &'a [Requirement],
}

impl Policy {
    /// Parses a policy.
    ///
    /// # Errors
    /// Fails when anything is unknown, duplicate or invalid.
    pub fn parse(text: &[u8]) -> Result<Policy, PolicyError> {
        read(text).map_err(PolicyError)
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

impl Requirement {
    /// Returns the type as written in a policy.
    pub fn kind(&self) -> &'static str {
        match self {
            Requirement::InsecureAcceptAnything => "insecureAcceptAnything",
            Requirement::Reject => "reject",
            Requirement::SignedBy(_) => "signedBy",
            Requirement::SigstoreSigned(_) => "sigstoreSigned",
            Requirement::SignedBaseLayer => "signedBaseLayer",
        }
    }

    /// Returns whether the requirement needs signatures.
    pub fn needs_signatures(&self) -> bool {
        matches!(self, Requirement::SignedBy(_) | Requirement::SigstoreSigned(_))
    }
}

fn read(text: &[u8]) -> Result<Policy, String> {
    let mut fields = Fields::of(strict::parse(text)?, "the policy")?;
    let default = requirements(fields.required("default")?)?;
    let mut transports = BTreeMap::new();
    if let Some(value) = fields.any("transports") {
        for (transport, scopes) in Fields::of(value, "transports")?.rest() {
            let mut rules = BTreeMap::new();
            for (scope, value) in Fields::of(scopes, "a transport")?.rest() {
                check_scope(&transport, &scope)?;
                let listed = requirements(value).map_err(|error| format!("{transport} {scope:?}: {error}"))?;
                rules.insert(scope, listed);
            }
            transports.insert(transport, rules);
        }
    }
    fields.end()?;
    Ok(Policy { default, transports })
}

/// Checks the scopes of transports with a defined form.
fn check_scope(transport: &str, scope: &str) -> Result<(), String> {
    let invalid = |why: &str| Err(format!("invalid scope {scope:?} of {transport}: {why}"));
    match transport {
        _ if scope.is_empty() => Ok(()),
        "dir" | "oci" | "oci-archive" => {
            if !scope.starts_with('/') {
                invalid("it is not absolute")
            } else if scope == "/" {
                invalid("the scope of everything is \"\"")
            } else if scope.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
                invalid("it is not a canonical path")
            } else {
                Ok(())
            }
        }
        "docker-archive" | "docker-daemon" | "tarball" => invalid("the only scope is \"\""),
        _ => Ok(()),
    }
}

fn requirements(value: Value) -> Result<Vec<Requirement>, String> {
    match value {
        Value::List(items) if items.is_empty() => Err("a list of requirements is empty".into()),
        Value::List(items) => items.into_iter().map(requirement).collect(),
        other => Err(format!("requirements are {}, not a list", other.kind())),
    }
}

fn requirement(value: Value) -> Result<Requirement, String> {
    let mut fields = Fields::of(value, "a requirement")?;
    let requirement = match fields.required_text("type")?.as_str() {
        "insecureAcceptAnything" => Requirement::InsecureAcceptAnything,
        "reject" => Requirement::Reject,
        "signedBy" => Requirement::SignedBy(signed_by(&mut fields)?),
        "sigstoreSigned" => Requirement::SigstoreSigned(sigstore_signed(&mut fields)?),
        "signedBaseLayer" => {
            Identity::read(fields.required("baseLayerIdentity")?)?;
            Requirement::SignedBaseLayer
        }
        other => return Err(format!("unknown type of requirement {other:?}")),
    };
    fields.end()?;
    Ok(requirement)
}

fn signed_by(fields: &mut Fields) -> Result<SignedBy, String> {
    let key_type = fields.required_text("keyType")?;
    if !["GPGKeys", "signedByGPGKeys", "X509Certificates", "signedByX509CAs"].contains(&key_type.as_str()) {
        return Err(format!("unknown keyType {key_type:?}"));
    }
    let mut sources = Vec::new();
    sources.extend(path(fields, "keyPath")?);
    sources.extend(paths(fields, "keyPaths")?);
    sources.extend(data(fields, "keyData")?);
    let keys = only(sources, "keyPath, keyPaths and keyData")?;
    Ok(SignedBy { key_type, keys, identity: identity(fields)? })
}

fn sigstore_signed(fields: &mut Fields) -> Result<SigstoreSigned, String> {
    let mut sources = Vec::new();
    sources.extend(path(fields, "keyPath")?.map(Trust::Keys));
    sources.extend(paths(fields, "keyPaths")?.map(Trust::Keys));
    sources.extend(data(fields, "keyData")?.map(Trust::Keys));
    sources.extend(datas(fields, "keyDatas")?.map(Trust::Keys));
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
        (Trust::Fulcio { .. }, false) => Err("fulcio needs a rekorPublicKey, which proves the time of signing".into()),
        (Trust::Pki { .. }, true) => Err("pki and a rekorPublicKey cannot be used together".into()),
        _ => Ok(SigstoreSigned { trust, rekor, identity: identity(fields)? }),
    }
}

fn fulcio(value: Value) -> Result<Trust, String> {
    let mut fields = Fields::of(value, "fulcio")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caPath")?);
    sources.extend(data(&mut fields, "caData")?);
    let mut authorities = only(sources, "caPath and caData in fulcio")?;
    let issuer = filled(&mut fields, "oidcIssuer")?.ok_or("fulcio has no \"oidcIssuer\"")?;
    let email = filled(&mut fields, "subjectEmail")?.ok_or("fulcio has no \"subjectEmail\"")?;
    fields.end()?;
    Ok(Trust::Fulcio { authorities: authorities.remove(0), issuer, email })
}

fn pki(value: Value) -> Result<Trust, String> {
    let mut fields = Fields::of(value, "pki")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caRootsPath")?);
    sources.extend(data(&mut fields, "caRootsData")?);
    let mut roots = only(sources, "caRootsPath and caRootsData in pki")?;
    let mut sources = Vec::new();
    sources.extend(path(&mut fields, "caIntermediatesPath")?);
    sources.extend(data(&mut fields, "caIntermediatesData")?);
    if sources.len() > 1 {
        return Err("caIntermediatesPath and caIntermediatesData cannot be used together".into());
    }
    let email = filled(&mut fields, "subjectEmail")?;
    let hostname = filled(&mut fields, "subjectHostname")?;
    if email.is_none() && hostname.is_none() {
        return Err("pki has neither \"subjectEmail\" nor \"subjectHostname\"".into());
    }
    fields.end()?;
    let intermediates = sources.into_iter().flatten().next();
    Ok(Trust::Pki { roots: roots.remove(0), intermediates, email, hostname })
}

fn identity(fields: &mut Fields) -> Result<Identity, String> {
    fields.any("signedIdentity").map_or(Ok(Identity::MatchRepoDigestOrExact), Identity::read)
}

fn only<T>(mut sources: Vec<T>, names: &str) -> Result<T, String> {
    match (sources.pop(), sources.len()) {
        (Some(source), 0) => Ok(source),
        _ => Err(format!("exactly one of {names} is needed")),
    }
}

fn filled(fields: &mut Fields, key: &str) -> Result<Option<String>, String> {
    match fields.text(key)? {
        Some(text) if text.is_empty() => Err(format!("{key:?} is empty")),
        other => Ok(other),
    }
}

fn path(fields: &mut Fields, key: &str) -> Result<Option<Vec<Material>>, String> {
    Ok(filled(fields, key)?.map(|path| vec![Material::Path(path.into())]))
}

fn paths(fields: &mut Fields, key: &str) -> Result<Option<Vec<Material>>, String> {
    let Some(paths) = fields.texts(key)? else { return Ok(None) };
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err(format!("{key:?} is empty, or one of its paths is"));
    }
    Ok(Some(paths.into_iter().map(|path| Material::Path(path.into())).collect()))
}

fn data(fields: &mut Fields, key: &str) -> Result<Option<Vec<Material>>, String> {
    fields.text(key)?.map(|text| Ok(vec![Material::Data(decode(key, &text)?)])).transpose()
}

fn datas(fields: &mut Fields, key: &str) -> Result<Option<Vec<Material>>, String> {
    let Some(texts) = fields.texts(key)? else { return Ok(None) };
    if texts.is_empty() {
        return Err(format!("{key:?} is empty"));
    }
    texts.iter().map(|text| Ok(Material::Data(decode(key, text)?))).collect::<Result<_, String>>().map(Some)
}

fn decode(key: &str, text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).map_err(|_| format!("{key:?} is not base64"))
}
