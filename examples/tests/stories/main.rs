//! Runs each story as a user does, and looks into the databases that it leaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[cfg(feature = "brokers")]
mod double_deduction;
mod form;
mod guide;
mod order_events;
mod order_submit;
#[cfg(feature = "brokers")]
mod payment_callback;
mod points;
mod run;
mod sms;
mod stock;
mod two_layers;
