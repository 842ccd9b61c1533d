//! The registry pod of a run.

use k8s_openapi::api::core::v1::{
    Capabilities, EmptyDirVolumeSource, KeyToPath, LocalObjectReference, PodSecurityContext, SeccompProfile,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::names::{self, PORT};
use crate::ResourceKind;
use crate::views::{PodView, is_default};

/// The name of the serving container.
pub const CONTAINER: &str = "registry-grpc";
/// The name of the init container, which decompresses.
pub const INIT_CONTAINER: &str = "registry-grpc-init";
/// The key of a catalog part in a ConfigMap.
pub const KEY: &str = "extraFBC";

/// The path of the served database; the one in the image may be read-only.
const DATABASE: &str = "/tmp/tmp.db";

/// The security level of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// As allowed by the namespace.
    #[default]
    Legacy,
    /// The Pod Security Standard `restricted`.
    Restricted,
}

impl Security {
    /// Returns the name in CatalogSources.
    pub fn name(self) -> &'static str {
        match self {
            Security::Legacy => "legacy",
            Security::Restricted => "restricted",
        }
    }
}

/// The settings of a pod.
#[derive(Debug, Clone, Default)]
pub struct PodSettings {
    /// The service account; may be empty.
    pub service_account: String,
    /// The image pull policy.
    pub pull_policy: String,
    /// The security level.
    pub security: Security,
    /// Whether it must run as non-root.
    pub non_root: bool,
    /// The user ID, instead of that of the image.
    pub user: Option<u32>,
    /// The pull secret; may be empty.
    pub pull_secret: String,
    /// The secret with a CA certificate, for pods that pull bundles; may be empty.
    pub ca_secret: String,
}

/// A bundle to add to an index, and the mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexItem {
    /// The image of the bundle.
    pub image: String,
    /// `semver` or `replaces`.
    pub mode: String,
}

/// The content of a pod.
#[derive(Debug, Clone)]
pub enum CatalogPodContent {
    /// A compressed file-based catalog in ConfigMaps.
    ConfigMaps {
        /// The image that serves it.
        image: String,
        /// The path of opm in the image, if known; otherwise a shell finds it.
        program: Option<String>,
        /// The image that decompresses it.
        decompression_image: String,
        parts: Vec<Vec<u8>>,
    },
    /// A database index to which the pod adds bundles.
    Database {
        /// The index image.
        image: String,
        /// The path of the database.
        path: String,
        /// Whether the pod pulls bundles without verifying certificates.
        skip_tls_verify: bool,
        /// Whether the pod pulls bundles over plain HTTP.
        use_http: bool,
    },
    /// A catalog image that serves itself.
    Image(String),
}

/// Returns the pod.
pub fn pod(
    namespace: &str,
    catalog_source: &str,
    name: &str,
    items: &[IndexItem],
    content: &CatalogPodContent,
    settings: &PodSettings,
) -> Value {
    let mut main = NewContainer {
        name: CONTAINER,
        image_pull_policy: settings.pull_policy.clone(),
        ports: vec![NewPort { name: "grpc", container_port: PORT }],
        security_context: container_security(settings),
        ..NewContainer::default()
    };
    let shell = |script: String| vec!["sh".to_owned(), "-c".to_owned(), script];
    let mut spec = NewPodSpec {
        service_account_name: settings.service_account.clone(),
        security_context: pod_security(settings),
        ..NewPodSpec::default()
    };
    match content {
        CatalogPodContent::ConfigMaps { image, program, decompression_image, parts } => {
            let root = names::catalog_root(catalog_source);
            let mounts = mounts(catalog_source, parts.len());
            main.image.clone_from(image);
            main.command = match program {
                Some(program) => {
                    vec![program.clone(), "serve".to_owned(), root.clone(), "-p".to_owned(), PORT.to_string()]
                }
                None => shell(format!("opm serve {root} -p {PORT}")),
            };
            main.volume_mounts = mounts.main;
            spec.init_containers.push(NewContainer {
                name: INIT_CONTAINER,
                image: decompression_image.clone(),
                command: shell(unpack_script(&root)),
                volume_mounts: mounts.init,
                security_context: container_security(settings),
                ..NewContainer::default()
            });
            spec.volumes = mounts.volumes;
        }
        CatalogPodContent::Database { image, path, skip_tls_verify, use_http } => {
            main.image.clone_from(image);
            let certificate = !settings.ca_secret.is_empty();
            main.command = shell(add_script(path, items, certificate, *skip_tls_verify, *use_http));
            main.working_dir = "/tmp";
            (spec.volumes, main.volume_mounts) = secrets(settings);
        }
        CatalogPodContent::Image(image) => {
            main.image.clone_from(image);
            let secret = Some(&settings.pull_secret).filter(|secret| !secret.is_empty());
            spec.image_pull_secrets =
                secret.map(|name| LocalObjectReference { name: name.clone() }).into_iter().collect();
        }
    }
    spec.containers.push(main);
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() };
    json!({
        "apiVersion": ResourceKind::POD.api_version(),
        "kind": ResourceKind::POD.kind,
        "metadata": metadata,
        "spec": spec,
    })
}

