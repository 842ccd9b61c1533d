//! `policy.json`: which images are allowed, and which signatures they need. Without this file, all images are
//! allowed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::signature::{Applied, AttachedSignature, Judgement, Name, PolicyRequirement, Subject};

use crate::client::{INSECURE_POLICY, Inner};
use crate::graph::ImageGraph;
use crate::registry::{RegistrySource, fallback_tag};
use crate::signature::sources::Collected;
use crate::{Digest, Environment, Error, ErrorKind, Location, Platform, Reference};

/// Maximum size of a policy or key file.
const FILE_LIMIT: u64 = 4 << 20;

/// A loaded policy file.
#[derive(Debug)]
pub(crate) struct LoadedPolicy {
    rules: crate::signature::SignaturePolicy,
    file: PathBuf,
}

/// Permission to use an image once its signatures are verified. Every image passes through one.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Option<Arc<PendingCheck>>);

/// The policy to check an image against.
#[derive(Debug)]
struct PendingCheck {
    policy: LoadedPolicy,
    location: Location,
}

/// An image in the store whose signatures are there, too.
#[derive(Debug, Clone)]
pub struct StoredImage {
    /// Its name, as policies and signatures refer to it.
    pub reference: Reference,
    /// The digest of its manifest or index.
    pub digest: Digest,
    /// The platforms that the store has; empty means all.
    pub platforms: Vec<Platform>,
    /// The manifests of sigstore signatures, by their tags.
    pub signatures: Vec<(String, Digest)>,
}

impl LoadedPolicy {
    /// Reads the given file, or else the user's, or else the system's.
    pub(crate) fn load(environment: &Environment, given: Option<&Path>) -> Result<Option<LoadedPolicy>, Error> {
        if let Some(path) = given {
            let content = read(path).map_err(|error| Error::file(path.display(), &error))?;
            return LoadedPolicy::parse(path, &content).map(Some);
        }
        let user = environment.config_home().map(|config| config.join("containers/policy.json"));
        let system = environment.etc().join("containers/policy.json");
        for path in user.into_iter().chain([system]) {
            match read(&path) {
                Ok(content) => return LoadedPolicy::parse(&path, &content).map(Some),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Error::file(path.display(), &error)),
            }
        }
        Ok(None)
    }

    fn parse(path: &Path, content: &[u8]) -> Result<LoadedPolicy, Error> {
        let to_error = |error| Error::new(ErrorKind::File, format!("invalid policy in {}: {error}", path.display()));
        let rules = crate::signature::SignaturePolicy::parse(content).map_err(to_error)?;
        Ok(LoadedPolicy { rules, file: path.to_owned() })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the requirements for an image.
    pub(crate) fn applied(&self, location: &Location) -> Applied<'_> {
        let (transport, scopes) = scopes(location);
        self.rules.applied(transport, &scopes)
    }

    /// Checks the requirements that need no content of the image; returns whether those are all.
    fn check(&self, location: &Location) -> Result<bool, Error> {
        let requirements = self.applied(location).requirements;
        for requirement in requirements {
            let text = match requirement {
                PolicyRequirement::InsecureAcceptAnything => continue,
                PolicyRequirement::Reject => {
                    let text = format!("{} is rejected by policy", shown(location));
                    let hint = format!("the policy is {}", self.file.display());
                    return Err(Error::new(ErrorKind::Forbidden, text).hint(hint));
                }
                // The containers tools do not implement it either.
                PolicyRequirement::SignedBaseLayer => "which no tool implements",
                PolicyRequirement::SignedBy(_) | PolicyRequirement::SigstoreSigned(_) => continue,
            };
            let text = format!("policy wants {} to be {}, {text}", shown(location), requirement.kind());
            return Err(Error::new(ErrorKind::Forbidden, text).hint(self.hint()));
        }
        Ok(!requirements.iter().any(PolicyRequirement::needs_signatures))
    }

    /// Evaluates the requirements against the signatures of an image.
    pub(crate) fn judge(
        &self,
        location: &Location,
        digest: &Digest,
        signatures: &[AttachedSignature],
    ) -> Vec<Judgement> {
        let name = match location {
            Location::Registry(reference) => Name::parse(&identity(reference)).ok(),
            _ => None,
        };
        let digest = digest.to_string();
        let subject = Subject { name: name.as_ref(), digest: &digest };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let requirements = self.applied(location).requirements;
        requirements.iter().map(|one| one.judge(&subject, signatures, now, &read)).collect()
    }

    fn hint(&self) -> String {
        format!("the policy is {}; {INSECURE_POLICY}=true disables it", self.file.display())
    }
}

