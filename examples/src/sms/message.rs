//! What is to be sent.

use serde::Deserialize;

/// An SMS for a customer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sms {
    pub(crate) offset: u64,
    pub(crate) order_no: String,
    pub(crate) phone: String,
    pub(crate) provider: Kind,
    pub(crate) text: String,
}

/// Which kind of provider serves the customer's country.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// It recognises repeats by an idempotency key.
    Keyed,
    /// It sends what it is told.
    Plain,
}
