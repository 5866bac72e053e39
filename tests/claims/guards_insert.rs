//! Guards that insert a row: the business table's own unique index says that the action is done, that index alone, and
//! no other error. Cases C18 and C20.

use idem_runtime::{Advice, Error, Guard, GuardError, Guarded, Key, KeyError, Outcome, Why, idempotent};
use idem_tests::logs::Listener;
use sqlx::AssertSqlSafe;
use tracing::Level;

struct Flow {
    id: i64,
    account: String,
    biz_no: String,
    amount: Option<i64>,
}

fn flow(id: i64, biz_no: &str) -> Flow {
    Flow { id, account: "a".to_owned(), biz_no: biz_no.to_owned(), amount: Some(5) }
}

fn alone() -> Result<Key, KeyError> {
    Key::unrecorded("claims.insert.hand").finish()
}

fn is_refused(result: Result<Outcome<()>, Error<sqlx::Error>>) -> bool {
    let Err(error) = result else { panic!("{result:?}") };
    assert_eq!((error.is_retryable(), error.advice()), (false, Advice::DeadLetter), "{error:?}");
    matches!(error, Error::Guard(GuardError::Database { .. }))
}

const FLOW: &str = "CREATE TABLE flow (id BIGINT NOT NULL PRIMARY KEY, account VARCHAR(64) NOT NULL, \
    biz_no VARCHAR(64) NOT NULL, amount BIGINT CHECK (amount <> 0), FOREIGN KEY (account) REFERENCES accounts (id))";
const INSERT: &str = "INSERT INTO flow (id, account, biz_no, amount) VALUES ({}, {}, {}, {})";

