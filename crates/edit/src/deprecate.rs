//! What should not be used any more, and why.

use fbc::blob::{BUNDLE, CHANNEL, Deprecation, PACKAGE};

use crate::outline::{Deprecations, Outline};
use crate::refusal::Refusal;

/// Something in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A package.
    Package(String),
    /// A channel of a package.
    Channel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
    },
    /// A bundle, of the package if one is given.
    Bundle {
        /// The package.
        package: Option<String>,
        /// The bundle.
        bundle: String,
    },
}

impl Target {
    /// Finds what is meant: its package, its schema and its name as deprecations give them.
    fn find(&self, outline: &Outline) -> Result<(String, &'static str, String), Refusal> {
        match self {
            Target::Package(package) => {
                outline.package(package)?;
                Ok((package.clone(), PACKAGE, String::new()))
            }
            Target::Channel { package, channel } => {
                let found = outline.package(package)?;
                if !found.channels.contains_key(channel) {
                    return Err(found.no_channel(package, channel));
                }
                Ok((package.clone(), CHANNEL, channel.clone()))
            }
            Target::Bundle { package, bundle } => {
                Ok((outline.package_of(package.as_deref(), bundle)?, BUNDLE, bundle.clone()))
            }
        }
    }
}

/// Says that something should not be used any more; if that is said already, with another message.
///
/// # Errors
/// Refuses when it is not there, or the message is empty.
pub fn deprecate(outline: &mut Outline, target: &Target, message: &str) -> Result<(), Refusal> {
    if message.trim().is_empty() {
        return Err(Refusal::new("the message is empty").help("say with --message what users should do instead"));
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

/// Takes a deprecation back.
///
/// # Errors
/// Refuses when there is none.
pub fn undo(outline: &mut Outline, target: &Target) -> Result<(), Refusal> {
    let (package, schema, name) = target.find(outline)?;
    let deprecations = &mut outline.package_mut(&package)?.deprecations;
    let entries = deprecations
        .as_mut()
        .map(|it| &mut it.entries)
        .filter(|entries| entries.iter().any(|entry| &*entry.schema == schema && *entry.name == *name));
    let Some(entries) = entries else {
        return Err(Refusal::new("that is not deprecated").help("'opm list' shows what is"));
    };
    entries.retain(|entry| !(&*entry.schema == schema && *entry.name == *name));
    if entries.is_empty() {
        *deprecations = None::<Deprecations>;
    }
    Ok(())
}
