//! What becomes of a message by what its handler returned. Cases C24, C29, C43.

use crate::script::{Broker, Counting, Fault, Op};
use idem_runtime::{
    Advice, Claim, Decision, Error, Key,
    consume::{AckOutcome, Attempt, Backoff, Consumer, Envelope, Reason, WhenIgnored},
    idempotent,
};
use idem_tests::brokers::{Credit, Failed, credit_of, fated};
use std::time::{Duration, SystemTime};

const STEP: Duration = Duration::from_millis(4);

/// A consumer that is in a hurry.
fn consumer(broker: &Broker) -> Consumer<Broker, Credit> {
    Consumer::of(broker.clone()).concurrency(4).retry(Backoff::steps([STEP])).max_attempts(3)
}

idem_tests::on_every_database! {
    given {
        use sqlx::{Executor as _, Row as _};

        #[idempotent(key = msg.no, store = db, scope = "consume.settling", payload = msg.amount)]
        async fn on_credit(db: &mut Conn, msg: &Credit) -> Result<(), Failed> {
            assert!(msg.fate != "panics first", "boom before");
            credit(db, "a", msg.amount).await?;
            match &*msg.fate {
                "fails" => Err(Failed::Refused),
                "panics" => panic!("boom after"),
                _ => Ok(()),
            }
        }

        #[idempotent(key = msg.no, store = db, scope = "consume.declining", declines)]
        async fn on_order(db: &mut Conn, msg: &Credit) -> Result<Decision<()>, Failed> {
            credit(db, "a", msg.amount).await?;
            Ok(match &*msg.fate {
                "later" => Decision::retry("the order is not here yet"),
                "never" => Decision::drop("the order was cancelled"),
                _ => Decision::Done(()),
            })
        }

        async fn balance_in(pool: &Pool) -> i64 {
            pool.fetch_one("SELECT balance FROM accounts WHERE id = 'a'").await.unwrap().try_get(0).unwrap()
        }
    }

    async fn the_ack_follows_the_commit(lab: Lab) {
        let pool = lab.pool.clone();
        let seen = Broker::new();
        let log = seen.clone();
        let broker = seen.before_ack(move |_| {
            let (pool, log) = (pool.clone(), log.clone());
            // From outside the unit's transaction.
            async move { log.note(format!("durable {}", balance_in(&pool).await)) }
        });
        broker.send("{\"no\":\"1\"}");
        consumer(&broker).shutdown(broker.when_acked(1)).run(async |d| {
            let outcome = on_credit(&lab.store, d.message()).await;
            broker.note("returned");
            outcome
        }).await.unwrap();
        assert_eq!(
            broker.log(),
            ["take {\"no\":\"1\"}", "returned", "durable 1", "ack {\"no\":\"1\"}", "stop"]
        );
        assert!(broker.is_finished());
    }

    /// Also one whose answer never comes, and one that another consumer's hold refuses.
    async fn an_ack_that_is_lost_ends_in_a_duplicate(lab: Lab) {
        let broker = Broker::new();
        for fault in [Fault::Says(AckOutcome::Lost), Fault::Says(AckOutcome::NotOwner), Fault::Hangs] {
            broker.fault(Op::Ack, fault);
        }
        broker.send(credit_of("1"));
        let summary = consumer(&broker)
            .settle_timeout(Duration::from_millis(100))
            .shutdown(broker.when_acked(1))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.taken, summary.lost, summary.acked, summary.retried), (4, 3, 1, 0));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        assert_eq!(broker.dead().len(), 0);
    }

    async fn a_failed_body_is_retried_and_counted(lab: Lab) {
        let broker = Broker::new();
        broker.send(credit_of("1"));
        let start = SystemTime::now();
        let summary = consumer(&broker)
            .shutdown(broker.when_acked(1))
            .run(async |d| {
                let mut message = d.message().clone();
                if d.attempt().least() < 3 {
                    message.fate = "fails".to_owned();
                }
                on_credit(&lab.store, &message).await
            })
            .await
            .unwrap();
        assert_eq!((summary.retried, summary.acked), (2, 1));
        assert_eq!(lab.balance("a").await, 1);
        let redeliveries = broker.redeliveries();
        assert_eq!(redeliveries.iter().map(|again| again.attempts).collect::<Vec<_>>(), [1, 2]);
        assert!(redeliveries.iter().all(|again| again.step == STEP && again.after >= STEP * 3 / 4 && again.after <= STEP * 5 / 4));
        assert_eq!(redeliveries[0].first_at, redeliveries[1].first_at);
        assert!(redeliveries[0].first_at >= start);
    }

    async fn exhausted_messages_go_to_the_dead_letters_and_neighbours_move_on(lab: Lab) {
        let broker = Broker::new();
        broker.send(credit_of("1"));
        broker.send(fated("poison", "fails"));
        broker.send(credit_of("2"));
        let summary = consumer(&broker)
            .shutdown(broker.when(|broker| broker.dead().len() == 1 && broker.count("ack ") == 2))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.acked, summary.dead_lettered, summary.retried), (2, 1, 2));
        assert_eq!(lab.balance("a").await, 2);
        let [(payload, letter)] = &broker.dead()[..] else { panic!("not one letter") };
        assert_eq!(*payload, fated("poison", "fails"));
        assert_eq!((letter.reason, letter.attempts, &*letter.error), (Reason::Exhausted, 3, "refused"));
        assert_eq!(letter.key.as_deref(), Some("consume.settling/poison"));
        assert_eq!(letter.broker_id.to_string(), "2#3");
        assert!(letter.first_at < letter.last_at);
        let headers = letter.headers();
        for name in ["idem-reason", "idem-error", "idem-source", "idem-broker-id", "idem-attempts", "idem-first-at", "idem-last-at", "idem-key"] {
            assert!(headers.iter().any(|(found, value)| *found == name && !value.is_empty()), "no {name}");
        }
    }

    /// It is acked only when it is among the dead letters, and comes again until then.
    async fn a_dead_letter_that_could_not_be_written_comes_again(lab: Lab) {
        let broker = Broker::new();
        broker.fault(Op::DeadLetter, Fault::Fails);
        broker.fault(Op::DeadLetter, Fault::Hangs);
        broker.send("no JSON");
        let summary = consumer(&broker)
            .settle_timeout(Duration::from_millis(100))
            .shutdown(broker.when_dead(1))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.retried, summary.dead_lettered, summary.acked), (2, 1, 0));
        let log = broker.log();
        let acts: Vec<&str> = log.iter().filter_map(|line| line.split(" no JSON").next()).collect();
        assert_eq!(
            acts,
            ["take", "DeadLetter fails", "retry", "take", "DeadLetter hangs", "retry", "take", "dead-letter", "stop"]
        );
    }

    async fn a_retry_that_cannot_be_sent_is_given_back(lab: Lab) {
        let broker = Broker::new();
        for _ in 0..3 {
            broker.fault(Op::Retry, Fault::Fails);
        }
        broker.send(credit_of("1"));
        let failed = std::cell::Cell::new(false);
        let summary = consumer(&broker)
            .shutdown(broker.when_acked(1))
            .run(async |d| {
                if !failed.replace(true) {
                    return Err(Error::Body(Failed::Refused));
                }
                on_credit(&lab.store, d.message()).await
            })
            .await
            .unwrap();
        assert_eq!((summary.given_back, summary.retried, summary.acked), (1, 0, 1));
        assert_eq!(broker.count("Retry fails"), 3);
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn what_cannot_be_decoded_is_a_dead_letter_at_once(lab: Lab) {
        let broker = Broker::new();
        broker.send("no JSON");
        broker.send("{\"no\":7}");
        broker.send("panic");
        let summary = consumer(&broker)
            .decode_with(|envelope: &Envelope| {
                assert!(envelope.payload != b"panic", "boom in the decoder");
                Ok(serde_json::from_slice(&envelope.payload)?)
            })
            .shutdown(broker.when_dead(3))
            .run(async |d| {
                broker.note("handled");
                on_credit(&lab.store, d.message()).await
            })
            .await
            .unwrap();
        assert_eq!((summary.taken, summary.dead_lettered), (3, 3));
        assert_eq!(broker.count("handled"), 0);
        assert!(broker.dead().iter().all(|(_, letter)| letter.reason == Reason::Undecodable && letter.attempts == 1));
        let errors: Vec<String> = broker.dead().into_iter().map(|(_, letter)| letter.error).collect();
        assert!(errors.iter().any(|error| error.contains("expected ident") || error.contains("expected value")), "{errors:?}");
        assert!(errors.iter().any(|error| error.contains("boom in the decoder")), "{errors:?}");
        assert_eq!(lab.claims().await, 0);
    }

    async fn a_panic_is_an_error_and_the_consumer_lives(lab: Lab) {
        let broker = Broker::new();
        broker.send(fated("before", "panics first"));
        broker.send(fated("after", "panics"));
        broker.send(credit_of("1"));
        broker.send(credit_of("panics in the handler"));
        let summary = consumer(&broker)
            .shutdown(broker.when(|broker| broker.dead().len() == 3 && broker.count("ack ") == 1))
            .run(async |d| {
                assert!(d.message().no != "panics in the handler", "boom around");
                on_credit(&lab.store, d.message()).await
            })
            .await
            .unwrap();
        assert_eq!((summary.acked, summary.dead_lettered, summary.retried), (1, 3, 6));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
        lab.wait_until_calm().await;
        let mut letters: Vec<_> = broker.dead().into_iter().map(|(_, letter)| (letter.error, letter.reason, letter.attempts)).collect();
        letters.sort_by(|one, other| one.0.cmp(&other.0));
        for ((error, reason, attempts), boom) in letters.iter().zip(["boom after", "boom around", "boom before"]) {
            assert_eq!((&**error, *reason, *attempts), (&*format!("panic: {boom}"), Reason::Exhausted, 3));
        }
    }

    async fn permanent_errors_are_dead_letters_at_once(lab: Lab) {
        let broker = Broker::new();
        broker.send(r#"{"no":""}"#);
        broker.send(credit_of("1"));
        consumer(&broker)
            .shutdown(broker.when(|broker| broker.dead().len() == 1 && broker.count("ack ") == 1))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        // The same action with another payload.
        let again = Broker::new();
        again.send(r#"{"no":"1","amount":100}"#);
        let summary = consumer(&again)
            .shutdown(again.when_dead(1))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.taken, summary.dead_lettered), (1, 1));
        for broker in [broker, again] {
            assert_eq!((broker.dead()[0].1.reason, broker.dead()[0].1.attempts), (Reason::Permanent, 1));
        }
        assert_eq!(lab.balance("a").await, 1);
    }

    /// The application knows better what is permanent.
    async fn the_application_may_judge_errors(lab: Lab) {
        let broker = Broker::new();
        broker.send(fated("1", "fails"));
        let summary = consumer(&broker)
            .shutdown(broker.when_dead(1))
            .run_judged(
                async |d| on_credit(&lab.store, d.message()).await,
                |error| match error {
                    Error::Body(Failed::Refused) => Advice::DeadLetter,
                    error => error.advice(),
                },
            )
            .await
            .unwrap();
        assert_eq!((summary.taken, summary.retried), (1, 0));
        assert_eq!(broker.dead()[0].1.reason, Reason::Permanent);
    }

    /// Another delivery of the action is running: with one attempt allowed, none of the tries may count.
    async fn being_busy_does_not_count(lab: Lab) {
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_millis(100))).await;
        let Claim::First(unit) = lab.store.claim(Key::scope("consume.settling").part("1").finish()).await.unwrap() else {
            panic!("not first")
        };
        let broker = Broker::new();
        broker.send(credit_of("1"));
        let running = consumer(&broker)
            .max_attempts(1)
            .patience(Duration::ZERO)
            .shutdown(broker.when_acked(1))
            .run(async |d| on_credit(&store, d.message()).await);
        let release = async {
            broker.until(|broker| broker.redeliveries().len() >= 2).await;
            unit.roll_back::<(), (), _>(Failed::Refused).await.unwrap_err();
        };
        let (summary, ()) = tokio::join!(running, release);
        let summary = summary.unwrap();
        assert_eq!((summary.acked, summary.dead_lettered), (1, 0));
        assert!(broker.redeliveries().iter().all(|again| again.attempts == 0));
        assert_eq!(lab.balance("a").await, 1);
        store.pool().close().await;
    }

    /// A store that is set up wrong is waited for with the message in its place; a broker that counts every delivery is
    /// not asked for another one.
    async fn the_stores_trouble_is_waited_out_in_place(lab: Lab) {
        let mut broker = Broker::new();
        broker.attempts = Counting::Exact;
        raw(&mut lab.pool.acquire().await.unwrap(), "DROP TABLE idem_records").await.unwrap();
        let store = lab.other_store(Lab::builder()).await;
        broker.send(credit_of("1"));
        let running = consumer(&broker)
            .max_attempts(1)
            .shutdown(broker.when_acked(1))
            .run(async |d| {
                broker.note("try");
                assert_eq!(d.attempt(), Attempt::Exact(1));
                on_credit(&store, d.message()).await
            });
        let repair = async {
            broker.until(|broker| broker.count("try") >= 3).await;
            lab.store.migrate().await.unwrap();
        };
        let (summary, ()) = tokio::join!(running, repair);
        let summary = summary.unwrap();
        assert_eq!((summary.taken, summary.acked, summary.retried, summary.dead_lettered), (1, 1, 0, 0));
        assert_eq!(lab.balance("a").await, 1);
        store.pool().close().await;
    }

    async fn what_is_not_called_for_goes_by_the_settings(lab: Lab) {
        // A body that asks for another delivery gets it, and counts.
        let broker = Broker::new();
        broker.send(fated("1", "later"));
        let summary = consumer(&broker)
            .shutdown(broker.when_dead(1))
            .run(async |d| on_order(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.retried, summary.dead_lettered), (2, 1));
        assert!(broker.dead()[0].1.error.contains("the order is not here yet"));
        // One that does not.
        for (then, acked, retried, dead) in
            [(WhenIgnored::Ack, 1, 0, 0), (WhenIgnored::Retry, 0, 2, 1), (WhenIgnored::DeadLetter, 0, 0, 1)]
        {
            let broker = Broker::new();
            broker.send(fated("2", "never"));
            let summary = consumer(&broker)
                .when_ignored(then)
                .shutdown(broker.when(|broker| broker.count("ack ") + broker.dead().len() == 1))
                .run(async |d| on_order(&lab.store, d.message()).await)
                .await
                .unwrap();
            assert_eq!((summary.acked, summary.retried, summary.dead_lettered), (acked, retried, dead), "{then:?}");
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
    }

    /// C29: duplicates that race are no failures of anything.
    async fn duplicates_that_race_are_all_acked_and_never_retried(lab: Lab) {
        let broker = Broker::new();
        for _ in 0..50 {
            broker.send(credit_of("1"));
        }
        let summary = consumer(&broker)
            .concurrency(8)
            .shutdown(broker.when_acked(50))
            .run(async |d| on_credit(&lab.store, d.message()).await)
            .await
            .unwrap();
        assert_eq!((summary.acked, summary.retried, summary.dead_lettered, summary.taken), (50, 0, 0, 50));
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }
}
