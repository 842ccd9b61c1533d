//! Two registries, a catalog in one of them, and the images that it needs.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use image::{
    Client, ClientOptions, ConfigFile, CopyPlan, Descriptor, Digest, Environment, ImageManifest, Location, Platform,
    Reference, Store, media_type,
};
use testkit::{DockerRegistry, RegistryPlan};

use crate::proxy::Proxy;

/// A bundle of the catalog: package, version, replaced bundle, related images.
pub(crate) type Bundle = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// The bundles of the catalog.
pub(crate) const BUNDLES: &[Bundle] = &[
    ("alpha", "1.0.0", "", &["ns/alpha:v1"]),
    ("alpha", "1.1.0", "1.0.0", &["ns/alpha:v2", "ns/shared:v1"]),
    ("alpha", "2.0.0", "1.1.0", &["ns/alpha:v3", "ns/shared:v1"]),
    ("beta", "0.1.0", "", &["ns/beta:v1", "ns/shared:v1"]),
];

pub(crate) struct Kit {
    dir: tempfile::TempDir,
    pub(crate) source: Option<DockerRegistry>,
    pub(crate) closed: DockerRegistry,
    pub(crate) host: String,
    /// The proxy in front of the source.
    pub(crate) proxy: Proxy,
    client: Client,
    /// The size of layers of images.
    layer: usize,
}

impl Kit {
    /// Starts the registries; `None` if they are not installed.
    pub(crate) fn new() -> Option<Kit> {
        Kit::with(BUNDLES)
    }

    pub(crate) fn with(bundles: &[Bundle]) -> Option<Kit> {
        Kit::start(bundles, 400_000)
    }

    /// Like [`Kit::new`], with layers of this size.
    pub(crate) fn with_layers_of(size: usize) -> Option<Kit> {
        Kit::start(BUNDLES, size)
    }

    fn start(bundles: &[Bundle], layer: usize) -> Option<Kit> {
        let source = DockerRegistry::start(RegistryPlan::default())?;
        let closed = DockerRegistry::start(RegistryPlan::default())?;
        let dir = tempfile::tempdir().unwrap();
        let mut options = ClientOptions::new(Store::open(&dir.path().join("store")).unwrap());
        options.use_http = true;
        options.environment = Environment::isolated(&dir.path().join("etc"), &[]);
        let client = Client::new(options).unwrap();
        let proxy = Proxy::start(source.host());
        let host = proxy.host.clone();
        let kit = Kit { dir, source: Some(source), closed, host, proxy, client, layer };
        kit.publish(bundles, "v1");
        Some(kit)
    }

    /// Pushes images and a catalog of them to the source.
    pub(crate) fn publish(&self, bundles: &[Bundle], tag: &str) {
        for (package, version, _, related) in bundles {
            self.image(&format!("ns/{package}-bundle:v{version}"), &[version.as_bytes()]);
            for name in *related {
                self.image(name, &[b"a layer that all share", &noise(name, self.layer)]);
            }
        }
        let catalog = self.path(&format!("catalog-{tag}"));
        fs::create_dir_all(&catalog).unwrap();
        fs::write(catalog.join("catalog.yaml"), self.catalog(bundles)).unwrap();
        let name = format!("{}/ns/index:{tag}", self.host);
        let catalog = catalog.display().to_string();
        self.stdout(&["build", &catalog, "--data-only", "-t", &name, "--push", "--use-http"]);
    }

    fn catalog(&self, bundles: &[Bundle]) -> String {
        let mut text = String::new();
        let mut packages: Vec<&str> = bundles.iter().map(|bundle| bundle.0).collect();
        packages.dedup();
        for package in packages {
            let _ = write!(text, "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n");
            let _ = write!(text, "---\nschema: olm.channel\npackage: {package}\nname: stable\nentries:\n");
            let own = || bundles.iter().filter(|bundle| bundle.0 == package);
            for (_, version, replaces, _) in own() {
                let _ = writeln!(text, "- name: {package}.v{version}");
                if !replaces.is_empty() {
                    let _ = writeln!(text, "  replaces: {package}.v{replaces}");
                }
            }
            for (_, version, _, related) in own() {
                let host = &self.host;
                let image = format!("{host}/ns/{package}-bundle:v{version}");
                let _ = write!(
                    text,
                    "---\nschema: olm.bundle\npackage: {package}\nname: {package}.v{version}\nimage: {image}\nproperties:\n- \
                     type: olm.package\n  value: {{packageName: {package}, version: {version}}}\nrelatedImages:\n- \
                     {{name: '', image: '{image}'}}\n"
                );
                if package == "gamma" {
                    text = text.replace(
                        "version: 9.0.0}\n",
                        "version: 9.0.0}\n- type: olm.package.required\n  value: {packageName: beta, versionRange: '>=0.1.0'}\n",
                    );
                }
                for name in *related {
                    let by_digest = self
                        .digest_of(name)
                        .map(|digest| format!("{host}/{}@{digest}", name.split(':').next().unwrap_or_default()));
                    let image = by_digest.unwrap_or_else(|| format!("{host}/{name}"));
                    let _ = writeln!(text, "- {{name: x, image: '{image}'}}");
                }
            }
        }
        text
    }

