//! The objects of a run with OLM v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::cluster_catalog::NAME_LABEL;
use crate::run::names;
use crate::run::objects::{INDEX_IMAGE, INJECTED_BUNDLES, injected_text};
use crate::run::pod::IndexItem;
use crate::views::{
    self, CatalogFilter, ClusterCatalog, ClusterExtension, ClusterExtensionSpec, ExtensionConfig, ExtensionSource,
    InlineConfig, Rest, Selector, SourceImage, annotate,
};
use crate::{ClusterCatalogPlan, ResourceKind};

/// The annotation of a ClusterCatalog with the pushed name of its image.
pub(super) const REGISTRY: &str = "opm.run/registry";
/// The labels that name the ClusterExtension that owns an object.
pub(super) const OWNER: [(&str, &str); 2] =
    [("olm.operatorframework.io/owner-kind", "ClusterExtension"), ("olm.operatorframework.io/owner-name", "")];

/// The account for the installation, where OLM v1 requires one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum InstallerAccount {
    /// No account: OLM v1 uses its own permissions.
    None,
    /// An account with these rules.
    Derived(Vec<Value>),
    /// An account with cluster-admin permissions.
    Admin,
}

/// An operator to install with OLM v1.
#[derive(Debug, Clone)]
pub(super) struct Extension {
    /// The name of the ClusterExtension.
    pub(super) name: String,
    pub(super) package: String,
    /// The name of the bundle.
    pub(super) bundle: String,
    /// The pinned version.
    pub(super) version: String,
    /// The namespace to install in.
    pub(super) namespace: String,
    /// Whether to create that namespace if it does not exist.
    pub(super) create_namespace: bool,
    /// The account for the installation.
    pub(super) account: InstallerAccount,
    /// The namespace that the operator watches; `None` means all.
    pub(super) watch_namespace: Option<String>,
    /// Whether to disable OLM's CRD upgrade safety check.
    pub(super) ignore_crd_safety: bool,
    /// The CRDs of the bundle.
    pub(super) definitions: Vec<String>,
    /// Whether to adopt existing CRDs into the installation.
    pub(super) adopt_crds: bool,
    /// The kinds of all objects of the bundle, with their `apiVersion`.
    pub(super) kinds: Vec<(String, String)>,
}

/// The catalog image of a run.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    /// The image, by digest.
    pub(super) image: String,
    /// The pushed name.
    pub(super) registry: String,
    /// The base index image.
    pub(super) index_image: String,
    /// The added bundles, the new one last.
    pub(super) items: Vec<IndexItem>,
}

impl Extension {
    /// Returns the name of the ClusterCatalog.
    pub(super) fn catalog_name(&self) -> String {
        names::catalog_source(&self.package)
    }

    /// Returns the name of the installer account, its role and its binding.
    pub(super) fn installer_name(&self) -> String {
        installer_name(&self.name)
    }

    /// Returns the objects in creation order. The namespace comes first, if it may have to be created.
    pub(super) fn objects(&self, carried: &Carried) -> Vec<(ResourceKind, Value)> {
        let mut all = Vec::new();
        if self.create_namespace {
            all.push((
                ResourceKind::NAMESPACE,
                described(ResourceKind::NAMESPACE, json!({"name": self.namespace}), json!({})),
            ));
        }
        all.extend(self.rights());
        all.push((ResourceKind::CLUSTER_CATALOG, json!(self.catalog(carried))));
        all.push((ResourceKind::CLUSTER_EXTENSION, json!(self.object())));
        all
    }

    /// Returns the account and its role binding.
    fn rights(&self) -> Vec<(ResourceKind, Value)> {
        let name = self.installer_name();
        let account =
            described(ResourceKind::SERVICE_ACCOUNT, json!({"name": name, "namespace": self.namespace}), json!({}));
        let binding = |role: &str| {
            let fields = json!({
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
                "roleRef": {"apiGroup": ResourceKind::CLUSTER_ROLE.group, "kind": ResourceKind::CLUSTER_ROLE.kind, "name": role},
            });
            (
                ResourceKind::CLUSTER_ROLE_BINDING,
                described(ResourceKind::CLUSTER_ROLE_BINDING, json!({"name": name}), fields),
            )
        };
        match &self.account {
            InstallerAccount::None => Vec::new(),
            InstallerAccount::Admin => vec![(ResourceKind::SERVICE_ACCOUNT, account), binding("cluster-admin")],
            InstallerAccount::Derived(rules) => {
                let role = described(ResourceKind::CLUSTER_ROLE, json!({"name": name}), json!({"rules": rules}));
                vec![(ResourceKind::SERVICE_ACCOUNT, account), (ResourceKind::CLUSTER_ROLE, role), binding(&name)]
            }
        }
    }

