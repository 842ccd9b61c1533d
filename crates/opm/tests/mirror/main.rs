//! `opm mirror` between real registries.

mod carried;
mod killed;
mod kit;
mod missing;
mod moved;
mod needed;
mod oc_mirror;
mod walkthrough;