    pub(crate) fn digest_of(&self, name: &str) -> Option<Digest> {
        self.client.head(&Reference::parse(&format!("{}/{name}", self.host)).unwrap()).ok()
    }

    /// Pushes an image to the source, and returns its digest.
    pub(crate) fn image(&self, name: &str, layers: &[&[u8]]) -> Digest {
        let digest = self.stored(layers, None);
        let to = Location::parse(&format!("{}/{name}", self.host)).unwrap();
        self.client.push(&digest, &to).unwrap();
        digest
    }

    /// Pushes a manifest that refers to an image: by its subject, and by a tag.
    pub(crate) fn sign(&self, repository: &str, subject: Digest, tag: bool) -> Digest {
        let digest = self.stored(&[b"a signature"], (!tag).then_some(subject));
        let to = match tag {
            true => format!("{}/{repository}:sha256-{}.sig", self.host, subject.hex()),
            false => format!("{}/{repository}@{digest}", self.host),
        };
        let from = Location::Layout { path: self.path("store"), tag: Some("signature".into()) };
        self.client.push(&digest, &from).unwrap();
        match tag {
            true => self.client.push(&digest, &Location::parse(&to).unwrap()).unwrap(),
            false => {
                // Clients push this index to registries without the referrers API.
                let index = serde_json::json!({
                    "schemaVersion": 2,
                    "mediaType": media_type::OCI_INDEX,
                    "manifests": [Descriptor::new(media_type::OCI_MANIFEST, digest, self.size_of(&digest))],
                });
                let index = self.store().put(index.to_string().as_bytes()).unwrap();
                let name = format!("{}/{repository}:sha256-{}", self.host, subject.hex());
                self.client.push(&index, &Location::parse(&name).unwrap()).unwrap();
            }
        }
        digest
    }

    /// Pushes an artifact for an image, by one of cosign's tags; its layers may be those of the image.
    pub(crate) fn attach(&self, repository: &str, subject: Digest, kind: &str, layers: &[&[u8]]) -> Digest {
        self.image(&format!("{repository}:sha256-{}.{kind}", subject.hex()), layers)
    }

