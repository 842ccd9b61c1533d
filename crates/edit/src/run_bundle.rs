//! Adds bundles to a catalog for `run bundle` and `run bundle-upgrade`.
//!
//! The catalog keeps all its blobs. Only missing blobs are added, and only an extended channel changes.

use std::collections::BTreeSet;

use catalog::channel::ChannelView;
use fbc::blob::{BlobContent, CHANNEL, ChannelEntry, PACKAGE, channel_json};
use fbc::json::{JsonObject, Raw, Text};
use fbc::limits::MAX_DEPTH;
use fbc::quote::quote;
use fbc::{Blob, Fbc};

use crate::refusal::EditRefusal;

/// The additions to a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// The package as JSON, if the catalog does not contain it.
    pub package: Option<String>,
    pub channel: ChannelEdit,
    /// The names of the bundles that the catalog does not contain.
    pub bundles: Vec<String>,
}

/// The change to the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelEdit {
    /// A new channel, as JSON.
    New(String),
    /// The channel at this index of the catalog gets further entries.
    Extended(usize, Vec<ChannelEntry>),
}

impl Default for ChannelEdit {
    fn default() -> ChannelEdit {
        ChannelEdit::New(String::new())
    }
}

/// Adds a bundle to a catalog, in a new channel. `image` names the catalog in messages.
///
/// # Errors
/// Refuses if the catalog contains the bundle or the channel already.
pub fn inject(
    catalog: &Fbc,
    package: &str,
    bundle: &str,
    channel: &str,
    image: &str,
) -> Result<Additions, EditRefusal> {
    if has_bundle(catalog, package, bundle) {
        return Err(EditRefusal::new(format!("bundle {} already exists in the index image: {image}", quote(bundle)))
            .help("remove it from the index, or change the version of the bundle"));
    }
    if find_channel(catalog, package, channel).is_some() {
        return Err(EditRefusal::new(format!("channel {} already exists in the index image: {image}", quote(channel))));
    }
    Ok(Additions {
        package: new_package(catalog, package, channel),
        channel: ChannelEdit::New(
            channel_json(package, channel, &chain(None, &[bundle.to_owned()]), None).into_string(),
        ),
        bundles: vec![bundle.to_owned()],
    })
}

/// Adds bundles to a channel of a catalog, each replacing the previous one. The last bundle is new; earlier runs have
/// added the others to the same catalog.
///
/// # Errors
/// Refuses if the channel contains the new bundle already, or has no head for the first bundle to replace.
pub fn extend(
    catalog: &Fbc,
    package: &str,
    bundles: &[String],
    channel: &str,
    image: &str,
) -> Result<Additions, EditRefusal> {
    let exists = |name: &str| {
        EditRefusal::new(format!("bundle {} already exists in the Index Image {}", quote(name), quote(image)))
    };
    let mut seen = BTreeSet::new();
    if let Some(twice) = bundles.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(exists(twice).help("a bundle cannot upgrade to itself: change the version of the new bundle"));
    }
    let missing = |name: &&String| !has_bundle(catalog, package, name);
    let new: Vec<String> = bundles.iter().filter(missing).cloned().collect();
    let additions = |channel| Additions { package: None, channel, bundles: new.clone() };
    let Some((place, entries)) = find_channel(catalog, package, channel) else {
        let channel_text = channel_json(package, channel, &chain(None, bundles), None).into_string();
        return Ok(Additions {
            package: new_package(catalog, package, channel),
            ..additions(ChannelEdit::New(channel_text))
        });
    };
    if let Some(newest) = bundles.last().filter(|newest| entries.iter().any(|entry| *entry.name == ***newest)) {
        return Err(exists(newest));
    }
    let later: Vec<String> =
        bundles.iter().filter(|name| !entries.iter().any(|entry| *entry.name == ***name)).cloned().collect();
    let head = head(entries).ok_or_else(|| EditRefusal::new("no channel head found"))?;
    Ok(additions(ChannelEdit::Extended(place, chain(Some(head), &later))))
}

