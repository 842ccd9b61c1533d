//! What is done on a cluster, shown on a real API server.

mod server;
