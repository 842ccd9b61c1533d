//! registry+v1 bundle directories, read and turned into catalog entries.
