//! The meaning of operator catalogs: checked packages, channels and upgrade graphs.