    fn catalog(&self, carried: &Carried) -> ClusterCatalog {
        let plan = ClusterCatalogPlan {
            name: self.catalog_name(),
            image: carried.image.clone(),
            ..ClusterCatalogPlan::default()
        };
        let metadata = ObjectMeta {
            labels: Some([(NAME_LABEL.to_owned(), plan.name.clone())].into()),
            name: Some(plan.name.clone()),
            ..ObjectMeta::default()
        };
        let mut catalog = ClusterCatalog::new(metadata, plan.spec());
        carry(&mut catalog, carried);
        catalog
    }

    fn object(&self) -> ClusterExtension {
        let selector =
            Selector { match_labels: [(NAME_LABEL.to_owned(), self.catalog_name())].into(), rest: Rest::new() };
        let mut spec = ClusterExtensionSpec {
            namespace: self.namespace.clone(),
            source: ExtensionSource {
                source_type: "Catalog".to_owned(),
                catalog: CatalogFilter {
                    package_name: self.package.clone(),
                    version: self.version.clone(),
                    selector: Some(selector),
                    rest: Rest::new(),
                },
                rest: Rest::new(),
            },
            ..ClusterExtensionSpec::default()
        };
        if self.account != InstallerAccount::None {
            spec.service_account = Some(views::Account { name: self.installer_name(), rest: Rest::new() });
        }
        if let Some(namespace) = &self.watch_namespace {
            let inline = InlineConfig { watch_namespace: Some(namespace.clone()), rest: Rest::new() };
            spec.config = Some(ExtensionConfig { config_type: "Inline".to_owned(), inline, rest: Rest::new() });
        }
        if self.ignore_crd_safety {
            ignore_crd_safety(&mut spec);
        }
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        ClusterExtension::new(metadata, spec)
    }
}

/// Returns the name of the installer account of a ClusterExtension.
pub(super) fn installer_name(extension: &str) -> String {
    format!("{extension}-installer")
}

/// Points a ClusterCatalog at an image and records its bundles.
pub(super) fn carry(catalog: &mut ClusterCatalog, carried: &Carried) {
    let metadata = &mut catalog.metadata;
    annotate(metadata, INDEX_IMAGE, &carried.index_image);
    annotate(metadata, INJECTED_BUNDLES, injected_text(&carried.items));
    annotate(metadata, REGISTRY, &carried.registry);
    catalog.spec.source.image = SourceImage { reference: carried.image.clone(), ..SourceImage::default() };
}

/// Disables the CRD upgrade safety check of OLM v1.
pub(super) fn ignore_crd_safety(extension: &mut ClusterExtensionSpec) {
    extension.install = Some(json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}));
}

/// Makes Helm, which OLM v1 applies objects with, adopt an object into its release.
pub(super) fn adopt(object: &mut ObjectMeta, extension: &str, namespace: &str) {
    object.labels.get_or_insert_default().insert("app.kubernetes.io/managed-by".into(), "Helm".into());
    annotate(object, "meta.helm.sh/release-name", extension);
    annotate(object, "meta.helm.sh/release-namespace", namespace);
}

/// Returns the label selector of the objects of a ClusterExtension.
pub(super) fn owned_by(extension: &str) -> String {
    let [(kind, value), (name, _)] = OWNER;
    format!("{kind}={value},{name}={extension}")
}

fn described(kind: ResourceKind, metadata: Value, fields: Value) -> Value {
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension() -> Extension {
        Extension {
            name: "foo".into(),
            package: "foo".into(),
            bundle: "foo.v1.0.0".into(),
            version: "1.0.0".into(),
            namespace: "ns".into(),
            create_namespace: true,
            account: InstallerAccount::Derived(vec![
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
            ]),
            watch_namespace: Some("team".into()),
            ignore_crd_safety: true,
            definitions: Vec::new(),
            adopt_crds: false,
            kinds: Vec::new(),
        }
    }

    #[test]
    fn objects_are_in_dependency_order() {
        let carried = Carried {
            image: "r.test/c@sha256:00".into(),
            registry: "r.test/c:v1".into(),
            index_image: "r.test/index:v1".into(),
            items: vec![IndexItem { image: "r.test/foo:v1".into(), mode: "replaces".into() }],
        };
        let all: Vec<Value> = extension().objects(&carried).into_iter().map(|(_, object)| object).collect();
        insta::assert_snapshot!(serde_json::to_string_pretty(&all).unwrap());
        let bare = Extension { create_namespace: false, account: InstallerAccount::None, ..extension() };
        let kinds: Vec<&str> = bare.objects(&carried).iter().map(|(kind, _)| kind.kind).collect();
        assert_eq!(kinds, ["ClusterCatalog", "ClusterExtension"]);
        let admin = Extension { account: InstallerAccount::Admin, ..extension() };
        assert_eq!(admin.objects(&carried)[2].1["roleRef"]["name"], "cluster-admin");
    }
}
