//! Which action the handler of the current delivery claims, for its dead letter.

use crate::key::Key;
use std::sync::{Arc, Mutex, PoisonError};

tokio::task_local! {
    static CLAIMED: Arc<Mutex<Option<String>>>;
}

/// Runs a handler, and gives the scope and key that it claimed last, besides what it returned.
pub(super) async fn with_key<O>(handling: impl Future<Output = O>) -> (O, Option<String>) {
    let claimed = Arc::default();
    let output = CLAIMED.scope(Arc::clone(&claimed), handling).await;
    let key = claimed.lock().unwrap_or_else(PoisonError::into_inner).take();
    (output, key)
}

/// Notes what is being claimed. Outside a consumer nobody asks.
pub(crate) fn note(key: &Key) {
    let _ = CLAIMED.try_with(|claimed| {
        *claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.to_string());
    });
}
