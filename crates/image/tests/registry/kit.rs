//! Images and clients for tests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use image::{
    Client, ClientOptions, ConfigFile, Descriptor, Digest, Environment, ImageConfig, ImageManifest, Location, Retries,
    Store, Timeouts, media_type,
};
use tempfile::TempDir;

/// A store with a client in an environment that has only what a test adds.
pub(crate) struct Kit {
    pub(crate) dir: TempDir,
    pub(crate) client: Client,
}

impl Kit {
    pub(crate) fn new(change: impl FnOnce(&mut ClientOptions)) -> Kit {
        Kit::with(&[], change)
    }

    /// Creates a kit whose environment has these variables; `{}` in a value is replaced by its directory.
    pub(crate) fn with(variables: &[(&str, &str)], change: impl FnOnce(&mut ClientOptions)) -> Kit {
        Kit::in_dir(tempfile::tempdir().unwrap(), variables, change)
    }

    /// Creates a kit in a directory that may have files already.
    pub(crate) fn in_dir(dir: TempDir, variables: &[(&str, &str)], change: impl FnOnce(&mut ClientOptions)) -> Kit {
        let root = dir.path().to_str().unwrap().to_owned();
        let variables: Vec<(&str, String)> =
            variables.iter().map(|(name, value)| (*name, value.replace("{}", &root))).collect();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut options = ClientOptions::new(Store::open(&dir.path().join("store")).unwrap());
        options.environment = Environment::isolated(&dir.path().join("etc"), &variables);
        options.retries = Retries {
            count: 4,
            first_delay: Duration::from_millis(1),
            max_delay: Duration::from_secs(2),
            constant: false,
        };
        options.timeouts =
            Timeouts { connect: Duration::from_secs(5), idle: Duration::from_secs(5), ..Timeouts::default() };
        change(&mut options);
        Kit { client: Client::new(options).unwrap(), dir }
    }

    pub(crate) fn plain() -> Kit {
        Kit::new(|options| options.use_http = true)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.client.options().store
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn pull(&self, reference: &str) -> Result<image::Image, image::Error> {
        self.client.pull(&Location::parse(reference).unwrap())
    }
}

/// Writes a file, and creates its parent directories.
pub(crate) fn write(dir: &TempDir, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Stores an image with these layers, and returns its digest.
pub(crate) fn image(store: &Store, layers: &[&[u8]]) -> Digest {
    let layers: Vec<Descriptor> = layers
        .iter()
        .map(|layer| {
            store.put(layer).unwrap();
            Descriptor::of(media_type::OCI_LAYER, layer)
        })
        .collect();
    let labels = [("is".to_owned(), "a test".to_owned())].into();
    let config = ConfigFile {
        architecture: "amd64".into(),
        os: "linux".into(),
        config: Some(ImageConfig { labels: Some(labels), ..ImageConfig::default() }),
        rootfs: image::RootFs {
            kind: "layers".into(),
            diff_ids: layers.iter().map(|layer| layer.digest.to_string()).collect(),
        },
        ..ConfigFile::default()
    };
    let config = serde_json::to_vec(&config).unwrap();
    store.put(&config).unwrap();
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_MANIFEST.into()),
        config: Descriptor::of(media_type::OCI_CONFIG, &config),
        layers,
        annotations: Default::default(),
        other: Default::default(),
    };
    store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap()
}

/// Returns a tar archive with one file.
pub(crate) fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[136..147].copy_from_slice(b"00000000000");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header.extend_from_slice(content);
    header.resize(header.len().next_multiple_of(512) + 1024, 0);
    header
}

/// Returns pseudo-random bytes, the same for each seed.
pub(crate) fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..size).map(|_| next() as u8).collect()
}

/// Returns the content of a blob.
pub(crate) fn content(blob: &image::StoredBlob) -> Vec<u8> {
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut blob.open(), &mut content).unwrap();
    content
}