/// A pod to create. Fields are printed in the order in which people write them.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewPodSpec {
    #[serde(skip_serializing_if = "is_default")]
    volumes: Vec<NewVolume>,
    #[serde(skip_serializing_if = "is_default")]
    image_pull_secrets: Vec<LocalObjectReference>,
    #[serde(skip_serializing_if = "is_default")]
    service_account_name: String,
    #[serde(skip_serializing_if = "is_default")]
    security_context: PodSecurityContext,
    #[serde(skip_serializing_if = "is_default")]
    init_containers: Vec<NewContainer>,
    containers: Vec<NewContainer>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewContainer {
    name: &'static str,
    #[serde(skip_serializing_if = "is_default")]
    image_pull_policy: String,
    #[serde(skip_serializing_if = "is_default")]
    ports: Vec<NewPort>,
    image: String,
    #[serde(skip_serializing_if = "is_default")]
    command: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    working_dir: &'static str,
    #[serde(skip_serializing_if = "is_default")]
    volume_mounts: Vec<NewMount>,
    #[serde(skip_serializing_if = "is_default")]
    security_context: Option<NewSecurityContext>,
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewPort {
    name: &'static str,
    container_port: u16,
}

#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMount {
    name: String,
    mount_path: String,
    #[serde(skip_serializing_if = "is_default")]
    sub_path: String,
    #[serde(skip_serializing_if = "is_default")]
    read_only: bool,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewVolume {
    name: String,
    #[serde(skip_serializing_if = "is_default")]
    config_map: Option<NewConfigMap>,
    #[serde(skip_serializing_if = "is_default")]
    secret: Option<NewSecret>,
    #[serde(skip_serializing_if = "is_default")]
    empty_dir: Option<EmptyDirVolumeSource>,
}

#[derive(PartialEq, Serialize)]
struct NewConfigMap {
    name: String,
    items: Vec<KeyToPath>,
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewSecret {
    secret_name: String,
    optional: bool,
    items: Vec<NewItem>,
}

#[derive(PartialEq, Serialize)]
struct NewItem {
    key: &'static str,
    path: &'static str,
    mode: i32,
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewSecurityContext {
    privileged: bool,
    read_only_root_filesystem: bool,
    allow_privilege_escalation: bool,
    capabilities: Capabilities,
}

/// Returns what to do if the program of a registry pod does not start.
pub(crate) fn advice(pod: &PodView) -> Option<&'static str> {
    let main = pod.spec.containers.first()?;
    // Only a pod that adds bundles to a database has a working directory.
    let adds = main.name == CONTAINER && main.working_dir.is_some();
    adds.then_some(
        "the index image needs a shell and opm to add the bundle to its database; --sqlite migrate serves its content \
         as a file-based catalog instead",
    )
}

struct Mounts {
    volumes: Vec<NewVolume>,
    init: Vec<NewMount>,
    main: Vec<NewMount>,
}

fn mounts(catalog_source: &str, count: usize) -> Mounts {
    let root = names::catalog_root(catalog_source);
    let mut mounts = Mounts { volumes: Vec::new(), init: Vec::new(), main: Vec::new() };
    for number in 1..=count {
        let map = config_map_name(catalog_source, number);
        // Volume names must not contain dots, unlike package names.
        let volume = |end: &str| names::dns(names::trim63(&format!("{map}{end}")));
        let (packed, unpacked) = (volume("-volume"), volume("-unzip"));
        let path = format!("{map}/{KEY}.yaml.gz");
        let mount = |name: &str, mount_path: String| NewMount {
            name: name.to_owned(),
            mount_path,
            sub_path: map.clone(),
            read_only: false,
        };
        mounts.init.push(mount(&packed, format!("/compressed{root}/{map}")));
        let open = mount(&unpacked, format!("{root}/{map}"));
        mounts.init.push(open.clone());
        mounts.main.push(open);
        let items = vec![KeyToPath { key: KEY.to_owned(), path, mode: None }];
        let config_map = Some(NewConfigMap { name: map, items });
        mounts.volumes.push(NewVolume { name: packed, config_map, ..NewVolume::default() });
        let empty_dir = Some(EmptyDirVolumeSource::default());
        mounts.volumes.push(NewVolume { name: unpacked, empty_dir, ..NewVolume::default() });
    }
    mounts
}

/// Returns the name of a ConfigMap; numbers start at 1.
pub fn config_map_name(catalog_source: &str, number: usize) -> String {
    format!("{}{number}", names::config_map_prefix(catalog_source))
}

/// Decompresses every part to its path without the prefix `/compressed` and the suffix `.gz`.
fn unpack_script(root: &str) -> String {
    format!(
        r#"set -e
for part in /compressed{root}/*configmap-partition*; do
  for packed in "$part"/*; do
    file="${{packed#/compressed}}"
    gzip -d -c < "$packed" > "${{file%.*}}"
  done
done
"#
    )
}

/// Adds bundles to a copy of an index image's database, and serves it.
fn add_script(path: &str, items: &[IndexItem], certificate: bool, skip_tls_verify: bool, use_http: bool) -> String {
    let path = quoted(path);
    let mut script = format!("[ -f {path} ] && cp {path} {DATABASE}; \\\n");
    let certificate = if certificate { " --ca-file=/certs/cert.pem" } else { "" };
    for item in items {
        script += &format!(
            "opm registry add -d {DATABASE} -b {} --mode={}{certificate} --skip-tls-verify={skip_tls_verify} \
             --use-http={use_http} && \\\n",
            quoted(&item.image),
            quoted(&item.mode)
        );
    }
    script + &format!("exec opm registry serve -d {DATABASE} -p {PORT}\n")
}

/// Quotes a word for a shell if needed: labels and annotations are untrusted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._-@+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the secret volumes and mounts of a pod that pulls bundles.
fn secrets(settings: &PodSettings) -> (Vec<NewVolume>, Vec<NewMount>) {
    let wanted = [
        (&settings.pull_secret, ".dockerconfigjson", ".docker/config.json", "/root"),
        (&settings.ca_secret, "cert.pem", "cert.pem", "/certs"),
    ];
    let wanted = wanted.into_iter().filter(|(name, ..)| !name.is_empty());
    let volume = |(name, key, path, place): (&String, _, _, &str)| {
        let secret =
            NewSecret { secret_name: name.clone(), optional: false, items: vec![NewItem { key, path, mode: 0o400 }] };
        (
            NewVolume { name: name.clone(), secret: Some(secret), ..NewVolume::default() },
            NewMount { name: name.clone(), mount_path: place.to_owned(), read_only: true, ..NewMount::default() },
        )
    };
    wanted.map(volume).unzip()
}

fn pod_security(settings: &PodSettings) -> PodSecurityContext {
    let restricted = settings.security == Security::Restricted;
    PodSecurityContext {
        run_as_non_root: (settings.non_root || settings.user.is_some()).then_some(true),
        run_as_user: settings.user.map(i64::from),
        seccomp_profile: restricted
            .then(|| SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

fn container_security(settings: &PodSettings) -> Option<NewSecurityContext> {
    (settings.security == Security::Restricted).then(|| NewSecurityContext {
        privileged: false,
        read_only_root_filesystem: false,
        allow_privilege_escalation: false,
        capabilities: Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PodSettings {
        PodSettings { pull_policy: "Always".into(), ..PodSettings::default() }
    }

    fn items() -> Vec<IndexItem> {
        let item =
            |tag: &str| IndexItem { image: format!("quay.io/example/foo-bundle:{tag}"), mode: "replaces".into() };
        vec![item("v1"), item("v2")]
    }

    fn database(path: &str) -> CatalogPodContent {
        let image = "quay.io/example/index:v1".to_owned();
        CatalogPodContent::Database { image, path: path.into(), skip_tls_verify: false, use_http: true }
    }

    fn config_maps(count: usize) -> CatalogPodContent {
        CatalogPodContent::ConfigMaps {
            image: "quay.io/operator-framework/opm:latest".into(),
            program: None,
            decompression_image: "registry.access.redhat.com/ubi9/ubi:9.8".into(),
            parts: vec![Vec::new(); count],
        }
    }

    fn show(value: &Value) -> String {
        serde_json::to_string_pretty(value).unwrap()
    }

    #[test]
    fn a_catalog_is_read_from_config_maps() {
        insta::assert_snapshot!(show(&pod("ns", "foo-catalog", "foo", &items(), &config_maps(2), &settings())));
    }

    #[test]
    fn an_image_with_the_program_needs_no_shell() {
        let CatalogPodContent::ConfigMaps { image, decompression_image, parts, .. } = config_maps(1) else {
            unreachable!()
        };
        let content =
            CatalogPodContent::ConfigMaps { image, program: Some("/bin/opm".into()), decompression_image, parts };
        let pod = pod("ns", "foo-catalog", "foo", &items(), &content, &settings());
        let command = &pod["spec"]["containers"][0]["command"];
        assert_eq!(*command, json!(["/bin/opm", "serve", "/foo-catalog-configs", "-p", "50051"]));
    }

    #[test]
    fn bundles_are_added_to_a_database() {
        let settings = PodSettings {
            pull_secret: "pull".into(),
            ca_secret: "ca".into(),
            service_account: "me".into(),
            ..settings()
        };
        insta::assert_snapshot!(show(&pod(
            "ns",
            "foo-catalog",
            "foo",
            &items(),
            &database("/database/index.db"),
            &settings
        )));
    }

    #[test]
    fn every_container_has_a_security_context() {
        let settings = PodSettings { security: Security::Restricted, non_root: true, user: Some(1001), ..settings() };
        let pod = pod("ns", "foo-catalog", "foo", &items(), &config_maps(1), &settings);
        assert_eq!(
            pod["spec"]["securityContext"],
            json!({"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}})
        );
        for container in [&pod["spec"]["containers"][0], &pod["spec"]["initContainers"][0]] {
            assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
            assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], json!(false));
        }
    }

    #[test]
    fn labels_are_quoted_in_scripts() {
        let script = add_script("/x'; rm -rf /; '", &[], false, false, false);
        assert!(script.starts_with(r"[ -f '/x'\''; rm -rf /; '\''' ]"), "{script}");
    }

    #[test]
    fn packages_with_dots_have_valid_volume_names() {
        let pod = pod("ns", "a.b-catalog", "foo", &items(), &config_maps(1), &settings());
        assert_eq!(pod["spec"]["volumes"][0]["name"], "a-b-catalog-configmap-partition-1-volume");
        assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], "a.b-catalog-configmap-partition-1");
    }
}
