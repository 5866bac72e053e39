//! HTTP: the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header-07) for axum.
//!
//! Two ways to the same unit:
//!
//! * An annotated handler behind a route, with the extractor [`IdempotencyKey`] as its key; the answer is made by
//!   [`IdempotencyKey::respond`]. For keys that the business already has, and for one-time tokens, the extractor is not
//!   needed: [`HttpSettings::respond`].
//! * [`IdempotencyLayer`] around plain handlers, which reach the unit's connection through [`UnitConnection`].
//!
//! In both a key names an action together with the request's [`Principal`], its method and its path. Everything that is not
//! the handler's own answer is a [`Problem`] of a [`ProblemKind`]: `application/problem+json`, each status
//! configurable.
//!
//! A client that disconnects makes the server drop the handler. The layer goes on; an annotated handler does inside
//! [`detach`], or behind the middleware [`detached`].

mod answer;
mod buffer;
mod canonical;
mod connection;
mod detach;
mod error;
mod fingerprint;
mod header;
mod key;
mod layer;
mod problem;
mod response;
mod settings;

pub use answer::Answer;
pub use connection::UnitConnection;
pub use detach::{detach, detached};
pub use error::{HttpError, Rejection};
pub use fingerprint::BodyComparison;
pub use header::KeyFault;
pub use key::{IdempotencyKey, Principal};
pub use layer::{End, IdempotencyLayer, IdempotencyService};
pub use problem::{Problem, ProblemKind};
pub use response::Repeat;
pub use settings::HttpSettings;
