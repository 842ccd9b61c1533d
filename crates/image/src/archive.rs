//! Images in tar files: OCI layouts and the format of `docker save`.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fbc::scratch::{TempFolder, write_file_with};
use serde::{Deserialize, Serialize};

use crate::StoredBlob;
use crate::graph::ImageGraph;
use crate::layout::{self, REF_NAME};
use crate::manifest::{Descriptor, ImageIndex, ImageManifest, media_type};
use crate::pull::parse;
use crate::registry::ManifestDocument;
use crate::scratch::PREFIX;
use crate::unpack::stream::LayerStream;
use crate::unpack::tar::{TarEntryKind, TarReader};
use crate::{Digest, Error, ErrorKind, ImageLimits, LayerProblem, Store, UnpackLimits, tar};

/// Maximum number of entries in an archive.
const MAX_ENTRIES: u64 = 100_000;

/// Maximum size of a file that is read into memory, such as an index.
const SMALL_FILE_BYTES: u64 = 64 << 20;

/// The first bytes of a compressed layer.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The media type of a layer that is not compressed.
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// Maximum uncompressed size of an archive.
const MAX_TOTAL: u64 = 64 << 30;

/// One image in the `manifest.json` of a `docker save` archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Vec<String>,
}

/// The content of an archive by file name: small files in memory, the others as blobs in the store.
struct ArchiveContent {
    small: HashMap<String, Vec<u8>>,
    /// With their first bytes.
    blobs: HashMap<String, (StoredBlob, Vec<u8>)>,
    links: HashMap<String, String>,
}

impl ArchiveContent {
    /// Reads a whole archive, compressed or not. Names serve as map keys only and never become paths.
    fn read(
        path: &Path,
        store: &Store,
        limits: &ImageLimits,
        is_small: impl Fn(&str) -> bool,
    ) -> Result<ArchiveContent, Error> {
        let to_error =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::File, format!("{}: {error}", path.display()));
        let bounds = UnpackLimits { total_size: MAX_TOTAL, file_size: limits.layer, ..UnpackLimits::default() };
        let budget = Cell::new(bounds.total_size);
        let file = File::open(path).map_err(|error| to_error(&error))?;
        let stream = LayerStream::open(file, &bounds, &budget, &|_| {}).map_err(|error| to_error(&error))?;
        let mut reader = TarReader::new(stream);
        let mut content = ArchiveContent { small: HashMap::new(), blobs: HashMap::new(), links: HashMap::new() };
        let mut headers = 0;
        loop {
            let count = || {
                headers += 1;
                if headers > MAX_ENTRIES { Err(LayerProblem::Header("too many entries")) } else { Ok(()) }
            };
            let Some(entry) = reader.next(count).map_err(|error| to_error(&error))? else { return Ok(content) };
            let name = normalize(&entry.path);
            match entry.kind {
                TarEntryKind::File if is_small(&name) => {
                    if entry.size > SMALL_FILE_BYTES {
                        return Err(Error::new(
                            ErrorKind::Limit,
                            format!("{name} is larger than {SMALL_FILE_BYTES} bytes"),
                        ));
                    }
                    let mut bytes = Vec::new();
                    let keep = |piece: &[u8]| {
                        bytes.extend_from_slice(piece);
                        Ok(())
                    };
                    reader.content(keep).map_err(|error| to_error(&error))?;
                    content.small.insert(name, bytes);
                }
                TarEntryKind::File => {
                    if entry.size > limits.layer {
                        let text = format!("{name} has {} bytes, the maximum is {}", entry.size, limits.layer);
                        return Err(Error::new(ErrorKind::Limit, text));
                    }
                    let mut writer = store.writer().map_err(|error| to_error(&error))?;
                    let mut magic = Vec::new();
                    let keep = |piece: &[u8]| {
                        magic.extend(piece.iter().take(GZIP.len().saturating_sub(magic.len())));
                        writer.write_all(piece).map_err(|error| LayerProblem::Unreadable(error.to_string()))
                    };
                    reader.content(keep).map_err(|error| to_error(&error))?;
                    let blob = writer.finish(None).map_err(|error| to_error(&error))?;
                    content.blobs.insert(name, (blob, magic));
                }
                // Older versions of `docker save` write a layer that is used twice as a link.
                TarEntryKind::Symlink | TarEntryKind::HardLink => {
                    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                    let target = String::from_utf8_lossy(&entry.link).into_owned();
                    let hard = entry.kind == TarEntryKind::HardLink;
                    let full = if hard { target } else { format!("{folder}/{target}") };
                    content.links.insert(name, normalize(full.as_bytes()));
                }
                TarEntryKind::Directory | TarEntryKind::Special => {}
            }
        }
    }

    fn blob(&self, name: &str) -> Option<&(StoredBlob, Vec<u8>)> {
        let name = normalize(name.as_bytes());
        let name = self.links.get(&name).unwrap_or(&name);
        self.blobs.get(name)
    }
}

