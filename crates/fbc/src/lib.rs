//! The file format of operator catalogs: reading, positions, writing.

pub mod json;
pub mod number;
