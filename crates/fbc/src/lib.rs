//! The file format of operator catalogs: reading, positions, writing.
