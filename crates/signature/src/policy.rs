//! `policy.json`: what is asked of which image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::identity::Identity;
use crate::strict::{self, Fields, Value};

/// What a policy file says. Reading it is strict: whatever is unknown makes the whole file invalid,
/// because a typo must not turn a check off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    default: Vec<Requirement>,
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

/// Why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

/// One thing that is asked of an image. All that are listed have to be fulfilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// Any image will do.
    InsecureAcceptAnything,
    /// No image will do.
    Reject,
    /// Simple signing: an OpenPGP message that holds a claim.
    SignedBy(SignedBy),
    /// A sigstore signature, as cosign makes it.
    SigstoreSigned(SigstoreSigned),
    /// The lowest layer belongs to a signed image. Nobody implements this.
    SignedBaseLayer,
}

/// What `signedBy` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    /// What the keys are; only `GPGKeys` is implemented by anybody.
    pub key_type: String,
    /// Rings of keys.
    pub keys: Vec<Material>,
    /// For which image the signature may speak.
    pub identity: Identity,
}

/// What `sigstoreSigned` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigstoreSigned {
    /// Who is trusted.
    pub trust: Trust,
    /// Keys of transparency logs; one of them has to have seen the signature.
    pub rekor: Vec<Material>,
    /// For which image the signature may speak.
    pub identity: Identity,
}

/// Who may make a sigstore signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Whoever has one of these keys.
    Keys(Vec<Material>),
    /// Whoever got a certificate that lives for minutes for this identity.
    Fulcio {
        /// Certificates of authorities.
        authorities: Material,
        /// Who vouched for the identity.
        issuer: String,
        /// The identity.
        email: String,
    },
    /// Whoever has a certificate for this subject.
    Pki {
        /// Certificates of authorities.
        roots: Material,
        /// Certificates between those and the signer's.
        intermediates: Option<Material>,
        /// An address that the certificate has to be for.
        email: Option<String>,
        /// A host that the certificate has to be for.
        hostname: Option<String>,
    },
}

/// Keys or certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// In a file.
    Path(PathBuf),
    /// In the policy itself.
    Data(Vec<u8>),
}

/// Which part of a policy counts for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied<'a> {
    /// The transport and the scope; none is the default of the whole policy.
    pub scope: Option<(&'a str, &'a str)>,
    /// What is asked.
    pub requirements: &'a [Requirement],
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// Fails when anything in it is unknown, twice, or makes no sense.
    pub fn parse(text: &[u8]) -> Result<Policy, PolicyError> {
        read(text).map_err(PolicyError)
    }

    /// Finds what is asked of an image that has these scopes, the narrowest first.
    pub fn applied<'a>(&'a self, transport: &str, scopes: &[String]) -> Applied<'a> {
        let found = self.transports.get_key_value(transport).and_then(|(transport, rules)| {
            let (scope, requirements) = scopes.iter().find_map(|scope| rules.get_key_value(scope))?;
            Some(Applied { scope: Some((transport, scope)), requirements })
        });
        found.unwrap_or(Applied { scope: None, requirements: &self.default })
    }
}

impl Requirement {
    /// Returns the type as a policy writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Requirement::InsecureAcceptAnything => "insecureAcceptAnything",
            Requirement::Reject => "reject",
            Requirement::SignedBy(_) => "signedBy",
            Requirement::SigstoreSigned(_) => "sigstoreSigned",
            Requirement::SignedBaseLayer => "signedBaseLayer",
        }
    }

    /// Returns whether signatures have to be at hand to decide.
    pub fn needs_signatures(&self) -> bool {
        matches!(self, Requirement::SignedBy(_) | Requirement::SigstoreSigned(_))
    }
}

fn read(text: &[u8]) -> Result<Policy, String> {
    let mut fields = Fields::of(strict::parse(text)?, "the policy")?;
    let default = requirements(fields.needed("default")?)?;
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

/// Checks the scopes of transports that have a form for them.
fn check_scope(transport: &str, scope: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("invalid scope {scope:?} of {transport}: {why}"));
    match transport {
        _ if scope.is_empty() => Ok(()),
        "dir" | "oci" | "oci-archive" => {
            if !scope.starts_with('/') {
                wrong("it is not absolute")
            } else if scope == "/" {
                wrong("the scope of everything is \"\"")
            } else if scope.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
                wrong("it is not in its shortest form")
            } else {
                Ok(())
            }
        }
        "docker-archive" | "docker-daemon" | "tarball" => wrong("there is no scope but \"\""),
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
    let requirement = match fields.needed_text("type")?.as_str() {
        "insecureAcceptAnything" => Requirement::InsecureAcceptAnything,
        "reject" => Requirement::Reject,
        "signedBy" => Requirement::SignedBy(signed_by(&mut fields)?),
        "sigstoreSigned" => Requirement::SigstoreSigned(sigstore_signed(&mut fields)?),
        "signedBaseLayer" => {
            Identity::read(fields.needed("baseLayerIdentity")?)?;
            Requirement::SignedBaseLayer
        }
        other => return Err(format!("unknown type of requirement {other:?}")),
    };
    fields.end()?;
    Ok(requirement)
}

fn signed_by(fields: &mut Fields) -> Result<SignedBy, String> {
    let key_type = fields.needed_text("keyType")?;
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
