//! What is RocketMQ's own: its starts, its ids, its retries, its order.

use crate::harness::Rocket;
use idem_rocketmq::{Consumer, Topic};
use idem_runtime::{
    Error, Outcome, Retention, SqliteStore,
    consume::{Attempt, Backoff, RunError, StartError},
    idempotent,
};
use idem_tests::{
    brokers::{Credit, Events, Failed, Harness, Server, credit_of, fated, quick},
    sqlite::Lab,
};
use sqlx::SqliteConnection;
use std::{cell::RefCell, future::pending, time::Duration};
use tokio::sync::Barrier;

type Handled = Result<Outcome<()>, Error<Failed>>;

#[idempotent(key = msg.no, store = db, scope = "rocketmq.own")]
async fn on_credit(db: &mut SqliteConnection, msg: &Credit) -> Result<(), Failed> {
    idem_tests::sqlite::credit(db, "a", msg.amount).await?;
    Ok(())
}

/// Runs the test on a runtime of its own, against a topic of its own and a database in a file.
macro_rules! on_rocketmq {
    ($($(#[$meta:meta])* async fn $name:ident($rocket:ident: $server:ident, $lab:ident: Lab) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        #[ignore = "needs RocketMQ: ./scripts/test runs it"]
        fn $name() {
            idem_tests::run(async {
                #[allow(unused_mut, reason = "most do not stop it")]
                let mut $rocket = Rocket::new(Server::$server).await;
                let $lab = Lab::new().await;
                $body
                $lab.close().await;
                $rocket.close().await;
            });
        }
    )*};
}

async fn start(topic: Topic) -> Result<(), RunError> {
    start_consumer(quick(Consumer::of(topic))).await
}

async fn start_consumer(consumer: Consumer<Credit>) -> Result<(), RunError> {
    let running = consumer.shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() });
    running.await.map(|_| ())
}

fn reason(started: Result<(), RunError>) -> String {
    match started {
        Err(RunError::Start(StartError::Unsafe { reason, .. })) => reason,
        other => panic!("{other:?}"),
    }
}

fn text<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
}

