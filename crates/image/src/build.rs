//! Puts images together from layers.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

use crate::layer::BuiltLayer;
use crate::{Config, Descriptor, ImageConfig, Index, Manifest, Platform, RootFs, Store, media_type};

/// What an image shall be, beside its layers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagePlan {
    /// What it runs on.
    pub platform: Platform,
    /// What it says about itself, in addition to what its base says.
    pub labels: BTreeMap<String, String>,
    /// The program, in place of that of its base.
    pub entrypoint: Option<Vec<String>>,
    /// The arguments, in place of those of its base.
    pub cmd: Option<Vec<String>>,
    /// The environment, `NAME=value`, in addition to that of its base.
    pub env: Vec<String>,
    /// The ports it listens on, like `50051/tcp`, in addition to those of its base.
    pub ports: Vec<String>,
    /// The user that runs it, in place of that of its base.
    pub user: Option<String>,
    /// Where it runs, in place of where its base does.
    pub working_dir: Option<String>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// A line on how each layer was made.
    pub history: Vec<String>,
}

/// An image that another is built on.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// Its layers.
    pub manifest: &'a Manifest,
    /// How it is started.
    pub config: &'a Config,
}

/// Puts an image together and stores its documents; its layers are there already.
///
/// The layers of a base are listed, but not looked for: whoever pushes or saves the image needs
/// them in the store.
///
/// # Errors
/// Fails when the store cannot be written to.
pub fn build(store: &Store, plan: &ImagePlan, layers: &[BuiltLayer], base: Option<Base<'_>>) -> io::Result<Descriptor> {
    let created = timestamp(plan.created);
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
        // A base may come from Docker; in one image all documents speak the same language.
        if layer.media_type == media_type::DOCKER_LAYER_GZIP {
            layer.media_type = media_type::OCI_LAYER_GZIP.into();
        }
    }
    all.extend(layers.iter().map(|layer| layer.descriptor.clone()));
    let manifest = Manifest {
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

/// Puts images for several platforms together to one.
///
/// # Errors
/// Fails when the store cannot be written to.
pub fn build_index(store: &Store, images: &[Descriptor]) -> io::Result<Descriptor> {
    let index = Index {
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
        // Arguments of another program mean nothing to this one.
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

/// Writes a time as documents of images have it: `1970-01-01T00:00:00Z`.
pub fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from the first of March, so that leap days come last, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_documents_have_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }

    #[test]
    fn an_image_has_what_its_base_has_and_more() {
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
            let manifest: Manifest = serde_json::from_slice(&store.read(&image.digest, 1 << 20).unwrap()).unwrap();
            let config = store.read(&manifest.config.digest, 1 << 20).unwrap();
            (manifest, serde_json::from_slice::<Config>(&config).unwrap())
        };
        let (base_manifest, base_config) = read(&build(&store, &plan, &[layer(b"one")], None).unwrap());
        let upper = ImagePlan {
            labels: [("b".into(), "3".into())].into(),
            entrypoint: Some(vec!["/bin/opm".into()]),
            env: vec!["A=5".into()],
            history: vec!["upper".into()],
            ..ImagePlan::default()
        };
        let base = Base { manifest: &base_manifest, config: &base_config };
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
