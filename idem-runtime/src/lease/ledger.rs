//! What a place that keeps leases has to be able to do.

use super::Resolution;
use crate::{error::ClaimError, key::Key, store::LeaseRow, unit::AttemptToken};
use std::{pin::Pin, time::Duration};

/// An answer that is on its way. It may be dropped at any await: what was asked is then done or not.
pub(crate) type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, ClaimError>> + Send + 'a>>;

/// Work about to be begun.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: Key,
    pub(crate) attempt: AttemptToken,
    pub(crate) lease: Duration,
}

/// Work that was begun, and its owner.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) key: Key,
    pub(crate) attempt: AttemptToken,
    pub(crate) lease: Duration,
    pub(crate) fence: i64,
    pub(crate) attempts: i64,
}

/// What an attempt to begin came to.
pub(crate) enum Begin {
    Began {
        fence: i64,
        attempts: i64,
    },
    /// There is a row.
    Row(Box<LeaseRow>),
    /// There was a row, and it was gone when it was to be read.
    Gone,
}

/// Which unfinished work is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) older_than: Duration,
    /// Scope and key behind which to go on.
    pub(crate) after: Option<(String, String)>,
    pub(crate) limit: u32,
}

/// A place that keeps leases. Each change is of one row and durable when it is answered; each may be asked for twice when
/// an answer was lost. Deciding is done over it, once for all.
pub(crate) trait Ledger: Send + Sync + 'static {
    /// Begins work that was never begun.
    fn insert<'a>(&'a self, request: &'a Request) -> Asking<'a, Begin>;

    /// Takes work over whose lease ran out, if its row still has this fence.
    fn take<'a>(&'a self, request: &'a Request, row: &'a LeaseRow) -> Asking<'a, Begin>;

    /// Renews a lease; `false` when it has another owner, or none.
    fn renew<'a>(&'a self, owned: &'a Owned) -> Asking<'a, bool>;

    /// Completes the work; `false` when somebody else took over.
    fn complete<'a>(&'a self, owned: &'a Owned, result: Option<&'a [u8]>) -> Asking<'a, bool>;

    /// Ends the lease of an attempt, so that the next delivery may begin at once.
    fn release<'a>(&'a self, key: &'a Key, attempt: AttemptToken) -> Asking<'a, ()>;

    fn unfinished<'a>(&'a self, query: &'a Query) -> Asking<'a, Vec<LeaseRow>>;

    /// Settles work that nobody is at; `false` when its row is no longer what was read.
    fn resolve<'a>(&'a self, scope: &'a str, key: &'a str, fence: i64, resolution: Resolution) -> Asking<'a, bool>;

    /// For how long a completion is tried.
    fn patience(&self) -> Duration;
}
