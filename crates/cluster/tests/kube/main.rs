//! What is done on a cluster, shown on a real API server, and on one that fails where a real one would not.

mod failing;
mod server;
