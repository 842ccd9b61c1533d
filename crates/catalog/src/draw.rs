//! Drawings of upgrade graphs: [`svg`], [`html`], [`dot`] and [`text`].
//!
//! All of them show a channel as a list, newest entry on top, with the upgrade edges beside it; `layout` decides where
//! they run. The same graph produces the same bytes, and names are treated as hostile.

/// Writes formatted text to the end of a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($arg)*);
    }};
}

mod card;
pub mod dot;
mod escape;
pub mod html;
mod layout;
pub mod part;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod text;
mod words;

pub use escape::shown;
