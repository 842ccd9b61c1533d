//! Catalogs in, catalogs out: what makes new file-based catalogs.
//!
//! [`template`] turns short descriptions into catalogs. Nothing here touches disk, network or
//! terminal; what has to be fetched is asked for.

pub mod template;
