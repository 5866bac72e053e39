//! Guards in trouble: deadlocks, locks that are held, values that cannot be bound, and what only servers have.

use idem_runtime::{Advice, Busy, Error, Guard, GuardError, Guarded, Key, KeyError, Outcome, idempotent};
use idem_tests::logs::Listener;
use std::time::Duration;

fn alone() -> Result<Key, KeyError> {
    Key::unrecorded("claims.trouble.hand").finish()
}

idem_tests::on_every_server! {
    given {
        #[idempotent(key = no, guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {no} AND status = 'NEW'",
            store = db, scope = "claims.trouble")]
        async fn pay(db: &mut Conn, no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        async fn order(lab: &Lab, no: &str) {
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, &format!("INSERT INTO orders VALUES ('{no}', 'a', 'NEW', 1)")).await.unwrap();
        }

        async fn guarded(store: &Db, guard: Guard<Conn>) -> Result<Outcome<()>, Error<sqlx::Error>> {
            match store.claim_guarded(alone(), guard).await? {
                Guarded::First(unit) => unit.commit(()).await,
                Guarded::Duplicate(seen) => Ok(Outcome::Duplicate(seen)),
                Guarded::Ignored(ignored) => Ok(Outcome::Ignored(ignored)),
            }
        }
    }

    async fn a_lock_that_is_held_is_busy_and_gives_the_key_back(lab: Lab) {
        order(&lab, "1").await;
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_secs(1))).await;
        let mut holder = lab.pool.begin().await.unwrap();
        raw(&mut holder, "UPDATE orders SET amount = 2 WHERE order_no = '1'").await.unwrap();
        let listener = Listener::start();
        let busy = pay(&store, "1").await.unwrap_err();
        assert!(matches!(busy, Error::Busy(Busy::Claimed(_))), "{busy:?}");
        assert_eq!(busy.advice(), Advice::RetryLater);
        assert_eq!(listener.outcomes().len(), 1);
        holder.rollback().await.unwrap();
        assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        assert!(pay(&store, "1").await.unwrap().is_first());
        store.pool().close().await;
    }

    /// The unit holds its key and waits for the order; the other holds the order and waits for the key.
    async fn a_deadlock_in_the_guard_starts_again_by_itself(lab: Lab) {
        order(&lab, "1").await;
        let mut other = lab.pool.begin().await.unwrap();
        // Weighs more than the unit, which is then the one that MySQL gives up.
        let many: Vec<String> = (0..200).map(|number| format!("('heavy-{number}', 0)")).collect();
        raw(&mut other, &format!("INSERT INTO accounts VALUES {}", many.join(","))).await.unwrap();
        raw(&mut other, "UPDATE orders SET amount = 2 WHERE order_no = '1'").await.unwrap();
        let listener = Listener::start();
        let paying = pay(&lab.store, "1");
        let crossing = async {
            lab.wait_until_blocked(1).await;
            let key = match DIALECT {
                Dialect::MySql => "x'31', x'6363', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)",
                _ => "'1', '\\x6363', now(), now()",
            };
            let sql = format!("INSERT INTO idem_records (scope, action_key, attempt, claimed_at, keep_until) VALUES ('claims.trouble', {key})");
            let crossed = raw(&mut other, &sql).await;
            other.rollback().await.unwrap();
            crossed
        };
        let (paid, crossed) = tokio::join!(paying, crossing);
        crossed.expect("the other was given up instead of the unit");
        assert!(paid.unwrap().is_first());
        let restarts = listener.events().iter().filter(|event| event.field("idem.outcome").is_none()).count();
        assert!(restarts >= 1, "there was no deadlock");
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    async fn a_table_in_another_schema(lab: Lab) {
        let home: String = sqlx::query_scalar(match DIALECT {
            Dialect::MySql => "SELECT database()",
            _ => "SELECT current_schema()::text",
        }).fetch_one(&lab.pool).await.unwrap();
        let away = format!("{home}_away");
        let mut db = lab.pool.acquire().await.unwrap();
        raw(&mut db, &format!("CREATE SCHEMA {away}")).await.unwrap();
        for schema in [&home, &away] {
            raw(&mut db, &format!("CREATE TABLE {schema}.flow (id BIGINT NOT NULL PRIMARY KEY, biz_no VARCHAR(64) NOT NULL)")).await.unwrap();
            raw(&mut db, &format!("CREATE UNIQUE INDEX uq_flow_biz_no ON {schema}.flow (biz_no)")).await.unwrap();
        }
        let insert = |table: &str, id: i64, no: &str| {
            Guard::insert(format!("INSERT INTO {table} (id, biz_no) VALUES ({{}}, {{}})")).bind(id).bind(no.to_owned())
        };
        let table = format!("{away}.flow");
        assert!(guarded(&lab.store, insert(&table, 1, "x").unique("biz_no")).await.unwrap().is_first());
        assert!(guarded(&lab.store, insert("flow", 1, "x").unique("biz_no")).await.unwrap().is_first(), "another table");
        for index in ["biz_no", "uq_flow_biz_no"] {
            assert!(guarded(&lab.store, insert(&table, 2, "x").unique(index)).await.unwrap().is_duplicate());
            assert!(matches!(guarded(&lab.store, insert(&table, 1, "y").unique(index)).await, Err(Error::Guard(_))));
        }
        if DIALECT == Dialect::Postgres {
            // An archive with the same names. On MariaDB the error's text does not tell it from the table itself.
            raw(&mut db, &format!(
                "CREATE FUNCTION archive() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN INSERT INTO {table} VALUES (new.id, new.biz_no); RETURN new; END'; \
                 CREATE TRIGGER archived AFTER INSERT ON flow FOR EACH ROW EXECUTE FUNCTION archive()"
            )).await.unwrap();
            for index in ["biz_no", "uq_flow_biz_no"] {
                raw(&mut db, "DELETE FROM flow").await.unwrap();
                let failed = guarded(&lab.store, insert("flow", 5, "x").unique(index)).await;
                assert!(matches!(failed, Err(Error::Guard(_))), "{failed:?}");
            }
        }
        raw(&mut db, &format!("DROP SCHEMA {away}{}", if DIALECT == Dialect::Postgres { " CASCADE" } else { "" })).await.unwrap();
    }

    async fn a_partitioned_table(lab: Lab) {
        let mut db = lab.pool.acquire().await.unwrap();
        raw(&mut db, match DIALECT {
            Dialect::MySql => "CREATE TABLE flow (day INT NOT NULL, biz_no VARCHAR(64) NOT NULL, UNIQUE KEY uq_flow (day, biz_no)) \
                PARTITION BY HASH (day) PARTITIONS 2",
            _ => "CREATE TABLE flow (day INT NOT NULL, biz_no VARCHAR(64) NOT NULL) PARTITION BY RANGE (day); \
                CREATE TABLE flow_1 PARTITION OF flow FOR VALUES FROM (0) TO (10); \
                CREATE UNIQUE INDEX uq_flow ON flow (day, biz_no)",
        }).await.unwrap();
        drop(db);
        let insert = || Guard::insert("INSERT INTO flow (day, biz_no) VALUES ({}, {})").bind(1_i32).bind("x");
        assert!(guarded(&lab.store, insert().unique("uq_flow")).await.unwrap().is_first());
        for index in ["uq_flow", "biz_no, day"] {
            assert!(guarded(&lab.store, insert().unique(index)).await.unwrap().is_duplicate(), "{index}");
        }
        assert!(matches!(guarded(&lab.store, insert().unique("biz_no")).await, Err(Error::Guard(_))));
        assert_eq!(lab.rows("flow").await, 1);
    }
}

