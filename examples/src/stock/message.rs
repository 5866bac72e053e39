//! What arrives from the warehouse topic.

use serde::Deserialize;

/// A message of the topic.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "UPPERCASE")]
pub(crate) enum Message {
    /// An order takes.
    Deduct(Deduct),
    /// A return gives back.
    Return(GiveBack),
    /// A delivery truck brings.
    Receive(Receive),
}

/// One line of an order takes so much from the stock.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Deduct {
    pub(crate) offset: u64,
    pub(crate) order_no: String,
    pub(crate) line_no: u32,
    pub(crate) sku: String,
    pub(crate) quantity: i64,
}

/// A return puts so much of an order line back.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct GiveBack {
    pub(crate) offset: u64,
    pub(crate) return_no: String,
    pub(crate) order_no: String,
    pub(crate) line_no: u32,
    pub(crate) sku: String,
    pub(crate) quantity: i64,
}

/// New goods.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Receive {
    pub(crate) offset: u64,
    pub(crate) receipt_no: String,
    pub(crate) sku: String,
    pub(crate) quantity: i64,
}

impl Message {
    /// Where it lies in the topic.
    pub(crate) const fn offset(&self) -> u64 {
        match self {
            Self::Deduct(msg) => msg.offset,
            Self::Return(msg) => msg.offset,
            Self::Receive(msg) => msg.offset,
        }
    }

    /// The business fact in it, for people: what the key holds, and the change.
    pub(crate) fn fact(&self) -> String {
        match self {
            Self::Deduct(msg) => format!("{}:{} -{} {}", msg.order_no, msg.line_no, msg.quantity, msg.sku),
            Self::Return(msg) => format!("{} +{} {}", msg.return_no, msg.quantity, msg.sku),
            Self::Receive(msg) => format!("{} +{} {}", msg.receipt_no, msg.quantity, msg.sku),
        }
    }

    /// The fact's name, the article, and the change that it makes once.
    pub(crate) fn change(&self) -> (String, &str, i64) {
        match self {
            Self::Deduct(msg) => (format!("{}:{}", msg.order_no, msg.line_no), &msg.sku, -msg.quantity),
            Self::Return(msg) => (msg.return_no.clone(), &msg.sku, msg.quantity),
            Self::Receive(msg) => (msg.receipt_no.clone(), &msg.sku, msg.quantity),
        }
    }
}