on_rocketmq! {
    async fn starts_that_are_not_safe_are_refused_with_their_reason(rocket: Shared, lab: Lab) {
        let new = || Topic::new(&*rocket.topic).name_server(rocket.name_server.to_string());
        let refused = reason(start(new().dead_letter("dlq")).await);
        assert!(refused.contains(".group(..)"), "{refused}");
        let refused = reason(start(rocket.adapter().group("a group")).await);
        assert!(refused.contains("`a group` is no group"), "{refused}");
        let refused = reason(start(rocket.adapter().group("g".repeat(113))).await);
        assert!(refused.contains("at most 112"), "{refused}");
        let refused = reason(start(new().group(rocket.group())).await);
        assert!(refused.contains("nowhere to go") && refused.contains(".dead_letter(..)"), "{refused}");
        let refused = reason(start(rocket.adapter().dead_letter(&*rocket.topic)).await);
        assert!(refused.contains("to the topic itself"), "{refused}");
        let refused = reason(start(rocket.adapter().consume_timeout(Duration::from_millis(999))).await);
        assert!(refused.contains("after 999ms") && refused.contains(".consume_timeout(..)"), "{refused}");
        let refused = reason(start_consumer(Consumer::of(rocket.adapter()).concurrency(505)).await);
        assert!(refused.contains("504") && refused.contains("505"), "{refused}");
        let missing = format!("{}-missing", rocket.topic);
        let refused = reason(start(rocket.adapter().dead_letter(&*missing)).await);
        assert!(refused.contains(&missing), "{refused}");
        let elsewhere = Topic::new(&*missing).group(rocket.group()).dead_letter(&*rocket.topic);
        let refused = reason(start(elsewhere.name_server(rocket.name_server.to_string())).await);
        assert!(refused.contains(&missing), "{refused}");
        // Ten deliveries of a quarter of an hour each.
        let store = SqliteStore::builder().retention(Retention::of(Duration::from_hours(2))).connect("sqlite::memory:").await.unwrap();
        let refused = reason(start_consumer(Consumer::of(rocket.adapter()).max_attempts(10).covered_by(&store)).await);
        assert!(refused.contains("10 deliveries") && refused.contains("7200s"), "{refused}");
        // Nobody there is no refusal.
        let away = start(rocket.adapter().name_server("127.0.0.1:1")).await;
        assert!(matches!(&away, Err(RunError::Start(StartError::Broker(_)))), "{away:?}");
        assert!(start(rocket.adapter()).await.is_ok());
        assert!(start_consumer(Consumer::of(new().group(rocket.group())).unlimited_attempts()).await.is_ok());
        let _ = lab.claims().await;
    }

    /// The id that RocketMQ gives a message is another one with each delivery; the action's is not.
    async fn the_id_changes_with_each_delivery_and_the_claim_holds(rocket: Shared, lab: Lab) {
        rocket.send(&credit_of("1")).await;
        let (events, seen) = (Events::default(), RefCell::new(Vec::new()));
        let (consumer, _line) = rocket.consumer().await;
        let summary = quick(consumer).shutdown(events.until("duplicate", 2)).run(async |d| {
            seen.borrow_mut().push((d.broker_id().to_string(), d.attempt()));
            let outcome = events.outcome(on_credit(&lab.store, d.message()).await);
            // What it did is committed, and it says that it failed.
            if seen.borrow().len() < 3 { Err(Error::Body(Failed::Refused)) } else { outcome }
        }).await.unwrap();
        assert_eq!((summary.retried, summary.acked), (2, 1));
        let (ids, attempts): (Vec<_>, Vec<_>) = seen.into_inner().into_iter().unzip();
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
        assert_eq!(attempts, [Attempt::AtLeast(1), Attempt::AtLeast(2), Attempt::AtLeast(3)]);
        assert_eq!((lab.balance("a").await, lab.claims().await, rocket.left().await), (1, 1, 0));
    }

    /// RocketMQ counts no delivery that ends with its process. The log does, message by message, whatever they say.
    async fn attempts_that_a_crash_ended_are_counted_in_a_log(rocket: Shared, lab: Lab) {
        for _ in 0..2 {
            rocket.send(&credit_of("1")).await;
        }
        let (events, attempts) = (Events::default(), RefCell::new(Vec::new()));
        let counting = || quick(Consumer::of(rocket.adapter())).max_attempts(9).count_attempts_in(lab.store.clone());
        let crashing = counting().run(async |_| -> Handled {
            events.note("running");
            pending().await
        });
        tokio::select! {
            ended = crashing => panic!("{ended:?}"),
            () = events.until("running", 2) => {}
        }
        counting().shutdown(events.until("duplicate", 1)).run(async |d| {
            attempts.borrow_mut().push(d.attempt());
            if attempts.borrow().len() < 3 {
                return Err(Error::Body(Failed::Refused));
            }
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!(attempts.into_inner(), [2, 2, 3, 3].map(Attempt::Exact));
        assert_eq!((lab.balance("a").await, rocket.left().await), (1, 0));
    }

    async fn a_panic_is_an_attempt_and_the_consumer_goes_on(rocket: Shared, lab: Lab) {
        rocket.send(&fated("1", "panics")).await;
        rocket.send(&credit_of("2")).await;
        let (events, (consumer, _line)) = (Events::default(), rocket.consumer().await);
        let summary = quick(consumer).shutdown(events.until("first", 2)).run(async |d| {
            assert!(d.message().fate.is_empty() || d.attempt().least() > 2, "the first two of these");
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!((summary.retried, summary.acked), (2, 2));
        assert_eq!((lab.balance("a").await, rocket.left().await), (2, 0));
    }

    /// The client tells the broker every few seconds how far it has come, so a crash brings back what was done.
    async fn retries_that_were_done_come_again_after_a_crash(rocket: Own, lab: Lab) {
        for no in ["1", "2"] {
            rocket.send(&credit_of(no)).await;
        }
        let events = Events::default();
        let handler = async |d: &idem_runtime::consume::Delivery<Credit>| {
            if d.attempt().least() == 1 {
                return Err(Error::Body(Failed::Refused));
            }
            events.outcome(on_credit(&lab.store, d.message()).await)
        };
        let topic = rocket.adapter().configure(|client| client.persist_consumer_offset_interval = 60_000);
        tokio::select! {
            ended = quick(Consumer::of(topic)).run(async |d| handler(d).await) => panic!("{ended:?}"),
            () = events.until("first", 2) => {}
        }
        rocket.kill().await;
        rocket.start().await;
        idem_tests::brokers::run_until(&rocket, &events, "duplicate", 2, handler).await;
        assert_eq!(events.count("first"), 2);
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    async fn a_consumer_survives_its_broker(rocket: Own, lab: Lab) {
        rocket.send(&credit_of("1")).await;
        let (events, consumer) = (Events::default(), Consumer::of(rocket.adapter()));
        let running = quick(consumer).shutdown(events.until("first", 2)).run(async |d| {
            events.outcome(on_credit(&lab.store, d.message()).await)
        });
        let broken = async {
            events.until("first", 1).await;
            rocket.kill().await;
            rocket.start().await;
            rocket.send(&credit_of("2")).await;
        };
        let (ran, ()) = tokio::join!(running, broken);
        assert!(ran.is_ok(), "{ran:?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    /// By its own settings the client has four threads for listeners here.
    async fn as_many_handlers_run_at_once_as_were_asked_for(rocket: Shared, lab: Lab) {
        for no in 0..16 {
            rocket.send(&credit_of(&no.to_string())).await;
        }
        let (events, all) = (Events::default(), Barrier::new(16));
        let (consumer, _line) = rocket.consumer().await;
        let summary = quick(consumer).concurrency(16).shutdown(events.until("first", 16)).run(async |d| {
            all.wait().await;
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!((summary.taken, summary.acked), (16, 16));
        assert_eq!(lab.balance("a").await, 16);
    }

    /// By its own settings the client gives up on a listener after 30 seconds, and the message comes again.
    async fn a_handler_may_take_longer_than_the_client_gives_its_listeners(rocket: Shared, lab: Lab) {
        rocket.send(&credit_of("1")).await;
        let (events, (consumer, _line)) = (Events::default(), rocket.consumer().await);
        let summary = quick(consumer).shutdown(events.until("first", 1)).run(async |d| {
            tokio::time::sleep(Duration::from_secs(35)).await;
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!((summary.taken, summary.acked), (1, 1));
        assert_eq!((lab.balance("a").await, rocket.left().await), (1, 0));
    }

    /// An ack that comes too late is not said to have arrived.
    async fn an_ack_after_the_consume_timeout_is_lost(rocket: OwnWithLease, lab: Lab) {
        rocket.send(&credit_of("1")).await;
        let (events, (consumer, _line)) = (Events::default(), rocket.consumer().await);
        let summary = quick(consumer).shutdown(events.until("duplicate", 1)).run(async |d| {
            let outcome = events.outcome(on_credit(&lab.store, d.message()).await);
            if events.count("duplicate") == 0 {
                events.until("duplicate", 1).await;
            }
            outcome
        }).await.unwrap();
        assert_eq!((summary.taken, summary.acked, summary.lost), (2, 1, 1), "{summary:?}");
        assert_eq!((lab.balance("a").await, rocket.left().await), (1, 0));
    }

    /// What the sender put on a message, all the way to the dead letters and back. A name that RocketMQ keeps for itself is none.
    async fn properties_of_the_sender_are_headers_on_the_way_and_back(rocket: Shared, lab: Lab) {
        for no in ["1", "2", "3"] {
            rocket.send_with(&fated(no, "fails"), &[("KEYS", no), ("TAGS", "paid"), ("tenant", "a\u{1f980}me")]).await;
        }
        rocket.send_with(&fated("4", "fails"), &[("TAGS", "refunded")]).await;
        let events = Events::default();
        let check = |d: &idem_runtime::consume::Delivery<Credit>| {
            let headers: Vec<_> = d.headers().iter().map(|(name, value)| (name, std::str::from_utf8(value).unwrap())).collect();
            assert_eq!(headers, [("KEYS", &*d.message().no), ("TAGS", "paid"), ("tenant", "a\u{1f980}me")]);
        };
        let paid = || Consumer::of(rocket.adapter().tags("paid")).retry(Backoff::steps([Duration::from_millis(200)]));
        paid().max_attempts(1).shutdown(events.until("failed", 3)).run(async |d| -> Handled {
            check(d);
            events.note("failed");
            // They stand between properties on the wire.
            Err(Error::Body(Failed::Database(sqlx::Error::Protocol("a\u{1}b\u{2}c".to_owned()))))
        }).await.unwrap();
        // Another group's letters in the same topic stay there.
        let other = rocket.adapter().group(format!("{}-other", rocket.topic));
        assert_eq!(Consumer::<Credit>::of(other).redrive(None).await.unwrap(), 0);
        assert_eq!(paid().redrive(Some(2)).await.unwrap(), 2);
        let letters = rocket.dead_letters().await;
        let [(_, headers)] = &letters[..] else { panic!("{letters:?}") };
        assert!(text(headers, "idem-error").is_some_and(|error| error.ends_with("a b c")), "{headers:?}");
        assert_eq!((text(headers, "idem-attempts"), text(headers, "TAGS")), (Some("1"), Some("paid")));
        paid().shutdown(events.until("first", 2)).run(async |d| {
            check(d);
            assert_eq!(d.attempt(), Attempt::AtLeast(1));
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!(lab.balance("a").await, 2);
    }

    /// The broker's own dead letters say nothing, so they are left to the engine.
    async fn dead_letters_are_ours_and_not_the_brokers(rocket: Shared, lab: Lab) {
        rocket.send("no JSON").await;
        let (events, (consumer, _line)) = (Events::default(), rocket.consumer().await);
        let letters = async {
            loop {
                let letters = rocket.dead_letters().await;
                if !letters.is_empty() {
                    events.note("buried");
                    break letters;
                }
            }
        };
        let running = quick(consumer).shutdown(events.until("buried", 1)).run(async |_| -> Handled { unreachable!() });
        let (summary, letters) = tokio::join!(running, letters);
        assert_eq!(summary.unwrap().dead_lettered, 1);
        assert_eq!((letters.len(), text(&letters[0].1, "idem-reason")), (1, Some("undecodable")));
        assert!(!rocket.has_topic(&format!("%DLQ%{}", rocket.group())).await);
        let _ = lab.claims().await;
    }

    /// One that fails holds up those behind it, also where it has to go back to the client.
    async fn messages_of_a_queue_keep_their_order(rocket: OwnWithLease, lab: Lab) {
        for no in 0..6 {
            rocket.send_to_queue(&credit_of(&no.to_string()), 0).await;
        }
        let (events, seen) = (Events::default(), RefCell::new(Vec::new()));
        let (consumer, _line) = rocket.consumer().await;
        // The pause is longer than half the time that a message is held: it does not wait in place.
        let running = quick(consumer).retry(Backoff::steps([Duration::from_millis(900)])).ordered_by(|m: &Credit| m.no.clone());
        running.shutdown(events.until("first", 6)).run(async |d| {
            seen.borrow_mut().push(d.message().no.clone());
            if d.message().no == "2" && d.attempt().least() < 3 {
                return Err(Error::Body(Failed::Refused));
            }
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!(seen.into_inner(), ["0", "1", "2", "2", "2", "3", "4", "5"]);
        assert_eq!((lab.balance("a").await, rocket.left().await), (6, 0));
    }

    /// Nothing is settled when the process ends in the middle, and nothing is counted.
    async fn a_run_that_is_dropped_leaves_its_messages(rocket: Shared, lab: Lab) {
        rocket.send(&credit_of("1")).await;
        let (events, (consumer, _line)) = (Events::default(), rocket.consumer().await);
        let running = quick(consumer).run(async |_| -> Handled {
            events.note("running");
            pending().await
        });
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            () = events.until("running", 1) => {}
        }
        let (consumer, _line) = rocket.consumer().await;
        quick(consumer).shutdown(events.until("first", 1)).run(async |d| {
            events.outcome(on_credit(&lab.store, d.message()).await)
        }).await.unwrap();
        assert_eq!((lab.balance("a").await, rocket.left().await), (1, 0));
    }
}