mod values {
    use super::*;

    idem_tests::on_every_database! {
        given {
            /// A value that refuses to be written.
            struct Stubborn;

            type Database = <Conn as sqlx::Connection>::Database;

            impl sqlx::Type<Database> for Stubborn {
                fn type_info() -> <Database as sqlx::Database>::TypeInfo {
                    <str as sqlx::Type<Database>>::type_info()
                }
            }

            impl sqlx::Encode<'_, Database> for Stubborn {
                fn encode_by_ref(
                    &self,
                    _: &mut <Database as sqlx::Database>::ArgumentBuffer,
                ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                    Err("it will not".into())
                }
            }

            async fn guarded(store: &Db, guard: Guard<Conn>) -> Result<Outcome<()>, Error<sqlx::Error>> {
                match store.claim_guarded(alone(), guard).await? {
                    Guarded::First(unit) => unit.commit(()).await,
                    Guarded::Duplicate(seen) => Ok(Outcome::Duplicate(seen)),
                    Guarded::Ignored(ignored) => Ok(Outcome::Ignored(ignored)),
                }
            }

            async fn table(lab: &Lab) {
                let sql = "CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY, words VARCHAR(200), small SMALLINT, medium INT, \
                    large BIGINT, yes BOOLEAN)";
                raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
            }

            fn text(id: i64, text: &str) -> Guard<Conn> {
                Guard::insert("INSERT INTO kept (id, words) VALUES ({}, {})").bind(id).bind(text.to_owned()).unique("id")
            }
        }

