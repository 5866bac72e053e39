//! Keys: which business fact an action is.
//!
//! A [`Key`] is a *scope* (which handler) and a text that identifies the fact inside it. The text is built from
//! [`KeyPart`]s and literal text, checked, and encoded once, before any SQL runs, so the verdict is the same on
//! every database.

mod builder;
mod encode;
mod foreign;
mod part;
mod payload;
mod scope;

pub use builder::{IntoKey, Key, KeyBuilder, KeyError};
pub use encode::KeyWriter;
pub(crate) use encode::hex;
pub use part::{
    AcceptedBy, AllowsBrokerId, AllowsFloat, AllowsNull, AllowsRandom, AllowsTime, BrokerAssigned, Float, KeyPart,
    MayBeNull, Moment, Optional, Random, Stable, Unnamed,
};
pub use payload::Payload;
pub(crate) use payload::{Compared, Fingerprint};
