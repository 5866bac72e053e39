//! A guard that inserts NULL into its unique index would never meet a conflict: each delivery would be a first one.

use idem_runtime::{Advice, Error, Guard, GuardError, Guarded, Key, Outcome, idempotent};

struct Flow {
    biz_no: Option<String>,
    note: Option<String>,
}

fn flow(biz_no: Option<&str>, note: Option<&str>) -> Flow {
    Flow { biz_no: biz_no.map(str::to_owned), note: note.map(str::to_owned) }
}

fn never_repeats(result: Result<Outcome<()>, Error<sqlx::Error>>) -> bool {
    let Err(error) = result else { panic!("{result:?}") };
    assert_eq!((error.is_retryable(), error.advice()), (false, Advice::DeadLetter), "{error:?}");
    matches!(error, Error::Guard(GuardError::NeverRepeats))
}

idem_tests::on_every_database! {
    given {
        #[idempotent(
            guard = "INSERT INTO flow (biz_no, note) VALUES ({msg.biz_no}, {msg.note})",
            unique = "uq_flow", store = db, scope = "claims.null.named"
        )]
        async fn named(db: &mut Conn, msg: &Flow) -> Result<(), sqlx::Error> {
            credit(db, "b", 1).await
        }

        #[idempotent(
            guard = "INSERT INTO flow (biz_no, note) VALUES ({msg.biz_no}, {msg.note})",
            unique = "biz_no", store = db, scope = "claims.null.columns"
        )]
        async fn by_columns(db: &mut Conn, msg: &Flow) -> Result<(), sqlx::Error> {
            credit(db, "b", 1).await
        }

        async fn run_sql(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        async fn flows(lab: &Lab) {
            run_sql(lab, "CREATE TABLE flow (biz_no VARCHAR(64), note VARCHAR(64))").await;
            run_sql(lab, "CREATE UNIQUE INDEX uq_flow ON flow (biz_no)").await;
        }
    }

    async fn null_in_the_index_is_refused_and_leaves_nothing(lab: Lab) {
        flows(&lab).await;
        for _ in 0..2 {
            assert!(never_repeats(named(&lab.store, &flow(None, Some("x"))).await));
            assert!(never_repeats(by_columns(&lab.store, &flow(None, Some("x"))).await));
        }
        if DIALECT != Dialect::MySql {
            let sql = "INSERT INTO flow (biz_no) VALUES ({}) ON CONFLICT (biz_no) DO NOTHING";
            let key = Key::unrecorded("claims.null.hand").finish();
            let guard = Guard::<Conn>::insert(sql).bind(None::<String>);
            let claimed = lab.store.claim_guarded(key, guard).await.map(|guarded| matches!(guarded, Guarded::First(_)));
            assert!(matches!(claimed, Err(idem_runtime::ClaimError::Guard(GuardError::NeverRepeats))), "{claimed:?}");
        }
        assert_eq!((lab.rows("flow").await, lab.balance("b").await), (0, 0));
        lab.wait_until_calm().await;
    }

    async fn null_elsewhere_is_a_value_like_others(lab: Lab) {
        flows(&lab).await;
        for no in ["x", "y"] {
            assert!(named(&lab.store, &flow(Some(no), None)).await.unwrap().is_first());
            assert!(named(&lab.store, &flow(Some(no), None)).await.unwrap().is_duplicate());
            assert!(by_columns(&lab.store, &flow(Some(no), None)).await.unwrap().is_duplicate());
        }
        if DIALECT != Dialect::MySql {
            let sql = "INSERT INTO flow (biz_no, note) VALUES ({}, {}) ON CONFLICT (biz_no) DO NOTHING";
            let key = Key::unrecorded("claims.null.hand").finish();
            let guard = Guard::<Conn>::insert(sql).bind("z".to_owned()).bind(None::<String>);
            let Guarded::First(unit) = lab.store.claim_guarded(key, guard).await.unwrap() else { panic!("it is new") };
            assert!(unit.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        }
        assert_eq!(lab.balance("b").await, 2);
        assert_eq!(lab.rows("flow").await, if DIALECT == Dialect::MySql { 2 } else { 3 });
        lab.wait_until_calm().await;
    }
}
