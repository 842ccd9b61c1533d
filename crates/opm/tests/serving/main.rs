//! The server as a process: what it promises to those who start it, stop it, ask it and attack it.

mod answers;
mod drain;
mod faults;
mod follow;
mod harness;
mod hostile;
