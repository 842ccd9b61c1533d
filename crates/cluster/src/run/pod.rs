//! The registry pod of a run.

use serde_json::{Map, Value, json};

use super::names::{self, PORT};
use crate::ResourceKind;
use crate::views::PodView;

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
    let mut main = json!({
        "name": CONTAINER,
        "imagePullPolicy": settings.pull_policy,
        "ports": [{"name": "grpc", "containerPort": PORT}],
    });
    let mut spec = Map::new();
    let mut init = None;
    match content {
        CatalogPodContent::ConfigMaps { image, program, decompression_image, parts } => {
            let root = names::catalog_root(catalog_source);
            main["image"] = json!(image);
            main["command"] = match program {
                Some(program) => json!([program, "serve", root, "-p", PORT.to_string()]),
                None => json!(["sh", "-c", format!("opm serve {root} -p {PORT}")]),
            };
            let mounts = mounts(catalog_source, parts.len());
            main["volumeMounts"] = json!(mounts.main);
            init = Some(json!({
                "name": INIT_CONTAINER,
                "image": decompression_image,
                "command": ["sh", "-c", unpack_script(&root)],
                "volumeMounts": mounts.init,
            }));
            spec.insert("volumes".into(), json!(mounts.volumes));
        }
        CatalogPodContent::Database { image, path, skip_tls_verify, use_http } => {
            main["image"] = json!(image);
            let certificate = !settings.ca_secret.is_empty();
            let script = add_script(path, items, certificate, *skip_tls_verify, *use_http);
            main["command"] = json!(["sh", "-c", script]);
            main["workingDir"] = json!("/tmp");
            let (volumes, mounts) = secrets(settings);
            if !volumes.is_empty() {
                main["volumeMounts"] = json!(mounts);
                spec.insert("volumes".into(), json!(volumes));
            }
        }
        CatalogPodContent::Image(image) => {
            main["image"] = json!(image);
            if !settings.pull_secret.is_empty() {
                spec.insert("imagePullSecrets".into(), json!([{"name": settings.pull_secret}]));
            }
        }
    }
    if !settings.service_account.is_empty() {
        spec.insert("serviceAccountName".into(), json!(settings.service_account));
    }
    if let Some(context) = pod_security(settings) {
        spec.insert("securityContext".into(), context);
    }
    for container in init.iter_mut().chain([&mut main]) {
        if let Some(context) = container_security(settings) {
            container["securityContext"] = context;
        }
    }
    if let Some(init) = init {
        spec.insert("initContainers".into(), json!([init]));
    }
    spec.insert("containers".into(), json!([main]));
    json!({
        "apiVersion": ResourceKind::POD.api_version(),
        "kind": ResourceKind::POD.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
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
    volumes: Vec<Value>,
    init: Vec<Value>,
    main: Vec<Value>,
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
        mounts.volumes.push(json!({"name": packed, "configMap": {"name": map, "items": [{"key": KEY, "path": path}]}}));
        mounts.volumes.push(json!({"name": unpacked, "emptyDir": {}}));
        mounts.init.push(json!({"name": packed, "mountPath": format!("/compressed{root}/{map}"), "subPath": map}));
        let open = json!({"name": unpacked, "mountPath": format!("{root}/{map}"), "subPath": map});
        mounts.init.push(open.clone());
        mounts.main.push(open);
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
fn secrets(settings: &PodSettings) -> (Vec<Value>, Vec<Value>) {
    let wanted = [
        (&settings.pull_secret, ".dockerconfigjson", ".docker/config.json", "/root"),
        (&settings.ca_secret, "cert.pem", "cert.pem", "/certs"),
    ];
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    for (name, key, path, place) in wanted.into_iter().filter(|(name, ..)| !name.is_empty()) {
        let items = json!([{"key": key, "path": path, "mode": 0o400}]);
        volumes.push(json!({"name": name, "secret": {"secretName": name, "optional": false, "items": items}}));
        mounts.push(json!({"name": name, "mountPath": place, "readOnly": true}));
    }
    (volumes, mounts)
}

fn pod_security(settings: &PodSettings) -> Option<Value> {
    let mut context = Map::new();
    if settings.non_root || settings.user.is_some() {
        context.insert("runAsNonRoot".into(), json!(true));
    }
    if let Some(user) = settings.user {
        context.insert("runAsUser".into(), json!(user));
    }
    if settings.security == Security::Restricted {
        context.insert("seccompProfile".into(), json!({"type": "RuntimeDefault"}));
    }
    (!context.is_empty()).then_some(Value::Object(context))
}

fn container_security(settings: &PodSettings) -> Option<Value> {
    (settings.security == Security::Restricted).then(|| {
        json!({
            "privileged": false,
            "readOnlyRootFilesystem": false,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
        })
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