/// Returns the text of a channel with further entries, leaving the rest unchanged.
///
/// # Errors
/// Refuses if the text has no entries.
pub fn extended(channel: &str, entries: &[ChannelEntry]) -> Result<String, EditRefusal> {
    let wrong = || EditRefusal::new("no channel head found");
    let raw = Raw::parse(channel, MAX_DEPTH).map_err(|_| wrong())?;
    let listed = raw.get("entries").ok_or_else(wrong)?;
    listed.items().next().ok_or_else(wrong)?;
    let end = raw.offset_of(listed) + listed.text().trim_end().len();
    let end = end.checked_sub(1).filter(|end| channel.as_bytes().get(*end) == Some(&b']')).ok_or_else(wrong)?;
    let mut text = channel[..end].trim_end().as_bytes().to_vec();
    for entry in entries {
        text.push(b',');
        text.extend_from_slice(entry.to_json().end().as_bytes());
    }
    text.extend_from_slice(&channel.as_bytes()[end..]);
    String::from_utf8(text).map_err(|_| wrong())
}

/// The properties of a bundle that declare dependencies.
const DEPENDENCIES: [&str; 3] = ["olm.package.required", "olm.gvk.required", "olm.constraint"];

/// Returns a bundle without its dependencies, leaving the rest unchanged.
///
/// # Errors
/// Refuses text that is not JSON.
pub fn without_dependencies(bundle: &str) -> Result<Text, EditRefusal> {
    let raw = Raw::parse(bundle, MAX_DEPTH).map_err(|error| EditRefusal::new(error.to_string()))?;
    let depends = |property: &Raw<'_>| {
        let kind = property.get("type").and_then(Raw::as_str);
        kind.is_some_and(|kind| DEPENDENCIES.contains(&&*kind))
    };
    Ok(Text::object(|fields| {
        for (key, value) in raw.members() {
            match &*key {
                "properties" => fields.values(&key, value.items().filter(|property| !depends(property))),
                key => fields.value(key, value),
            };
        }
    }))
}

fn has_bundle(catalog: &Fbc, package: &str, name: &str) -> bool {
    catalog
        .blobs()
        .iter()
        .any(|blob| matches!(blob.content, BlobContent::Bundle(_)) && *blob.package == *package && *blob.name == *name)
}

fn find_channel<'a>(catalog: &'a Fbc, package: &str, name: &str) -> Option<(usize, &'a [ChannelEntry])> {
    let is_it = |blob: &Blob| *blob.schema == *CHANNEL && *blob.package == *package && *blob.name == *name;
    let (place, blob) = catalog.blobs().iter().enumerate().find(|(_, blob)| is_it(blob))?;
    match &blob.content {
        BlobContent::Channel { entries } => Some((place, entries)),
        _ => Some((place, &[])),
    }
}

/// Returns the entry that no other entry replaces; if there are several, one that is not skipped.
fn head(entries: &[ChannelEntry]) -> Option<&str> {
    let view = ChannelView::new(entries);
    let heads: Vec<&str> = entries.iter().map(|entry| &*entry.name).filter(|name| !view.is_replaced(name)).collect();
    heads.iter().find(|name| !view.is_skipped(name)).or(heads.first()).copied()
}

/// Builds entries that each replace the previous one.
fn chain(head: Option<&str>, names: &[String]) -> Vec<ChannelEntry> {
    let mut replaces = head.unwrap_or_default();
    let mut entries = Vec::new();
    for name in names {
        entries.push(ChannelEntry { name: name.as_str().into(), replaces: replaces.into(), ..ChannelEntry::default() });
        replaces = name;
    }
    entries
}

fn new_package(catalog: &Fbc, package: &str, channel: &str) -> Option<String> {
    let exists = catalog.blobs().iter().any(|blob| *blob.schema == *PACKAGE && *blob.name == *package);
    let blob =
        || JsonObject::new().string("schema", PACKAGE).string("name", package).string("defaultChannel", channel).end();
    (!exists).then(blob).map(Text::into_string)
}

#[cfg(test)]
mod tests {
    use fbc::Limits;

    use super::*;

    fn catalog(blobs: &[&str]) -> Fbc {
        let mut fbc = Fbc::default();
        for blob in blobs {
            fbc.add_generated(blob, &Limits::default()).unwrap();
        }
        fbc
    }

