//! Script, style and mark of every page. They are written by hand and are the source; nothing is generated.

use std::sync::LazyLock;

use crate::shelf::digest;

/// A file that pages refer to, under a name that changes with its bytes.
pub struct Asset {
    /// The name with its digest.
    pub name: String,
    /// The media type.
    pub media_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// All assets: theme, style, script, mark.
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

/// Sets the theme before anything is painted.
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

/// The mark in tabs of browsers.
pub fn mark() -> &'static str {
    &ASSETS[3].name
}
