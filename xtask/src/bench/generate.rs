//! Generates operators, as many and as large as the published ones.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

/// The amount to generate.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    packages: usize,
    pub(crate) bundles: usize,
    pub(crate) bundle_directories: usize,
}

impl Scale {
    /// As much as is published.
    pub(crate) const FULL: Scale = Scale { packages: 445, bundles: 7_690, bundle_directories: 514 };
    /// A tenth of it.
    pub(crate) const TENTH: Scale = Scale { packages: 45, bundles: 769, bundle_directories: 51 };

    /// Multiplies the amount.
    pub(crate) fn times(self, factor: usize) -> Scale {
        Scale {
            packages: self.packages * factor,
            bundles: self.bundles * factor,
            bundle_directories: self.bundle_directories * factor,
        }
    }
}

/// The size of a description that gives bundles the average size of published ones.
const DESCRIPTION: usize = 21_000;
/// The size of a package icon in bytes.
const ICON: usize = 8_000;
/// Custom resources of a bundle directory, and fields of each.
const RESOURCES: usize = 6;
const FIELDS: usize = 500;

/// Generates a catalog with one file per package.
pub(crate) fn catalog(root: &Path, scale: Scale) -> Result<()> {
    let mut words = Words { state: 1 };
    for package in 0..scale.packages {
        let name = format!("operator-{package}");
        // Distributes the remaining bundles over the remaining packages.
        let before = scale.bundles * package / scale.packages;
        let bundles = scale.bundles * (package + 1) / scale.packages - before;
        let mut blobs = vec![json!({
            "schema": "olm.package",
            "name": name,
            "defaultChannel": "stable",
            "description": words.text(2_000),
            "icon": {"base64data": words.base64(ICON), "mediatype": "image/png"},
        })];
        let entries: Vec<Value> = (0..bundles).map(|minor| entry(&name, minor)).collect();
        blobs.push(json!({"schema": "olm.channel", "name": "stable", "package": name, "entries": entries}));
        blobs.extend((0..bundles).map(|minor| bundle(&name, minor, &mut words)));
        let mut text = String::new();
        for blob in blobs {
            text.push_str(&serde_json::to_string_pretty(&blob)?);
            text.push('\n');
        }
        fs::create_dir(root.join(&name))?;
        fs::write(root.join(&name).join("catalog.json"), text)?;
    }
    Ok(())
}

fn entry(package: &str, minor: usize) -> Value {
    let mut entry = json!({"name": format!("{package}.v1.{minor}.0")});
    if let Some(previous) = minor.checked_sub(1) {
        entry["replaces"] = format!("{package}.v1.{previous}.0").into();
        entry["skipRange"] = format!("<1.{minor}.0").into();
    }
    entry
}

fn bundle(package: &str, minor: usize, words: &mut Words) -> Value {
    let image = format!("registry.example/{package}:v1.{minor}.0");
    let kinds = ["Server", "Backup", "Restore"];
    let mut properties: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let value = json!({"group": format!("{package}.example"), "kind": kind, "version": "v1"});
            json!({"type": "olm.gvk", "value": value})
        })
        .collect();
    properties.push(json!({
        "type": "olm.package",
        "value": {"packageName": package, "version": format!("1.{minor}.0")},
    }));
    let owned = kinds.map(|kind| {
        json!({
            "name": format!("{}s.{package}.example", kind.to_lowercase()),
            "version": "v1",
            "kind": kind,
            "displayName": kind,
            "description": words.text(300),
        })
    });
    properties.push(json!({
        "type": "olm.csv.metadata",
        "value": {
            "annotations": {"capabilities": "Seamless Upgrades", "alm-examples": words.text(4_000)},
            "apiServiceDefinitions": {},
            "crdDescriptions": {"owned": owned},
            "description": words.text(DESCRIPTION),
            "displayName": package,
            "keywords": ["made", "up"],
            "maturity": "stable",
            "provider": {"name": "Example"},
        },
    }));
    json!({
        "schema": "olm.bundle",
        "name": format!("{package}.v1.{minor}.0"),
        "package": package,
        "image": image,
        "properties": properties,
        "relatedImages": [{"name": "", "image": image}],
    })
}

/// Generates bundle directories with YAML manifests.
pub(crate) fn bundles(root: &Path, scale: Scale) -> Result<()> {
    let mut words = Words { state: 2 };
    for number in 0..scale.bundle_directories {
        let package = format!("operator-{number}");
        let (manifests, metadata) = (root.join(&package).join("manifests"), root.join(&package).join("metadata"));
        fs::create_dir_all(&manifests)?;
        fs::create_dir_all(&metadata)?;
        let annotations = format!(
            "annotations:\n  \
               operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
               operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
               operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
               operators.operatorframework.io.bundle.package.v1: {package}\n  \
               operators.operatorframework.io.bundle.channels.v1: stable\n"
        );
        fs::write(metadata.join("annotations.yaml"), annotations)?;
        let mut owned = String::new();
        for index in 0..RESOURCES {
            let _ = write!(
                owned,
                "    - name: kind{index}s.{package}.example\n      version: v1\n      kind: Kind{index}\n      \
                 description: {}\n",
                words.text(100)
            );
            fs::write(manifests.join(format!("kind{index}.crd.yaml")), resource(&package, index, &mut words))?;
        }
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  \
             name: {package}.v1.0.0\n  annotations:\n    capabilities: Basic Install\nspec:\n  version: 1.0.0\n  \
             displayName: {package}\n  description: |\n    {}\n  customresourcedefinitions:\n    owned:\n{owned}  \
             relatedImages:\n  - name: main\n    image: registry.example/{package}:v1.0.0\n",
            words.text(DESCRIPTION)
        );
        fs::write(manifests.join("csv.yaml"), csv)?;
    }
    Ok(())
}

fn resource(package: &str, index: usize, words: &mut Words) -> String {
    let mut text = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  \
         name: kind{index}s.{package}.example\nspec:\n  group: {package}.example\n  names:\n    kind: Kind{index}\n    \
         listKind: Kind{index}List\n    plural: kind{index}s\n    singular: kind{index}\n  scope: Namespaced\n  \
         versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        \
         type: object\n        properties:\n"
    );
    for field in 0..FIELDS {
        let _ = write!(
            text,
            "          field{field}:\n            description: {}\n            type: string\n",
            words.text(60)
        );
    }
    text
}

/// A deterministic source of text.
struct Words {
    state: u64,
}

impl Words {
    fn number(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Returns words of at least `length` bytes.
    fn text(&mut self, length: usize) -> String {
        const WORDS: [&str; 16] = [
            "operator",
            "cluster",
            "the",
            "of",
            "a",
            "deploys",
            "backup",
            "storage",
            "with",
            "high",
            "availability",
            "manages",
            "\\n",
            "(see)",
            "https://docs.example",
            "and",
        ];
        let mut text = String::from("Text");
        while text.len() < length {
            text.push(' ');
            text.push_str(WORDS[(self.number() % 16) as usize]);
        }
        text
    }

    /// Returns `length` bytes that look like base64.
    fn base64(&mut self, length: usize) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..length).map(|_| char::from(DIGITS[(self.number() % 64) as usize])).collect()
    }
}
