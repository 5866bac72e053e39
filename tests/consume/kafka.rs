//! Kafka, on a Kafka-compatible broker: the suite, and what is its own: its starts, its offsets, its rebalances.

use crate::conformance::conformance;
use idem_runtime::{
    Error, Outcome, Retention, SqliteStore,
    consume::{Attempt, Backoff, Consumer, RunError},
    idempotent, kafka,
};
use idem_tests::{
    brokers::{Credit, Events, Failed, Harness, Server, credit_of, fated, kafka::Kafka, quick},
    sqlite,
};
use rdkafka::{
    mocking::MockCluster,
    producer::{FutureProducer, FutureRecord},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use std::{cell::RefCell, collections::BTreeMap, future::pending, time::Duration};

conformance!(Kafka);

type Handled = Result<Outcome<()>, Error<Failed>>;

#[idempotent(key = msg.no, store = db, scope = "kafka.own")]
async fn on_credit(db: &mut sqlite::Conn, msg: &Credit) -> Result<(), Failed> {
    sqlite::credit(db, "a", msg.amount).await?;
    Ok(())
}

/// Runs the test on a runtime of its own.
macro_rules! on_kafka {
    ($($(#[$meta:meta])* async fn $name:ident($kafka:ident: Kafka) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        #[ignore = "needs a Kafka-compatible broker: ./scripts/test runs it"]
        fn $name() {
            idem_tests::run(async {
                let $kafka = Kafka::new(Server::Shared).await;
                $body
                $kafka.close().await;
            });
        }
    )*};
}

/// Why it does not start.
async fn refusal(consumer: Consumer<kafka::Topic, Credit>) -> String {
    match consumer.shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await {
        Err(RunError::Start(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|no| credit_of(&no.to_string())).collect()
}

on_kafka! {
    async fn starts_that_are_not_safe_are_refused_with_their_reason(kafka: Kafka) {
        let with = |name: &str, value: &str| {
            let mut config = kafka.config();
            config.set(name, value);
            kafka::Consumer::new(&config, &*kafka.topic).dead_letter(kafka.dead_letter_topic())
        };
        for name in ["enable.auto.commit", "enable.auto.offset.store"] {
            let refused = refusal(with(name, "true")).await;
            assert!(refused.contains(name) && refused.contains("leave it out"), "{refused}");
        }
        let refused = refusal(with("auto.offset.reset", "latest")).await;
        assert!(refused.contains("auto.offset.reset=latest"), "{refused}");
        let mut config = kafka.config();
        config.remove("group.id");
        let refused = refusal(kafka::Consumer::new(&config, &*kafka.topic).unlimited_attempts()).await;
        assert!(refused.contains("no `group.id`"), "{refused}");
        let refused = refusal(kafka::Consumer::new(&kafka.config(), &*kafka.topic)).await;
        assert!(refused.contains("nowhere to go") && refused.contains(".dead_letter(..)"), "{refused}");
        let refused = refusal(kafka.plain().dead_letter(&*kafka.topic)).await;
        assert!(refused.contains("a topic that it consumes"), "{refused}");
        let refused = refusal(kafka.plain().retry_topics().ordered_by(|message: &Credit| message.no.clone())).await;
        assert!(refused.contains(".ordered_by(..)"), "{refused}");
        let missing = format!("{}.missing", kafka.topic);
        for refused in [refusal(kafka.plain().topic(&*missing)).await, refusal(kafka.plain().dead_letter(&*missing)).await] {
            assert!(refused.contains(&missing) && refused.contains(".declare(..)"), "{refused}");
        }
        let refused = refusal(kafka.plain().retry_topics()).await;
        assert!(refused.contains(".idem-retry."), "{refused}");
        let store = SqliteStore::builder().retention(Retention::of(Duration::from_hours(1))).connect("sqlite::memory:").await.unwrap();
        let refused = refusal(kafka.plain().covered_by(&store)).await;
        assert!(refused.contains("retention.ms") && refused.contains("redelivered_within"), "{refused}");
        kafka.plain().covered_by(&store).redelivered_within(Duration::from_mins(30))
            .shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await.unwrap();
    }

    /// Everything behind the unfinished message is done; the crash may not take the unfinished one with it.
    async fn nothing_is_committed_past_unfinished_work(kafka: Kafka) {
        kafka.send_all(&numbers(8)).await;
        let events = Events::default();
        let running = quick(kafka.plain()).run(async |d| -> Handled {
            if d.message().no == "2" {
                pending::<()>().await;
            }
            events.note("done");
            Ok(Outcome::First(()))
        });
        // The commit of what is before it is seen before the crash.
        let committed = async {
            events.until("done", 7).await;
            while kafka.left().await != 6 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            () = committed => {}
        }
        let again = RefCell::new(Vec::new());
        let summary = quick(kafka.plain()).concurrency(1).shutdown(events.until("again", 6)).run(async |d| -> Handled {
            again.borrow_mut().push(d.message().no.clone());
            events.note("again");
            Ok(Outcome::First(()))
        }).await;
        assert_eq!(summary.unwrap().acked, 6);
        assert_eq!(again.into_inner(), ["2", "3", "4", "5", "6", "7"]);
        assert_eq!(kafka.left().await, 0);
    }

    /// 1 consumer, then 2, then 1.
    async fn a_rebalance_under_load_loses_and_doubles_nothing(kafka: Kafka) {
        let lab = sqlite::Lab::new().await;
        let topic = format!("{}.wide", kafka.topic);
        kafka.create(&topic, 4).await;
        let events = Events::default();
        let sent: Vec<_> = (0..300).map(|no: u32| (Some(no.to_string()), credit_of(&no.to_string()))).collect();
        kafka.send_to(&topic, &sent).await;
        let consumer = || quick(kafka::Consumer::new(&kafka.config(), &*topic).dead_letter(kafka.dead_letter_topic()));
        let handled = |who: &'static str| {
            let (lab, events) = (&lab, &events);
            async move |d: &idem_runtime::consume::Delivery<Credit>| {
                tokio::time::sleep(Duration::from_millis(60)).await;
                events.note(who);
                events.outcome(on_credit(&lab.store, d.message()).await)
            }
        };
        let (one, other) = (handled("one"), handled("other"));
        let first = consumer().shutdown(events.until("first", 300)).run(async |d| one(d).await);
        let second = async {
            events.until("one", 20).await;
            consumer().shutdown(events.until("other", 20)).run(async |d| other(d).await).await
        };
        let (first, second) = tokio::join!(first, second);
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first.acked > 0 && second.acked > 0, "{first:?} {second:?}");
        // What was done and not committed when it stopped.
        consumer().shutdown(tokio::time::sleep(Duration::from_secs(5))).run(async |d| one(d).await).await.unwrap();
        assert_eq!((lab.balance("a").await, events.count("first"), kafka.lag(&topic).await), (300, 300, 0));
        lab.close().await;
    }

    /// It neither blocks the poll nor loses its partitions.
    async fn a_handler_longer_than_the_poll_interval_keeps_its_partition(kafka: Kafka) {
        let mut config = kafka.config();
        config.set("max.poll.interval.ms", "6000");
        kafka.send_all(&numbers(5)).await;
        let events = Events::default();
        let consumer = kafka::Consumer::new(&config, &*kafka.topic).dead_letter(kafka.dead_letter_topic());
        let summary = quick(consumer).concurrency(1).shutdown(events.until("done", 5)).run(async |d| -> Handled {
            if d.message().no == "0" {
                tokio::time::sleep(Duration::from_secs(9)).await;
            }
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!((summary.taken, summary.acked, summary.lost), (5, 5, 0), "{summary:?}");
        assert_eq!(kafka.left().await, 0);
    }

    /// The partition is paused behind a message that is not settled, and goes on when it is.
    async fn messages_behind_an_unsettled_one_are_bounded(kafka: Kafka) {
        kafka.send_all(&numbers(30)).await;
        let events = Events::default();
        let running = quick(kafka.plain()).unsettled(10).shutdown(events.until("done", 30)).run(async |d| -> Handled {
            if d.message().no == "0" {
                events.until("go", 1).await;
            }
            events.note("done");
            Ok(Outcome::First(()))
        });
        let bound = async {
            events.until("done", 9).await;
            // Nothing more comes, and that can only be waited for.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(events.count("done"), 9);
            events.note("go");
        };
        let (summary, ()) = tokio::join!(running, bound);
        assert_eq!(summary.unwrap().acked, 30);
        assert_eq!(kafka.left().await, 0);
    }

    async fn the_order_of_a_key_is_kept_through_failures(kafka: Kafka) {
        let sent: Vec<_> = (0..40).map(|no: u32| (None, fated(&no.to_string(), &(no % 4).to_string()))).collect();
        kafka.send_to(&kafka.topic, &sent).await;
        let (events, order) = (Events::default(), RefCell::new(BTreeMap::<String, Vec<u32>>::new()));
        let consumer = quick(kafka.plain()).ordered_by(|message: &Credit| message.fate.clone());
        let summary = consumer.shutdown(events.until("done", 40)).run(async |d| -> Handled {
            let no: u32 = d.message().no.parse().unwrap();
            if no.is_multiple_of(7) && d.attempt().least() == 1 {
                return Err(Error::Body(Failed::Refused));
            }
            order.borrow_mut().entry(d.message().fate.clone()).or_default().push(no);
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!((summary.acked, summary.retried), (40, 0), "{summary:?}");
        for handled in order.into_inner().into_values() {
            assert!(handled.len() == 10 && handled.is_sorted(), "{handled:?}");
        }
    }

    async fn attempts_in_memory_and_the_key_and_headers_of_a_dead_letter(kafka: Kafka) {
        kafka.send_to(&kafka.topic, &[(Some("order-1".to_owned()), credit_of("1"))]).await;
        let (events, attempts) = (Events::default(), RefCell::new(Vec::new()));
        quick(kafka.plain()).shutdown(events.until("failed", 3)).run(async |d| -> Handled {
            attempts.borrow_mut().push(d.attempt());
            assert_eq!((d.headers().text("kafka-key"), d.headers().text("tenant")), (Some("order-1"), Some("acme")));
            assert_eq!(d.headers().len(), 2, "{:?}", d.headers());
            events.note("failed");
            Err(Error::Body(Failed::Refused))
        }).await.unwrap();
        assert_eq!(attempts.into_inner(), [Attempt::Unknown, Attempt::AtLeast(2), Attempt::AtLeast(3)]);
        let letters = kafka.drain("somebody", &kafka.dead_letter_topic()).await;
        let [(key, payload, headers)] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!((&**key, payload), ("order-1", &credit_of("1")));
        for (name, value) in [("tenant", "acme"), ("idem-attempts", "3"), ("idem-topic", &*kafka.topic)] {
            assert!(headers.contains(&(name.to_owned(), value.to_owned())), "{headers:?}");
        }
        assert_eq!(kafka.left().await, 0);
    }

    /// The count is the copy's, so it survives the consumer; the original is done.
    async fn retry_topics_carry_the_count_over_a_restart(kafka: Kafka) {
        kafka.send_to(&kafka.topic, &[(Some("order-1".to_owned()), credit_of("1"))]).await;
        let (events, attempts) = (Events::default(), RefCell::new(Vec::new()));
        let consumer = || {
            let consumer = quick(kafka.plain()).retry(Backoff::steps([Duration::from_secs(2)]));
            consumer.retry_topics().declare(1, 1)
        };
        let failed = consumer().shutdown(events.until("failed", 1)).run(async |d| -> Handled {
            attempts.borrow_mut().push(d.attempt());
            events.note("failed");
            Err(Error::Body(Failed::Refused))
        }).await.unwrap();
        assert_eq!((failed.retried, failed.acked), (1, 0), "{failed:?}");
        let retries = format!("{}.idem-retry.2000", kafka.topic);
        assert_eq!((kafka.left().await, kafka.lag(&retries).await), (0, 1));
        consumer().shutdown(events.until("done", 1)).run(async |d| -> Handled {
            attempts.borrow_mut().push(d.attempt());
            assert_eq!((d.headers().len(), d.headers().text("kafka-key")), (2, Some("order-1")), "{:?}", d.headers());
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!(attempts.into_inner(), [Attempt::Unknown, Attempt::AtLeast(2)]);
        assert_eq!(kafka.lag(&retries).await, 0);
    }
}

/// A commit of an old generation is refused by the broker, and the message comes again: on the client's own mock, which
/// can be told to refuse.
#[test]
fn a_commit_that_the_broker_refuses_is_no_loss() {
    idem_tests::run(async {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("deduct", 1, 1).unwrap();
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", "stock");
        config.set("session.timeout.ms", "6000");
        let producer: FutureProducer = config.create().unwrap();
        let payload = credit_of("1");
        producer.send(FutureRecord::<str, str>::to("deduct").payload(&payload), Duration::from_secs(5)).await.unwrap();
        let lab = sqlite::Lab::new().await;
        let events = Events::default();
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION]);
        let consumer = kafka::Consumer::new(&config, "deduct").unlimited_attempts();
        let summary = consumer
            .shutdown(events.until("duplicate", 1))
            .run(async |d| events.outcome(on_credit(&lab.store, d.message()).await));
        assert_eq!(summary.await.unwrap().taken, 2);
        assert_eq!((lab.balance("a").await, events.count("first")), (1, 1));
        lab.close().await;
    });
}
