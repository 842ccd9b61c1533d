mod dependencies;
mod path;
mod properties;
pub(crate) mod sample;
mod table;
