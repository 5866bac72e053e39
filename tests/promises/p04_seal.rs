//! Promise 4: the seal. A body that swallowed a database error, ended the transaction or let the server end it is
//! reported as an error of its own, and "first" is reported only for what is durable. Cases C13 and C21.
//!
//! What each thing that a body may do comes to. `First`, `Body`: as in [`Outcome`] and [`Error`]. `swallowed`, `ended`:
//! [`Error::TransactionEnded`] with that [`Ending`]; `+` when the claim is durable all the same. `refused`:
//! [`Error::Database`] in the commit. Two numbers follow: what is durable of a write before the deed, and of one after.
//!
//! | the body, returning `Ok` | SQLite | PostgreSQL | MySQL, MariaDB |
//! | --- | --- | --- | --- |
//! | swallows a constraint or syntax error | First 1 1 | swallowed 0 0 | First 1 1 |
//! | swallows an error inside a savepoint, rolled back | First 1 1 | First 1 1 | First 1 1 |
//! | swallows `INSERT OR ROLLBACK`'s conflict | ended 0 1 | | |
//! | swallows a deadlock | | swallowed 0 0 | ended 0 0 |
//! | `COMMIT` | ended+ 1 1 | ended+ 1 1 | ended+ 1 0 |
//! | `ROLLBACK` | ended 0 1 | ended 0 1 | ended 0 0 |
//! | `BEGIN` | First 1 1 | First 1 1 | ended+ 1 0 |
//! | `COMMIT; BEGIN` | ended+ 1 0 | ended+ 1 0 | ended+ 1 0 |
//! | `ROLLBACK; BEGIN` | ended 0 0 | ended 0 0 | ended 0 0 |
//! | `COMMIT AND CHAIN` | (no such SQL) | ended+ 1 0 | ended+ 1 0 |
//! | `CREATE TABLE` | First 1 1 | First 1 1 | ended+ 1 0 |
//! | `TRUNCATE` | (no such SQL) | First 1 1 | ended+ 1 0 |
//! | `LOCK TABLES` | (no such SQL) | (no such SQL) | ended+ 1 0 |
//! | breaks a deferred constraint | refused 0 0 | refused 0 0 | (none there) |
//! | `COMMIT` inside a nested transaction | ended+ 1 1 | ended+ 1 0 | ended+ 1 0 |
//! | puts a connection of its own in the place of the unit's | ended 0 1 | ended 0 1 | ended 0 1 |
//! | leaks a nested transaction | First 1 1 | First 1 1 | First 1 1 |
//!
//! Returning `Err`, it is `Body` and the claim is gone, but where the table says `+`: those are the same with `Err`,
//! since a redelivery would be taken for a repeat. PostgreSQL never ends a transaction by itself, so there `ended` is the
//! same with `Err` too. What a body wrote on SQLite or PostgreSQL after a `ROLLBACK` of its own was outside any
//! transaction and stays; on MySQL autocommit is off in a unit, and it goes.

use idem_runtime::{Ending, Error, Key, Outcome, Phase, idempotent};
use sqlx::Connection as _;
use std::mem;

/// What a delivery came to. Each has been checked against the record table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    First,
    Body,
    /// The seal found it, and the claim is not durable.
    Lost(Ending),
    /// The seal found it, and the claim is durable: a person has to look.
    Kept,
    Refused,
}
use Verdict::{Body, First, Kept, Lost, Refused};

const SWALLOWED: Verdict = Lost(Ending::ErrorSwallowed);
const ENDED: Verdict = Lost(Ending::Ended);

/// A verdict, and what is durable of the write before the deed and of the one after.
type Row = (Verdict, i64, i64);

