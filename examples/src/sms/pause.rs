//! What an act lets happen between the sending and its completion.

use tokio::sync::Notify;

/// Between the sending and its completion.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    stops: bool,
    reached: Notify,
    go: Notify,
}

impl Pause {
    /// Nothing happens.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// The body says that it got here, and waits.
    pub(crate) fn here() -> Self {
        Self { stops: true, ..Self::default() }
    }

    /// Called by the body.
    pub(crate) async fn after_sending(&self) {
        if self.stops {
            self.reached.notify_one();
            self.go.notified().await;
        }
    }

    /// Waits until the body is there.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets the body go on.
    pub(crate) fn go(&self) {
        self.go.notify_one();
    }
}