/// Normalizes a name: drops `.` and empty components; `..` never climbs above the root.
fn normalize(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads an OCI layout archive into the store and returns the digest of the image.
pub(crate) fn open_layout(
    path: &Path,
    tag: Option<&str>,
    store: &Store,
    limits: &ImageLimits,
) -> Result<Digest, Error> {
    let small = |name: &str| name == "index.json" || name == "oci-layout";
    let content = ArchiveContent::read(path, store, limits, small)?;
    let index = content.small.get("index.json").filter(|_| content.small.contains_key("oci-layout"));
    let index = index.ok_or_else(|| Error::new(ErrorKind::NotFound, "the file contains no OCI image layout"))?;
    let top = layout::choose(&parse(index, "index.json")?, tag)?;
    // File names do not matter here: the store identifies blobs by digest.
    let stored = store.blob(&top.digest).map_err(|error| Error::file(path.display(), &error))?;
    if stored.is_none() {
        return Err(Error::new(ErrorKind::NotFound, format!("the file does not contain {}", top.digest)));
    }
    Ok(top.digest)
}

/// Reads a `docker save` archive into the store and returns the digest of the image.
pub(crate) fn open_docker(
    path: &Path,
    name: Option<&str>,
    store: &Store,
    limits: &ImageLimits,
) -> Result<Digest, Error> {
    let small = |name: &str| name == "manifest.json" || name == "repositories";
    let content = ArchiveContent::read(path, store, limits, small)?;
    let list = content.small.get("manifest.json");
    let list = list.ok_or_else(|| Error::new(ErrorKind::NotFound, "the file contains no manifest.json"))?;
    let saved: Vec<SavedImage> = parse(list, "manifest.json")?;
    let tags = |image: &SavedImage| image.repo_tags.clone().unwrap_or_default();
    let chosen = match (name, saved.as_slice()) {
        (None, [only]) => only,
        (Some(name), many) => many
            .iter()
            .find(|image| tags(image).iter().any(|tag| tag == name || tag.strip_prefix("docker.io/") == Some(name)))
            .ok_or_else(|| {
                let known: Vec<String> = many.iter().flat_map(tags).collect();
                let error = Error::new(ErrorKind::NotFound, format!("the file contains no image named {name:?}"));
                if known.is_empty() { error } else { error.hint(format!("it has {}", known.join(", "))) }
            })?,
        (None, many) => {
            let text = format!("the file contains {} images; add a reference to choose one", many.len());
            return Err(Error::new(ErrorKind::NotFound, text));
        }
    };
    let missing = |name: &str| Error::new(ErrorKind::NotFound, format!("the file does not contain {name}"));
    let (config, _) = content.blob(&chosen.config).ok_or_else(|| missing(&chosen.config))?;
    let mut layers = Vec::new();
    for layer in &chosen.layers {
        let (blob, magic) = content.blob(layer).ok_or_else(|| missing(layer))?;
        let kind = if magic == GZIP { media_type::DOCKER_LAYER_GZIP } else { DOCKER_LAYER };
        layers.push(Descriptor::new(kind, blob.digest(), blob.size()));
    }
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(media_type::DOCKER_MANIFEST.into()),
        config: Descriptor::new(media_type::DOCKER_CONFIG, config.digest(), config.size()),
        layers,
        annotations: BTreeMap::new(),
        other: Default::default(),
    };
    limits.check(&manifest)?;
    let manifest =
        serde_json::to_vec(&manifest).map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
    store.put(&manifest).map_err(|error| Error::file("storing a manifest", &error))
}

/// Reads the `index.json` of an OCI layout archive.
pub(crate) fn read_index(path: &Path, limits: &ImageLimits) -> Result<ImageIndex, Error> {
    let to_error = |error: &dyn std::fmt::Display| Error::new(ErrorKind::File, format!("{}: {error}", path.display()));
    let bounds = UnpackLimits { total_size: MAX_TOTAL, file_size: limits.layer, ..UnpackLimits::default() };
    let budget = Cell::new(bounds.total_size);
    let file = File::open(path).map_err(|error| to_error(&error))?;
    let mut reader =
        TarReader::new(LayerStream::open(file, &bounds, &budget, &|_| {}).map_err(|error| to_error(&error))?);
    while let Some(entry) = reader.next(|| Ok(())).map_err(|error| to_error(&error))? {
        if entry.kind == TarEntryKind::File && normalize(&entry.path) == "index.json" && entry.size <= SMALL_FILE_BYTES
        {
            let mut bytes = Vec::new();
            let keep = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            reader.content(keep).map_err(|error| to_error(&error))?;
            return parse(&bytes, "index.json");
        }
    }
    Ok(layout::empty_index())
}

