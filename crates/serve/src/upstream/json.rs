//! The files of the cache, byte for byte as the existing tool writes them.

use fbc::blob::ChannelEntry;
use fbc::json::{JsonKind, Raw, write_str};
use prost::Message;

/// A `UpstreamBundle` of the registry API.
#[derive(Message)]
struct UpstreamBundle {
    #[prost(string, tag = "1")]
    csv_name: String,
    #[prost(string, tag = "2")]
    package_name: String,
    #[prost(string, tag = "3")]
    channel_name: String,
    #[prost(string, tag = "4")]
    csv_json: String,
    #[prost(string, repeated, tag = "5")]
    object: Vec<String>,
    #[prost(string, tag = "6")]
    bundle_path: String,
    #[prost(message, repeated, tag = "7")]
    provided_apis: Vec<Api>,
    #[prost(message, repeated, tag = "8")]
    required_apis: Vec<Api>,
    #[prost(string, tag = "9")]
    version: String,
    #[prost(string, tag = "10")]
    skip_range: String,
    #[prost(message, repeated, tag = "11")]
    dependencies: Vec<Typed>,
    #[prost(message, repeated, tag = "12")]
    properties: Vec<Typed>,
    #[prost(message, optional, tag = "15")]
    deprecation: Option<Deprecation>,
}

#[derive(Message)]
struct Api {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(string, tag = "4")]
    plural: String,
}

#[derive(Message)]
struct Typed {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Message)]
struct Deprecation {
    #[prost(string, tag = "1")]
    message: String,
}

/// Writes the members of a JSON object.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        write_str(self.out, key);
        self.out.push(b':');
        self.out
    }

    fn string(&mut self, key: &str, text: &str) {
        write_str(self.key(key), text);
    }

    /// Omits an empty value.
    fn some_string(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.string(key, text);
        }
    }

    fn some_list<T>(&mut self, key: &str, items: &[T], item: impl FnMut(&mut Vec<u8>, &T)) {
        if !items.is_empty() {
            list(self.key(key), items, item);
        }
    }
}

fn object(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    members(&mut Object { out, first: true });
    out.push(b'}');
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut item: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (number, one) in items.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        item(out, one);
    }
    out.push(b']');
}

/// Escapes characters that HTML gives a meaning; in JSON they occur in strings only.
fn escape_html(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 64);
    for &byte in json {
        match byte {
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            byte => out.push(byte),
        }
    }
    out
}

/// Writes a registry API reply as JSON, with the upgrade edges of the channel entry.
pub(super) fn bundle(reply: &[u8], entry: &ChannelEntry) -> Result<Vec<u8>, prost::DecodeError> {
    let bundle = UpstreamBundle::decode(reply)?;
    let mut out = Vec::with_capacity(reply.len() * 2);
    let typed = |out: &mut Vec<u8>, typed: &Typed| {
        object(out, |out| {
            out.some_string("type", &typed.kind);
            out.some_string("value", &typed.value);
        });
    };
    let api = |out: &mut Vec<u8>, api: &Api| {
        object(out, |out| {
            out.some_string("group", &api.group);
            out.some_string("version", &api.version);
            out.some_string("kind", &api.kind);
            out.some_string("plural", &api.plural);
        });
    };
    object(&mut out, |out| {
        out.some_string("csvName", &bundle.csv_name);
        out.some_string("packageName", &bundle.package_name);
        out.some_string("channelName", &bundle.channel_name);
        out.some_string("csvJson", &bundle.csv_json);
        out.some_list("object", &bundle.object, |out, text| write_str(out, text));
        out.some_string("bundlePath", &bundle.bundle_path);
        out.some_list("providedApis", &bundle.provided_apis, api);
        out.some_list("requiredApis", &bundle.required_apis, api);
        out.some_string("version", &bundle.version);
        out.some_string("skipRange", &bundle.skip_range);
        out.some_list("dependencies", &bundle.dependencies, typed);
        out.some_list("properties", &bundle.properties, typed);
        out.some_string("replaces", &entry.replaces);
        out.some_list("skips", &entry.skips, |out, text| write_str(out, text));
        if let Some(deprecation) = &bundle.deprecation {
            object(out.key("deprecation"), |out| out.some_string("message", &deprecation.message));
        }
    });
    Ok(escape_html(&out))
}

/// The file of all packages while it is written.
pub(super) struct Packages {
    out: Vec<u8>,
    first: bool,
}

impl Default for Packages {
    fn default() -> Packages {
        Packages { out: vec![b'{'], first: true }
    }
}

impl Packages {
    /// Adds a package; packages come sorted by name. `text` is its blob.
    pub(super) fn add(&mut self, package: &catalog::Package, text: Option<Raw<'_>>) {
        let mut packages = Object { out: &mut self.out, first: self.first };
        let out = packages.key(package.name());
        let field = |name| text.and_then(|text| text.get(name)).and_then(Raw::as_str).unwrap_or_default();
        object(out, |out| {
            out.string("name", package.name());
            out.string("description", &field("description"));
            icon(text.and_then(|text| text.get("icon")), out.key("icon"));
            out.string("defaultChannel", package.default_channel().name());
            object(out.key("Channels"), |out| {
                for one in package.channels() {
                    channel(package.name(), one, out.key(one.name()));
                }
            });
            deprecation(package.deprecation(), out);
        });
        self.first = false;
    }

    /// Returns the content of the file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        escape_html(&self.out)
    }
}

fn icon(icon: Option<Raw<'_>>, out: &mut Vec<u8>) {
    let Some(icon) = icon.filter(|icon| icon.kind() == JsonKind::Object) else {
        out.extend_from_slice(b"null");
        return;
    };
    let field = |name| icon.get_str(name);
    object(out, |out| {
        out.string("base64data", &field("base64data").replace(['\n', '\r'], ""));
        out.string("mediatype", &field("mediatype"));
    });
}

fn channel(package: &str, channel: &catalog::Channel, out: &mut Vec<u8>) {
    object(out, |out| {
        out.string("Name", channel.name());
        out.string("Head", &channel.head().name);
        object(out.key("Bundles"), |out| {
            for entry in channel.entries() {
                object(out.key(&entry.name), |out| {
                    out.string("package", package);
                    out.string("channel", channel.name());
                    out.string("name", &entry.name);
                    out.string("replaces", &entry.replaces);
                    match &entry.skips[..] {
                        [] => out.key("skips").extend_from_slice(b"null"),
                        skips => list(out.key("skips"), skips, |out, text| write_str(out, text)),
                    }
                });
            }
        });
        deprecation(channel.deprecation(), out);
    });
}

fn deprecation(message: Option<&str>, out: &mut Object<'_>) {
    if let Some(message) = message {
        object(out.key("deprecation"), |out| out.string("message", message));
    }
}
