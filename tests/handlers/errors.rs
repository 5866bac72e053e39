//! Whatever a body returns that is a `Result`, under any alias and with any error: the caller gets that error itself,
//! in `Error::Body`, and the body is rolled back. Nothing is demanded of the error. Case C45.

use crate::{failed, first, repeat};
use idem_runtime::{Error, Outcome, idempotent};
use std::io;

/// No `Debug`, no `Display`, no `Error`, no `From`, no `Clone`.
pub struct Bare {
    pub code: u16,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("refused with {code}")]
pub struct Refused {
    pub code: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum PayError {
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("not a number")]
    Number(#[from] std::num::ParseIntError),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Borrows what it complains about.
pub struct Complaint<'a> {
    pub about: &'a str,
}

pub type ShortResult<T> = Result<T, PayError>;
pub type Done = Result<(), Bare>;

/// An alias that stands where people expect the standard one, with one argument.
pub mod alias {
    pub type Result<T, E = super::PayError> = core::result::Result<T, E>;
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = order, store = db)]
        async fn bare(db: &mut Conn, order: &str, fail: bool) -> Result<i64, Bare> {
            credit(db, "a", 1).await.map_err(|_| Bare { code: 500 })?;
            if fail { Err(Bare { code: 402 }) } else { Ok(1) }
        }

        #[idempotent(key = order, store = db)]
        async fn done(db: &mut Conn, order: &str, fail: bool) -> Done {
            credit(db, "a", 1).await.map_err(|_| Bare { code: 500 })?;
            if fail {
                return Err(Bare { code: 402 });
            }
            Ok(())
        }

        #[idempotent(key = order, store = db)]
        async fn short(db: &mut Conn, order: &str, amount: &str, fail: bool) -> ShortResult<i64> {
            let amount: i64 = amount.parse()?;
            credit(db, "a", amount).await?;
            if fail {
                Err(Refused { code: 402 })?;
            }
            Ok(amount)
        }

        mod aliased {
            use super::{Conn, Refused, credit, idempotent};
            use super::alias::Result;

            #[idempotent(key = order, store = db)]
            pub(super) async fn one(db: &mut Conn, order: &str, fail: bool) -> Result<()> {
                credit(db, "a", 1).await?;
                if fail { Err(Refused { code: 402 }.into()) } else { Ok(()) }
            }

            #[idempotent(key = order, store = db, retry = 1)]
            pub(super) async fn two(db: &mut Conn, order: &str, fail: bool) -> Result<(), Refused> {
                credit(db, "a", 1).await.map_err(|_| Refused { code: 500 })?;
                if fail { Err(Refused { code: 402 }) } else { Ok(()) }
            }
        }

        #[idempotent(key = order, store = db)]
        async fn of_io(db: &mut Conn, order: &str, fail: bool) -> io::Result<()> {
            credit(db, "a", 1).await.map_err(io::Error::other)?;
            if fail { Err(io::Error::from(io::ErrorKind::WouldBlock)) } else { Ok(()) }
        }

        #[idempotent(key = order, store = db)]
        async fn of_sqlx(db: &mut Conn, order: &str, fail: bool) -> sqlx::Result<()> {
            if fail {
                return credit(db, "a", 1).await.and(Err(sqlx::Error::RowNotFound));
            }
            credit(db, "a", 1).await
        }

        #[idempotent(key = order, store = db)]
        async fn of_anyhow(db: &mut Conn, order: &str, fail: bool) -> anyhow::Result<String> {
            use anyhow::Context as _;
            credit(db, "a", 1).await.context("the credit")?;
            anyhow::ensure!(!order.is_empty(), "no order");
            if fail {
                return Err(Refused { code: 402 }).with_context(|| format!("order {order}"));
            }
            Ok(order.to_owned())
        }

        #[idempotent(key = order, store = db)]
        async fn boxed(db: &mut Conn, order: &str, fail: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            credit(db, "a", 1).await?;
            if fail {
                return Err(Box::new(Refused { code: 402 }));
            }
            if order.is_empty() {
                Err("an error from text")?;
            }
            Ok(())
        }

        // Borrowed from the message, as is the value.
        #[idempotent(key = order, store = db)]
        async fn borrowing<'a>(db: &mut Conn, order: &'a str, fail: bool) -> Result<&'a str, Complaint<'a>> {
            credit(db, "a", 1).await.map_err(|_| Complaint { about: "the database" })?;
            if fail { Err(Complaint { about: &order[1..] }) } else { Ok(&order[..1]) }
        }

        #[idempotent(key = order, store = db)]
        async fn never_fails(db: &mut Conn, order: &str) -> Result<bool, std::convert::Infallible> {
            Ok(credit(db, "a", 1).await.is_ok())
        }

        /// A caller whose own error is made of the whole: the body's error is found in it.
        #[derive(Debug, thiserror::Error)]
        #[error("the consumer failed")]
        struct Consumer(#[from] Error<PayError>);

        async fn consume(store: &Db, fail: bool) -> Result<(), Consumer> {
            match short(store, "o-consumer", "1", fail).await? {
                Outcome::First(_) | Outcome::Duplicate(_) | Outcome::Ignored(_) => Ok(()),
            }
        }
    }

    async fn an_error_without_any_trait_arrives_as_it_is(lab: Lab) {
        assert_eq!(failed(bare(&lab.store, "o-1", true).await).code, 402);
        assert_eq!(failed(done(&lab.store, "o-1", true).await).code, 402);
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(bare(&lab.store, "o-1", false).await), 1);
        first(done(&lab.store, "o-1", false).await);
        repeat(bare(&lab.store, "o-1", true).await);
        repeat(done(&lab.store, "o-1", true).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    async fn an_error_of_several_arrives_in_its_own_variant(lab: Lab) {
        assert!(matches!(failed(short(&lab.store, "o-1", "one", true).await), PayError::Number(_)));
        assert!(matches!(failed(short(&lab.store, "o-1", "5", true).await), PayError::Refused(Refused { code: 402 })));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(short(&lab.store, "o-1", "5", false).await), 5);
        repeat(short(&lab.store, "o-1", "5", true).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (5, 1));
    }

    async fn an_alias_of_result_may_have_one_argument_or_two(lab: Lab) {
        assert!(matches!(failed(aliased::one(&lab.store, "o-1", true).await), PayError::Refused(Refused { code: 402 })));
        assert_eq!(failed(aliased::two(&lab.store, "o-1", true).await), Refused { code: 402 });
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        first(aliased::one(&lab.store, "o-1", false).await);
        first(aliased::two(&lab.store, "o-1", false).await);
        repeat(aliased::one(&lab.store, "o-1", false).await);
        repeat(aliased::two(&lab.store, "o-1", false).await);
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn the_results_of_io_and_sqlx_are_results(lab: Lab) {
        assert_eq!(failed(of_io(&lab.store, "o-1", true).await).kind(), io::ErrorKind::WouldBlock);
        assert!(matches!(failed(of_sqlx(&lab.store, "o-1", true).await), sqlx::Error::RowNotFound));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        first(of_io(&lab.store, "o-1", false).await);
        first(of_sqlx(&lab.store, "o-1", false).await);
        repeat(of_io(&lab.store, "o-1", false).await);
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn an_error_in_a_box_is_found_by_downcast(lab: Lab) {
        let error = failed(of_anyhow(&lab.store, "o-1", true).await);
        assert_eq!(error.downcast_ref::<Refused>(), Some(&Refused { code: 402 }));
        assert_eq!(error.to_string(), "order o-1");
        let error = failed(boxed(&lab.store, "o-1", true).await);
        assert_eq!(*error.downcast::<Refused>().unwrap(), Refused { code: 402 });
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(of_anyhow(&lab.store, "o-1", false).await), "o-1");
        first(boxed(&lab.store, "o-1", false).await);
        repeat(boxed(&lab.store, "o-1", true).await);
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn value_and_error_may_borrow_from_the_message(lab: Lab) {
        let order = String::from("o-1");
        assert_eq!(failed(borrowing(&lab.store, &order, true).await).about, "-1");
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(borrowing(&lab.store, &order, false).await), "o");
        assert!(first(never_fails(&lab.store, &order).await));
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn the_whole_error_fits_into_the_callers(lab: Lab) {
        let Consumer(error) = consume(&lab.store, true).await.unwrap_err();
        assert!(matches!(error.into_body(), Some(PayError::Refused(Refused { code: 402 }))));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        consume(&lab.store, false).await.unwrap();
        consume(&lab.store, true).await.unwrap();
        assert_eq!(lab.balance("a").await, 1);
    }
}
