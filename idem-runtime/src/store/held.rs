use super::Connection;
use sqlx::pool::PoolConnection;
use std::mem;
use tokio::sync::OwnedSemaphorePermit;

/// A connection for one unit, closed on drop unless the unit ended cleanly.
///
/// sqlx 0.9 gives a connection back to the pool in whatever state a dropped future leaves it: with BEGIN in flight the
/// next borrower works inside an open transaction, with PREPARE in flight a MySQL connection never comes back. So a
/// connection whose state is not known is closed, and the server rolls its transaction back.
pub(crate) struct Held<C: Connection> {
    connection: PoolConnection<C::Database>,
    clean: bool,
    /// The permit, behind a type that clippy does not take for a lock: it would call every handler's unit one that is
    /// held for too long.
    _turn: Option<Box<dyn Send + Sync>>,
}

impl<C: Connection> Held<C> {
    pub(crate) async fn acquire(
        pool: &sqlx::Pool<C::Database>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<Self, sqlx::Error> {
        let turn = turn.map(|permit| Box::new(permit) as Box<dyn Send + Sync>);
        Ok(Self { connection: pool.acquire().await?, clean: false, _turn: turn })
    }

    pub(crate) fn connection(&mut self) -> &mut C {
        &mut self.connection
    }

    #[cfg(feature = "http")]
    pub(crate) fn peek(&self) -> &C {
        &self.connection
    }

    /// Says that nothing is open on the connection or in flight, so that it may go back to the pool.
    pub(crate) fn set_clean(&mut self) {
        self.clean = true;
    }
}

impl<C: Connection> Drop for Held<C> {
    fn drop(&mut self) {
        if !mem::replace(&mut self.clean, true) {
            self.connection.close_on_drop();
        }
    }
}
