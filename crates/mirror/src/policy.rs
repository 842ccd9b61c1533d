//! Whether the policy of this machine accepts the images of a set that was pulled elsewhere.

use image::{Client, Digest, Reference, StoredImage};

use crate::lock::{Lock, LockedImage, Role};
use crate::report::MissingImage;
use crate::verify::missing;

/// Returns a note if the policy has requirements for these images and is not enforced.
pub(crate) fn ignored<'a>(client: &Client, images: impl Iterator<Item = &'a Reference>) -> Option<String> {
    let policy = client.ignored_policy(images)?;
    let policy = policy.display();
    Some(format!("{policy} has requirements for these images, which are ignored; add --enforce-policy to apply them"))
}

/// Returns the source of an image.
pub(crate) fn source(image: &LockedImage) -> Option<Reference> {
    Reference::parse(image.source.trim_start_matches("docker://")).ok()
}

/// Returns whether the set built an image itself: the filtered part of a catalog, which nobody has signed.
pub(crate) fn is_built(lock: &Lock, image: &LockedImage) -> bool {
    image.role == Role::Catalog && lock.catalogs.iter().any(|catalog| !catalog.whole && catalog.image == image.digest)
}

/// Returns the images of a set that the policy does not accept. Their signatures must be in the set, as referrers;
/// manifests and signatures must be in the client's store. Images that the set built itself are not checked.
pub(crate) fn refused(client: &Client, lock: &Lock) -> Vec<MissingImage> {
    let images = lock.images.iter().filter(|image| !is_built(lock, image));
    images.filter_map(|image| accept(client, image).err().map(|cause| missing(image, cause))).collect()
}

fn accept(client: &Client, image: &LockedImage) -> Result<(), crate::report::Cause> {
    let digest = image.digest().map_err(|error| error.to_string())?;
    let reference = source(image).ok_or_else(|| "its source is not in a registry".to_owned())?;
    let signatures = signatures(image).collect();
    let stored = StoredImage { reference, digest, platforms: image.platforms(), signatures };
    client.admit_stored(&stored).map_err(|error| (&error).into())
}

/// Returns the sigstore signatures of an image in a set: the tags and digests of their manifests.
pub(crate) fn signatures(image: &LockedImage) -> impl Iterator<Item = (String, Digest)> {
    image.referrers.iter().filter_map(|referrer| {
        let tag = referrer.tag.as_ref().filter(|tag| tag.ends_with(".sig"))?;
        Some((tag.clone(), referrer.digest.parse().ok()?))
    })
}
