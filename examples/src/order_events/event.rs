//! What arrives from the order topic.

use serde::Deserialize;

/// An event of an order.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) offset: u64,
    pub(crate) order_no: String,
    /// Its place among the events of its order, as the sender counted. Only the check at the end looks at it.
    pub(crate) seq: u64,
    #[serde(flatten)]
    pub(crate) kind: Kind,
}

/// What happened.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Kind {
    /// The order was placed.
    Created,
    /// The payment page was opened.
    WaitPay,
    /// The money is there.
    Paid,
    /// The customer changed the address. Each change has the next version.
    Address {
        /// The version.
        version: i64,
        /// The new address.
        address: String,
    },
}

impl Event {
    /// The event for people.
    pub(crate) fn fact(&self) -> String {
        match &self.kind {
            Kind::Created => format!("{} CREATED", self.order_no),
            Kind::WaitPay => format!("{} WAIT_PAY", self.order_no),
            Kind::Paid => format!("{} PAID", self.order_no),
            Kind::Address { version, .. } => format!("{} ADDRESS v{version}", self.order_no),
        }
    }
}