idem_tests::on_every_database! {
    given {
        const fn on(sqlite: Row, postgres: Row, mysql: Row) -> Row {
            match DIALECT {
                Dialect::Sqlite => sqlite,
                Dialect::Postgres => postgres,
                Dialect::MySql => mysql,
            }
        }

        const fn everywhere(row: Row) -> Row {
            row
        }

        /// Does a deed between two writes.
        #[idempotent(key = case, store = db, scope = "p04")]
        async fn between(db: &mut Conn, case: &str, deed: &str, succeed: bool) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            let _ = raw(db, deed).await;
            let _ = credit(db, "b", 1).await;
            if succeed { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
        }

        async fn one_connection(lab: &Lab) -> Db {
            lab.other_store(Lab::builder().max_connections(1)).await
        }

        async fn done(lab: &Lab, deed: &str, succeed: bool) -> Row {
            reset(lab).await;
            let store = one_connection(lab).await;
            let case = if succeed { "ok" } else { "err" };
            let result = between(&store, case, deed, succeed).await;
            judge(lab, &store, case, result).await
        }

        async fn body(
            lab: &Lab,
            case: &str,
            body: impl AsyncFnOnce(&mut Conn) -> Result<(), sqlx::Error>,
        ) -> Row {
            reset(lab).await;
            let store = one_connection(lab).await;
            let result = store.once(Key::scope("p04").part(case).finish(), body).await;
            judge(lab, &store, case, result).await
        }

        /// Makes the database roll the unit back by itself: on SQLite by OR ROLLBACK, on servers by a real deadlock
        /// with a session that credits both accounts with 10.
        async fn rolled_back_by_the_database(lab: &Lab, db: &mut Conn) -> sqlx::Error {
            let (setup, ours, code) = match DIALECT {
                Dialect::Sqlite => {
                    return raw(db, "INSERT OR ROLLBACK INTO accounts VALUES ('a', 5)").await.unwrap_err();
                }
                // Whoever looks for the deadlock is its victim.
                Dialect::Postgres => {
                    ("SET deadlock_timeout = '1h'; BEGIN".to_owned(), "SET LOCAL deadlock_timeout = '10ms'", "40P01")
                }
                // Whoever wrote less is its victim.
                Dialect::MySql => {
                    let rows: Vec<String> = (0..50).map(|n| format!("('weight-{n}', 0)")).collect();
                    (format!("BEGIN; INSERT INTO accounts VALUES {}", rows.join(", ")), "DO 0", "40001")
                }
            };
            raw(db, ours).await.unwrap();
            let mut other = Conn::connect(&lab.url).await.unwrap();
            raw(&mut other, &setup).await.unwrap();
            credit(&mut other, "b", 10).await.unwrap();
            let other = tokio::spawn(async move {
                credit(&mut other, "a", 10).await.unwrap();
                raw(&mut other, "DELETE FROM accounts WHERE id LIKE 'weight-%'; COMMIT").await.unwrap();
            });
            if DIALECT == Dialect::Postgres {
                // It looks once only, so the other session has to wait by then.
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                               AND application_name = current_setting('application_name')";
                while lab.number(waiting).await == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let error = credit(db, "b", 1).await.unwrap_err();
            let found = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
            assert_eq!(found.as_deref(), Some(code), "{error}");
            other.await.unwrap();
            error
        }

        async fn reset(lab: &Lab) {
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, "UPDATE accounts SET balance = 0").await.unwrap();
        }

        /// Compares what was reported with what is in the database, and makes sure that the pool serves others.
        async fn judge(lab: &Lab, store: &Db, case: &str, result: Result<Outcome<()>, Error<sqlx::Error>>) -> Row {
            let claims = lab.number(&format!("SELECT count(*) FROM idem_records WHERE action_key = '{case}'")).await;
            let verdict = match result {
                Ok(Outcome::First(())) => {
                    assert_eq!(claims, 1, "reported as first, and the claim is not in the database");
                    First
                }
                Err(Error::Body(_)) => {
                    assert_eq!(claims, 0, "reported as rolled back, and the claim is in the database");
                    Body
                }
                Err(Error::TransactionEnded(ended)) => {
                    assert_eq!(ended.claim_durable, Some(claims == 1), "what it says of the claim is not true");
                    if claims == 1 { Kept } else { Lost(ended.how) }
                }
                Err(Error::Database(error)) => {
                    assert_eq!((error.phase(), claims), (Phase::Commit, 0), "{error}");
                    assert!(!error.is_retryable(), "{error}");
                    Refused
                }
                other => panic!("{other:?}"),
            };
            let row = (verdict, lab.balance("a").await, lab.balance("b").await);
            if verdict == First {
                assert_eq!(row.1, 1, "reported as first, and a write is not in the database");
            }

            // Nothing is left open: what the next borrower of the only connection writes is durable, nothing stays
            // locked, and a redelivery comes out as the record table says.
            let mut next = store.pool().acquire().await.unwrap();
            raw(&mut next, &format!("INSERT INTO accounts VALUES ('next-{case}', 7)")).await.unwrap();
            drop(next);
            assert_eq!(lab.balance(&format!("next-{case}")).await, 7, "the next borrower works inside a transaction");
            reset(lab).await;
            let key = Key::scope("p04").part(case).finish();
            let again = store.once(key, async |_| Ok::<_, sqlx::Error>(())).await.unwrap();
            assert_eq!(again.is_first(), claims == 0);
            row
        }
    }

    async fn a_swallowed_error_is_first_only_where_the_database_keeps_the_transaction(lab: Lab) {
        let row = on((First, 1, 1), (SWALLOWED, 0, 0), (First, 1, 1));
        assert_eq!(done(&lab, "INSERT INTO accounts VALUES ('a', 5)", true).await, row);
        assert_eq!(done(&lab, "INSERT INTO accounts VALUES ('a', 5)", false).await, (Body, 0, 0));
    }

    async fn a_swallowed_syntax_error_is_first_only_where_the_database_keeps_the_transaction(lab: Lab) {
        let row = on((First, 1, 1), (SWALLOWED, 0, 0), (First, 1, 1));
        assert_eq!(done(&lab, "SELEC nothing", true).await, row);
        assert_eq!(done(&lab, "SELEC nothing", false).await, (Body, 0, 0));
    }

    async fn a_commit_in_the_body_is_reported_with_the_claim_durable(lab: Lab) {
        let row = on((Kept, 1, 1), (Kept, 1, 1), (Kept, 1, 0));
        assert_eq!(done(&lab, "COMMIT", true).await, row);
        assert_eq!(done(&lab, "COMMIT", false).await, row);
    }

    async fn a_rollback_in_the_body_is_never_first(lab: Lab) {
        assert_eq!(done(&lab, "ROLLBACK", true).await, on((ENDED, 0, 1), (ENDED, 0, 1), (ENDED, 0, 0)));
        assert_eq!(done(&lab, "ROLLBACK", false).await, on((Body, 0, 1), (ENDED, 0, 1), (Body, 0, 0)));
    }

    async fn a_begin_in_the_body_is_found_where_it_commits(lab: Lab) {
        assert_eq!(done(&lab, "BEGIN", true).await, on((First, 1, 1), (First, 1, 1), (Kept, 1, 0)));
        assert_eq!(done(&lab, "BEGIN", false).await, on((Body, 0, 0), (Body, 0, 0), (Kept, 1, 0)));
    }

    async fn another_transaction_in_the_place_of_the_claims_is_found(lab: Lab) {
        assert_eq!(done(&lab, "COMMIT; BEGIN", true).await, everywhere((Kept, 1, 0)));
        assert_eq!(done(&lab, "COMMIT; BEGIN", false).await, everywhere((Kept, 1, 0)));
    }

    async fn another_transaction_after_a_rollback_is_found(lab: Lab) {
        assert_eq!(done(&lab, "ROLLBACK; BEGIN", true).await, everywhere((ENDED, 0, 0)));
        assert_eq!(done(&lab, "ROLLBACK; BEGIN", false).await, on((Body, 0, 0), (ENDED, 0, 0), (Body, 0, 0)));
    }

    async fn a_chained_transaction_is_found(lab: Lab) {
        // SQLite does not know the words, and nothing happens there.
        assert_eq!(done(&lab, "COMMIT AND CHAIN", true).await, on((First, 1, 1), (Kept, 1, 0), (Kept, 1, 0)));
        assert_eq!(done(&lab, "COMMIT AND CHAIN", false).await, on((Body, 0, 0), (Kept, 1, 0), (Kept, 1, 0)));
    }

    async fn ddl_is_found_where_it_commits(lab: Lab) {
        let row = on((First, 1, 1), (First, 1, 1), (Kept, 1, 0));
        assert_eq!(done(&lab, "CREATE TABLE made (x INT)", true).await, row);
        let row = on((Body, 0, 0), (Body, 0, 0), (Kept, 1, 0));
        assert_eq!(done(&lab, "CREATE TABLE more (x INT)", false).await, row);
    }

    async fn truncate_is_found_where_it_commits(lab: Lab) {
        // SQLite does not know the word, and nothing happens there.
        assert_eq!(done(&lab, "TRUNCATE TABLE orders", true).await, on((First, 1, 1), (First, 1, 1), (Kept, 1, 0)));
        assert_eq!(done(&lab, "TRUNCATE TABLE orders", false).await, on((Body, 0, 0), (Body, 0, 0), (Kept, 1, 0)));
    }

    async fn lock_tables_is_found_where_it_commits(lab: Lab) {
        // SQLite and PostgreSQL do not know the words in this order: one more swallowed error. Where they are known,
        // the record table is not among the tables that may be used, and the question about the claim must be
        // answered still.
        let deed = "LOCK TABLES accounts WRITE";
        assert_eq!(done(&lab, deed, true).await, on((First, 1, 1), (SWALLOWED, 0, 0), (Kept, 1, 0)));
        assert_eq!(done(&lab, deed, false).await, on((Body, 0, 0), (Body, 0, 0), (Kept, 1, 0)));
    }

    async fn a_swallowed_error_that_rolled_everything_back_is_found(lab: Lab) {
        for (case, swallow, row) in [
            ("swallowed", true, on((ENDED, 0, 1), (SWALLOWED, 10, 10), (ENDED, 10, 10))),
            ("passed-on", false, on((Body, 0, 0), (Body, 10, 10), (Body, 10, 10))),
        ] {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                let error = rolled_back_by_the_database(&lab, db).await;
                if !swallow { return Err(error); }
                let _ = credit(db, "b", 1).await;
                Ok(())
            }).await;
            assert_eq!(found, row, "{case}");
        }
    }

    async fn a_constraint_that_fails_in_the_commit_is_an_error(lab: Lab) {
        // MySQL has no deferred constraints; there it is one more swallowed error.
        let deferred = if DIALECT == Dialect::MySql { "" } else { "DEFERRABLE INITIALLY DEFERRED" };
        let sql = format!(
            "CREATE TABLE late (account VARCHAR(64), FOREIGN KEY (account) REFERENCES accounts (id) {deferred})"
        );
        raw(&mut lab.pool.acquire().await.unwrap(), &sql).await.unwrap();
        let deed = "INSERT INTO late VALUES ('nobody')";
        assert_eq!(done(&lab, deed, true).await, on((Refused, 0, 0), (Refused, 0, 0), (First, 1, 1)));
        assert_eq!(done(&lab, deed, false).await, everywhere((Body, 0, 0)));
        assert_eq!(lab.rows("late").await, 0);
    }

    async fn a_nested_transaction_that_is_committed_goes_with_the_unit(lab: Lab) {
        for (case, succeed, row) in [("ok", true, (First, 1, 1)), ("err", false, (Body, 0, 0))] {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                let mut nested = db.begin().await?;
                credit(&mut nested, "b", 1).await?;
                nested.commit().await?;
                if succeed { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
            }).await;
            assert_eq!(found, everywhere(row));
        }
    }

    async fn a_nested_transaction_that_is_rolled_back_takes_only_its_own_writes(lab: Lab) {
        for (case, explicit) in [("rolled back", true), ("dropped", false)] {
            let case = case.replace(' ', "-");
            let found = body(&lab, &case, async |db| {
                credit(db, "a", 1).await?;
                let mut nested = db.begin().await?;
                credit(&mut nested, "b", 1).await?;
                if explicit { nested.rollback().await?; } else { drop(nested); }
                Ok(())
            }).await;
            assert_eq!(found, everywhere((First, 1, 0)), "{case}");
        }
    }

    async fn an_error_swallowed_inside_a_savepoint_is_harmless(lab: Lab) {
        for (case, explicit) in [("rolled-back", true), ("dropped", false)] {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                let mut nested = db.begin().await?;
                raw(&mut nested, "INSERT INTO accounts VALUES ('a', 5)").await.unwrap_err();
                if explicit { nested.rollback().await?; } else { drop(nested); }
                credit(db, "b", 1).await
            }).await;
            assert_eq!(found, everywhere((First, 1, 1)), "{case}");
        }
    }

    async fn a_leaked_nested_transaction_goes_with_the_unit(lab: Lab) {
        for (case, succeed, row) in [("ok", true, (First, 1, 1)), ("err", false, (Body, 0, 0))] {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                // Two levels, so that unwinding one is not enough.
                mem::forget(db.begin().await?);
                mem::forget(db.begin().await?);
                credit(db, "b", 1).await?;
                if succeed { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
            }).await;
            assert_eq!(found, everywhere(row));
        }
    }

    async fn a_commit_inside_a_nested_transaction_is_found(lab: Lab) {
        for (case, succeed, end) in
            [("ok", true, "COMMIT"), ("err", false, "COMMIT"), ("begun", true, "COMMIT; BEGIN")]
        {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                let mut nested = db.begin().await?;
                raw(&mut nested, end).await?;
                // Its savepoint is gone, and that is swallowed too.
                nested.commit().await.unwrap_err();
                let _ = credit(db, "b", 1).await;
                if succeed { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
            }).await;
            // On servers the rollback to the savepoint, which sqlx sends along, fails in the place of the second write.
            let after = i64::from(DIALECT == Dialect::Sqlite && end == "COMMIT");
            assert_eq!(found, everywhere((Kept, 1, after)), "{case}");
        }
    }

    async fn an_error_in_a_leaked_nested_transaction_is_found(lab: Lab) {
        let found = body(&lab, "leaked", async |db| {
            credit(db, "a", 1).await?;
            mem::forget(db.begin().await?);
            raw(db, "INSERT INTO accounts VALUES ('a', 5)").await.unwrap_err();
            let _ = credit(db, "b", 1).await;
            Ok(())
        }).await;
        assert_eq!(found, on((First, 1, 1), (SWALLOWED, 0, 0), (First, 1, 1)));
    }

    async fn another_connection_in_the_place_of_the_units_is_found(lab: Lab) {
        for (case, begin, succeed, row) in [
            ("plain-ok", false, true, everywhere((ENDED, 0, 1))),
            ("plain-err", false, false, on((Body, 0, 1), (ENDED, 0, 1), (Body, 0, 1))),
            // In a transaction of its own, which only the name of the guard tells from the claim's.
            ("begun-ok", true, true, everywhere((ENDED, 0, 0))),
            ("begun-err", true, false, on((Body, 0, 0), (ENDED, 0, 0), (Body, 0, 0))),
        ] {
            let found = body(&lab, case, async |db| {
                credit(db, "a", 1).await?;
                let own = Conn::connect(&lab.url).await?;
                // Dropped at once: it holds SQLite's one write lock.
                drop(mem::replace(db, own));
                if begin { raw(db, "BEGIN").await?; }
                credit(db, "b", 1).await?;
                if succeed { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
            }).await;
            assert_eq!(found, row, "{case}");
        }
    }
}

