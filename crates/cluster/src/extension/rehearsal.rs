//! Rehearses a bundle for the cluster's OLM v1 before anything is created.

use std::path::Path;

use bundle::rehearse::v1::{CertificateProvider, Profile, Runtime};
use bundle::rehearse::{InstallModeType, Installer, Level, OlmGeneration, RehearsalInput, Rehearse};
use bundle::review::crd;
use fbc::Limits;
use serde_json::Value;

use super::objects::InstallerAccount;
use super::offer::OlmFeatures;
use super::upgrade::definitions;
use crate::context::WorkContext;
use crate::run::install_mode::{InstallMode, InstallModeError, ModeType};
use crate::views::{AnyObject, ClusterRole, Stored, decode};
use crate::{Error, ResourceKind, Watcher};

/// The result of a rehearsal.
pub(super) struct Rehearsed {
    pub(super) version: String,
    objects: Vec<Value>,
    /// The kinds and names of these objects.
    identities: Vec<AnyObject>,
    /// The minimal permissions to install it.
    rules: Vec<Value>,
}

/// The parameters of a rehearsal.
pub(super) struct Rehearsal<'a> {
    pub(super) offer: &'a OlmFeatures,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) watch_namespace: Option<&'a str>,
    pub(super) ignore_dependencies: bool,
}

/// Reads a bundle directory like OLM v1.
pub(super) fn read(directory: &Path, limits: &Limits) -> Result<RehearsalInput, Error> {
    let whole = bundle::read_whole(directory, limits).map_err(|error| Error::refused(error.to_string()))?;
    Ok(RehearsalInput::new(&whole))
}

impl Rehearsal<'_> {
    /// Rehearses a bundle for the cluster's OLM v1, or fails with OLM's message.
    pub(super) fn of(&self, mut bundle: RehearsalInput, watcher: &dyn Watcher) -> Result<Rehearsed, Error> {
        if self.ignore_dependencies && !bundle.dependencies.is_empty() {
            let left_out = bundle.dependencies.join(", ");
            watcher.warn(&format!("OLM v1 installs {} without its dependencies ({left_out})", bundle.name));
            bundle.dependencies.clear();
        }
        let request = Rehearse {
            profile: self.profile(),
            watch: self.watch_namespace.map(str::to_owned).into_iter().collect(),
            extension: Some(self.name.to_owned()),
            certificates: match self.offer.gate("WebhookProviderOpenshiftServiceCA") {
                Some(true) => CertificateProvider::OpenShift,
                _ => CertificateProvider::CertManager,
            },
            ..Rehearse::new(OlmGeneration::V1)
        };
        let prediction = request.predict(&bundle, self.namespace);
        let refused = |words: &str, help: &str| {
            Error::refused(format!("OLM v1 refuses the bundle: {words}; nothing was created{help}"))
        };
        if let Some(refusal) = &prediction.refusal {
            let help = match refusal.id {
                "olmv1-dependency" => "\n  help: use --ignore-dependencies to install without them",
                _ => "",
            };
            return Err(refused(&refusal.message, help));
        }
        if let Some(note) = prediction.notes.iter().find(|note| note.refused) {
            return Err(refused(&note.message, ""));
        }
        for limit in &prediction.limits {
            let words = format!("{} has {}, the limit is {} for {}", limit.object, limit.size, limit.limit, limit.what);
            match limit.level {
                Level::Over => return Err(refused(&words, "")),
                Level::Near => watcher.warn(&words),
            }
        }
        let role = bundle::rehearse::installer(&prediction.objects, self.name, Installer::Every);
        Ok(Rehearsed {
            version: bundle.version,
            identities: prediction.objects.iter().map(AnyObject::of).collect::<Result<_, Error>>()?,
            objects: prediction.objects,
            rules: decode::<ClusterRole>(role)?.rules,
        })
    }

    fn profile(&self) -> Profile {
        let offer = self.offer;
        let guessed = if offer.needs_account { Profile::NEWEST - 1 } else { Profile::NEWEST };
        let minor = offer.minor.unwrap_or(guessed).clamp(Profile::OLDEST, Profile::NEWEST);
        let mut profile = Profile::of(minor).unwrap_or_default();
        if offer.gate("BoxcutterRuntime") == Some(true) {
            profile.runtime = Runtime::Boxcutter;
        }
        profile.single_own_namespace =
            offer.gate("SingleOwnNamespaceInstallSupport").unwrap_or(profile.single_own_namespace);
        profile.deployment_config = offer.gate("DeploymentConfig").unwrap_or(profile.deployment_config);
        profile
    }
}

impl Rehearsed {
    /// Returns the names of the CRDs.
    pub(super) fn definitions(&self) -> Vec<String> {
        let crds = self.identities.iter().filter(|object| object.kind == ResourceKind::CRD.kind);
        crds.map(|crd| crd.metadata.name().to_owned()).collect()
    }

    /// Returns the distinct kinds of the objects, with their `apiVersion`.
    pub(super) fn kinds(&self) -> Vec<(String, String)> {
        let kind = |object: &AnyObject| (object.api_version.clone(), object.kind.clone());
        let mut kinds: Vec<_> = self.identities.iter().map(kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// Returns the installer account with exactly the permissions that the bundle needs.
    pub(super) fn account(&self) -> InstallerAccount {
        InstallerAccount::Derived(self.rules.clone())
    }

    /// Fails with OLM's message if OLM v1 would refuse the changes to existing CRDs.
    pub(super) async fn check_definitions(&self, context: &WorkContext<'_>) -> Result<(), Error> {
        let there = definitions(context, &self.definitions()).await?;
        let blocking = crd::refusals(&there, &self.objects);
        match blocking.is_empty() {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "OLM v1 refuses the CRD changes; nothing was changed:\n  {}\n  help: use --ignore-crd-safety to install \
                 them anyway",
                blocking.join("\n  ")
            ))),
        }
    }
}

/// Returns the namespace that an operator watches; `None` for all.
pub(super) fn watch_namespace(
    requested: Option<&InstallMode>,
    namespace: &str,
    bundle: &RehearsalInput,
) -> Result<Option<String>, InstallModeError> {
    let Some(requested) = requested else {
        let own = !bundle.supports(InstallModeType::AllNamespaces) && bundle.supports(InstallModeType::OwnNamespace);
        return Ok(own.then(|| namespace.to_owned()));
    };
    match (requested.mode, &*requested.namespaces) {
        (ModeType::AllNamespaces, []) => Ok(None),
        (ModeType::OwnNamespace, []) => Ok(Some(namespace.to_owned())),
        (ModeType::SingleNamespace, [one]) => Ok(Some(one.clone())),
        _ => Err(InstallModeError::NotInV1(requested.clone())),
    }
}
