//! Script, style and favicon of every page. They are written by hand; nothing is generated.

use std::sync::LazyLock;

use crate::summary::digest;

/// A static file of the console, whose name contains a digest of its bytes.
pub struct Asset {
    /// The name with its digest.
    pub name: String,
    pub media_type: &'static str,
    /// The content.
    pub text: &'static str,
}

/// All assets: theme, style, script, favicon.
pub static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    [
        asset("theme", "js", "text/javascript; charset=utf-8", include_str!("assets/theme.js")),
        asset("console", "css", "text/css; charset=utf-8", include_str!("assets/console.css")),
        asset("console", "js", "text/javascript; charset=utf-8", include_str!("assets/console.js")),
        asset("mark", "svg", "image/svg+xml", include_str!("assets/mark.svg")),
    ]
});

fn asset(name: &str, extension: &str, media_type: &'static str, text: &'static str) -> Asset {
    Asset { name: format!("{name}.{}.{extension}", digest(text.as_bytes())), media_type, text }
}

/// Sets the theme before the first paint.
pub fn theme() -> &'static str {
    &ASSETS[0].name
}

/// The style.
pub fn style() -> &'static str {
    &ASSETS[1].name
}

/// The script.
pub fn script() -> &'static str {
    &ASSETS[2].name
}

/// The favicon.
pub fn mark() -> &'static str {
    &ASSETS[3].name
}
