//! What the units of the current delivery's handler tell the engine beyond their results.

use crate::key::Key;
use std::sync::{Arc, Mutex, PoisonError};

tokio::task_local! {
    static NOTES: Arc<Mutex<Notes>>;
}

/// What units noted while a handler ran.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// Scope and key of what was claimed last.
    pub(super) key: Option<String>,
    /// A body failed, and its connection was found lost: the store is the likelier reason.
    pub(super) connection_lost: bool,
}

/// Runs a handler, and gives what was noted besides what it returned.
pub(super) async fn with_notes<O>(handling: impl Future<Output = O>) -> (O, Notes) {
    let notes = Arc::default();
    let output = NOTES.scope(Arc::clone(&notes), handling).await;
    let notes = notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (output, notes)
}

/// Outside a consumer nobody asks.
fn note(write: impl FnOnce(&mut Notes)) {
    let _ = NOTES.try_with(|notes| write(&mut notes.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Notes what is being claimed.
pub(crate) fn note_claim(key: &Key) {
    note(|notes| notes.key = Some(key.to_string()));
}

/// Notes that the connection was lost when a failed body was to be rolled back.
pub(crate) fn note_connection_lost() {
    note(|notes| notes.connection_lost = true);
}
