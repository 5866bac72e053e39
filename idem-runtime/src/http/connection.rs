use super::{
    error::{HttpError, Rejection},
    settings::HttpSettings,
};
use crate::{store::Connection, unit::Unit};
use axum::{extract::FromRequestParts, http::request::Parts};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Weak},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A unit that a layer shares with the handler. It comes back when nobody has its connection any more.
pub(super) type Shared<C> = Arc<Mutex<Unit<C>>>;

/// The way to the unit, in the request's extensions. Weak: a request that lives on in some task keeps no unit open.
pub(super) struct Door<C: Connection>(Weak<Mutex<Unit<C>>>);

impl<C: Connection> Door<C> {
    pub(super) fn to(unit: &Shared<C>) -> Self {
        Self(Arc::downgrade(unit))
    }
}

impl<C: Connection> Clone for Door<C> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

/// The connection of the request's unit, for a handler behind an [`IdempotencyLayer`](super::IdempotencyLayer): what is
/// written through it is committed together with the claim and the answer, or not at all.
///
/// An extractor that derefs to `C`. One handler has it at a time, and must have dropped it when it answers: a handler
/// that moves it into a task or into the answer's stream is answered for with a 500, and its unit is rolled back.
///
/// **What the handler writes elsewhere** (through a pool, say) is outside the unit: it survives a rollback, and is written
/// again by the repeat.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use axum::http::StatusCode;
/// use idem_runtime::http::UnitConnection;
/// use sqlx::SqliteConnection;
///
/// async fn pay(mut db: UnitConnection<SqliteConnection>) -> Result<&'static str, StatusCode> {
///     sqlx::query("UPDATE accounts SET balance = balance - 1")
///         .execute(&mut *db)
///         .await
///         .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
///     Ok("paid")
/// }
/// # }
/// ```
pub struct UnitConnection<C: Connection>(OwnedMutexGuard<Unit<C>>);

impl<C: Connection> fmt::Debug for UnitConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnitConnection").field(&*self.0).finish()
    }
}

impl<C: Connection> Deref for UnitConnection<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.0.peek()
    }
}

impl<C: Connection> DerefMut for UnitConnection<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.0.connection()
    }
}

impl<C: Connection, S: Sync> FromRequestParts<S> for UnitConnection<C> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let refuse = |error| {
            let settings = parts.extensions.get::<HttpSettings>().cloned().unwrap_or_default();
            Rejection::new(error, settings)
        };
        let door = parts.extensions.get::<Door<C>>();
        let unit = door.and_then(|door| door.0.upgrade()).ok_or_else(|| refuse(HttpError::NoUnit))?;
        unit.try_lock_owned().map(Self).map_err(|_| refuse(HttpError::UnitTaken))
    }
}
