//! `opm mirror` between real registries.

mod alone;
mod broken;
mod carried;
mod checked;
mod disks;
mod durable;
mod generated_registry;
mod killed;
mod kit;
mod large;
mod listed;
mod missing;
mod moved;
mod needed;
mod oc_mirror;
mod pinned;
mod programs;
mod proxy;
mod published;
mod reports;
mod signed;
mod sparse;
mod walkthrough;
