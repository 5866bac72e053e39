//! What arrives from the points topic.

use serde::Deserialize;

/// A message of the topic.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "UPPERCASE")]
pub(crate) enum Message {
    /// Points come or go.
    Move(Move),
    /// A member's account is opened, without points.
    Open(Open),
}

/// Points that come to an account (or, below zero, go from it) for one business reason.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Move {
    pub(crate) offset: u64,
    pub(crate) account: String,
    /// What it is for: the order, the transfer, the coupon. One account gets or gives for it once.
    pub(crate) biz_no: String,
    pub(crate) points: i64,
}

/// A new account.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Open {
    pub(crate) offset: u64,
    pub(crate) account: String,
}

impl Message {
    /// Where it lies in the topic.
    pub(crate) const fn offset(&self) -> u64 {
        match self {
            Self::Move(msg) => msg.offset,
            Self::Open(msg) => msg.offset,
        }
    }

    /// The business fact in it, for people.
    pub(crate) fn fact(&self) -> String {
        match self {
            Self::Move(msg) => format!("{} {} {:+}", msg.account, msg.biz_no, msg.points),
            Self::Open(msg) => format!("{} opened", msg.account),
        }
    }
}
