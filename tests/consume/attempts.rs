//! Attempts that end in a killed process are counted, outside the transaction that rolls back.

use crate::script::{Broker, Counting};
use idem_runtime::{
    consume::{Attempt, AttemptLog as _, Backoff, Consumer, Reason},
    idempotent,
};
use idem_tests::brokers::{Credit, Failed, credit_of};
use std::{cell::RefCell, time::Duration};
use tokio::sync::Notify;

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.no, store = db, scope = "consume.attempts")]
        async fn on_credit(db: &mut Conn, msg: &Credit, broker: &Broker, then: &Notify) -> Result<(), Failed> {
            credit(db, "a", msg.amount).await?;
            broker.note("in the body");
            then.notified().await;
            Ok(())
        }

        fn consumer(broker: &Broker, store: &Db) -> Consumer<Broker, Credit> {
            Consumer::of(broker.clone())
                .retry(Backoff::steps([Duration::from_millis(1)]))
                .max_attempts(3)
                .count_attempts_in(store.clone())
        }
    }

    async fn a_message_that_kills_its_process_is_a_dead_letter_in_the_end(lab: Lab) {
        let broker = Broker::new();
        broker.send(credit_of("1"));
        let never = Notify::new();
        let seen = RefCell::new(Vec::new());
        for kill in 1..=3 {
            let running = consumer(&broker, &lab.store).run(async |d| {
                seen.borrow_mut().push(d.attempt());
                on_credit(&lab.store, d.message(), &broker, &never).await
            });
            tokio::select! {
                ended = running => panic!("{ended:?}"),
                () = broker.until(|broker| broker.count("in the body") == kill) => {}
            }
            lab.wait_until_calm().await;
        }
        assert_eq!(seen.into_inner(), [Attempt::FlagOnly(false), Attempt::Exact(2), Attempt::Exact(3)]);
        let summary = consumer(&broker, &lab.store)
            .shutdown(broker.when_dead(1))
            .run(async |d| on_credit(&lab.store, d.message(), &broker, &never).await)
            .await
            .unwrap();
        assert_eq!((summary.dead_lettered, broker.count("in the body")), (1, 3));
        let letter = &broker.dead()[0].1;
        assert_eq!((letter.reason, letter.attempts), (Reason::Exhausted, 4));
        assert!(letter.first_at < letter.last_at);
        assert_eq!((lab.balance("a").await, lab.rows("idem_records_attempts").await), (0, 0));
    }

    async fn what_succeeds_is_forgotten_and_a_first_delivery_costs_nothing(lab: Lab) {
        let broker = Broker::new();
        let go = Notify::new();
        broker.send(credit_of("1"));
        raw(&mut lab.pool.acquire().await.unwrap(), "DROP TABLE idem_records_attempts").await.unwrap();
        go.notify_one();
        consumer(&broker, &lab.store)
            .shutdown(broker.when_acked(1))
            .run(async |d| on_credit(&lab.store, d.message(), &broker, &go).await)
            .await
            .unwrap();
        lab.store.migrate().await.unwrap();
        // A broker that says nothing is asked about each.
        let mut broker = Broker::new();
        broker.attempts = Counting::Nothing;
        broker.send(credit_of("2"));
        let counted = RefCell::new(Vec::new());
        consumer(&broker, &lab.store)
            .shutdown(broker.when_acked(1))
            .run(async |d| {
                let rows = lab.rows("idem_records_attempts").await;
                counted.borrow_mut().push((d.attempt(), rows));
                go.notify_one();
                on_credit(&lab.store, d.message(), &broker, &go).await
            })
            .await
            .unwrap();
        assert_eq!(counted.into_inner(), [(Attempt::Exact(1), 1)]);
        assert_eq!((lab.balance("a").await, lab.rows("idem_records_attempts").await), (2, 0));
    }

    async fn a_store_counts(lab: Lab) {
        let begin = async |source: &str, message: &str, least| lab.store.begin(source, message, least).await.unwrap();
        let first = begin("q", "m", 2).await;
        assert_eq!(first.attempts, 2);
        let next = begin("q", "m", 2).await;
        assert_eq!((next.attempts, next.first_at), (3, first.first_at));
        assert_eq!(begin("q", "m", 9).await.attempts, 9);
        // Apart from other messages and other queues, whatever their names hold.
        let long = "q".repeat(1000);
        for (source, message) in [("q", "n"), ("p", "m"), ("q'", "m' OR 1 = 1 -- "), (&*long, "m")] {
            assert_eq!(begin(source, message, 1).await.attempts, 1);
        }
        assert_eq!(begin(&long, "m", 1).await.attempts, 2);
        lab.store.end("q", "m").await.unwrap();
        assert_eq!(lab.rows("idem_records_attempts").await, 4);
        assert_eq!(begin("q", "m", 1).await.attempts, 1);
        // At once, none is lost.
        let starts: Vec<_> = (0..8).map(|_| {
            let store = lab.store.clone();
            tokio::spawn(async move {
                while store.begin("q", "race", 1).await.is_err() {}
            })
        }).collect();
        for start in starts {
            start.await.unwrap();
        }
        assert_eq!(begin("q", "race", 1).await.attempts, 9);
    }
}