idem_tests::on_every_database! {
    given {
        #[idempotent(
            guard = "INSERT INTO flow (id, account, biz_no, amount) VALUES ({msg.id}, {msg.account}, {msg.biz_no}, {msg.amount})",
            unique = "uq_flow_account_biz_no", store = db, scope = "claims.insert.named"
        )]
        async fn named(db: &mut Conn, msg: &Flow) -> Result<(), sqlx::Error> {
            credit(db, "b", 1).await
        }

        #[idempotent(
            guard = "INSERT INTO flow (id, account, biz_no, amount) VALUES ({msg.id}, {msg.account}, {msg.biz_no}, {msg.amount})",
            unique = "biz_no, account", store = db, scope = "claims.insert.columns", retry = 2
        )]
        async fn by_columns(db: &mut Conn, msg: &Flow) -> Result<(), sqlx::Error> {
            credit(db, "b", 1).await
        }

        #[idempotent(
            key = msg.id,
            guard = "INSERT INTO flow (id, account, biz_no, amount) VALUES ({msg.id}, {msg.account}, {msg.biz_no}, {msg.amount})",
            unique = "uq_flow_account_biz_no", store = db, scope = "claims.insert.keyed"
        )]
        async fn keyed(db: &mut Conn, msg: &Flow) -> Result<(), sqlx::Error> {
            credit(db, "b", 1).await
        }

        async fn run_sql(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        async fn flows(lab: &Lab) {
            run_sql(lab, FLOW).await;
            run_sql(lab, "CREATE UNIQUE INDEX uq_flow_account_biz_no ON flow (account, biz_no)").await;
        }

        fn guard(sql: &str, msg: &Flow) -> Guard<Conn> {
            Guard::insert(sql.to_owned()).bind(msg.id).bind(&msg.account).bind(&msg.biz_no).bind(msg.amount)
        }

        async fn guarded(store: &Db, guard: Guard<Conn>) -> Result<Outcome<()>, Error<sqlx::Error>> {
            match store.claim_guarded(alone(), guard).await? {
                Guarded::First(mut unit) => {
                    credit(unit.connection(), "b", 1).await.unwrap();
                    unit.commit(()).await
                }
                Guarded::Duplicate(seen) => Ok(Outcome::Duplicate(seen)),
                Guarded::Ignored(ignored) => Ok(Outcome::Ignored(ignored)),
            }
        }

        /// The name that a primary key has by itself.
        fn primary() -> &'static str {
            match DIALECT {
                Dialect::Sqlite => "id",
                Dialect::Postgres => "flow_pkey",
                Dialect::MySql => "PRIMARY",
            }
        }
    }

    async fn its_own_conflict_is_a_repeat(lab: Lab) {
        flows(&lab).await;
        assert!(named(&lab.store, &flow(1, "x")).await.unwrap().is_first());
        let listener = Listener::start();
        let Outcome::Duplicate(seen) = named(&lab.store, &flow(2, "x")).await.unwrap() else { panic!("no repeat") };
        assert_eq!((seen.first_at, seen.late), (None, false), "no record says when");
        let heard = listener.outcomes();
        assert_eq!((heard.len(), heard[0].level, heard[0].field("idem.outcome")), (1, Level::INFO, Some("duplicate")));
        // By its columns, in any order.
        assert!(by_columns(&lab.store, &flow(2, "x")).await.unwrap().is_duplicate());
        assert!(by_columns(&lab.store, &flow(2, "y")).await.unwrap().is_first());
        for columns in ["account,biz_no", " biz_no ,account "] {
            assert!(guarded(&lab.store, guard(INSERT, &flow(3, "y")).unique(columns)).await.unwrap().is_duplicate());
        }
        let primary_key = |no| guard(INSERT, &flow(1, no)).unique(primary());
        assert!(guarded(&lab.store, primary_key("z")).await.unwrap().is_duplicate());
        assert!(guarded(&lab.store, guard(INSERT, &flow(1, "z")).unique("id")).await.unwrap().is_duplicate());
        assert_eq!((lab.rows("flow").await, lab.balance("b").await, lab.claims().await), (2, 2, 0));
        lab.wait_until_calm().await;
    }

    async fn the_conflict_of_another_index_is_an_error(lab: Lab) {
        flows(&lab).await;
        assert!(named(&lab.store, &flow(1, "x")).await.unwrap().is_first());
        let listener = Listener::start();
        assert!(is_refused(named(&lab.store, &flow(1, "y")).await), "the primary key is another index");
        let heard = listener.outcomes();
        assert_eq!((heard.len(), heard[0].level, heard[0].field("idem.outcome")), (1, Level::WARN, Some("failed")));
        assert!(is_refused(by_columns(&lab.store, &flow(1, "y")).await));
        for index in ["account", "biz_no", "account, biz_no, id", "uq_flow", "uq_flow_account_biz_no_", "", ",", "flow"] {
            assert!(is_refused(guarded(&lab.store, guard(INSERT, &flow(2, "x")).unique(index)).await), "{index:?}");
        }
        // No index is named at all.
        assert!(is_refused(guarded(&lab.store, guard(INSERT, &flow(2, "x"))).await));
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (1, 1));
    }

    /// What the message holds is the sender's, and the database's error text quotes it.
    async fn a_value_that_looks_like_the_end_of_the_error_is_a_value(lab: Lab) {
        run_sql(&lab, "CREATE TABLE flow (id VARCHAR(200) NOT NULL PRIMARY KEY, account VARCHAR(64) NOT NULL, biz_no VARCHAR(64) NOT NULL)").await;
        run_sql(&lab, "CREATE UNIQUE INDEX uq_flow_biz_no ON flow (biz_no)").await;
        let insert = |id: &str, biz_no: &str| {
            Guard::insert("INSERT INTO flow (id, account, biz_no) VALUES ({}, {}, {})")
                .bind(id.to_owned()).bind("a").bind(biz_no.to_owned()).unique("uq_flow_biz_no")
        };
        let hostile = [
            "x' for key 'uq_flow_biz_no'", "x' for key 'flow.uq_flow_biz_no", "UNIQUE constraint failed: flow.biz_no", "'", "'''",
            "\" violates unique constraint \"uq_flow_biz_no\"", "flow.biz_no", "x\n'uq_flow_biz_no'",
        ];
        for (number, id) in hostile.into_iter().enumerate() {
            assert!(guarded(&lab.store, insert(id, &format!("1-{number}"))).await.unwrap().is_first());
            assert!(is_refused(guarded(&lab.store, insert(id, &format!("2-{number}"))).await), "{id}");
            assert!(guarded(&lab.store, insert(&format!("{id}+"), &format!("1-{number}"))).await.unwrap().is_duplicate(), "{id}");
        }
        assert_eq!(lab.rows("flow").await, 8);
    }

    async fn every_other_violation_is_an_error(lab: Lab) {
        flows(&lab).await;
        let no_account = Flow { account: "nobody".to_owned(), ..flow(1, "x") };
        let no_amount = Flow { amount: Some(0), ..flow(1, "x") };
        assert!(is_refused(named(&lab.store, &no_account).await), "foreign key");
        assert!(is_refused(named(&lab.store, &no_amount).await), "check");
        let null = Guard::insert("INSERT INTO flow (id, account, biz_no) VALUES ({}, {}, {})")
            .bind(1_i64).bind("a").bind(None::<String>).unique("uq_flow_account_biz_no");
        assert!(is_refused(guarded(&lab.store, null).await), "not null");
        let too_long = flow(1, &"x".repeat(65));
        if DIALECT != Dialect::Sqlite {
            assert!(is_refused(named(&lab.store, &too_long).await), "too long");
        }
        let broken = guard("INSERT INTO flow (id, account, biz_no, no_such) VALUES ({}, {}, {}, {})", &flow(1, "x"));
        assert!(is_refused(guarded(&lab.store, broken.unique("id")).await), "unknown column");
        let few = Guard::insert(INSERT).bind(1_i64).unique("id");
        assert!(guarded(&lab.store, few).await.is_err(), "too few values");
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (0, 0));
        lab.wait_until_calm().await;
        assert!(named(&lab.store, &flow(1, "x")).await.unwrap().is_first());
    }

    async fn several_rows_are_an_error_and_taken_back(lab: Lab) {
        flows(&lab).await;
        let two = Guard::insert("INSERT INTO flow (id, account, biz_no) VALUES ({}, 'a', 'x'), ({}, 'a', 'y')")
            .bind(1_i64).bind(2_i64).unique("uq_flow_account_biz_no");
        let failed = guarded(&lab.store, two).await.unwrap_err();
        assert!(matches!(failed, Error::Guard(GuardError::ManyRows { rows: 2 })), "{failed:?}");
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (0, 0));
    }

    async fn on_conflict_with_columns_says_it_in_the_statement(lab: Lab) {
        if DIALECT == Dialect::MySql {
            return lab.close().await;
        }
        flows(&lab).await;
        let sql = format!("{INSERT} ON CONFLICT (account, biz_no) DO NOTHING");
        assert!(guarded(&lab.store, guard(&sql, &flow(1, "x"))).await.unwrap().is_first());
        assert!(guarded(&lab.store, guard(&sql, &flow(2, "x"))).await.unwrap().is_duplicate());
        assert!(is_refused(guarded(&lab.store, guard(&sql, &flow(1, "y"))).await), "the primary key");
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (1, 1));
    }

    /// Nothing to insert is no conflict: to call it a repeat would lose the message without a word.
    async fn an_insert_that_inserts_nothing_is_no_repeat(lab: Lab) {
        flows(&lab).await;
        let from_orders = |id: i64| Guard::insert(
            "INSERT INTO flow (id, account, biz_no) SELECT {}, account, order_no FROM orders WHERE order_no = {}"
        ).bind(id).bind("x").unique("uq_flow_account_biz_no");
        let Outcome::Ignored(ignored) = guarded(&lab.store, from_orders(1)).await.unwrap() else { panic!("not ignored") };
        assert_eq!(ignored.why, Why::NoMatch);
        run_sql(&lab, "INSERT INTO orders VALUES ('x', 'a', 'NEW', 1)").await;
        assert!(guarded(&lab.store, from_orders(1)).await.unwrap().is_first());
        assert!(guarded(&lab.store, from_orders(2)).await.unwrap().is_duplicate());
        assert_eq!(lab.rows("flow").await, 1);
    }

    async fn with_a_key_the_key_is_not_kept(lab: Lab) {
        flows(&lab).await;
        assert!(keyed(&lab.store, &flow(1, "x")).await.unwrap().is_first());
        // Sent again, and sent anew under another id.
        let Outcome::Duplicate(seen) = keyed(&lab.store, &flow(1, "x")).await.unwrap() else { panic!("no repeat") };
        assert!(seen.first_at.is_some(), "the record says it");
        for _ in 0..2 {
            let Outcome::Duplicate(seen) = keyed(&lab.store, &flow(2, "x")).await.unwrap() else { panic!("no repeat") };
            assert_eq!(seen.first_at, None, "the table's own index says it");
        }
        assert_eq!((lab.claims().await, lab.rows("flow").await, lab.balance("b").await), (1, 1, 1));
        run_sql(&lab, "DELETE FROM flow").await;
        assert!(keyed(&lab.store, &flow(2, "x")).await.unwrap().is_first());
        assert_eq!(lab.claims().await, 2);
    }

    /// A repeat is normal operation: it may not cost a connection.
    async fn repeats_keep_their_connection(lab: Lab) {
        flows(&lab).await;
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        raw(&mut store.pool().acquire().await.unwrap(), "CREATE TEMPORARY TABLE mark (id INT)").await.unwrap();
        for (id, is_first) in [(1, true), (2, false), (3, false)] {
            assert_eq!(named(&store, &flow(id, "x")).await.unwrap().is_first(), is_first);
            assert_eq!(keyed(&store, &flow(id + 10, "y")).await.unwrap().is_first(), is_first);
            let mark = raw(&mut store.pool().acquire().await.unwrap(), "SELECT count(*) FROM mark").await;
            assert!(mark.is_ok(), "another connection after {id}: {mark:?}");
        }
        assert!(is_refused(guarded(&store, guard(INSERT, &flow(9, "x")).unique("id")).await));
        let mark = raw(&mut store.pool().acquire().await.unwrap(), "SELECT count(*) FROM mark").await;
        assert!(mark.is_ok(), "another connection after an error: {mark:?}");
        store.pool().close().await;
    }

    async fn who_comes_second_waits_for_the_first(lab: Lab) {
        flows(&lab).await;
        for (id, biz_no, commits) in [(10, "commits", true), (20, "fails", false)] {
            let before = lab.balance("b").await;
            let first = guard(INSERT, &flow(id, biz_no)).unique("uq_flow_account_biz_no");
            let Guarded::First(mut holder) = lab.store.claim_guarded(alone(), first).await.unwrap() else { panic!("not first") };
            credit(holder.connection(), "a", 1).await.unwrap();
            let message = flow(id + 1, biz_no);
            let waiting = named(&lab.store, &message);
            let ending = async {
                lab.wait_until_blocked(1).await;
                if commits {
                    assert!(holder.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
                } else {
                    drop(holder);
                }
            };
            let (second, ()) = tokio::join!(waiting, ending);
            assert_eq!(second.unwrap().is_duplicate(), commits);
            assert_eq!(lab.balance("b").await, before + i64::from(!commits));
        }
        assert_eq!(lab.rows("flow").await, 2);
    }

    async fn of_ten_at_once_one_is_first(lab: Lab) {
        flows(&lab).await;
        for round in 1..=5_i64 {
            let mut all = Vec::new();
            for number in 0..10 {
                let (store, message) = (lab.store.clone(), flow(round * 100 + number, &round.to_string()));
                all.push(tokio::spawn(async move {
                    let outcome = match number % 3 {
                        0 => named(&store, &message).await,
                        1 => by_columns(&store, &message).await,
                        _ => keyed(&store, &message).await,
                    };
                    outcome.unwrap().is_first()
                }));
            }
            let mut firsts = 0;
            for one in all {
                firsts += i64::from(one.await.unwrap());
            }
            assert_eq!((firsts, lab.balance("b").await, lab.rows("flow").await), (1, round, round));
        }
    }

    async fn a_table_that_is_written_in_quotes_or_in_full(lab: Lab) {
        flows(&lab).await;
        let schema: String = match DIALECT {
            Dialect::Sqlite => "main".to_owned(),
            Dialect::Postgres => sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&lab.pool).await.unwrap(),
            Dialect::MySql => sqlx::query_scalar("SELECT database()").fetch_one(&lab.pool).await.unwrap(),
        };
        let quote = if DIALECT == Dialect::MySql { '`' } else { '"' };
        for (number, table) in [
            "flow".to_owned(),
            format!("{quote}flow{quote}"),
            format!("{schema}.flow"),
            format!("{quote}{schema}{quote}.{quote}flow{quote}"),
            format!("{schema}.{quote}flow{quote}"),
        ].into_iter().enumerate() {
            let sql = INSERT.replace("flow", &table).replace("INSERT INTO", "insert\n  into");
            let (id, no) = (i64::try_from(number).unwrap(), number.to_string());
            assert!(guarded(&lab.store, guard(&sql, &flow(id, &no)).unique("account, biz_no")).await.unwrap().is_first());
            for index in ["account, biz_no", "uq_flow_account_biz_no"] {
                let again = guarded(&lab.store, guard(&sql, &flow(id + 100, &no)).unique(index)).await;
                assert!(again.unwrap().is_duplicate(), "{table} {index}");
            }
        }
    }

    /// What a trigger writes is in another table, whatever the columns and indexes are called there.
    async fn the_conflict_of_another_table_is_an_error(lab: Lab) {
        flows(&lab).await;
        run_sql(&lab, "CREATE TABLE audit (account VARCHAR(64) NOT NULL, biz_no VARCHAR(64) NOT NULL)").await;
        run_sql(&lab, "CREATE UNIQUE INDEX uq_audit ON audit (account, biz_no)").await;
        run_sql(&lab, "INSERT INTO audit VALUES ('a', 'x')").await;
        run_sql(&lab, match DIALECT {
            Dialect::Sqlite => "CREATE TRIGGER audited AFTER INSERT ON flow BEGIN INSERT INTO audit VALUES (new.account, new.biz_no); END",
            Dialect::MySql => "CREATE TRIGGER audited AFTER INSERT ON flow FOR EACH ROW INSERT INTO audit VALUES (new.account, new.biz_no)",
            Dialect::Postgres =>
                "CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN INSERT INTO audit VALUES (new.account, new.biz_no); RETURN new; END'; \
                 CREATE TRIGGER audited AFTER INSERT ON flow FOR EACH ROW EXECUTE FUNCTION audited()",
        }).await;
        assert!(is_refused(named(&lab.store, &flow(1, "x")).await));
        assert!(is_refused(by_columns(&lab.store, &flow(1, "x")).await));
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (0, 0));
        assert!(by_columns(&lab.store, &flow(1, "y")).await.unwrap().is_first());
        assert!(by_columns(&lab.store, &flow(2, "y")).await.unwrap().is_duplicate());
    }

    /// The server's language is not ours to choose: codes decide, and the index's name stands in its place in each.
    async fn on_a_server_that_speaks_another_language(lab: Lab) {
        flows(&lab).await;
        let languages: &[&str] = match DIALECT {
            Dialect::Sqlite => &[""],
            Dialect::Postgres => &["C", "de_DE.UTF-8", "ja_JP.UTF-8"],
            Dialect::MySql => &["zh_CN", "ja_JP", "de_DE", "fr_FR", "ru_RU", "ko_KR", "es_ES", "it_IT"],
        };
        let mut tried = 0;
        for (number, language) in languages.iter().enumerate() {
            let pool = PoolOptions::new().max_connections(1).connect(&lab.url).await.unwrap();
            if DIALECT != Dialect::Sqlite {
                let set = sqlx::query(AssertSqlSafe(format!("SET lc_messages = '{language}'"))).execute(&pool).await;
                if set.is_err() {
                    continue;
                }
            }
            tried += 1;
            let store = Lab::builder().pool(pool).unwrap();
            let (id, no) = (i64::try_from(number).unwrap(), number.to_string());
            assert!(named(&store, &flow(id, &no)).await.unwrap().is_first());
            assert!(named(&store, &flow(id + 100, &no)).await.unwrap().is_duplicate(), "{language}");
            assert!(is_refused(named(&store, &flow(id, "other")).await), "{language}");
            store.pool().close().await;
        }
        assert!(tried > 0);
    }
}
