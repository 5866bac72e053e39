//! Events that come out of order: an older one after a newer one is stale, which is no repeat. Case C41.

use idem_runtime::{Advice, Guard, Guarded, Key, Outcome, Why, idempotent};
use idem_tests::logs::Listener;
use tracing::Level;

struct Changed {
    event: String,
    no: &'static str,
    version: i64,
    status: &'static str,
}

fn changed(version: i64) -> Changed {
    Changed { event: format!("e-{version}"), no: "1", version, status: "SENT" }
}

idem_tests::on_every_database! {
    given {
        /// Seen before? And newer than what is there?
        #[idempotent(
            key = msg.event,
            guard = "UPDATE shipments SET version = {msg.version} WHERE order_no = {msg.no} AND version < {msg.version}",
            store = db, scope = "claims.order"
        )]
        async fn apply(db: &mut Conn, msg: &Changed) -> Result<(), sqlx::Error> {
            let sql = sqlx::AssertSqlSafe(DIALECT.sql("UPDATE shipments SET applied = ? WHERE order_no = ?"));
            sqlx::query(sql).bind(msg.version).bind(msg.no).execute(&mut *db).await?;
            credit(db, "a", 1).await
        }

        #[idempotent(
            guard = "UPDATE shipments SET status = {msg.status} WHERE order_no = {msg.no} AND status = 'WAIT_PAY' AND {msg.status} = 'PAID'",
            store = db, scope = "claims.order.state", allow(guard, reason = "the state is compared with a literal on both sides")
        )]
        async fn go_on(db: &mut Conn, msg: &Changed) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        async fn shipments(lab: &Lab) {
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, "CREATE TABLE shipments (order_no VARCHAR(64) NOT NULL PRIMARY KEY, version BIGINT NOT NULL, \
                applied BIGINT NOT NULL, status VARCHAR(32) NOT NULL)").await.unwrap();
            raw(&mut db, "INSERT INTO shipments VALUES ('1', 0, 0, 'WAIT_PAY')").await.unwrap();
        }

        async fn version(lab: &Lab) -> (i64, i64) {
            (lab.number("SELECT version FROM shipments").await, lab.number("SELECT applied FROM shipments").await)
        }

        /// How a delivery came out, with a look at its one event.
        async fn outcome(lab: &Lab, msg: &Changed) -> &'static str {
            let listener = Listener::start();
            let outcome = apply(&lab.store, msg).await.unwrap();
            assert_eq!(outcome.advice(), Advice::Ack);
            let heard = listener.outcomes();
            let [event] = &heard[..] else { panic!("{heard:#?}") };
            assert!(event.level >= Level::INFO, "{event:#?}");
            assert_eq!(event.field("idem.outcome"), Some(outcome.label()), "the log tells stale from seen");
            outcome.label()
        }
    }

    async fn an_older_event_is_stale_and_never_a_repeat(lab: Lab) {
        shipments(&lab).await;
        assert_eq!(outcome(&lab, &changed(7)).await, "first");
        assert_eq!(outcome(&lab, &changed(5)).await, "ignored");
        assert_eq!(version(&lab).await, (7, 7));
        assert_eq!(outcome(&lab, &changed(7)).await, "duplicate");
        assert_eq!(outcome(&lab, &changed(8)).await, "first");
        // From a dead-letter queue, a day later; and once more.
        assert_eq!(outcome(&lab, &changed(5)).await, "ignored");
        assert_eq!(outcome(&lab, &changed(7)).await, "duplicate");
        let other_key = Changed { event: "e-8-again".to_owned(), ..changed(8) };
        assert_eq!(outcome(&lab, &other_key).await, "ignored");
        assert_eq!(version(&lab).await, (8, 8));
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2), "stale events leave no record");
    }

    async fn a_row_that_is_missing_is_not_stale(lab: Lab) {
        shipments(&lab).await;
        let guard = |no: &'static str, version: i64| {
            Guard::<Conn>::change("UPDATE shipments SET version = {} WHERE order_no = {} AND version < {}")
                .bind(version).bind(no).bind(version)
                .exists("SELECT 1 FROM shipments WHERE order_no = {}").bind_exists(no)
        };
        let key = |event: &str| Key::scope("claims.order.hand").part(event).finish();
        let decide = async |no, version| lab.store.claim_guarded(key(&format!("{no}-{version}")), guard(no, version)).await.unwrap();
        let Guarded::First(unit) = decide("1", 7).await else { panic!("not first") };
        assert!(unit.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        for (no, version, why) in [("1", 5, Why::NotAllowed), ("1", 7, Why::NoRow), ("2", 9, Why::NoRow)] {
            match decide(no, version).await {
                Guarded::Ignored(ignored) => assert_eq!(ignored.why, why, "{no} {version}"),
                Guarded::Duplicate(_) => assert_eq!((no, version), ("1", 7)),
                Guarded::First(_) => panic!("{no} {version}"),
            }
        }
        // The row comes, and the event with it again: the key was given back.
        raw(&mut lab.pool.acquire().await.unwrap(), "INSERT INTO shipments VALUES ('2', 0, 0, 'NEW')").await.unwrap();
        assert!(matches!(decide("2", 9).await, Guarded::First(_)));
    }

    async fn whichever_of_two_workers_is_faster_the_newer_stays(lab: Lab) {
        shipments(&lab).await;
        for round in 1..=10_i64 {
            let (older, newer) = (changed(round * 10 + 5), changed(round * 10 + 7));
            let before = lab.balance("a").await;
            let (old, new) = (tokio::spawn({
                let store = lab.store.clone();
                async move { apply(&store, &older).await.unwrap() }
            }), tokio::spawn({
                let store = lab.store.clone();
                async move { apply(&store, &newer).await.unwrap() }
            }));
            let (old, new) = (old.await.unwrap(), new.await.unwrap());
            assert!(new.is_first(), "{new:?}");
            assert!(old.is_first() || old.is_ignored(), "{old:?}");
            assert_eq!(version(&lab).await, (round * 10 + 7, round * 10 + 7));
            assert_eq!(lab.balance("a").await, before + 1 + i64::from(old.is_first()));
        }
    }

    async fn a_state_does_not_go_back(lab: Lab) {
        shipments(&lab).await;
        let event = |status| Changed { status, ..changed(1) };
        assert!(go_on(&lab.store, &event("PAID")).await.unwrap().is_first());
        for status in ["WAIT_PAY", "PAID"] {
            let late = go_on(&lab.store, &event(status)).await.unwrap();
            assert!(matches!(late, Outcome::Ignored(_)), "{status}: {late:?}");
        }
        assert_eq!(lab.number("SELECT count(*) FROM shipments WHERE status = 'PAID'").await, 1);
        assert_eq!(lab.balance("a").await, 1);
    }
}
