//! Promise 2: only the claim's own unique conflict means duplicate; every other error is an error, and the body's own
//! reaches the caller as it was. Cases C18, C19, C20 and C29.

use idem_runtime::{Claim, Error, Key, Outcome, idempotent};
use idem_tests::logs::Listener;
use sqlx::{Connection as _, Executor as _};
use std::{
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::task::LocalSet;
use tracing::Level;

/// An application's error.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("order: {0}")]
    Database(#[from] sqlx::Error),
}

/// A message.
struct Placed {
    order_no: String,
    delivery: &'static str,
    /// What the handler does after crediting `a`.
    sql: String,
}

impl Placed {
    fn new(order_no: &str, sql: &str) -> Self {
        Self { order_no: order_no.to_owned(), delivery: "queue-1/17", sql: sql.to_owned() }
    }
}

fn shown(error: &sqlx::Error) -> (Option<String>, String) {
    let error = error.as_database_error().expect("a database error");
    (error.code().map(std::borrow::Cow::into_owned), error.message().to_owned())
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.order_no, store = db, scope = "p02.order", delivery = msg.delivery, retry = 3)]
        async fn with_retry(db: &mut Conn, msg: &Placed, entered: &AtomicUsize) -> Result<(), OrderError> {
            entered.fetch_add(1, Ordering::SeqCst);
            credit(db, "a", 1).await?;
            raw(db, &msg.sql).await?;
            Ok(())
        }

        #[idempotent(key = msg.order_no, store = db, scope = "p02.order", delivery = msg.delivery)]
        async fn place(db: &mut Conn, msg: &Placed) -> Result<(), OrderError> {
            credit(db, "a", 1).await?;
            raw(db, &msg.sql).await?;
            Ok(())
        }

        async fn plain(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        /// What tells one connection from another: the number of its session, or on SQLite a value left on it.
        async fn session(db: &mut Conn) -> i64 {
            let sql = match DIALECT {
                Dialect::Sqlite => "PRAGMA cache_spill",
                Dialect::Postgres => "SELECT pg_backend_pid()::bigint",
                Dialect::MySql => "SELECT CAST(connection_id() AS SIGNED)",
            };
            sqlx::query_scalar(sql).fetch_one(&mut *db).await.unwrap()
        }
    }

    async fn a_constraint_of_a_business_table_is_the_bodys_error(lab: Lab) {
        plain(&lab, "INSERT INTO orders VALUES ('taken', 'a', 'NEW', 1)").await;
        for (order_no, sql) in [
            // The business table has a row of the action's own key.
            ("taken", "INSERT INTO orders VALUES ('taken', 'a', 'NEW', 1)"),
            ("unique", "INSERT INTO orders VALUES ('taken', 'a', 'NEW', 1)"),
            ("foreign", "INSERT INTO orders VALUES ('foreign', 'nobody', 'NEW', 1)"),
            ("null", "INSERT INTO orders VALUES ('null', 'a', NULL, 1)"),
            ("check", "INSERT INTO orders VALUES ('check', 'a', 'NEW', 0)"),
            // Even the record table, where the body touches it.
            (
                "record",
                "INSERT INTO idem_records (scope, action_key, attempt, claimed_at, keep_until) \
                 SELECT scope, action_key, attempt, claimed_at, keep_until FROM idem_records",
            ),
        ] {
            let claims = lab.claims().await;
            let balance = lab.balance("a").await;
            let message = Placed::new(order_no, sql);
            let Err(Error::Body(OrderError::Database(error))) = place(&lab.store, &message).await else {
                panic!("{order_no}: not the body's error")
            };
            if order_no != "record" {
                let plain = raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap_err();
                assert_eq!(shown(&error), shown(&plain), "the user's error came out changed");
            }
            assert_eq!(lab.claims().await, claims, "{order_no}: the claim stayed");
            assert_eq!(lab.balance("a").await, balance, "{order_no}: a write stayed");

            // The message has not been dealt with: repaired, it runs.
            let repaired = Placed::new(order_no, "UPDATE orders SET status = 'PAID' WHERE order_no = 'taken'");
            assert!(place(&lab.store, &repaired).await.unwrap().is_first(), "{order_no}");
            assert!(place(&lab.store, &message).await.unwrap().is_duplicate(), "{order_no}");
            assert_eq!(lab.balance("a").await, balance + 1, "{order_no}");
        }
    }

    async fn a_constraint_stays_the_bodys_error_when_it_is_repeated(lab: Lab) {
        plain(&lab, "INSERT INTO orders VALUES ('taken', 'a', 'NEW', 1)").await;
        let entered = AtomicUsize::new(0);
        let message = Placed::new("taken", "INSERT INTO orders VALUES ('taken', 'a', 'NEW', 1)");
        let ended = with_retry(&lab.store, &message, &entered).await;
        assert!(matches!(ended, Err(Error::Body(OrderError::Database(_)))), "{ended:?}");
        assert_eq!(entered.load(Ordering::SeqCst), 4);
        assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
    }

    async fn after_a_duplicate_the_same_connection_serves_others(lab: Lab) {
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        let message = Placed::new("one", "UPDATE orders SET status = 'PAID'");
        assert!(place(&store, &message).await.unwrap().is_first());
        let before = session(&mut store.pool().acquire().await.unwrap()).await;
        if DIALECT == Dialect::Sqlite {
            store.pool().execute("PRAGMA cache_spill = 4321").await.unwrap();
        }
        for n in 1..=3 {
            assert!(place(&store, &message).await.unwrap().is_duplicate());
            let mut next = store.pool().acquire().await.unwrap();
            let now = session(&mut next).await;
            assert_eq!(now, if DIALECT == Dialect::Sqlite { 4321 } else { before }, "a plain repeat cost a connection");
            // Reads and writes, in autocommit and in a transaction of its own; the lab sees them from outside.
            raw(&mut next, &format!("INSERT INTO accounts VALUES ('auto-{n}', 7)")).await.unwrap();
            let mut own = next.begin().await.unwrap();
            raw(&mut own, &format!("INSERT INTO accounts VALUES ('own-{n}', 8)")).await.unwrap();
            own.commit().await.unwrap();
            drop(next);
            assert_eq!(lab.balance(&format!("auto-{n}")).await, 7);
            assert_eq!(lab.balance(&format!("own-{n}")).await, 8);
        }
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_repeat_is_a_duplicate_however_rows_are_counted(lab: Lab) {
        // The body finds a row each time and changes none, so a count of changed rows differs from one of found rows.
        plain(&lab, "INSERT INTO orders VALUES ('one', 'a', 'PAID', 1)").await;
        let message = Placed::new("one", "UPDATE orders SET status = 'PAID' WHERE order_no = 'one'");
        assert!(place(&lab.store, &message).await.unwrap().is_first());
        for delivery in ["queue-1/17", "queue-1/18", "queue-2/1"] {
            let again = place(&lab.store, &Placed { delivery, ..Placed::new("one", &message.sql) }).await.unwrap();
            let Outcome::Duplicate(seen) = again else { panic!("{again:?}") };
            assert_eq!(seen.delivery_id.as_deref(), Some("queue-1/17"));
        }
        assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
    }

    async fn plain_duplicates_use_no_restart_and_alarm_nobody(lab: Lab) {
        const DELIVERIES: usize = 50;
        let listener = Listener::start();
        let entered = Rc::new(AtomicUsize::new(0));
        // All on this thread, which the listener hears. The first is under way when the others come.
        LocalSet::new()
            .run_until(async {
                let mut deliveries = Vec::new();
                for _ in 0..DELIVERIES {
                    let (store, entered) = (lab.store.clone(), entered.clone());
                    deliveries.push(tokio::task::spawn_local(async move {
                        let message = Placed::new("race", "UPDATE orders SET status = 'PAID'");
                        with_retry(&store, &message, &entered).await.unwrap().is_first()
                    }));
                }
                let mut firsts = 0;
                for delivery in deliveries {
                    firsts += usize::from(delivery.await.unwrap());
                }
                assert_eq!(firsts, 1);
            })
            .await;
        let heard = listener.events();
        assert_eq!(heard.len(), DELIVERIES, "more than one event a delivery: {heard:#?}");
        for event in &heard {
            assert!(event.level >= Level::INFO, "{event:?}");
            assert_eq!(event.field("delivery.id"), Some("queue-1/17"), "{event:?}");
            assert_eq!(event.field("idem.scope"), Some("p02.order"), "{event:?}");
            assert_eq!(event.field("idem.key"), Some("race"), "{event:?}");
        }
        let duplicates = heard.iter().filter(|event| event.field("idem.outcome") == Some("duplicate")).count();
        assert_eq!(duplicates, DELIVERIES - 1);
        assert_eq!(entered.load(Ordering::SeqCst), 1);
        assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
    }

    async fn another_unique_index_of_the_record_table_is_no_repeat(lab: Lab) {
        plain(&lab, "CREATE UNIQUE INDEX one_delivery ON idem_records (delivery_id)").await;
        let sql = "UPDATE orders SET status = 'PAID'";
        assert!(place(&lab.store, &Placed::new("one", sql)).await.unwrap().is_first());
        // Another action, whose record conflicts with the first's on the index that has nothing to do with identity.
        let other = place(&lab.store, &Placed::new("two", sql)).await;
        assert!(matches!(other, Err(Error::Database(_) | Error::Busy(_))), "{other:?}");
        assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
        assert!(place(&lab.store, &Placed::new("one", sql)).await.unwrap().is_duplicate());
        let on = if DIALECT == Dialect::MySql { "ON idem_records" } else { "" };
        plain(&lab, &format!("DROP INDEX one_delivery {on}")).await;
        assert!(place(&lab.store, &Placed::new("two", sql)).await.unwrap().is_first());
        assert_eq!((lab.claims().await, lab.balance("a").await), (2, 2));
    }

    async fn a_trigger_that_looks_like_a_repeat_is_none(lab: Lab) {
        let loud_and_silent: &[[&str; 2]] = match DIALECT {
            Dialect::Sqlite => &[
                [
                    "CREATE TRIGGER refuse BEFORE INSERT ON idem_records BEGIN SELECT RAISE(ABORT, \
                     'UNIQUE constraint failed: idem_records.scope, idem_records.action_key'); END",
                    "DROP TRIGGER refuse",
                ],
                // One that leaves the row out in silence.
                [
                    "CREATE TRIGGER refuse BEFORE INSERT ON idem_records BEGIN SELECT RAISE(IGNORE); END",
                    "DROP TRIGGER refuse",
                ],
                // A real conflict in another table.
                [
                    "CREATE TRIGGER refuse BEFORE INSERT ON idem_records BEGIN \
                     INSERT INTO accounts VALUES ('a', 0); END",
                    "DROP TRIGGER refuse",
                ],
            ],
            Dialect::Postgres => &[
                [
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING \
                     ERRCODE = '23505', MESSAGE = 'duplicate key value', CONSTRAINT = 'idem_records_pkey'; END $$; \
                     CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW EXECUTE FUNCTION refuse()",
                    "DROP FUNCTION refuse CASCADE",
                ],
                [
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
                     CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW EXECUTE FUNCTION refuse()",
                    "DROP FUNCTION refuse CASCADE",
                ],
                [
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                     INSERT INTO accounts VALUES ('a', 0); RETURN NEW; END $$; \
                     CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW EXECUTE FUNCTION refuse()",
                    "DROP FUNCTION refuse CASCADE",
                ],
            ],
            Dialect::MySql => &[
                [
                    "CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW SIGNAL SQLSTATE '23000' \
                     SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Duplicate entry for key PRIMARY'",
                    "DROP TRIGGER refuse",
                ],
                [
                    "CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW \
                     INSERT INTO accounts VALUES ('a', 0)",
                    "DROP TRIGGER refuse",
                ],
            ],
        };
        // One connection for all: SQLite takes another's trigger for still there.
        let mut admin = Conn::connect(&lab.url).await.unwrap();
        for (n, [create, drop]) in loud_and_silent.iter().enumerate() {
            let message = Placed::new(&format!("order-{n}"), "UPDATE orders SET status = 'PAID'");
            raw(&mut admin, create).await.unwrap();
            let refused = place(&lab.store, &message).await;
            assert!(matches!(refused, Err(Error::Database(_) | Error::Busy(_))), "{create}: {refused:?}");
            let balance = i64::try_from(n).unwrap();
            assert_eq!((lab.claims().await, lab.balance("a").await), (balance, balance), "{create}");
            raw(&mut admin, drop).await.unwrap();
            assert!(place(&lab.store, &message).await.unwrap().is_first(), "{create}");
        }
    }

    async fn no_language_and_no_lax_mode_of_the_server_changes_what_a_repeat_is(lab: Lab) {
        // Languages a PostgreSQL server speaks only where its system has them installed; "C" shows less and no harm.
        let sessions: &[&str] = match DIALECT {
            Dialect::Sqlite => &["SELECT 1"],
            Dialect::Postgres => &[
                "SET lc_messages = 'de_DE.UTF-8'",
                "SET lc_messages = 'de_DE.utf8'",
                "SET lc_messages = 'fr_FR.utf8'",
                "SET lc_messages = 'C'",
            ],
            Dialect::MySql => &["SET SESSION lc_messages = 'ru_RU', SESSION sql_mode = ''"],
        };
        let mut session = "";
        let mut probe = Conn::connect(&lab.url).await.unwrap();
        for candidate in sessions {
            session = candidate;
            if raw(&mut probe, candidate).await.is_ok() {
                break;
            }
        }
        let error = raw(&mut probe, "SELECT * FROM nowhere").await.unwrap_err().to_string();
        let english = ["doesn't exist", "does not exist", "no such table"].iter().any(|words| error.contains(words));
        match DIALECT {
            Dialect::Sqlite => assert!(english, "{error}"),
            Dialect::Postgres => assert_eq!(english, session.contains("'C'"), "{error}"),
            Dialect::MySql => assert!(!english, "{error}"),
        }

        let pool = PoolOptions::new()
            .max_connections(4)
            .after_connect(move |db, _| Box::pin(async move { raw(db, session).await }))
            .connect(&lab.url)
            .await
            .unwrap();
        let store = Lab::builder().lock_wait(std::time::Duration::from_secs(1)).pool(pool).unwrap();
        // Long keys that differ only at their ends; a lax session would cut them off in silence.
        let order_no = |end: &str| format!("{}{end}", "n".repeat(400));
        for end in ["1", "2"] {
            let message = Placed::new(&order_no(end), "UPDATE orders SET status = 'PAID'");
            assert!(place(&store, &message).await.unwrap().is_first());
            assert!(place(&store, &message).await.unwrap().is_duplicate());
        }
        let refused = place(&store, &Placed::new("x", "INSERT INTO orders VALUES ('x', 'nobody', 'NEW', 1)")).await;
        assert!(matches!(refused, Err(Error::Body(_))), "{refused:?}");
        let key = || Key::scope("p02.order").part("held").finish();
        let Claim::First(holder) = lab.store.claim(key()).await.unwrap() else { panic!("not first") };
        let busy = store.claim(key()).await;
        assert!(matches!(busy, Err(idem_runtime::ClaimError::Busy(_))), "{busy:?}");
        drop(holder);
        assert_eq!((lab.claims().await, lab.balance("a").await), (2, 2));
    }
}
