//! Builds images from layers.

use std::collections::BTreeMap;
use std::io;

use fbc::spelling::calendar::rfc3339;
use serde_json::{Map, Value, json};

use crate::layer::BuiltLayer;
use crate::{ConfigFile, Descriptor, ImageConfig, ImageIndex, ImageManifest, Platform, RootFs, Store, media_type};

/// The properties of an image to build, apart from its layers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagePlan {
    pub platform: Platform,
    /// Labels, merged over those of the base.
    pub labels: BTreeMap<String, String>,
    /// The entrypoint; replaces that of the base.
    pub entrypoint: Option<Vec<String>>,
    /// The arguments; replace those of the base.
    pub cmd: Option<Vec<String>>,
    /// Environment variables, `NAME=value`, merged over those of the base.
    pub env: Vec<String>,
    /// Exposed ports such as `50051/tcp`, added to those of the base.
    pub ports: Vec<String>,
    /// The user; replaces that of the base.
    pub user: Option<String>,
    /// The working directory; replaces that of the base.
    pub working_dir: Option<String>,
    /// The creation time, in seconds since 1970.
    pub created: u64,
    /// One history line per layer.
    pub history: Vec<String>,
}

/// The base image.
#[derive(Debug, Clone, Copy)]
pub struct BaseImage<'a> {
    /// The manifest of the base.
    pub manifest: &'a ImageManifest,
    /// The config of the base.
    pub config: &'a ConfigFile,
}

/// Writes the manifest and the config of an image to the store. The layers must be stored already.
///
/// The layers of a base are listed but need not be stored; to push or save the image, they must be.
///
/// # Errors
/// Fails when writing to the store fails.
pub fn build(
    store: &Store,
    plan: &ImagePlan,
    layers: &[BuiltLayer],
    base: Option<BaseImage<'_>>,
) -> io::Result<Descriptor> {
    let created = rfc3339(i64::try_from(plan.created).unwrap_or(i64::MAX));
    let mut config = base.map(|base| base.config.clone()).unwrap_or_default();
    config.created = Some(created.clone());
    config.architecture.clone_from(&plan.platform.architecture);
    config.os.clone_from(&plan.platform.os);
    config.variant.clone_from(&plan.platform.variant);
    let mut start = config.config.unwrap_or_default();
    apply(plan, &mut start);
    config.config = Some(start);
    let mut diff_ids = std::mem::take(&mut config.rootfs.diff_ids);
    diff_ids.extend(layers.iter().map(|layer| layer.diff_id.to_string()));
    config.rootfs = RootFs { kind: "layers".into(), diff_ids };
    let line = |text: &String| json!({"created": created, "created_by": text});
    config.history.extend(plan.history.iter().map(line));
    let content = serde_json::to_vec(&config).map_err(io::Error::other)?;
    store.put(&content)?;
    let mut all = base.map(|base| base.manifest.layers.clone()).unwrap_or_default();
    for layer in &mut all {
        // The base may use Docker media types; all documents of one image use the same ones.
        if layer.media_type == media_type::DOCKER_LAYER_GZIP {
            layer.media_type = media_type::OCI_LAYER_GZIP.into();
        }
    }
    all.extend(layers.iter().map(|layer| layer.descriptor.clone()));
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_MANIFEST.into()),
        config: Descriptor::of(media_type::OCI_CONFIG, &content),
        layers: all,
        annotations: BTreeMap::new(),
        other: Map::new(),
    };
    let content = serde_json::to_vec(&manifest).map_err(io::Error::other)?;
    store.put(&content)?;
    Ok(Descriptor { platform: Some(plan.platform.clone()), ..Descriptor::of(media_type::OCI_MANIFEST, &content) })
}

/// Builds an index of images for several platforms.
///
/// # Errors
/// Fails when writing to the store fails.
pub fn build_index(store: &Store, images: &[Descriptor]) -> io::Result<Descriptor> {
    let index = ImageIndex {
        schema_version: 2,
        media_type: Some(media_type::OCI_INDEX.into()),
        manifests: images.to_vec(),
        annotations: BTreeMap::new(),
        other: Map::new(),
    };
    let content = serde_json::to_vec(&index).map_err(io::Error::other)?;
    store.put(&content)?;
    Ok(Descriptor::of(media_type::OCI_INDEX, &content))
}

fn apply(plan: &ImagePlan, start: &mut ImageConfig) {
    if !plan.labels.is_empty() {
        let labels = start.labels.get_or_insert_default();
        labels.extend(plan.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    if let Some(entrypoint) = &plan.entrypoint {
        start.entrypoint = Some(entrypoint.clone());
        // The base's arguments belong to another entrypoint.
        start.cmd = None;
    }
    if let Some(cmd) = &plan.cmd {
        start.cmd = Some(cmd.clone());
    }
    for variable in &plan.env {
        let name = |variable: &str| variable.split('=').next().unwrap_or_default().to_owned();
        let env = start.env.get_or_insert_default();
        env.retain(|other| name(other) != name(variable));
        env.push(variable.clone());
    }
    for port in &plan.ports {
        start.exposed_ports.get_or_insert_default().insert(port.clone(), Value::Object(Map::new()));
    }
    if let Some(user) = &plan.user {
        start.user.clone_from(user);
    }
    if let Some(directory) = &plan.working_dir {
        start.working_dir.clone_from(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_extends_its_base() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(scratch.path()).unwrap();
        let layer = |text: &[u8]| BuiltLayer {
            descriptor: Descriptor::of(media_type::OCI_LAYER_GZIP, text),
            diff_id: crate::Digest::of(text),
        };
        let plan = ImagePlan {
            labels: [("a".into(), "1".into()), ("b".into(), "2".into())].into(),
            entrypoint: Some(vec!["/bin/sh".into()]),
            cmd: Some(vec!["-c".into()]),
            env: vec!["A=1".into(), "B=2".into()],
            ports: vec!["80/tcp".into()],
            user: Some("1001".into()),
            history: vec!["base".into()],
            ..ImagePlan::default()
        };
        let read = |image: &Descriptor| {
            let manifest: ImageManifest = serde_json::from_slice(&store.read(&image.digest, 1 << 20).unwrap()).unwrap();
            let config = store.read(&manifest.config.digest, 1 << 20).unwrap();
            (manifest, serde_json::from_slice::<ConfigFile>(&config).unwrap())
        };
        let (base_manifest, base_config) = read(&build(&store, &plan, &[layer(b"one")], None).unwrap());
        let upper = ImagePlan {
            labels: [("b".into(), "3".into())].into(),
            entrypoint: Some(vec!["/bin/opm".into()]),
            env: vec!["A=5".into()],
            history: vec!["upper".into()],
            ..ImagePlan::default()
        };
        let base = BaseImage { manifest: &base_manifest, config: &base_config };
        let (manifest, config) = read(&build(&store, &upper, &[layer(b"two")], Some(base)).unwrap());
        assert_eq!(manifest.layers.len(), 2);
        assert_eq!(config.rootfs.diff_ids.len(), 2);
        assert_eq!(config.history.len(), 2);
        let start = config.config.unwrap();
        assert_eq!(start.labels.unwrap(), [("a".into(), "1".into()), ("b".into(), "3".into())].into());
        assert_eq!(start.entrypoint.unwrap(), ["/bin/opm"]);
        assert_eq!(start.cmd, None);
        assert_eq!(start.env.unwrap(), ["B=2", "A=5"]);
        assert_eq!(start.user, "1001");
        assert!(start.exposed_ports.unwrap().contains_key("80/tcp"));
    }
}