    /// Pushes an artifact with one layer to the source.
    pub(crate) fn artifact(&self, name: &str, layer: Descriptor, content: &[u8]) {
        let store = self.store();
        store.put(content).unwrap();
        store.put(b"{}").unwrap();
        let manifest = ImageManifest {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.into()),
            config: Descriptor::of(media_type::OCI_CONFIG, b"{}"),
            layers: vec![layer],
            annotations: Default::default(),
            other: Default::default(),
        };
        let digest = store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap();
        self.client.push(&digest, &Location::parse(&format!("{}/{name}", self.host)).unwrap()).unwrap();
    }

    fn size_of(&self, digest: &Digest) -> u64 {
        self.store().path_of(digest).metadata().unwrap().len()
    }

    fn store(&self) -> &Store {
        &self.client.options().store
    }

    fn stored(&self, layers: &[&[u8]], subject: Option<Digest>) -> Digest {
        self.stored_for("amd64", layers, subject)
    }

    /// Pushes an index of images for several architectures to the source, and returns its digest.
    pub(crate) fn index(&self, name: &str, architectures: &[&str]) -> Digest {
        let images: Vec<Descriptor> = architectures
            .iter()
            .map(|architecture| {
                let layer = format!("a layer for {architecture}");
                let digest = self.stored_for(architecture, &[layer.as_bytes()], None);
                let platform =
                    Platform { os: "linux".into(), architecture: (*architecture).into(), ..Platform::default() };
                let described = Descriptor::new(media_type::OCI_MANIFEST, digest, self.size_of(&digest));
                Descriptor { platform: Some(platform), ..described }
            })
            .collect();
        let digest = image::build_index(self.store(), &images).unwrap().digest;
        self.client.push(&digest, &Location::parse(&format!("{}/{name}", self.host)).unwrap()).unwrap();
        digest
    }

    /// Pushes an index with a single image of the source.
    pub(crate) fn index_of(&self, image: &str, name: &str) {
        let image = self.client.pull(&Location::parse(&format!("{}/{image}", self.host)).unwrap()).unwrap();
        let platform = Platform {
            os: image.config.os.clone(),
            architecture: image.config.architecture.clone(),
            ..Platform::default()
        };
        let described = Descriptor::new(media_type::OCI_MANIFEST, image.digest, self.size_of(&image.digest));
        let described = Descriptor { platform: Some(platform), ..described };
        let digest = image::build_index(self.store(), &[described]).unwrap().digest;
        self.client.push(&digest, &Location::parse(&format!("{}/{name}", self.host)).unwrap()).unwrap();
    }

    /// Returns the image of an index of [`Kit::index`] for an architecture.
    pub(crate) fn index_child(&self, index: Digest, architecture: &str) -> Digest {
        let index: image::ImageIndex = serde_json::from_slice(&self.store().read(&index, 1 << 20).unwrap()).unwrap();
        let of = |image: &Descriptor| image.platform.as_ref().is_some_and(|it| it.architecture == architecture);
        index.manifests.iter().find(|image| of(image)).unwrap().digest
    }

    fn stored_for(&self, architecture: &str, layers: &[&[u8]], subject: Option<Digest>) -> Digest {
        let store = self.store();
        let layers: Vec<Descriptor> = layers
            .iter()
            .map(|layer| {
                store.put(layer).unwrap();
                Descriptor::of(media_type::OCI_LAYER, layer)
            })
            .collect();
        let config = ConfigFile { architecture: architecture.into(), os: "linux".into(), ..ConfigFile::default() };
        let config = serde_json::to_vec(&config).unwrap();
        store.put(&config).unwrap();
        let mut manifest = ImageManifest {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.into()),
            config: Descriptor::of(media_type::OCI_CONFIG, &config),
            layers,
            annotations: Default::default(),
            other: Default::default(),
        };
        if let Some(subject) = subject {
            let size = self.size_of(&subject);
            let value = serde_json::to_value(Descriptor::new(media_type::OCI_MANIFEST, subject, size)).unwrap();
            manifest.other.insert("subject".into(), value);
        }
        store.put(&serde_json::to_vec(&manifest).unwrap()).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes an image set file that selects a part of the catalog.
    pub(crate) fn set(&self, name: &str, packages: &str) -> String {
        self.set_of(name, "v1", packages, "")
    }

    pub(crate) fn set_of(&self, name: &str, tag: &str, packages: &str, more: &str) -> String {
        let host = &self.host;
        let text = format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  - catalog: \
             {host}/ns/index:{tag}\n    packages:\n{packages}{more}"
        );
        fs::write(self.path(name), text).unwrap();
        name.to_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("opm runs")
    }

    /// Runs `opm`, which must succeed, and returns its stdout.
    pub(crate) fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `opm`, which must fail, and returns its stderr.
    pub(crate) fn stderr(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1..=3)), "{arguments:?}: {error}");
        error
    }

    /// Runs `opm mirror` on plain registries, with images of catalogs without a program.
    pub(crate) fn mirror(&self, arguments: &[&str]) -> String {
        self.stdout(&mirror(arguments))
    }

    pub(crate) fn mirror_fails(&self, arguments: &[&str]) -> String {
        self.stderr(&mirror(arguments))
    }

    /// Returns the destination of sets at the closed registry.
    pub(crate) fn to(&self) -> String {
        format!("{}/m", self.closed.host())
    }

    /// Returns the digest of an image of the closed registry, if it exists.
    pub(crate) fn closed_digest(&self, name: &str) -> Option<Digest> {
        self.client.head(&Reference::parse(&format!("{}/{name}", self.closed.host())).unwrap()).ok()
    }

    /// Copies an image within the closed registry.
    pub(crate) fn closed_copy(&self, from: &str, to: &str) {
        let name = |name: &str| Location::parse(&format!("{}/{name}", self.closed.host())).unwrap();
        self.client.copy(&name(from), &name(to), CopyPlan::default()).unwrap();
    }
}

/// Returns the arguments of a command of `opm mirror`.
pub(crate) fn mirror<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["mirror", "--use-http"], arguments].concat()
}

/// Returns pseudo-random bytes, the same for each seed.
pub(crate) fn noise(seed: &str, size: usize) -> Vec<u8> {
    let mut state = seed
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..size).map(|_| next()).collect()
}

/// Returns the names in a directory, sorted.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}
