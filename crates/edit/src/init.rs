//! The first blob of a new package.

use fbc::blob::PACKAGE;
use fbc::json::Text;

/// A new package.
#[derive(Debug, Clone)]
pub struct NewPackage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its default channel; may be empty.
    pub default_channel: &'a str,
    /// Its icon.
    pub icon: Option<PackageIcon>,
    /// Its description, in Markdown; may be empty.
    pub description: Vec<u8>,
}

/// The icon of a package.
#[derive(Debug, Clone)]
pub struct PackageIcon {
    bytes: Vec<u8>,
    media_type: &'static str,
}

/// Why a file is not an icon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageIconError {
    /// The file is empty.
    #[error("detect icon mediatype: {0} is empty")]
    Empty(String),
    /// The file is not an image.
    #[error("{file}: detected invalid type \"{media_type}\": not an image")]
    NotAnImage {
        file: String,
        /// The detected type.
        media_type: &'static str,
    },
}

impl PackageIcon {
    /// Detects the type of an icon from its content; `file` is what the user calls it.
    ///
    /// # Errors
    /// Fails when it is empty, or not an image.
    pub fn new(bytes: Vec<u8>, file: &str) -> Result<PackageIcon, PackageIconError> {
        if bytes.is_empty() {
            return Err(PackageIconError::Empty(file.to_owned()));
        }
        let media_type = catalog::media_type::detect(&bytes).unwrap_or_default();
        match media_type.starts_with("image/") {
            true => Ok(PackageIcon { bytes, media_type }),
            false => Err(PackageIconError::NotAnImage { file: file.to_owned(), media_type }),
        }
    }
}

impl NewPackage<'_> {
    /// Returns its `olm.package` blob.
    pub fn blob(&self) -> Text {
        Text::object(|blob| {
            blob.string("schema", PACKAGE).string("name", self.name).string("defaultChannel", self.default_channel);
            if let Some(PackageIcon { bytes, media_type }) = &self.icon {
                blob.object("icon", |icon| {
                    icon.base64("base64data", bytes).string("mediatype", media_type);
                });
            }
            if !self.description.is_empty() {
                blob.value("description", Text::string_of_bytes(&self.description).raw());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_only_what_is_given() {
        let package = NewPackage { name: "foo", default_channel: "", icon: None, description: Vec::new() };
        assert_eq!(package.blob().to_string(), r#"{"schema":"olm.package","name":"foo","defaultChannel":""}"#);
        let icon = Some(PackageIcon::new(b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(), "icon.svg").unwrap());
        let whole = NewPackage { icon, description: b"About foo".to_vec(), ..package }.blob().to_string();
        assert!(whole.contains(r#""mediatype":"image/svg+xml""#) && whole.contains("About foo"), "{whole}");
    }

    #[test]
    fn an_icon_is_an_image() {
        assert_eq!(
            PackageIcon::new(Vec::new(), "icon").unwrap_err().to_string(),
            "detect icon mediatype: icon is empty"
        );
        let archive = PackageIcon::new(b"PK\x03\x04".to_vec(), "icon").unwrap_err().to_string();
        assert_eq!(archive, "icon: detected invalid type \"application/zip\": not an image");
    }
}