    const PACKAGE_FOO: &str = r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable"}"#;
    const STABLE: &str = r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1"},{"name":"foo.v3","replaces":"foo.v1","skips":["foo.v2"]},{"name":"foo.v2"} ] , "extra":1.10}"#;
    const FOO: &str = r#"{"schema":"olm.bundle","package":"foo","name":"foo.v3","image":"x/foo:v3"}"#;

    #[test]
    fn a_catalog_of_one_bundle() {
        let additions = inject(&Fbc::default(), "foo", "foo.v1", "c", "index").unwrap();
        assert_eq!(additions.package.unwrap(), r#"{"schema":"olm.package","name":"foo","defaultChannel":"c"}"#);
        assert_eq!(
            additions.channel,
            ChannelEdit::New(
                r#"{"schema":"olm.channel","name":"c","package":"foo","entries":[{"name":"foo.v1"}]}"#.into()
            )
        );
    }

    #[test]
    fn an_existing_package_is_kept() {
        let fbc = catalog(&[PACKAGE_FOO, STABLE, FOO]);
        assert_eq!(inject(&fbc, "foo", "foo.v4", "c", "index").unwrap().package, None);
        assert_eq!(
            inject(&fbc, "foo", "foo.v3", "c", "index").unwrap_err().message,
            "bundle \"foo.v3\" already exists in the index image: index"
        );
        assert_eq!(
            inject(&fbc, "foo", "foo.v4", "stable", "index").unwrap_err().message,
            "channel \"stable\" already exists in the index image: index"
        );
        assert!(inject(&fbc, "bar", "foo.v3", "stable", "index").is_ok());
    }

    #[test]
    fn upgrades_continue_the_channel() {
        let fbc = catalog(&[PACKAGE_FOO, STABLE, FOO]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let additions = extend(&fbc, "foo", &names(&["foo.v4"]), "stable", "index").unwrap();
        let ChannelEdit::Extended(1, entries) = &additions.channel else { panic!("{additions:?}") };
        assert_eq!(
            extended(STABLE, entries).unwrap(),
            r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1"},{"name":"foo.v3","replaces":"foo.v1","skips":["foo.v2"]},{"name":"foo.v2"},{"name":"foo.v4","replaces":"foo.v3"}] , "extra":1.10}"#
        );
        assert_eq!(
            extend(&fbc, "foo", &names(&["foo.v2"]), "stable", "index").unwrap_err().message,
            "bundle \"foo.v2\" already exists in the Index Image \"index\""
        );
        let additions = extend(&Fbc::default(), "foo", &names(&["foo.v1", "foo.v2"]), "c", "index").unwrap();
        assert_eq!(
            additions.channel,
            ChannelEdit::New(r#"{"schema":"olm.channel","name":"c","package":"foo","entries":[{"name":"foo.v1"},{"name":"foo.v2","replaces":"foo.v1"}]}"#.into())
        );
        assert_eq!(additions.bundles, ["foo.v1", "foo.v2"]);
        assert!(extend(&fbc, "foo", &names(&["foo.v5", "foo.v5"]), "c", "index").is_err());
    }

    #[test]
    fn a_channel_without_head_cannot_be_extended() {
        let round = r#"{"schema":"olm.channel","package":"foo","name":"c","entries":[{"name":"a","replaces":"b"},{"name":"b","replaces":"a"}]}"#;
        let fbc = catalog(&[round]);
        let refused = extend(&fbc, "foo", &["x".to_owned()], "c", "index").unwrap_err();
        assert_eq!(refused.message, "no channel head found");
    }

    #[test]
    fn only_dependencies_are_omitted() {
        let bundle = r#"{"schema":"olm.bundle","properties":[{"type":"olm.package","value":{"a":1.0}},{"type":"olm.gvk.required","value":{}},{"type":"olm.constraint","value":{}},{"type":"olm.package.required","value":{}},{"type":"x","value":"<"}],"image":"i"}"#;
        assert_eq!(
            without_dependencies(bundle).unwrap().as_str(),
            r#"{"schema":"olm.bundle","properties":[{"type":"olm.package","value":{"a":1.0}},{"type":"x","value":"<"}],"image":"i"}"#
        );
        assert!(without_dependencies("{").is_err());
    }
}
