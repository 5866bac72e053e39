//! Gates: they save work, and never fail, lose or double a delivery. Case C15, on every database from one body.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

/// As `on_every_database!`, for tests that start a Redis of their own.
macro_rules! on_every_database_with_redis {
    (given { $($given:tt)* } $($tests:tt)*) => {
        idem_tests::on_every_database!(
            @module sqlite [#[ignore = "needs redis-server: ./scripts/test runs it"]] { $($given)* } $($tests)*
        );
        idem_tests::on_every_server!(given { $($given)* } $($tests)*);
    };
}

mod after_commit;
mod hits;
mod memory;
mod process_death;
mod redis;
mod redis_server;
mod scripted;
mod stacked;
mod storm;
mod trouble;

use std::time::Duration;

/// Waits until something is so.
///
/// # Panics
/// When it is not after twenty seconds.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not after twenty seconds");
}
