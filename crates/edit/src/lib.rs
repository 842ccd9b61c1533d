//! Catalogs in, catalogs out: what makes new file-based catalogs.
//!
//! [`template`] turns short descriptions into catalogs; [`diff`] tells what is new in one. Nothing
//! here touches disk, network or terminal; what has to be fetched is asked for.

pub mod diff;
pub mod template;