impl crate::Client {
    /// Returns the ignored policy file, if it has requirements for one of these images.
    pub fn ignored_policy<'a>(&self, mut images: impl Iterator<Item = &'a Reference>) -> Option<PathBuf> {
        let inner = self.inner();
        let Ok(Some(policy)) = inner.policy() else { return None };
        let asks = |image: &Reference| !matches!(policy.check(&Location::Registry(image.clone())), Ok(true));
        (inner.ignores_policy() && images.any(asks)).then(|| policy.file().to_owned())
    }

    /// Returns the policy file that is enforced, if there is one.
    ///
    /// # Errors
    /// Fails when the policy is invalid.
    pub fn enforced_policy(&self) -> Result<Option<PathBuf>, Error> {
        let inner = self.inner();
        let policy = if inner.ignores_policy() { None } else { inner.policy()? };
        Ok(policy.map(|policy| policy.file))
    }

    /// Checks an image in the store against the policy, with the signatures in the store. Sends no request.
    ///
    /// # Errors
    /// Fails when the policy does not accept the image.
    pub fn admit_stored(&self, image: &StoredImage) -> Result<(), Error> {
        let inner = self.inner();
        let Some(pending) = inner.allow(&Location::Registry(image.reference.clone()))?.0 else { return Ok(()) };
        let options = &inner.options;
        let graph = ImageGraph::of_platforms(&options.store, &image.digest, &image.platforms, &options.limits)?;
        for document in graph.documents.iter().filter(|document| !document.is_index()) {
            let name = format!("{}.sig", fallback_tag(&document.digest));
            let mut found = Collected::default();
            for (tag, digest) in image.signatures.iter().filter(|(tag, _)| *tag == name) {
                inner.add_attachments(tag, &inner.read_document(digest)?, &mut found)?;
            }
            let judged = pending.policy.judge(&pending.location, &document.digest, &found.signatures);
            pending.accept(&judged, &[])?;
        }
        Ok(())
    }
}

impl Inner {
    /// Checks that the policy does not reject an image outright.
    pub(crate) fn allow(&self, location: &Location) -> Result<Admission, Error> {
        if self.ignores_policy() {
            return Ok(Admission(None));
        }
        let Some(policy) = self.policy()? else { return Ok(Admission(None)) };
        let is_all = policy.check(location)?;
        Ok(Admission((!is_all).then(|| Arc::new(PendingCheck { policy, location: location.clone() }))))
    }

    /// Returns the types of the signature requirements for an image.
    pub(crate) fn needed_signatures(&self, reference: &Reference) -> Vec<&'static str> {
        let Ok(Some(policy)) = self.policy() else { return Vec::new() };
        let applied = policy.applied(&Location::Registry(reference.clone()));
        applied.requirements.iter().filter(|it| it.needs_signatures()).map(PolicyRequirement::kind).collect()
    }
}

impl Admission {
    /// Verifies the signatures of a manifest: those cached, or else those of `source`.
    ///
    /// # Errors
    /// Fails when the policy does not accept the image.
    pub(crate) async fn check(
        &self,
        inner: &Inner,
        source: Option<&RegistrySource>,
        digest: &Digest,
    ) -> Result<(), Error> {
        let Some(pending) = &self.0 else { return Ok(()) };
        let (policy, location) = (&pending.policy, &pending.location);
        let is_registry = matches!(location, Location::Registry(_));
        let kept = if is_registry { inner.cached_signatures(digest) } else { Vec::new() };
        let judged = pending.judge(digest, kept.clone()).await?;
        if judged.iter().all(|judgement| judgement.accepted) {
            return Ok(());
        }
        let mut notes = Vec::new();
        let judged = match source {
            Some(source) => {
                let found = inner.collect(source, digest, policy.applied(location).requirements).await?;
                let judged = pending.judge(digest, found.signatures.clone()).await?;
                if judged.iter().all(|judgement| judgement.accepted) {
                    return inner.cache_signatures(digest, &found.signatures);
                }
                notes = found.notes;
                judged
            }
            None if is_registry && kept.is_empty() => {
                let text = format!("the signatures of {} are not cached", shown(location));
                return Err(Error::new(ErrorKind::Offline, text).hint(policy.hint()));
            }
            None => judged,
        };
        pending.accept(&judged, &notes)
    }
}

impl PendingCheck {
    /// Fails with the first requirement that an image does not satisfy.
    fn accept(&self, judged: &[Judgement], notes: &[String]) -> Result<(), Error> {
        let Some(refused) = judged.iter().find(|judgement| !judgement.accepted) else { return Ok(()) };
        let location = &self.location;
        let (kind, reason) = (refused.requirement, refused.reason.as_deref().unwrap_or_default());
        let text = format!("policy wants {} to be {kind}, and {reason}", shown(location));
        let notes: String = notes.iter().map(|note| format!("{note}; ")).collect();
        let is_registry = matches!(location, Location::Registry(_));
        let more = if is_registry { format!("opm verify {location} shows all; ") } else { String::new() };
        Err(Error::new(ErrorKind::Forbidden, text).hint(format!("{notes}{more}{}", self.policy.hint())))
    }

