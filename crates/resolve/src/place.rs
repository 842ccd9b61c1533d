//! The position of a bundle in its channel, and whether clusters can choose it.

use crate::pool::{MemberIndex, Pool};

/// The position of a channel member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberPlace {
    /// It is the head.
    Head,
    /// It is this far below the head, on the chain that clusters choose from.
    Below(usize),
    /// These entries skip it.
    Skipped(Vec<String>),
    /// The chain from the head does not reach it.
    Unreachable,
    /// The channel has no order.
    Broken(String),
}

impl MemberPlace {
    /// Returns the position of a member.
    pub fn of(pool: &Pool<'_>, node: MemberIndex) -> MemberPlace {
        if let Err(error) = &*pool.chain_of(node) {
            return MemberPlace::Broken(error.to_string());
        }
        match pool.below_head(node) {
            Some(0) => return MemberPlace::Head,
            Some(below) => return MemberPlace::Below(below),
            None => {}
        }
        let name = &pool.member(node).bundle.name;
        let skips = |other: &&MemberIndex| pool.member(**other).entry.skips.iter().any(|skip| **skip == **name);
        let all = pool.channel_of(node);
        let by: Vec<String> = all.iter().filter(skips).map(|&other| pool.member(other).bundle.name.clone()).collect();
        if by.is_empty() { MemberPlace::Unreachable } else { MemberPlace::Skipped(by) }
    }

    /// Returns whether clusters can choose a member at this position.
    pub fn is_on_chain(&self) -> bool {
        matches!(self, MemberPlace::Head | MemberPlace::Below(_))
    }

    /// Explains why clusters do not choose a member at this position; `None` if they can.
    pub fn why_not(&self) -> Option<String> {
        match self {
            MemberPlace::Head | MemberPlace::Below(_) => None,
            MemberPlace::Skipped(by) => Some(format!("skipped by {}", by.join(", "))),
            MemberPlace::Unreachable => {
                Some("not on the chain: 'replaces' does not lead to it from the head".to_owned())
            }
            MemberPlace::Broken(reason) => Some(reason.clone()),
        }
    }
}
