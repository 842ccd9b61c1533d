//! OLM v1: derives the objects of a ClusterExtension from a bundle.

mod boxcutter;
mod certificates;
mod crds;
mod deployment_config;
mod deployments;
mod helm;
mod profile;
mod rights;
mod validate;
mod webhooks;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::pointer::text;
use crate::rehearse::input::RehearsalInput;
use crate::rehearse::served::{self, Availability};
use crate::rehearse::{ClusterRefusal, Note, config, display_name, modes, names};

pub use boxcutter::phase;
pub(crate) use deployment_config::apply as apply_deployment_config;
pub(crate) use deployments::CERTIFICATE_VOLUMES;
pub use profile::{Profile, Runtime};

/// The provider of webhook certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProvider {
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    OpenShift,
    /// None: bundles with webhooks are rejected.
    None,
}

/// The options of an installation.
#[derive(Debug, Clone)]
pub struct V1Install {
    /// The version of OLM v1 and its enabled features.
    pub profile: Profile,
    /// The namespace of the installation.
    pub namespace: String,
    /// The name of the ClusterExtension.
    pub extension: String,
    pub certificates: CertificateProvider,
    /// `spec.config.inline`.
    pub config: Option<Value>,
}

/// The objects that OLM v1 creates from a bundle.
#[derive(Debug, Clone, Default)]
pub struct V1Installation {
    /// The objects in the order in which they are applied.
    pub objects: Vec<Value>,
    /// The namespaces that the operator watches; `""` for all.
    pub targets: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<Note>,
}

/// Returns the objects that OLM v1 would apply.
///
/// # Errors
/// Returns the error message of OLM v1 if it would reject the bundle.
pub fn install(bundle: &RehearsalInput, options: &V1Install) -> Result<V1Installation, ClusterRefusal> {
    admit(bundle, options)?;
    render(bundle, options).map_err(|refusal| of_resolved(bundle, refusal))
}

/// Returns why OLM v1 refuses a bundle, as far as the metadata in a catalog decides it.
pub fn refused_by_metadata(bundle: &RehearsalInput, options: &V1Install) -> Option<ClusterRefusal> {
    let supported = || validate::supported(bundle, options).map_err(|refusal| of_resolved(bundle, refusal));
    admit(bundle, options).and_then(|()| supported()).err()
}

/// Checks what clusters check before they unpack the bundle.
fn admit(bundle: &RehearsalInput, options: &V1Install) -> Result<(), ClusterRefusal> {
    names::check_namespace(&options.namespace)?;
    let Some(dependency) = bundle.dependencies.first() else { return Ok(()) };
    let name = &bundle.name;
    Err(ClusterRefusal {
        id: "olmv1-dependency",
        message: format!(
            "validating bundle \"{name}\": bundle \"{name}\" has a dependency declared via property \"{dependency}\" \
             which is currently not supported"
        ),
    })
}

/// Adds the bundle to the message of a refusal, as OLM v1 does.
fn of_resolved(bundle: &RehearsalInput, refusal: ClusterRefusal) -> ClusterRefusal {
    let RehearsalInput { name, version, .. } = bundle;
    let message = format!("error for resolved bundle \"{name}\" with version \"{version}\": {}", refusal.message);
    ClusterRefusal { id: refusal.id, message }
}

fn render(bundle: &RehearsalInput, options: &V1Install) -> Result<V1Installation, ClusterRefusal> {
    let refuse = |id, message: String| Err(ClusterRefusal { id, message });
    if let Some(reason) = &bundle.refused {
        return refuse("olmv1-format", reason.clone());
    }
    validate::supported(bundle, options)?;
    let profile = &options.profile;
    let config = match config::check(bundle, &options.namespace, options.config.as_ref(), profile.deployment_config) {
        Ok(config) => config,
        Err(error) => return refuse("olmv1-config", error.to_string()),
    };
    validate::check(bundle)?;
    let targets = match &config.watch_namespace {
        Some(namespace) => vec![namespace.clone()],
        None if bundle.supports(modes::InstallModeType::AllNamespaces) => vec![String::new()],
        None => Vec::new(),
    };
    if let Err(reason) = modes::check_targets(&bundle.modes, &options.namespace, &targets) {
        return refuse(
            "olmv1-targets",
            format!("invalid option(s): invalid target namespaces [{}]: {reason}", targets.join(" ")),
        );
    }
    let mut renderer = Renderer { bundle, options, targets: &targets, objects: Vec::new() };
    renderer.accounts();
    renderer.roles();
    renderer.cluster_roles();
    renderer.crds()?;
    renderer.others();
    renderer.deployments(config.deployment.as_ref());
    renderer.webhooks();
    renderer.services();
    renderer.certificates();
    let mut objects = renderer.objects;
    for object in &mut objects {
        label(object, &options.extension);
    }
    let mut noted = Vec::new();
    match profile.runtime {
        Runtime::Helm => noted = helm::arrange(&mut objects, &options.extension),
        Runtime::Boxcutter => boxcutter::arrange(&mut objects, bundle),
    }
    unknown_kinds(&objects)?;
    noted.extend(notes(&objects));
    Ok(V1Installation { objects, targets, notes: noted })
}