    /// Evaluates on a blocking thread, because it reads key files.
    async fn judge(
        self: &Arc<Self>,
        digest: &Digest,
        signatures: Vec<AttachedSignature>,
    ) -> Result<Vec<Judgement>, Error> {
        let (pending, digest) = (Arc::clone(self), *digest);
        tokio::task::spawn_blocking(move || pending.policy.judge(&pending.location, &digest, &signatures))
            .await
            .map_err(|error| Error::new(ErrorKind::File, format!("checking signatures: {error}")))
    }
}

/// Returns the image name as signatures contain it; a digest wins over a tag.
fn identity(reference: &Reference) -> String {
    match reference.digest() {
        Some(digest) => format!("{}@{digest}", reference.name()),
        None => format!("{}:{}", reference.name(), reference.version()),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(FILE_LIMIT + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {FILE_LIMIT} bytes")));
    }
    Ok(content)
}

pub(crate) fn shown(location: &Location) -> String {
    match location {
        Location::Registry(reference) => format!("docker://{reference}"),
        other => other.to_string(),
    }
}

/// Returns the transport and the scopes of an image in a policy, narrowest first.
fn scopes(location: &Location) -> (&'static str, Vec<String>) {
    match location {
        Location::Registry(reference) => ("docker", registry_scopes(reference)),
        Location::Layout { path, tag } => ("oci", file_scopes(path, tag.as_deref())),
        Location::LayoutArchive { path, tag } => ("oci-archive", file_scopes(path, tag.as_deref())),
        // This transport has only the empty scope.
        Location::DockerArchive { .. } => ("docker-archive", vec![String::new()]),
    }
}

pub(crate) fn registry_scopes(reference: &Reference) -> Vec<String> {
    let name = reference.name();
    let mut scopes = vec![match (reference.digest(), reference.tag()) {
        (Some(digest), _) => format!("{name}@{digest}"),
        (None, tag) => format!("{name}:{}", tag.unwrap_or("latest")),
    }];
    let mut part = name.as_str();
    scopes.push(part.to_owned());
    while let Some(slash) = part.rfind('/') {
        part = &part[..slash];
        scopes.push(part.to_owned());
    }
    // Wildcards do not match ports.
    let host = reference.host();
    let mut host = host.split_once(':').map_or(host, |(host, _)| host);
    while let Some(dot) = host.find('.') {
        host = &host[dot + 1..];
        scopes.push(format!("*.{host}"));
    }
    scopes.push(String::new());
    scopes
}

fn file_scopes(path: &Path, tag: Option<&str>) -> Vec<String> {
    // Policies identify files by their canonical paths.
    let full = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    let tagged = tag.map(|tag| format!("{}:{tag}", full.display()));
    let parents = full.ancestors().filter(|path| path.parent().is_some()).map(|path| path.display().to_string());
    tagged.into_iter().chain(parents).chain([String::new()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(policy: &str, location: &str) -> Result<bool, String> {
        let policy =
            LoadedPolicy::parse(Path::new("policy.json"), policy.as_bytes()).map_err(|error| error.to_string())?;
        policy.check(&Location::parse(location).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_narrowest_scope_applies() {
        let policy = r#"{"default": [{"type": "reject"}], "transports": {"docker": {
            "a.test": [{"type": "insecureAcceptAnything"}], "a.test/bad": [{"type": "reject"}],
            "*.b.test": [{"type": "insecureAcceptAnything"}]}, "oci": {"": [{"type": "insecureAcceptAnything"}],
            "/no/such": [{"type": "reject"}], "/no/such:v1": [{"type": "insecureAcceptAnything"}]}}}"#;
        for (location, good) in [
            ("a.test/x:v1", true),
            ("a.test/bad/x:v1", false),
            ("c.b.test/x:v1", true),
            ("c.b.test:5000/x:v1", true),
            ("b.test/x:v1", false),
            ("other.test/x:v1", false),
            ("oci:dir:v1", true),
            ("oci:/no/such:v1", true),
            ("oci:/no/such:v2", false),
            ("oci:/no/such/deeper", false),
            ("docker-archive:file", false),
        ] {
            assert_eq!(outcome(policy, location).is_ok(), good, "{location}");
        }
        assert_eq!(outcome(policy, "other.test/x:v1").unwrap_err(), "docker://other.test/x:v1 is rejected by policy");
    }

    #[test]
    fn required_signatures_cannot_be_skipped() {
        let policy = r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys"}]}"#;
        assert_eq!(outcome(policy, "a.test/x:v1"), Ok(false));
        let policy = r#"{"default": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}]}"#;
        assert!(outcome(policy, "a.test/x:v1").unwrap_err().ends_with("which no tool implements"));
    }

    #[test]
    fn a_broken_policy_is_an_error() {
        for policy in ["", "{}", r#"{"default": []}"#, r#"{"default": [{}]}"#, r#"{"default": [{"type": "signedBy"}]}"#]
        {
            assert!(outcome(policy, "a.test/x:v1").unwrap_err().starts_with("invalid policy in"), "{policy}");
        }
    }
}
