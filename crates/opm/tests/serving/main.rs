//! The server as a process: its guarantees for operators, clients and attackers.

mod drain;
mod faults;
mod follow;
mod harness;
mod hostile;
mod responses;
