//! JSON as text: validated once, then walked in place.
//!
//! Most of a catalog's text is never inspected, so no tree is built. [`Raw::parse`] validates that a text is one JSON
//! value; a [`Raw`] is such a value, borrowed from its file, whose members and items are found by iteration; a [`Text`]
//! owns its bytes; [`write`](mod@write) prints it in canonical form.

mod check;
mod cursor;
pub(crate) mod members;
mod object;
mod path;
mod raw;
pub(crate) mod respell;
mod scan;
mod text;
mod write;

pub(crate) use check::check_indexed;
pub use check::{JsonErrorKind, JsonSyntaxError, LongValue};
pub use cursor::Cursor;
pub use object::{JsonObject, ListItem, MemberWriter};
pub use path::{JsonPath, PathStep};
pub use raw::{Items, JsonKind, JsonMembers, Raw};
pub use text::Text;
pub(crate) use write::write_canonical_nested;
pub use write::{JsonLayout, write_as_written, write_canonical, write_str};

/// Returns `text` without leading JSON whitespace.
pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}