mod connection_lost {
    use super::*;

    idem_tests::on_every_server! {
        given {}

        /// Then nobody is left on the connection who could be asked, and a redelivery would be taken for a repeat.
        async fn a_body_that_commits_and_then_loses_its_connection_is_found(lab: Lab) {
            let result = lab.store.once(Key::scope("p04").part("lost").finish(), async |db| {
                credit(db, "a", 1).await?;
                raw(db, "COMMIT").await?;
                let end = match DIALECT {
                    Dialect::Postgres => "SELECT pg_terminate_backend(pg_backend_pid())",
                    _ => "KILL CONNECTION_ID()",
                };
                raw(db, end).await
            }).await;
            let Err(Error::TransactionEnded(ended)) = result else { panic!("{result:?}") };
            assert_eq!((ended.how, ended.claim_durable), (Ending::Ended, Some(true)));
            assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        }

        async fn a_body_that_only_loses_its_connection_failed_and_runs_again(lab: Lab) {
            let key = || Key::scope("p04").part("lost").finish();
            let result = lab.store.once(key(), async |db| {
                credit(db, "a", 1).await?;
                let end = match DIALECT {
                    Dialect::Postgres => "SELECT pg_terminate_backend(pg_backend_pid())",
                    _ => "KILL CONNECTION_ID()",
                };
                raw(db, end).await
            }).await;
            assert!(matches!(result, Err(Error::Body(_))), "{result:?}");
            assert!(lab.store.once(key(), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
            assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        }
    }
}
