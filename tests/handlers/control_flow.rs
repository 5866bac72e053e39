//! A body is accepted as the plain function would be, and ends as it would: each early `Ok` commits and each early
//! `Err` rolls back, by `return` or `?`, from loops, and not from closures or blocks inside. Case C49 (what compiles).
#![allow(
    clippy::default_trait_access,
    clippy::explicit_auto_deref,
    clippy::items_after_statements,
    clippy::mut_mut,
    clippy::needless_borrow,
    clippy::needless_return,
    clippy::never_loop,
    reason = "bodies as people write them"
)]

use crate::{failed, first, repeat};
use idem_runtime::{Error, idempotent};
use std::{convert::Infallible, fmt::Display, num::ParseIntError, ops::ControlFlow, panic::AssertUnwindSafe};

#[derive(Debug)]
#[allow(dead_code, reason = "told apart by the variant")]
pub enum PayError {
    Database(sqlx::Error),
    Number(ParseIntError),
    Refused(&'static str),
}

impl From<sqlx::Error> for PayError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ParseIntError> for PayError {
    fn from(error: ParseIntError) -> Self {
        Self::Number(error)
    }
}

impl From<&'static str> for PayError {
    fn from(error: &'static str) -> Self {
        Self::Refused(error)
    }
}

/// Where a body is to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    ReturnOk,
    ReturnErr,
    QuestionMark,
    LetElse,
    MatchArm,
    InLoop,
    InNestedLoop,
    BreakWithValue,
    TailOk,
    TailErr,
}

const COMMITS: [Leave; 5] = [Leave::ReturnOk, Leave::InLoop, Leave::InNestedLoop, Leave::BreakWithValue, Leave::TailOk];
const ROLLS_BACK: [Leave; 5] = [Leave::ReturnErr, Leave::QuestionMark, Leave::LetElse, Leave::MatchArm, Leave::TailErr];

