//! `run bundle`, `run bundle-upgrade` and `cleanup`. The tests stand in for kubelet and OLM by setting statuses.

mod stage;
mod stand_in;

mod carried;
mod cleanup;
mod failures;
mod installed;
mod interrupted;
mod scripts;
mod upgraded;