/// Writes these images and their tags to an OCI layout archive.
pub(crate) fn save_layout(store: &Store, images: &[(&ImageGraph, Option<&str>)], path: &Path) -> Result<(), Error> {
    let mut index = layout::empty_index();
    for (graph, tag) in images {
        let mut top = graph.top();
        if let (Some(tag), Some(top)) = (tag, top.as_mut()) {
            top.annotations.insert(REF_NAME.into(), (*tag).into());
        }
        index.manifests.extend(top);
    }
    let index = serde_json::to_vec(&index).map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
    let write = |writer: &mut TarWriter<'_>| {
        writer.bytes("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        writer.bytes("index.json", &index)?;
        let mut files: BTreeMap<String, Descriptor> = BTreeMap::new();
        let documents = images.iter().flat_map(|(graph, _)| graph.documents.iter().map(ManifestDocument::descriptor));
        let blobs = images.iter().flat_map(|(graph, _)| graph.blobs.iter().cloned());
        files.extend(documents.chain(blobs).map(|it| (format!("blobs/sha256/{}", it.digest.hex()), it)));
        files.iter().try_for_each(|(name, file)| writer.blob(name, &required_blob(store, file)?))
    };
    write_archive(path, write)
}

/// Writes one image in the format of `docker save`, with uncompressed layers.
pub(crate) fn save_docker(store: &Store, graph: &ImageGraph, path: &Path, name: Option<&str>) -> Result<(), Error> {
    let [document] = graph.documents.as_slice() else {
        let text = "a docker archive holds one image, not an index";
        return Err(Error::new(ErrorKind::Unsupported, text).hint("select one image with --platform"));
    };
    let manifest: ImageManifest = parse(&document.content, "manifest")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = TempFolder::inside(folder, PREFIX).map_err(|error| Error::file(folder.display(), &error))?;
    let plain = Store::open(scratch.path()).map_err(|error| Error::file(folder.display(), &error))?;
    let bounds = UnpackLimits { total_size: MAX_TOTAL, ..UnpackLimits::default() };
    let budget = Cell::new(bounds.total_size);
    let mut layers = Vec::new();
    for layer in &manifest.layers {
        let to_error =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::File, format!("layer {}: {error}", layer.digest));
        let mut packed = required_blob(store, layer).map_err(|error| to_error(&error))?.open();
        let mut stream = LayerStream::open(&mut packed, &bounds, &budget, &|_| {}).map_err(|error| to_error(&error))?;
        let mut writer = plain.writer().map_err(|error| to_error(&error))?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            match stream.read(&mut buffer).map_err(|error| to_error(&error))? {
                0 => break,
                count => writer.write_all(&buffer[..count]).map_err(|error| to_error(&error))?,
            }
        }
        drop(stream);
        packed.finish().map_err(|error| to_error(&error))?;
        layers.push(writer.finish(None).map_err(|error| to_error(&error))?);
    }
    let saved = SavedImage {
        config: format!("{}.json", manifest.config.digest.hex()),
        repo_tags: name.map(|name| vec![name.to_owned()]),
        layers: layers.iter().map(|layer| format!("{}.tar", layer.digest().hex())).collect(),
    };
    let list = serde_json::to_vec(&[&saved]).map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
    let write = |writer: &mut TarWriter<'_>| {
        let mut written: Vec<&StoredBlob> = Vec::new();
        for layer in &layers {
            if !written.contains(&layer) {
                writer.blob(&format!("{}.tar", layer.digest().hex()), layer)?;
                written.push(layer);
            }
        }
        writer.blob(&saved.config, &required_blob(store, &manifest.config)?)?;
        writer.bytes("manifest.json", &list)
    };
    write_archive(path, write)
}

/// Returns a blob of the store to read; a missing blob is an error.
fn required_blob(store: &Store, blob: &Descriptor) -> io::Result<StoredBlob> {
    let text = || format!("blob {} is missing from the store or damaged", blob.digest);
    store.find(blob)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, text()))
}

/// Writes an archive to a temporary file and renames it into place.
fn write_archive(path: &Path, write: impl FnOnce(&mut TarWriter<'_>) -> io::Result<()>) -> Result<(), Error> {
    let whole = |file: &mut File| {
        let mut writer = TarWriter { out: BufWriter::with_capacity(256 << 10, file) };
        write(&mut writer)?;
        writer.finish()
    };
    write_file_with(path, PREFIX, 0o666, whole).map_err(|error| Error::file(path.display(), &error))
}

/// Writes regular files deterministically: the same content gives the same bytes.
struct TarWriter<'a> {
    out: BufWriter<&'a mut File>,
}

impl TarWriter<'_> {
    fn header(&mut self, name: &str, size: u64) -> io::Result<()> {
        if name.len() > tar::LONGEST_NAME {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long"));
        }
        self.out.write_all(&tar::file_header(name, size))
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        self.out.write_all(tar::padding(size))
    }

    fn bytes(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.header(name, content.len() as u64)?;
        self.out.write_all(content)?;
        self.pad(content.len() as u64)
    }

    fn blob(&mut self, name: &str, blob: &StoredBlob) -> io::Result<()> {
        self.header(name, blob.size())?;
        io::copy(&mut blob.open(), &mut self.out)?;
        self.pad(blob.size())
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&tar::END)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_link_to_an_archive_stays_and_a_failure_leaves_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file.tar"), directory.path().join("link.tar"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file.tar", &link).unwrap();
        write_archive(&link, |_| Err(io::ErrorKind::Other.into())).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        write_archive(&link, |writer| writer.bytes("name", b"content")).unwrap();
        assert!(link.is_symlink());
        assert!(fs::read(&file).unwrap().starts_with(b"name"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
