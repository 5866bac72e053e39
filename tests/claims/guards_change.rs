//! Guards that change a row: a state machine, an optimistic lock, a row that is taken away. Case C20.

use idem_runtime::{
    Advice, Decision, Error, Guard, GuardError, Guarded, Ignored, Key, KeyError, Outcome, Why, idempotent,
};
use idem_tests::{
    cancel::{
        Moment::{Answered, Asked},
        drop_at,
    },
    logs::Listener,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;

struct Event {
    no: String,
    version: i64,
    quantity: i64,
}

fn event(no: &str) -> Event {
    Event { no: no.to_owned(), version: 0, quantity: 1 }
}

fn alone() -> Result<Key, KeyError> {
    Key::unrecorded("claims.guard.hand").delivery("d-1").finish()
}

fn ignored<T: std::fmt::Debug, R: std::fmt::Debug>(outcome: Outcome<T, R>) -> Ignored {
    match outcome {
        Outcome::Ignored(ignored) => ignored,
        other => panic!("not ignored: {other:?}"),
    }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'WAIT_PAY'",
            store = db, scope = "claims.guard.pay")]
        async fn pay(db: &mut Conn, msg: &Event) -> Result<i64, sqlx::Error> {
            credit(db, "a", msg.quantity).await?;
            Ok(msg.quantity)
        }

        #[idempotent(
            guard = "UPDATE stock SET amount = amount - {msg.quantity}, version = version + 1 WHERE sku = {msg.no} AND version = {msg.version}",
            store = db, scope = "claims.guard.deduct"
        )]
        async fn deduct(db: &mut Conn, msg: &Event) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.quantity).await
        }

        #[idempotent(guard = "DELETE FROM stock WHERE sku = {msg.no}", store = db, scope = "claims.guard.take")]
        async fn take(db: &mut Conn, msg: &Event) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.quantity).await
        }

        /// Seen before? And is it called for now?
        #[idempotent(
            key = msg.no, guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'WAIT_PAY'",
            store = db, scope = "claims.guard.keyed"
        )]
        async fn pay_keyed(db: &mut Conn, msg: &Event) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.quantity).await
        }

        #[idempotent(guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'WAIT_PAY'",
            store = db, scope = "claims.guard.retried", retry = 2)]
        async fn pay_retried(db: &mut Conn, msg: &Event, tries: &AtomicUsize) -> Result<(), sqlx::Error> {
            credit(db, "a", msg.quantity).await?;
            if tries.fetch_add(1, Ordering::SeqCst) < 2 { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        #[idempotent(guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status = 'WAIT_PAY'",
            store = db, scope = "claims.guard.declines", declines)]
        async fn pay_if(db: &mut Conn, msg: &Event, ready: bool) -> Result<Decision<()>, sqlx::Error> {
            credit(db, "a", msg.quantity).await?;
            Ok(if ready { Decision::Done(()) } else { Decision::retry("not ready") })
        }

        struct Service {
            store: Db,
        }

        impl Service {
            #[idempotent(guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {no} AND status = 'WAIT_PAY'",
                store = self.store, tx = db, scope = "claims.guard.method")]
            async fn pay(&self, db: &mut Conn, no: &str) -> Result<(), sqlx::Error> {
                credit(db, "a", 1).await
            }
        }

        async fn run_sql(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        async fn order(lab: &Lab, no: &str) {
            run_sql(lab, &format!("INSERT INTO orders VALUES ('{no}', 'a', 'WAIT_PAY', 1)")).await;
        }

        async fn stock(lab: &Lab) {
            run_sql(lab, "CREATE TABLE stock (sku VARCHAR(64) NOT NULL PRIMARY KEY, amount BIGINT NOT NULL, version BIGINT NOT NULL)").await;
            run_sql(lab, "INSERT INTO stock VALUES ('cup', 10, 0), ('jar', 10, 0), ('mug', 10, 0)").await;
        }

        async fn orders(lab: &Lab, status: &str) -> i64 {
            lab.number(&format!("SELECT count(*) FROM orders WHERE status = '{status}'")).await
        }

        /// The guard of `pay` with a question for the row.
        fn guard(no: &str) -> Guard<Conn> {
            Guard::change("UPDATE orders SET status = 'PAID' WHERE order_no = {} AND status = 'WAIT_PAY'").bind(no)
        }

        async fn guarded(store: &Db, key: Result<Key, KeyError>, guard: Guard<Conn>) -> Result<Outcome<()>, Error<sqlx::Error>> {
            let mut unit = match store.claim_guarded(key, guard).await? {
                Guarded::First(unit) => unit,
                Guarded::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
                Guarded::Ignored(ignored) => return Ok(Outcome::Ignored(ignored)),
            };
            match credit(unit.connection(), "a", 1).await {
                Ok(()) => unit.commit(()).await,
                Err(error) => unit.roll_back(error).await,
            }
        }
    }

    async fn a_state_machine_goes_on_once(lab: Lab) {
        order(&lab, "1").await;
        order(&lab, "2").await;
        assert_eq!(pay(&lab.store, &event("1")).await.unwrap(), Outcome::First(1));
        for no in ["1", "missing"] {
            let listener = Listener::start();
            let outcome = pay(&lab.store, &event(no)).await.unwrap();
            assert_eq!(outcome.advice(), Advice::Ack);
            assert_ne!(ignored(outcome).why, Why::Declined);
            let heard = listener.events();
            let [heard] = &heard[..] else { panic!("{heard:#?}") };
            assert_eq!((heard.level, heard.field("idem.outcome")), (Level::INFO, Some("ignored")));
            assert_eq!(heard.field("idem.scope"), Some("claims.guard.pay"));
        }
        assert_eq!((orders(&lab, "PAID").await, orders(&lab, "WAIT_PAY").await), (1, 1));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 0), "a guard alone writes no record");
    }

    /// On MySQL rows that were found count, and not rows that changed.
    async fn an_optimistic_lock_goes_on_once_though_no_value_changes(lab: Lab) {
        stock(&lab).await;
        let cup = Event { no: "cup".to_owned(), version: 0, quantity: 3 };
        assert!(deduct(&lab.store, &cup).await.unwrap().is_first());
        assert!(deduct(&lab.store, &cup).await.unwrap().is_ignored());
        assert!(deduct(&lab.store, &Event { version: 1, ..cup }).await.unwrap().is_first());
        let jar = Event { no: "jar".to_owned(), version: 0, quantity: 0 };
        assert!(deduct(&lab.store, &jar).await.unwrap().is_first());
        assert!(deduct(&lab.store, &jar).await.unwrap().is_ignored());
        assert_eq!(lab.number("SELECT amount FROM stock WHERE sku = 'cup'").await, 4);
        assert_eq!(lab.number("SELECT version FROM stock WHERE sku = 'cup'").await, 2);
        assert_eq!(lab.balance("a").await, 6);
        // Under a key a guard may change nothing at all: it says "allowed", and the key says "seen".
        let touch = || Guard::change("UPDATE stock SET amount = amount WHERE sku = {} AND amount > 0").bind("mug");
        let key = || Key::scope("claims.guard.touch").part("1").finish();
        assert!(guarded(&lab.store, key(), touch()).await.unwrap().is_first());
        assert!(guarded(&lab.store, key(), touch()).await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (7, 1));
    }

    async fn a_row_is_taken_away_once(lab: Lab) {
        stock(&lab).await;
        assert!(take(&lab.store, &event("cup")).await.unwrap().is_first());
        assert!(take(&lab.store, &event("cup")).await.unwrap().is_ignored());
        assert_eq!((lab.rows("stock").await, lab.balance("a").await), (2, 1));
    }

    async fn why_nothing_matched_is_said_where_it_can_be_asked(lab: Lab) {
        order(&lab, "1").await;
        let asking = |no| guard(no).exists("SELECT 1 FROM orders WHERE order_no = {}").bind_exists(no);
        assert!(guarded(&lab.store, alone(), asking("1")).await.unwrap().is_first());
        for (guard, why, reason) in [
            (asking("1"), Why::NotAllowed, "the guard matched no row"),
            (asking("2"), Why::NoRow, "the guard's row does not exist"),
            (guard("1"), Why::NoMatch, "the guard matched no row"),
        ] {
            let listener = Listener::start();
            let ignored = ignored(guarded(&lab.store, alone(), guard).await.unwrap());
            assert_eq!((ignored.why, ignored.reason.as_str()), (why, reason));
            let heard = listener.outcomes();
            assert_eq!((heard.len(), heard[0].field("reason"), heard[0].field("delivery.id")), (1, Some(reason), Some("d-1")));
        }
        let broken = guard("1").exists("SELECT no_such_column FROM orders WHERE order_no = {}").bind_exists("1");
        let failed = guarded(&lab.store, alone(), broken).await.unwrap_err();
        assert!(matches!(failed, Error::Guard(GuardError::Database { retryable: false, .. })), "{failed:?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 0));
        lab.wait_until_calm().await;
    }

    async fn a_guard_on_a_table_that_is_not_there_is_no_fault_of_the_message(lab: Lab) {
        let missing = Guard::change("UPDATE orderz SET status = 'PAID' WHERE order_no = {} AND status = 'NEW'").bind("1");
        let failed = guarded(&lab.store, alone(), missing).await.unwrap_err();
        assert!(matches!(failed, Error::Guard(GuardError::Database { retryable: false, .. })), "{failed:?}");
        assert_eq!(failed.advice(), Advice::RetryLater, "an operator repairs it, and the message is not put aside");
    }

    async fn a_guard_that_changes_several_rows_is_an_error_and_taken_back(lab: Lab) {
        for no in ["1", "2", "3"] {
            order(&lab, no).await;
        }
        let key = || Key::scope("claims.guard.many").part("1").finish();
        for key in [key(), alone()] {
            let many = Guard::change("UPDATE orders SET status = 'PAID' WHERE account = {} AND status = 'WAIT_PAY'").bind("a");
            let failed = guarded(&lab.store, key, many).await.unwrap_err();
            assert!(matches!(failed, Error::Guard(GuardError::ManyRows { rows: 3 })), "{failed:?}");
            assert_eq!((failed.is_retryable(), failed.advice()), (false, Advice::DeadLetter));
            assert_eq!((orders(&lab, "WAIT_PAY").await, lab.claims().await, lab.balance("a").await), (3, 0, 0));
        }
        assert!(guarded(&lab.store, key(), guard("1")).await.unwrap().is_first(), "the key was given back");
    }

    async fn a_guard_that_refuses_gives_the_key_back(lab: Lab) {
        run_sql(&lab, "INSERT INTO orders VALUES ('1', 'a', 'NEW', 1)").await;
        for _ in 0..2 {
            assert!(pay_keyed(&lab.store, &event("1")).await.unwrap().is_ignored());
            assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        }
        run_sql(&lab, "UPDATE orders SET status = 'WAIT_PAY'").await;
        assert!(pay_keyed(&lab.store, &event("1")).await.unwrap().is_first());
        // Allowed again, and seen before.
        run_sql(&lab, "UPDATE orders SET status = 'WAIT_PAY'").await;
        let Outcome::Duplicate(seen) = pay_keyed(&lab.store, &event("1")).await.unwrap() else { panic!("no repeat") };
        assert!(seen.first_at.is_some());
        assert_eq!((lab.claims().await, lab.balance("a").await, orders(&lab, "WAIT_PAY").await), (1, 1, 1));
    }

    async fn a_failed_body_takes_the_guard_back(lab: Lab) {
        order(&lab, "1").await;
        let tries = AtomicUsize::new(0);
        assert!(pay_retried(&lab.store, &event("1"), &tries).await.unwrap().is_first());
        assert_eq!((tries.load(Ordering::SeqCst), lab.balance("a").await, orders(&lab, "PAID").await), (3, 1, 1));
        assert!(pay_retried(&lab.store, &event("1"), &tries).await.unwrap().is_ignored());
        order(&lab, "2").await;
        let declined = ignored(pay_if(&lab.store, &event("2"), false).await.unwrap());
        assert_eq!(declined.why, Why::Declined);
        assert_eq!((lab.balance("a").await, orders(&lab, "PAID").await), (1, 1));
        assert!(pay_if(&lab.store, &event("2"), true).await.unwrap().is_first());
        order(&lab, "3").await;
        let unit = lab.store.claim_guarded(alone(), guard("3")).await.unwrap();
        drop(unit);
        lab.wait_until_calm().await;
        assert_eq!(orders(&lab, "WAIT_PAY").await, 1);
        let Guarded::First(unit) = lab.store.claim_guarded(alone(), guard("3")).await.unwrap() else { panic!("not first") };
        let failed = unit.roll_back::<(), (), _>("no").await;
        assert!(matches!(failed, Err(Error::Body("no"))));
        assert_eq!((orders(&lab, "WAIT_PAY").await, lab.balance("a").await), (1, 2));
    }

    /// What it wrote is durable, and the guard will not match again: "rolled back, retry" would lose the rest of the body.
    async fn a_body_that_commits_and_then_fails_is_reported(lab: Lab) {
        for (no, end) in [("1", "COMMIT"), ("2", "CREATE TABLE extra (id INT)")] {
            if DIALECT != Dialect::MySql && no == "2" {
                continue;
            }
            order(&lab, no).await;
            let Guarded::First(mut unit) = lab.store.claim_guarded(alone(), guard(no)).await.unwrap() else { panic!("not first") };
            credit(unit.connection(), "a", 1).await.unwrap();
            raw(unit.connection(), end).await.unwrap();
            let failed = unit.roll_back::<(), (), _>("no").await;
            let Err(Error::TransactionEnded(ended)) = failed else { panic!("{end}: {failed:?}") };
            assert_eq!(ended.claim_durable, None, "{end}");
        }
        let paid = orders(&lab, "PAID").await;
        assert_eq!(lab.balance("a").await, paid, "both are durable");
        lab.wait_until_calm().await;
    }

    /// As after a deadlock.
    async fn a_transaction_that_was_rolled_back_in_the_body_is_a_failed_body_where_the_database_may_do_that(lab: Lab) {
        order(&lab, "1").await;
        let Guarded::First(mut unit) = lab.store.claim_guarded(alone(), guard("1")).await.unwrap() else { panic!("not first") };
        credit(unit.connection(), "a", 1).await.unwrap();
        raw(unit.connection(), "ROLLBACK").await.unwrap();
        let failed = unit.roll_back::<(), (), _>("no").await;
        match DIALECT {
            Dialect::Postgres => assert!(matches!(failed, Err(Error::TransactionEnded(_))), "{failed:?}"),
            _ => assert!(matches!(failed, Err(Error::Body("no"))), "{failed:?}"),
        }
        assert_eq!((lab.balance("a").await, orders(&lab, "WAIT_PAY").await), (0, 1));
        assert!(pay(&lab.store, &event("1")).await.unwrap().is_first());
        lab.wait_until_calm().await;
    }

    async fn on_a_method(lab: Lab) {
        order(&lab, "1").await;
        let service = Service { store: lab.store.clone() };
        assert!(service.pay("1").await.unwrap().is_first());
        assert!(service.pay("1").await.unwrap().is_ignored());
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn of_ten_at_once_one_is_first(lab: Lab) {
        for round in 1..=5_i64 {
            let no = format!("round-{round}");
            order(&lab, &no).await;
            let mut all = Vec::new();
            for number in 0..10 {
                let (store, no) = (lab.store.clone(), no.clone());
                all.push(tokio::spawn(async move {
                    if number % 2 == 0 { pay(&store, &event(&no)).await.unwrap().is_first() } else { pay_keyed(&store, &event(&no)).await.unwrap().is_first() }
                }));
            }
            let mut firsts = 0;
            for one in all {
                firsts += i32::from(one.await.unwrap());
            }
            assert_eq!((firsts, lab.balance("a").await), (1, round));
        }
    }

    async fn dropped_at_any_await_it_is_done_as_a_whole_or_not_at_all(lab: Lab) {
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < 500, "the sweep does not end");
                let no = format!("{moment:?}-{wait}");
                order(&lab, &no).await;
                let before = lab.balance("a").await;
                let done = drop_at(pay(&store, &event(&no)), wait, moment).await;
                let again = pay(&store, &event(&no)).await.unwrap();
                assert!(again.is_first() || again.is_ignored(), "{no}: {again:?}");
                assert_eq!((lab.balance("a").await, orders(&lab, "WAIT_PAY").await), (before + 1, 0), "{no}");
                // Refused by a guard, at every await.
                let _ = drop_at(pay_keyed(&store, &event(&no)), wait, moment).await;
                assert!(pay_keyed(&store, &event(&no)).await.unwrap().is_ignored());
                assert_eq!((lab.balance("a").await, lab.claims().await), (before + 1, 0), "{no}");
                if done.is_some() {
                    break;
                }
            }
        }
        lab.wait_until_calm().await;
        store.pool().close().await;
    }

    /// Without a key and without a guard nothing would tell a repeat.
    async fn a_key_that_names_nothing_needs_a_guard(lab: Lab) {
        let refused = lab.store.once(alone(), async |db| credit(db, "a", 1).await).await;
        assert!(matches!(refused, Err(Error::Key(KeyError::NoPart))), "{refused:?}");
        let refused = lab.store.claim(Key::unrecorded("claims.guard").part("1").finish()).await;
        assert!(refused.is_err());
        assert_eq!(lab.balance("a").await, 0);
    }
}
