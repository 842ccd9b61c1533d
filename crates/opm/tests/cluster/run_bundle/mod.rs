//! `run bundle`, `run bundle-upgrade` and `cleanup`. The tests emulate kubelet and OLM by setting statuses.

mod emulation;
mod stage;

mod carried;
mod cleanup;
mod failures;
mod installed;
mod interrupted;
mod scripts;
mod upgraded;
