//! Deprecates packages, channels and bundles.

use fbc::blob::{BUNDLE, CHANNEL, Deprecation, PACKAGE};

use crate::outline::{Deprecations, Outline};
use crate::refusal::EditRefusal;

/// A package, channel or bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeprecationTarget {
    Package(String),
    /// A channel of a package.
    Channel {
        package: String,
        channel: String,
    },
    /// A bundle, in any package unless one is given.
    Bundle {
        package: Option<String>,
        bundle: String,
    },
}

impl DeprecationTarget {
    /// Resolves the target to its package, schema and name, as deprecations refer to it.
    fn find(&self, outline: &Outline) -> Result<(String, &'static str, String), EditRefusal> {
        match self {
            DeprecationTarget::Package(package) => {
                outline.package(package)?;
                Ok((package.clone(), PACKAGE, String::new()))
            }
            DeprecationTarget::Channel { package, channel } => {
                let found = outline.package(package)?;
                if !found.channels.contains_key(channel) {
                    return Err(found.no_channel(package, channel));
                }
                Ok((package.clone(), CHANNEL, channel.clone()))
            }
            DeprecationTarget::Bundle { package, bundle } => {
                Ok((outline.package_of(package.as_deref(), bundle)?, BUNDLE, bundle.clone()))
            }
        }
    }
}

/// Deprecates a target, or changes the message if it is deprecated already.
///
/// # Errors
/// Refuses if the target does not exist or the message is empty.
pub fn deprecate(outline: &mut Outline, target: &DeprecationTarget, message: &str) -> Result<(), EditRefusal> {
    if message.trim().is_empty() {
        return Err(EditRefusal::new("the message is empty").help("describe the replacement with --message"));
    }
    let (package, schema, name) = target.find(outline)?;
    let deprecations = &mut outline.package_mut(&package)?.deprecations;
    let entries = &mut deprecations.get_or_insert_default().entries;
    match entries.iter_mut().find(|entry| &*entry.schema == schema && *entry.name == *name) {
        Some(entry) => entry.message = message.into(),
        None => entries.push(Deprecation { schema: schema.into(), name: name.into(), message: message.into() }),
    }
    Ok(())
}

/// Removes a deprecation.
///
/// # Errors
/// Refuses if the target is not deprecated.
pub fn undo(outline: &mut Outline, target: &DeprecationTarget) -> Result<(), EditRefusal> {
    let (package, schema, name) = target.find(outline)?;
    let deprecations = &mut outline.package_mut(&package)?.deprecations;
    let entries = deprecations
        .as_mut()
        .map(|it| &mut it.entries)
        .filter(|entries| entries.iter().any(|entry| &*entry.schema == schema && *entry.name == *name));
    let Some(entries) = entries else {
        return Err(EditRefusal::new("the target is not deprecated").help("'opm list' shows deprecations"));
    };
    entries.retain(|entry| !(&*entry.schema == schema && *entry.name == *name));
    if entries.is_empty() {
        *deprecations = None::<Deprecations>;
    }
    Ok(())
}
