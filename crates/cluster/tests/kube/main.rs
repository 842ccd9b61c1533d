//! Operations on a cluster, tested on a real API server, and on one that fails in ways a real one does not.

mod failing;
mod server;