/// The installation under construction.
struct Renderer<'a> {
    bundle: &'a RehearsalInput,
    options: &'a V1Install,
    targets: &'a [String],
    objects: Vec<Value>,
}

impl Renderer<'_> {
    /// Returns whether the operator watches all namespaces.
    fn everywhere(&self) -> bool {
        matches!(self.targets, [only] if only.is_empty())
    }

    fn others(&mut self) {
        for other in &self.bundle.others {
            let mut object = other.clone();
            if served::namespaced(text(other, "/kind")) == Some(true) {
                metadata(&mut object).insert("namespace".into(), self.options.namespace.clone().into());
            }
            self.objects.push(object);
        }
    }
}

/// Returns the metadata of an object, creating it if it is missing.
fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    part(object, "metadata")
}

/// Returns a part of an object, creating it if it is missing.
pub(crate) fn part<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let part = &mut object[field];
    if !part.is_object() {
        *part = json!({});
    }
    match part {
        Value::Object(part) => part,
        _ => unreachable!("the value was set to an object above"),
    }
}

fn label(object: &mut Value, extension: &str) {
    let labels = part(&mut object["metadata"], "labels");
    labels.insert("olm.operatorframework.io/owner-kind".into(), "ClusterExtension".into());
    labels.insert("olm.operatorframework.io/owner-name".into(), extension.into());
}

/// Rejects objects of kinds that no cluster serves before the bundle is installed.
fn unknown_kinds(objects: &[Value]) -> Result<(), ClusterRefusal> {
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for object in objects {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        if served::served(version, kind) == Availability::Never {
            let fault = format!(
                "resource mapping not found for name: \"{}\" namespace: \"{}\" from \"\": no matches for kind \
                 \"{kind}\" in version \"{version}\"\nensure CRDs are installed first",
                text(object, "/metadata/name"),
                text(object, "/metadata/namespace")
            );
            if seen.insert(fault.clone()) {
                faults.push(fault);
            }
        }
    }
    let faults = match faults.len() {
        0 => return Ok(()),
        1 => faults.remove(0),
        _ => format!("[{}]", faults.join(", ")),
    };
    Err(ClusterRefusal {
        id: "olmv1-unknown-kind",
        message: format!(
            "failed to get release state using server-side dry-run: error while running post render on files: \
             postrenderer[0] (*client.ownerPostRenderer) failed: {faults}"
        ),
    })
}

fn notes(objects: &[Value]) -> Vec<Note> {
    let mut notes = Vec::new();
    for object in objects {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let mut note = |id, refused, message| notes.push(Note { id, refused, message, object: display_name(object) });
        if let Availability::With(by) = served::served(version, kind) {
            note("rehearse-needs-api", false, format!("needs {version} {kind}, which clusters have with {by}"));
        }
        if kind.ends_with("WebhookConfiguration") {
            let group = "admissionregistration.k8s.io";
            for webhook in crate::pointer::list(object, "/webhooks") {
                if webhook.pointer("/clientConfig/service/port") == Some(&json!(0)) {
                    let name = text(object, "/metadata/name");
                    let message = format!(
                        "{kind}.{group} \"{name}\" is invalid: webhooks[0].clientConfig.service.port: Invalid value: 0: \
                         port is not valid: must be between 1 and 65535, inclusive"
                    );
                    note("rehearse-webhook-port", true, message);
                }
            }
        }
        if text(object, "/kind") == "Service" {
            let name = text(object, "/metadata/name");
            if name.len() > crate::rehearse::names::LABEL {
                let message = format!(
                    "Service \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": must be no more than 63 \
                     characters"
                );
                note("size-service-name", true, message);
            }
        }
    }
    notes
}