/// A number that is owed; `Err` when none is.
fn owed(some: bool) -> Result<i64, &'static str> {
    some.then_some(7).ok_or("nothing owed")
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = order, store = db)]
        async fn converts(db: &mut Conn, order: &str, amount: &str, account: &str) -> Result<i64, PayError> {
            credit(db, "a", 1).await?;
            let amount: i64 = amount.parse()?;
            let sql = "INSERT INTO orders VALUES (?, ?, 'NEW', 1)";
            execute(db, sql, &[order, account]).await?;
            if amount > 100 {
                Err("too much")?;
            }
            Ok(amount)
        }

        #[idempotent(key = order, store = db)]
        async fn leaves(db: &mut Conn, order: &str, leave: Leave) -> Result<Leave, PayError> {
            credit(db, "a", 1).await?;
            if leave == Leave::ReturnOk {
                return Ok(leave);
            }
            if leave == Leave::ReturnErr {
                return Err("returned".into());
            }
            let Some(_) = (leave != Leave::LetElse).then_some(order) else {
                return Err(PayError::Refused("let else"));
            };
            let _: i64 = match owed(leave != Leave::MatchArm) {
                Ok(owed) => owed,
                Err(error) => return Err(error.into()),
            };
            owed(leave != Leave::QuestionMark)?;
            for round in 0.. {
                if round == 3 && leave == Leave::InLoop {
                    return Ok(leave);
                }
                if round == 4 {
                    break;
                }
            }
            'outer: loop {
                loop {
                    if leave == Leave::InNestedLoop {
                        return Ok(leave);
                    }
                    break 'outer;
                }
            }
            let broken = loop {
                credit(db, "a", 0).await?;
                break leave;
            };
            if let (Leave::BreakWithValue, Leave::BreakWithValue) = (broken, leave) {
                return Ok(broken);
            }
            if leave == Leave::TailOk { Ok(leave) } else { Err(PayError::Refused("tail")) }
        }

        // Each `?` and `return` leaves what is nearest around it.
        #[idempotent(key = order, store = db)]
        async fn nests(db: &mut Conn, order: &str, amounts: &[&str]) -> Result<i64, PayError> {
            let parse = |text: &str| -> Result<i64, ParseIntError> {
                if text.is_empty() {
                    return Ok(0);
                }
                let number: i64 = text.parse()?;
                Ok(number)
            };
            let all: Vec<i64> = amounts.iter().map(|text| parse(text)).collect::<Result<_, _>>()?;
            let tried: Result<i64, ParseIntError> = async {
                if all.is_empty() {
                    return Ok(0);
                }
                Ok("12".parse::<i64>()? + "x".parse::<i64>()?)
            }
            .await;
            assert!(tried.is_err() || all.is_empty());
            let add = async |db: &mut Conn, amount: i64| -> Result<(), sqlx::Error> {
                if amount == 0 {
                    return Ok(());
                }
                credit(db, "a", amount).await?;
                Ok(())
            };
            for amount in &all {
                add(db, *amount).await?;
            }
            fn inner(text: &str) -> Option<usize> {
                let at = text.find('-')?;
                return Some(at);
            }
            let flow = amounts.iter().try_for_each(|text| {
                if text.starts_with('9') { ControlFlow::Break(text.len()) } else { ControlFlow::Continue(()) }
            });
            if let ControlFlow::Break(_) = flow {
                return Err(PayError::Refused("nine"));
            }
            Ok(all.iter().sum::<i64>() + i64::from(inner(order).is_some()))
        }

        // What the return type alone decides.
        #[idempotent(key = order, store = db)]
        async fn infers(db: &mut Conn, order: &str) -> Result<(Vec<i64>, Option<u8>, String), PayError> {
            let mut seen = None;
            for byte in order.bytes() {
                seen = Some(byte);
            }
            credit(db, "a", "3".parse()?).await?;
            Ok((order.split('-').filter_map(|text| text.parse().ok()).collect(), seen, Default::default()))
        }

        #[idempotent(key = order, store = db)]
        async fn infers_from_question_mark(db: &mut Conn, order: &str, text: &str) -> Result<i64, PayError> {
            credit(db, "a", 3).await?;
            assert!(!order.is_empty());
            Ok(text.parse()?)
        }

        // Values and errors that only fit after a coercion.
        type Boxed = Box<dyn Display + Send>;
        #[idempotent(key = order, store = db)]
        async fn coerces(db: &mut Conn, order: &str, fail: bool) -> Result<(Boxed, fn(i64) -> i64, &'static [i64]), Box<dyn std::error::Error + Send + Sync>> {
            credit(db, "a", 1).await?;
            if order == "return" {
                return Ok((Box::new(order.len()), |x| x + 2, &[4]));
            }
            if fail {
                return Err(Box::new(std::fmt::Error));
            }
            Ok((Box::new("text"), |x| x + 1, &[1, 2, 3]))
        }

        #[idempotent(key = order, store = db)]
        async fn coerces_at_the_end(db: &mut Conn, order: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            credit(db, "a", 1).await?;
            assert!(!order.is_empty());
            Err(Box::new(std::fmt::Error))
        }

        #[allow(unused_variables)]
        #[idempotent(key = order, store = db)]
        async fn is_to_do(db: &mut Conn, order: &str) -> Result<(), PayError> {
            todo!()
        }

        #[allow(unused_variables)]
        #[idempotent(key = order, store = db, retry = 2)]
        async fn is_unimplemented(db: &mut Conn, order: &str) -> Result<Vec<String>, PayError> {
            unimplemented!("order {order}")
        }

        #[idempotent(key = order, store = db)]
        async fn diverges(db: &mut Conn, order: &str, rounds: i64) -> Result<Infallible, PayError> {
            let mut round = 0;
            loop {
                credit(db, "a", 1).await?;
                round += 1;
                if round == rounds {
                    return Err(PayError::Refused("enough"));
                }
            }
        }

        #[idempotent(key = order, store = db)]
        async fn waits_for_ever(db: &mut Conn, order: &str, entered: &tokio::sync::Notify) -> Result<(), Infallible> {
            assert!(credit(db, "a", 1).await.is_ok());
            entered.notify_one();
            std::future::pending().await
        }

        #[idempotent(key = order, store = db)]
        async fn one_expression(db: &mut Conn, order: &str) -> Result<(), sqlx::Error> { credit(db, "a", 1).await }

        #[idempotent(key = order, store = db)]
        async fn one_macro(db: &mut Conn, order: &str) -> Result<(), sqlx::Error> {
            tokio::select! {
                done = credit(db, "a", 1) => done,
            }
        }

        // The connection in every way that a body uses it.
        #[idempotent(key = order, store = db)]
        async fn reborrows(mut db: &mut Conn, order: &str) -> Result<(), sqlx::Error> {
            use sqlx::Connection as _;
            credit(db, "a", 1).await?;
            credit(&mut *db, "a", 1).await?;
            credit(&mut db, "a", 1).await?;
            {
                let again = &mut db;
                credit(again, "a", 1).await?;
            }
            db = &mut *db;
            let mut kept = db.begin().await?;
            credit(&mut kept, "a", 1).await?;
            kept.commit().await?;
            let mut lost = db.begin().await?;
            credit(&mut lost, "a", 100).await?;
            lost.rollback().await?;
            credit(db, "a", 1).await
        }
    }

    async fn a_question_mark_converts_and_rolls_back(lab: Lab) {
        assert!(matches!(failed(converts(&lab.store, "o-1", "ten", "a").await), PayError::Number(_)));
        assert!(matches!(failed(converts(&lab.store, "o-1", "10", "nobody").await), PayError::Database(_)));
        assert!(matches!(failed(converts(&lab.store, "o-1", "101", "a").await), PayError::Refused("too much")));
        assert_eq!((lab.balance("a").await, lab.rows("orders").await, lab.claims().await), (0, 0, 0));
        assert_eq!(first(converts(&lab.store, "o-1", "10", "a").await), 10);
        repeat(converts(&lab.store, "o-1", "ten", "a").await);
        assert_eq!((lab.balance("a").await, lab.rows("orders").await, lab.claims().await), (1, 1, 1));
    }

    async fn an_early_ok_commits(lab: Lab) {
        for (number, leave) in (1..).zip(COMMITS) {
            let order = format!("o-{number}");
            assert_eq!(first(leaves(&lab.store, &order, leave).await), leave);
            repeat(leaves(&lab.store, &order, leave).await);
            assert_eq!((lab.balance("a").await, lab.claims().await), (number, number), "{leave:?}");
        }
    }

    async fn an_early_err_rolls_back(lab: Lab) {
        for leave in ROLLS_BACK {
            assert!(matches!(failed(leaves(&lab.store, "o-1", leave).await), PayError::Refused(_)), "{leave:?}");
            assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0), "{leave:?}");
        }
        first(leaves(&lab.store, "o-1", Leave::TailOk).await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    async fn what_is_nested_ends_only_itself(lab: Lab) {
        assert!(matches!(failed(nests(&lab.store, "o-1", &["1", "x"]).await), PayError::Number(_)));
        assert!(matches!(failed(nests(&lab.store, "o-1", &["1", "9"]).await), PayError::Refused("nine")));
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        assert_eq!(first(nests(&lab.store, "o-1", &["1", "", "2"]).await), 4);
        assert_eq!(first(nests(&lab.store, "none", &[]).await), 0);
        assert_eq!((lab.balance("a").await, lab.claims().await), (3, 2));
    }

    async fn the_return_type_decides_what_a_body_leaves_open(lab: Lab) {
        assert_eq!(first(infers(&lab.store, "8-9").await), (vec![8, 9], Some(b'9'), String::new()));
        assert!(matches!(failed(infers_from_question_mark(&lab.store, "o-1", "x").await), PayError::Number(_)));
        assert_eq!(first(infers_from_question_mark(&lab.store, "o-1", "5").await), 5);
        assert_eq!((lab.balance("a").await, lab.claims().await), (6, 2));
    }

    async fn values_and_errors_are_coerced_to_the_return_type(lab: Lab) {
        let (text, add, list) = first(coerces(&lab.store, "tail", false).await);
        assert_eq!((text.to_string(), add(1), list), ("text".to_owned(), 2, [1, 2, 3].as_slice()));
        let (text, add, list) = first(coerces(&lab.store, "return", false).await);
        assert_eq!((text.to_string(), add(1), list), ("6".to_owned(), 3, [4].as_slice()));
        assert!(failed(coerces(&lab.store, "o-1", true).await).is::<std::fmt::Error>());
        assert!(failed(coerces_at_the_end(&lab.store, "o-1").await).is::<std::fmt::Error>());
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    async fn a_body_that_is_only_to_do_compiles_and_leaves_nothing(lab: Lab) {
        for (unwritten, says) in [(0, "not yet implemented"), (1, "order o-1")] {
            let store = lab.store.clone();
            let died = tokio::spawn(AssertUnwindSafe(async move {
                if unwritten == 0 {
                    is_to_do(&store, "o-1").await.map(|_| ())
                } else {
                    is_unimplemented(&store, "o-1").await.map(|_| ())
                }
            }).0)
            .await
            .unwrap_err()
            .into_panic();
            let said = died.downcast_ref::<&str>().map(ToString::to_string).or(died.downcast_ref::<String>().cloned());
            assert!(said.as_deref().unwrap().contains(says), "{said:?}");
        }
        lab.wait_until_calm().await;
        assert_eq!(lab.claims().await, 0);
    }

    async fn a_body_that_never_ends_well_leaves_nothing(lab: Lab) {
        assert!(matches!(diverges(&lab.store, "o-1", 3).await, Err(Error::Body(PayError::Refused("enough")))));
        let entered = tokio::sync::Notify::new();
        tokio::select! {
            _ = waits_for_ever(&lab.store, "o-1", &entered) => panic!("it came back"),
            () = entered.notified() => {}
        }
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }

    async fn a_body_may_be_one_expression(lab: Lab) {
        first(one_expression(&lab.store, "o-1").await);
        first(one_macro(&lab.store, "o-1").await);
        repeat(one_expression(&lab.store, "o-1").await);
        repeat(one_macro(&lab.store, "o-1").await);
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn the_connection_is_borrowed_again_as_often_as_needed(lab: Lab) {
        first(reborrows(&lab.store, "o-1").await);
        repeat(reborrows(&lab.store, "o-1").await);
        assert_eq!((lab.balance("a").await, lab.claims().await), (6, 1));
    }
}
