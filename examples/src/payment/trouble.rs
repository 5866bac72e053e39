//! What an act lets go wrong in the middle of a body.

use super::error::PayError;
use std::{future, sync::Arc};
use tokio::sync::Notify;

/// What happens in the middle of the body: after the balance changed, before the order says so.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// The body fails.
    Fail,
    /// The body says that it got here and never goes on. Whoever waits for that drops it or kills its process.
    Halt(Arc<Notify>),
}

impl Trouble {
    /// Called by the ledger in the middle of its work.
    pub(crate) async fn strikes(&self) -> Result<(), PayError> {
        match self {
            Self::None => Ok(()),
            Self::Fail => Err(PayError::MadeUp),
            Self::Halt(reached) => {
                reached.notify_one();
                future::pending().await
            }
        }
    }
}
