//! A COMMIT whose answer was lost, for every kind of claim. Case C23. SQLite has no connection to break.

use idem_runtime::{Claim, Error, Guard, Guarded, Keep, Key, KeyError, Outcome, Payload, Replay, idempotent};
use idem_tests::proxy::{Cut, Proxy};
use std::time::Duration;

/// What only the closing statement of a unit holds.
const CLOSE: &str = "RELEASE SAVEPOINT idem_guard; ";

async fn proxy_to(url: &str) -> Proxy {
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let address = rest.split('/').next().unwrap_or_default().parse().expect("an address with a port");
    Proxy::start(address, Duration::ZERO).await.expect("a proxy")
}

fn key(no: &str, delivery: &str, amount: i64) -> Result<Key, KeyError> {
    Key::scope("claims.lost").part(no).delivery(delivery).payload(Payload::new().part(&amount)).finish()
}

idem_tests::on_every_server! {
    given {
        struct Form {
            token: String,
            no: &'static str,
        }

        #[idempotent(key = no, store = db, scope = "claims.lost.replay", delivery = delivery, replay)]
        async fn counted(db: &mut Conn, no: &str, delivery: u32) -> Result<String, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(format!("receipt {delivery}"))
        }

        #[idempotent(token = form.token, store = db, scope = "claims.lost.form")]
        async fn submit(db: &mut Conn, form: &Form) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        #[idempotent(
            guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {no} AND status = 'NEW'",
            store = db, scope = "claims.lost.guard", retry = 3
        )]
        async fn paid(db: &mut Conn, no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        #[idempotent(
            key = form.no, guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {form.no} AND status = 'NEW'",
            store = db, scope = "claims.lost.both", replay
        )]
        async fn paid_once(db: &mut Conn, form: &Form) -> Result<u8, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(7)
        }

        async fn behind(lab: &Lab, proxy: &Proxy) -> Db {
            let store = Lab::builder().acquire_timeout(Duration::from_millis(500));
            let store = store.connect(&proxy.in_url(&lab.url)).await.unwrap();
            store.verify().await.unwrap();
            store
        }

        async fn order(lab: &Lab, no: &str) {
            let mut db = lab.pool.acquire().await.unwrap();
            raw(&mut db, &format!("INSERT INTO orders VALUES ('{no}', 'a', 'NEW', 1)")).await.unwrap();
        }

        async fn paid_orders(lab: &Lab) -> i64 {
            lab.number("SELECT count(*) FROM orders WHERE status = 'PAID'").await
        }
    }

    async fn a_kept_result_is_durable_with_its_unit_or_not_at_all(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        proxy.cut_once(CLOSE, Cut::After).await;
        let first = counted(&store, "applied", 1).await.unwrap();
        assert_eq!((proxy.cuts(), first), (1, Outcome::First("receipt 1".to_owned())));
        let Outcome::Duplicate(seen) = counted(&store, "applied", 2).await.unwrap() else { panic!("not a repeat") };
        assert_eq!(seen.result, Replay::Value("receipt 1".to_owned()));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));

        proxy.cut_once(CLOSE, Cut::Before).await;
        let lost = counted(&store, "not-applied", 1).await.unwrap_err();
        assert!(matches!(lost, Error::Database(_)) && lost.is_retryable(), "{lost:?}");
        assert_eq!((proxy.cuts(), lab.balance("a").await, lab.claims().await), (2, 1, 1));
        assert_eq!(counted(&store, "not-applied", 2).await.unwrap(), Outcome::First("receipt 2".to_owned()));
        let Outcome::Duplicate(seen) = counted(&store, "not-applied", 3).await.unwrap() else { panic!("not a repeat") };
        assert_eq!(seen.result, Replay::Value("receipt 2".to_owned()));
        assert_eq!(lab.balance("a").await, 2);
        store.pool().close().await;
    }

    async fn when_another_delivery_did_it_its_result_is_the_answer(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        let key = Key::scope("claims.lost.replay").part("1").delivery("1").finish();
        let Claim::First(mut unit) = store.claim(key).await.unwrap() else { panic!("not first") };
        credit(unit.connection(), "a", 1).await.unwrap();
        proxy.break_all();
        proxy.refuse(true);
        let lost = tokio::spawn(async move {
            unit.commit_and_keep::<_, sqlx::Error>("receipt 1".to_owned(), &Keep::new()).await
        });
        assert!(counted(&lab.store, "1", 2).await.unwrap().is_first());
        proxy.refuse(false);
        let Outcome::Duplicate(seen) = lost.await.unwrap().unwrap() else { panic!("not a repeat") };
        assert_eq!(seen.delivery_id.as_deref(), Some("2"));
        assert_eq!(seen.result, Replay::Value("receipt 2".to_owned()));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        store.pool().close().await;
    }

    /// The answer to COMMIT is lost, and before anybody can be asked another delivery with another payload has done the
    /// action.
    async fn payloads_are_compared_then_too(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        let Claim::First(mut unit) = store.claim(key("1", "d-1", 100)).await.unwrap() else { panic!("not first") };
        credit(unit.connection(), "a", 100).await.unwrap();
        proxy.break_all();
        proxy.refuse(true);
        let lost = tokio::spawn(async move { unit.commit::<_, sqlx::Error>(()).await });
        let done = lab.store.once(key("1", "d-2", 200), async |db| credit(db, "a", 200).await).await;
        assert!(done.unwrap().is_first());
        proxy.refuse(false);
        match lost.await.unwrap() {
            Err(Error::PayloadMismatch(mismatch)) => assert_eq!(mismatch.first_delivery.as_deref(), Some("d-2")),
            other => panic!("{other:?}"),
        }
        assert_eq!(lab.balance("a").await, 200);
        store.pool().close().await;
    }

    async fn a_token_is_burnt_or_it_is_not(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        for (cut, is_burnt) in [(Cut::After, true), (Cut::Before, false)] {
            let before = lab.balance("a").await;
            let token = lab.store.tokens("claims.lost.form").issue(Duration::from_mins(1)).await.unwrap();
            let form = Form { token: token.to_string(), no: "" };
            proxy.cut_once(CLOSE, cut).await;
            let lost = submit(&store, &form).await;
            assert_eq!(lost.is_ok_and(|outcome| outcome.is_first()), is_burnt);
            assert_eq!(submit(&store, &form).await.unwrap().is_duplicate(), is_burnt);
            assert_eq!(lab.balance("a").await, before + 1);
        }
        assert_eq!(proxy.cuts(), 2);
        store.pool().close().await;
    }

    /// No row says who changed the business table, so nobody can be asked; what is never done is to run the body again.
    async fn with_a_guard_alone_it_is_unknown_and_a_redelivery_decides(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        for (no, cut, is_applied) in [("1", Cut::After, true), ("2", Cut::Before, false)] {
            order(&lab, no).await;
            let (before, orders) = (lab.balance("a").await, paid_orders(&lab).await);
            proxy.cut_once(CLOSE, cut).await;
            let unknown = paid(&store, no).await.unwrap_err();
            assert!(matches!(unknown, Error::CommitUnknown(_)) && unknown.is_retryable(), "{unknown:?}");
            lab.wait_until_calm().await;
            assert_eq!(lab.balance("a").await, before + i64::from(is_applied));
            let again = paid(&store, no).await.unwrap();
            assert_eq!((again.is_ignored(), again.is_first()), (is_applied, !is_applied), "{again:?}");
            assert_eq!((lab.balance("a").await, paid_orders(&lab).await), (before + 1, orders + 1));
        }
        assert_eq!((proxy.cuts(), lab.claims().await), (2, 0));
        store.pool().close().await;
    }

    /// With a key there is a row to ask.
    async fn with_key_and_guard_the_record_settles_it(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        for (no, cut, is_applied) in [("1", Cut::After, true), ("2", Cut::Before, false)] {
            order(&lab, no).await;
            let form = Form { token: String::new(), no };
            let before = lab.balance("a").await;
            proxy.cut_once(CLOSE, cut).await;
            match paid_once(&store, &form).await {
                Ok(Outcome::First(7)) => assert!(is_applied),
                Err(Error::Database(error)) => assert!(!is_applied && error.is_retryable(), "{error:?}"),
                other => panic!("{other:?}"),
            }
            match paid_once(&store, &form).await.unwrap() {
                Outcome::Duplicate(seen) => assert!(is_applied && seen.result == Replay::Value(7), "{seen:?}"),
                other => assert!(!is_applied && other == Outcome::First(7), "{other:?}"),
            }
            assert_eq!(lab.balance("a").await, before + 1);
        }
        assert_eq!((proxy.cuts(), lab.claims().await), (2, 2));
        store.pool().close().await;
    }

    /// Before the body a lost answer is no verdict: the guard did not commit, and starts again.
    async fn a_guard_whose_answer_is_lost_starts_again(lab: Lab) {
        let proxy = proxy_to(&lab.url).await;
        let store = behind(&lab, &proxy).await;
        order(&lab, "1").await;
        let guard = Guard::change("UPDATE orders SET status = 'GUARDED' WHERE order_no = {} AND status = 'NEW'").bind("1");
        proxy.cut_once("GUARDED", Cut::After).await;
        let decided = store.claim_guarded(Key::unrecorded("claims.lost.start").finish(), guard).await.unwrap();
        assert_eq!(proxy.cuts(), 1, "the answer was not lost");
        let Guarded::First(unit) = decided else { panic!("{decided:?}") };
        assert!(unit.commit::<_, sqlx::Error>(()).await.unwrap().is_first());
        assert_eq!(lab.number("SELECT count(*) FROM orders WHERE status = 'GUARDED'").await, 1);
        store.pool().close().await;
    }
}
