//! Changes the default channel of a package.

use crate::outline::Outline;
use crate::refusal::EditRefusal;

/// Makes `channel` the default channel of `package`.
///
/// # Errors
/// Refuses if the package or channel does not exist.
pub fn set_default(outline: &mut Outline, package: &str, channel: &str) -> Result<(), EditRefusal> {
    let found = outline.package_mut(package)?;
    if !found.channels.contains_key(channel) {
        return Err(found.no_channel(package, channel));
    }
    found.default_channel = channel.to_owned();
    Ok(())
}
