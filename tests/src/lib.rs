//! The laboratory in which promises are tested: one world a test, on SQLite, PostgreSQL, and MySQL or MariaDB.
//!
//! A test is written once, inside [`on_every_database!`], and runs on each. SQLite needs nothing; tests on servers are
//! ignored with their reason, and `./scripts/test` runs them. What a test says of money it reads from the database,
//! over connections that have nothing to do with the store.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a laboratory that does not work has nothing better to do"
)]

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/another-database.md")]
mod guide_another_database {}

#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../docs/guide/double-deduction.md")]
    mod double_deduction {}
    #[doc = include_str!("../../docs/guide/form.md")]
    mod form {}
    #[doc = include_str!("../../docs/guide/order-events.md")]
    mod order_events {}
    #[doc = include_str!("../../docs/guide/order-submit.md")]
    mod order_submit {}
    #[doc = include_str!("../../docs/guide/payment-callback.md")]
    mod payment_callback {}
    #[doc = include_str!("../../docs/guide/points.md")]
    mod points {}
    #[doc = include_str!("../../docs/guide/sms.md")]
    mod sms {}
    #[doc = include_str!("../../docs/guide/stock.md")]
    mod stock {}
    #[doc = include_str!("../../docs/guide/two-layers.md")]
    mod two_layers {}
}

#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/http.md")]
mod http_guide {}

pub mod brokers;
pub mod cancel;
mod lab;
pub mod logs;
pub mod process;
pub mod proxy;
pub mod rows;
pub mod soak;

pub use lab::{dialect, mysql, postgres, sqlite};

/// Runs `test` on a runtime of its own with several threads, and fails it when it hangs.
///
/// # Panics
/// When the test does, or when it is not done in four minutes.
pub fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_mins(4), test).await.expect("the test hangs");
    });
    runtime.shutdown_background();
}

/// Tests written once and run on every database.
///
/// `given { .. }` holds items that the tests share, handlers for example. In both, `Conn` is the database's connection
/// type and `Lab` the world of the test; see the module of any database for what else there is.
#[macro_export]
macro_rules! on_every_database {
    (given { $($given:tt)* } $($tests:tt)*) => {
        $crate::on_every_database!(@module sqlite [] { $($given)* } $($tests)*);
        $crate::on_every_server!(given { $($given)* } $($tests)*);
    };
    (@servers { $($given:tt)* } $($tests:tt)*) => {
        $crate::on_every_database!(@module postgres [#[ignore = "needs PostgreSQL: ./scripts/test runs it"]] { $($given)* } $($tests)*);
        $crate::on_every_database!(@module mysql [#[ignore = "needs MySQL or MariaDB: ./scripts/test runs it"]] { $($given)* } $($tests)*);
    };
    (@module $database:ident $ignore:tt { $($given:tt)* } $($tests:tt)*) => {
        mod $database {
            #[allow(unused_imports)]
            use super::*;
            #[allow(unused_imports)]
            use $crate::$database::*;
            $($given)*
            $crate::on_every_database!(@tests $ignore $($tests)*);
        }
    };
    (@tests $ignore:tt) => {};
    (@tests [$($ignore:tt)*] $(#[$meta:meta])* async fn $name:ident($lab:ident: Lab) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        #[test]
        $($ignore)*
        fn $name() {
            $crate::run(async {
                let $lab = Lab::new().await;
                $body
                $lab.close().await;
            });
        }
        $crate::on_every_database!(@tests [$($ignore)*] $($rest)*);
    };
}

/// [`on_every_database!`] without SQLite, for what takes a network: a lost answer, a killed session.
#[macro_export]
macro_rules! on_every_server {
    (given { $($given:tt)* } $($tests:tt)*) => {
        $crate::on_every_database!(@servers { $($given)* } $($tests)*);
    };
}
