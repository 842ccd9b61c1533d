//! Generates images for benchmarks, as an OCI layout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::workspace;

/// The amount to generate.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    images: usize,
    /// The size in bytes of an exclusive layer, and of a shared one.
    layer: usize,
    shared: usize,
}

impl Scale {
    /// 1.8 GB of different blobs, 5 GB referenced.
    pub(super) const FULL: Scale = Scale { images: 60, layer: 10_000_000, shared: 32_000_000 };
    pub(super) const TWENTIETH: Scale = Scale { images: 60, layer: 500_000, shared: 1_600_000 };
}

/// The number of shared layers.
const SHARED: usize = 19;
const PLATFORMS: [&str; 2] = ["amd64", "arm64"];

/// Images in a layout.
pub(super) struct Images {
    place: PathBuf,
    pub(super) count: usize,
    /// The total size of distinct blobs in bytes.
    pub(super) different: u64,
    /// The total size of all references to blobs in bytes.
    pub(super) referenced: u64,
    /// The number of manifests and indexes.
    pub(super) documents: usize,
    /// The number of distinct blobs.
    pub(super) blobs: usize,
}

/// Files named by their digests.
struct Blobs {
    place: PathBuf,
    known: BTreeMap<String, (String, u64)>,
}

impl Blobs {
    fn open(place: &Path) -> Result<Blobs> {
        fs::create_dir_all(place.join("blobs/sha256")).context("creating a layout")?;
        Ok(Blobs { place: place.to_owned(), known: BTreeMap::new() })
    }

    /// Writes files and returns the digest and size of each.
    fn put(&mut self, files: Vec<Vec<u8>>) -> Result<Vec<(String, u64)>> {
        let aside = self.place.join("aside");
        fs::create_dir_all(&aside)?;
        let mut found = Vec::new();
        for batch in files.chunks(500) {
            for (number, content) in batch.iter().enumerate() {
                fs::write(aside.join(format!("{number:03}")), content)?;
            }
            let names: Vec<String> = (0..batch.len()).map(|number| format!("{number:03}")).collect();
            let sums = workspace::output(Command::new("sha256sum").args(&names).current_dir(&aside))?;
            let sums: Vec<&str> = sums.lines().filter_map(|line| line.split(' ').next()).collect();
            ensure!(sums.len() == batch.len(), "sha256sum read {} of {} files", sums.len(), batch.len());
            for ((name, sum), content) in names.iter().zip(sums).zip(batch) {
                fs::rename(aside.join(name), self.place.join("blobs/sha256").join(sum))?;
                let entry = (format!("sha256:{sum}"), content.len() as u64);
                self.known.insert(entry.0.clone(), entry.clone());
                found.push(entry);
            }
        }
        fs::remove_dir_all(aside)?;
        Ok(found)
    }
}

/// Incompressible noise.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn descriptor(kind: &str, (digest, size): &(String, u64)) -> serde_json::Value {
    json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": size})
}

fn manifest(config: &(String, u64), layers: &[&(String, u64)]) -> Vec<u8> {
    let layers: Vec<_> = layers.iter().map(|layer| descriptor("layer.v1.tar+gzip", layer)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config), "layers": layers,
    });
    manifest.to_string().into_bytes()
}

fn config(number: usize, architecture: &str) -> Vec<u8> {
    let config = json!({
        "architecture": architecture, "os": "linux", "config": {"Labels": {"number": number.to_string()}},
        "rootfs": {"type": "layers", "diff_ids": []},
    });
    config.to_string().into_bytes()
}

impl Images {
    /// Generates images in a directory.
    pub(super) fn make(place: &Path, scale: Scale) -> Result<Images> {
        let mut blobs = Blobs::open(place)?;
        let mut shared = Vec::new();
        for number in 0..SHARED {
            shared.extend(blobs.put(vec![noise(number as u64 + 1, scale.shared)])?);
        }
        let (mut tops, mut referenced, mut documents) = (Vec::new(), 0, 0);
        for number in 0..scale.images {
            let mut children = Vec::new();
            for (turn, architecture) in PLATFORMS.iter().enumerate() {
                let seed = (number * PLATFORMS.len() + turn) as u64 + 1000;
                let own = blobs.put(vec![noise(seed, scale.layer), config(number, architecture)])?;
                let base = &shared[(number + turn * 7) % SHARED];
                referenced += own.iter().map(|(_, size)| size).sum::<u64>() + base.1;
                let made = blobs.put(vec![manifest(&own[1], &[base, &own[0]])])?;
                let mut child = descriptor("manifest.v1+json", &made[0]);
                child["platform"] = json!({"os": "linux", "architecture": architecture});
                children.push(child);
            }
            let index = json!({
                "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": children,
            });
            let made = blobs.put(vec![index.to_string().into_bytes()])?;
            let mut top = descriptor("index.v1+json", &made[0]);
            top["annotations"] = json!({"org.opencontainers.image.ref.name": format!("v{number}")});
            tops.push(top);
            documents += 1 + PLATFORMS.len();
        }
        fs::write(place.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}")?;
        fs::write(place.join("index.json"), json!({"schemaVersion": 2, "manifests": tops}).to_string())?;
        let different = blobs.known.values().map(|(_, size)| size).sum();
        let count = blobs.known.len();
        Ok(Images {
            place: place.to_owned(),
            count: scale.images,
            different,
            referenced,
            documents,
            blobs: count - documents,
        })
    }

    /// Returns a script that pushes them to a registry.
    pub(super) fn publish(&self, host: &str, name: &str) -> String {
        let mut script = String::new();
        for number in 0..self.count {
            let _ = writeln!(
                script,
                "skopeo copy --quiet --all --dest-tls-verify=false oci:{}:v{number} docker://{host}/{name}:v{number}",
                self.place.display()
            );
        }
        let _ = writeln!(script, "rm -r {}", self.place.display());
        script
    }
}

/// Generates many small images; returns the digest of each.
pub(super) fn many(place: &Path, count: usize) -> Result<Vec<String>> {
    let mut blobs = Blobs::open(place)?;
    let configs = blobs.put(vec![config(0, "amd64")])?;
    let layers = blobs.put((0..count).map(|number| noise(number as u64 + 5000, 1000)).collect())?;
    let manifests = layers.iter().map(|layer| manifest(&configs[0], &[layer])).collect();
    Ok(blobs.put(manifests)?.into_iter().map(|(digest, _)| digest).collect())
}
