//! Blobs that somebody replaces after they were checked: the bytes that are used are the bytes that were hashed.

use std::fs;
use std::path::{Path, PathBuf};

use image::{
    BlobPush, BlobSource, Descriptor, Digest, ErrorKind, FileRange, LayerFile, Location, Reference, UnpackLimits,
    media_type, unpack,
};
use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::{Kit, image, noise, tar};

/// Puts another file under a name, as somebody who may write to the directory can.
fn swap(path: &Path, content: &[u8]) {
    let aside = path.with_extension("aside");
    fs::write(&aside, content).unwrap();
    fs::rename(aside, path).unwrap();
}

/// Returns an image with one layer, pulled into the store of `kit`, and another layer of the same length.
fn pulled(kit: &Kit) -> (image::Image, Vec<u8>) {
    let (right, wrong) = (tar("file", b"right"), tar("file", b"wrong"));
    let digest = image(kit.store(), &[&right]);
    let layout = Location::Layout { path: kit.path().join("source"), tag: None };
    kit.client.push(&digest, &layout).unwrap();
    (kit.client.pull(&layout).unwrap(), wrong)
}

#[test]
fn a_layer_that_is_replaced_after_the_pull_is_not_unpacked() {
    let kit = Kit::plain();
    let (image, wrong) = pulled(&kit);
    let layers: Vec<LayerFile> = image
        .layers
        .iter()
        .map(|(layer, blob)| LayerFile { blob: blob.clone(), media_type: layer.media_type.clone() })
        .collect();
    let work = kit.path().join("work");
    fs::create_dir(&work).unwrap();
    let unpacked = || unpack(&layers, &work.join("target"), &UnpackLimits::default(), &|_| {});
    let path = kit.store().path_of(&image.layers[0].0.digest);
    let right = fs::read(&path).unwrap();
    // Bytes after the end of the archive are a part of the blob, too.
    let mut trailing = right.clone();
    *trailing.last_mut().unwrap() ^= 1;
    for wrong in [wrong, trailing] {
        swap(&path, &wrong);
        let error = unpacked().unwrap_err();
        assert!(error.to_string().contains("damaged") && !error.is_transient(), "{error}");
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    }
    swap(&path, &right);
    fs::rename(&path, kit.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(kit.path().join("elsewhere"), &path).unwrap();
    unpacked().unwrap_err();
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    fs::remove_file(&path).unwrap();
    swap(&path, &right);
    unpacked().unwrap();
    assert_eq!(fs::read_to_string(work.join("target/file")).unwrap(), "right");
}

#[test]
fn a_layer_that_is_replaced_after_the_pull_is_not_saved() {
    let kit = Kit::plain();
    let (image, wrong) = pulled(&kit);
    swap(&kit.store().path_of(&image.layers[0].0.digest), &wrong);
    let out = kit.path().join("out");
    fs::create_dir(&out).unwrap();
    for place in ["oci-archive:OUT/a.tar", "docker-archive:OUT/b.tar:reg.test/a:v1"] {
        let place = Location::parse(&place.replace("OUT", out.to_str().unwrap())).unwrap();
        let error = kit.client.push(&image.digest, &place).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{place}");
    }
    let layout = Location::Layout { path: out.join("layout"), tag: None };
    kit.client.push(&image.digest, &layout).unwrap_err();
    assert!(!out.join("layout/index.json").exists());
    assert_eq!(fs::read_dir(out.join("layout/blobs/sha256")).unwrap().count(), 1, "only the config was right");
}

/// Starts a registry that accepts anything, and swaps files when an upload begins.
fn gullible(files: Vec<(PathBuf, Vec<u8>)>, in_place: bool) -> FakeRegistry {
    FakeRegistry::start(move |request| {
        let response = match request.method.as_str() {
            "POST" => {
                for (path, content) in &files {
                    if in_place { fs::write(path, content).unwrap() } else { swap(path, content) }
                }
                FakeResponse::status(202).header("Location", "/v2/a/blobs/uploads/1")
            }
            "PATCH" => FakeResponse::status(202).header("Location", "/v2/a/blobs/uploads/1"),
            "PUT" => FakeResponse::status(201),
            "HEAD" => FakeResponse::status(404),
            _ => return (ResponseFault::None, None),
        };
        (ResponseFault::None, Some(response))
    })
}

#[test]
fn a_blob_that_is_replaced_when_its_upload_begins_is_not_sent() {
    for (size, in_place) in [(5000, false), (5000, true), ((64 << 20) + 5, true)] {
        let kit = Kit::plain();
        let (right, mut wrong) = (noise(1, size), noise(1, size));
        wrong[size / 2] ^= 1;
        let digest = kit.store().put(&right).unwrap();
        let registry = gullible(vec![(kit.store().path_of(&digest), wrong.clone())], in_place);
        let to = vec![Reference::parse(&format!("{}/a:v1", registry.host())).unwrap()];
        let push = |blob: Descriptor, from| {
            kit.client.push_blobs(vec![BlobPush { blob, to: to.clone(), mount_from: None }], from)
        };
        let blob = Descriptor::of(media_type::OCI_LAYER, &right);
        let sent = push(blob.clone(), BlobSource::Store);
        let error = sent.failed.get(&digest).expect("the blob was sent");
        assert_eq!((error.kind(), sent.sent), (ErrorKind::Digest, 0), "{error}");
        // The same for a part of another file.
        let volume = kit.path().join("volume");
        fs::write(&volume, [b"..", &wrong[..]].concat()).unwrap();
        let pieces = vec![FileRange { path: volume, offset: 2, size: size as u64 }];
        let sent = push(blob, BlobSource::Files([(digest, pieces)].into()));
        assert_eq!(sent.failed.get(&digest).expect("the blob was sent").kind(), ErrorKind::Digest);
        let complete = |body: &[u8]| Digest::of(body) == Digest::of(&wrong);
        assert!(!registry.log().iter().any(|request| complete(&request.body)), "the wrong bytes arrived");
        let tries = registry.log().iter().filter(|request| request.method == "POST").count();
        assert_eq!(tries, 2, "a damaged blob is not sent again");
    }
}

#[test]
fn a_large_blob_arrives_in_chunks() {
    let kit = Kit::plain();
    let right = noise(1, (64 << 20) + 5);
    let digest = kit.store().put(&right).unwrap();
    let registry = gullible(Vec::new(), false);
    let to = vec![Reference::parse(&format!("{}/a:v1", registry.host())).unwrap()];
    let blob = Descriptor::of(media_type::OCI_LAYER, &right);
    let sent = kit.client.push_blobs(vec![BlobPush { blob, to, mount_from: None }], BlobSource::Store);
    assert_eq!((sent.sent, sent.failed.len()), (1, 0), "{:?}", sent.failed);
    let bodies: Vec<Vec<u8>> = registry.log().iter().map(|request| request.body.clone()).collect();
    assert_eq!(bodies.iter().filter(|body| !body.is_empty()).count(), 2);
    assert_eq!(Digest::of(&bodies.concat()), digest);
}