        async fn text_is_bound_and_never_pasted(lab: Lab) {
            table(&lab).await;
            let texts = [
                "'", "''", "\"", "\\", "\\'", "`", "'); DROP TABLE kept; --", "{}", "{msg.no}", "$1", "?", ":a", "%s", "/*", "--",
                "", " ", "支付 🍣", "e\u{301}", "\u{202e}", "\n\r\t", "\u{1}",
            ];
            for (id, words) in texts.iter().enumerate() {
                let id = i64::try_from(id).unwrap();
                assert!(guarded(&lab.store, text(id, words)).await.unwrap().is_first(), "{words:?}");
                let kept: String = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT words FROM kept WHERE id = {id}")))
                    .fetch_one(&lab.pool).await.unwrap();
                assert_eq!(&kept, words);
            }
            let nul = guarded(&lab.store, text(100, "a\0b")).await;
            match DIALECT {
                Dialect::Postgres => assert!(matches!(nul, Err(Error::Guard(GuardError::Database { retryable: false, .. }))), "{nul:?}"),
                _ => assert!(nul.unwrap().is_first()),
            }
            // Each WHERE finds its own row and no other.
            for (id, words) in texts.iter().enumerate().filter(|(_, words)| !words.trim().is_empty()) {
                let changed = Guard::change("UPDATE kept SET large = 1 WHERE words = {} AND id = {} AND large IS NULL")
                    .bind((*words).to_owned()).bind(i64::try_from(id).unwrap());
                assert!(guarded(&lab.store, changed).await.unwrap().is_first(), "{words:?}");
            }
        }

        async fn numbers_of_every_width_and_missing_values(lab: Lab) {
            table(&lab).await;
            let insert = |id: i64| Guard::insert(
                "INSERT INTO kept (id, small, medium, large, yes, words) VALUES ({}, {}, {}, {}, {}, {})"
            ).bind(id).unique("id");
            let lowest = insert(1).bind(i16::MIN).bind(i32::MIN).bind(i64::MIN).bind(false).bind("x");
            let highest = insert(2).bind(i16::MAX).bind(i32::MAX).bind(i64::MAX).bind(true).bind("x");
            let missing = insert(3).bind(None::<i16>).bind(None::<i32>).bind(None::<i64>).bind(None::<bool>).bind(None::<String>);
            let present = insert(4).bind(Some(1_i16)).bind(Some(1_i32)).bind(Some(1_i64)).bind(Some(true)).bind(Some("x".to_owned()));
            for guard in [lowest, highest, missing, present] {
                assert!(guarded(&lab.store, guard).await.unwrap().is_first());
            }
            assert_eq!(lab.number("SELECT large FROM kept WHERE id = 1").await, i64::MIN);
            assert_eq!(lab.number("SELECT large FROM kept WHERE id = 2").await, i64::MAX);
            let widest = "SELECT count(*) FROM kept WHERE small = 32767 AND medium = 2147483647 AND yes";
            assert_eq!(lab.number(widest).await, 1);
            let nothing = "SELECT count(*) FROM kept WHERE small IS NULL AND medium IS NULL AND large IS NULL AND yes IS NULL AND words IS NULL";
            assert_eq!(lab.number(nothing).await, 1);
            // NULL equals nothing.
            let none = Guard::change("UPDATE kept SET yes = NULL WHERE words = {}").bind(None::<String>);
            assert!(guarded(&lab.store, none).await.unwrap().is_ignored());
        }

        async fn braces_in_quotes_and_comments_are_text(lab: Lab) {
            table(&lab).await;
            let insert = Guard::insert("INSERT INTO kept (id, words) /* {} 'it */ VALUES ({}, '{} it''s -- {}') -- {}")
                .bind(1_i64).unique("id");
            assert!(guarded(&lab.store, insert).await.unwrap().is_first());
            let change = Guard::change(
                "UPDATE kept SET words = '{}', -- it's {}\n large = {} WHERE words = '{} it''s -- {}' AND id = {} AND large IS NULL"
            ).bind(5_i64).bind(1_i64);
            assert!(guarded(&lab.store, change).await.unwrap().is_first());
            assert_eq!(lab.number("SELECT count(*) FROM kept WHERE words = '{}' AND large = 5").await, 1);
        }

        async fn a_value_that_cannot_be_bound_is_an_error_before_any_sql(lab: Lab) {
            let store = lab.other_store(Lab::builder()).await;
            store.pool().close().await;
            let sql = "UPDATE orders SET status = {} WHERE order_no = {}";
            let in_guard = Guard::change(sql).bind("x").bind(Stubborn).bind("y");
            let in_question = Guard::change(sql).bind("x").exists("SELECT 1 FROM orders WHERE order_no = {}").bind_exists(Stubborn);
            for (guard, place) in [(in_guard, 2), (in_question, 1)] {
                let listener = Listener::start();
                let failed = guarded(&store, guard).await.unwrap_err();
                let Error::Guard(GuardError::Bind { number, source }) = &failed else { panic!("{failed:?}") };
                assert!(source.to_string().contains("it will not"), "{source}");
                assert_eq!((failed.is_retryable(), failed.advice()), (false, Advice::DeadLetter));
                assert_eq!(listener.outcomes().len(), 1);
                assert_eq!(*number, place);
            }
        }
    }
}
