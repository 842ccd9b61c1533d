//! Reports how the policy judges an image.

use std::path::PathBuf;

use crate::signature::Judgement;
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::{Client, INSECURE_POLICY, Inner};
use crate::registry::RegistrySource;
use crate::signature::sources::Collected;
use crate::{Digest, Error, ErrorKind, Location};

/// How the policy judges an image.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The image, as named by the user.
    pub reference: String,
    /// The digest that the name resolved to: a manifest or an index.
    pub digest: Digest,
    /// The manifest that must be signed: for an index, that of the platform.
    pub manifest_digest: Digest,
    /// Whether the policy accepts the image.
    pub accepted: bool,
    /// The policy; `None` means that all images are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,
    /// The scope that applies, such as `docker quay.io/me`, or `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The result of each requirement.
    pub requirements: Vec<Judgement>,
    /// The places searched for signatures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<String>,
    /// Additional notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Client {
    /// Evaluates the policy for an image without fetching its layers.
    ///
    /// # Errors
    /// Fails when the image does not exist or its signatures cannot be fetched. An image that the policy rejects is
    /// not an error.
    pub fn verify(&self, location: &Location) -> Result<Verification, Error> {
        let inner = self.inner();
        self.block_on(async {
            match location {
                Location::Registry(reference) if !inner.options.offline => {
                    inner
                        .try_sources(reference, |source| {
                            let inner = inner.clone();
                            async move { inner.verify_at(location, &source).await }
                        })
                        .await
                }
                _ => {
                    let (digest, manifest_digest) = inner.stored_digests(location).await?;
                    let signatures = match location {
                        Location::Registry(_) => inner.cached_signatures(&manifest_digest),
                        _ => Vec::new(),
                    };
                    let mut found = Collected { signatures, ..Collected::default() };
                    if !matches!(location, Location::Registry(_)) {
                        found.notes.push("opm does not search signatures of images in files".into());
                    }
                    inner.verified(location, digest, manifest_digest, found)
                }
            }
        })
    }
}

impl Inner {
    async fn verify_at(&self, location: &Location, source: &RegistrySource) -> Result<Verification, Error> {
        let name = source.reference.to_string();
        let initializing = |error: Error| error.context(format!("initializing source docker://{name}"));
        let document = self.registry.manifest(source, &source.reference.version()).await.map_err(initializing)?;
        let digest = self.store_document(&document)?;
        let (manifest_digest, _) = self.choose(&name, Some(source), digest).await?;
        let Some(policy) = self.policy()? else {
            return self.verified(location, digest, manifest_digest, Collected::default());
        };
        let requirements = policy.applied(location).requirements;
        let found = self.collect(source, &manifest_digest, requirements).await?;
        let mut verification = self.verified(location, digest, manifest_digest, found)?;
        // Policies check the image of the platform: a signature of the index alone does not count.
        if !verification.accepted && digest != manifest_digest {
            let index = self.collect(source, &digest, requirements).await.unwrap_or_default();
            if !index.signatures.is_empty() {
                let text = format!(
                    "the index {digest} is signed, but the policy requires a signature of the platform's image: \
                     sign all images, for example with cosign sign --recursive"
                );
                verification.notes.push(text);
            }
        }
        Ok(verification)
    }

    fn verified(
        &self,
        location: &Location,
        digest: Digest,
        manifest_digest: Digest,
        found: Collected,
    ) -> Result<Verification, Error> {
        let policy = self.policy()?;
        let requirements =
            policy.as_ref().map(|it| it.judge(location, &manifest_digest, &found.signatures)).unwrap_or_default();
        let scope = policy.as_ref().map(|it| match it.applied(location).scope {
            Some((transport, "")) => transport.to_owned(),
            Some((transport, scope)) => format!("{transport} {scope}"),
            None => "default".to_owned(),
        });
        let mut notes = found.notes;
        if self.ignores_policy() && policy.is_some() {
            notes.push(format!("{INSECURE_POLICY} is set: other commands ignore the policy"));
        }
        Ok(Verification {
            reference: location.to_string(),
            digest,
            manifest_digest,
            accepted: requirements.iter().all(|judgement| judgement.accepted),
            policy: policy.map(|policy| policy.file().to_owned()),
            scope,
            requirements,
            searched: found.searched,
            notes,
        })
    }

    /// Returns the digests of an image in a file or in the store.
    async fn stored_digests(self: &std::sync::Arc<Self>, location: &Location) -> Result<(Digest, Digest), Error> {
        if let Location::Registry(reference) = location {
            let digest = self.stored(reference)?.digest;
            return Ok((digest, self.choose(&reference.to_string(), None, digest).await?.0));
        }
        let (inner, location) = (self.clone(), location.clone());
        let work = move || {
            let top = inner.import(&location, false)?;
            inner.assemble(&location.to_string(), top).map(|image| (image.digest, image.manifest_digest))
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))
    }
}
