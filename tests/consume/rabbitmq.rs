//! RabbitMQ, on its real server: the suite, and what is its own: its starts, its counters, its queues.

use crate::conformance::{conformance, on_broker};
use idem_runtime::{
    Error, Outcome, Retention, SqliteStore,
    consume::{Attempt, Backoff, Consumer, RunError, Summary},
    rabbitmq,
};
use idem_tests::brokers::{
    Credit, Events, Failed, Harness, Line, Server, credit_of, fated, quick,
    rabbitmq::{Rabbit, Wire},
    refusal,
};
use lapin::{
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use std::{cell::RefCell, future::pending, time::Duration};

conformance!(Rabbit);

type Handled = Result<Outcome<()>, Error<Failed>>;

async fn new_consumer(rabbit: &Rabbit, queue: &str) -> Consumer<rabbitmq::Queue, Credit> {
    // The connection lives as long as its channel.
    let (_connection, channel) = rabbit.channel().await;
    quick(rabbitmq::Consumer::new(channel, queue))
}

/// How a consumer ends whose connection is broken after its first message.
async fn broken(
    rabbit: &Rabbit,
    (consumer, line): (Consumer<rabbitmq::Queue, Credit>, Wire),
    breaks: impl AsyncFnOnce(&Wire),
) -> Result<Summary, RunError> {
    let events = Events::default();
    let running = quick(consumer).run(async |_| -> Handled {
        events.note("running");
        Ok(Outcome::First(()))
    });
    let breaking = async {
        rabbit.send(&credit_of("1")).await;
        events.until("running", 1).await;
        breaks(&line).await;
    };
    tokio::join!(running, breaking).0
}

on_broker! {
    "needs RabbitMQ: ./scripts/test runs it";

    async fn starts_that_are_not_safe_are_refused_with_their_reason(rabbit: Rabbit) {
        let (queue, dead) = (rabbit.queue.clone(), rabbit.dead_letter_queue());
        let refused = refusal(new_consumer(&rabbit, &queue).await).await;
        assert!(refused.contains("nowhere to go") && refused.contains(".dead_letter(..)"), "{refused}");
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*queue)).await;
        assert!(refused.contains("to the queue itself"), "{refused}");
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*dead).prefetch(3)).await;
        assert!(refused.contains("a prefetch of 3"), "{refused}");
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*dead).prefetch(0)).await;
        assert!(refused.contains("a prefetch of 0"), "{refused}");
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*dead).concurrency(70_000)).await;
        assert!(refused.contains("at most 65535"), "{refused}");
        let missing = format!("{queue}.missing");
        let refused = refusal(new_consumer(&rabbit, &missing).await.dead_letter(&*dead)).await;
        assert!(refused.contains(&missing) && refused.contains(".declare()"), "{refused}");
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*missing).declare_nothing()).await;
        assert!(refused.contains(&missing), "{refused}");
        // One delivery limit is as good as another, but not for RabbitMQ.
        let refused = refusal(new_consumer(&rabbit, &queue).await.dead_letter(&*dead).declare().delivery_limit(7)).await;
        assert!(refused.contains("other arguments") && refused.contains("x-delivery-limit"), "{refused}");
        // Ten deliveries of half an hour each.
        let store = SqliteStore::builder().retention(Retention::of(Duration::from_hours(4))).connect("sqlite::memory:").await.unwrap();
        let consumer = new_consumer(&rabbit, &queue).await.dead_letter(&*dead).declare().max_attempts(10).covered_by(&store);
        let refused = refusal(consumer).await;
        assert!(refused.contains("10 deliveries") && refused.contains("14400s"), "{refused}");
    }

    /// A quorum queue counts deliveries that nobody answered, also of copies.
    async fn deliveries_that_nobody_answered_are_counted(rabbit: Rabbit) {
        rabbit.send(&credit_of("1")).await;
        let attempts = RefCell::new(Vec::new());
        let events = Events::default();
        for crash in 1..=2 {
            let (consumer, line) = rabbit.consumer().await;
            let running = quick(consumer).run(async |d| -> Handled {
                attempts.borrow_mut().push(d.attempt());
                events.note("running");
                pending().await
            });
            tokio::select! {
                ended = running => panic!("{ended:?}"),
                () = events.until("running", crash) => line.cut().await,
            }
        }
        let (consumer, _line) = rabbit.consumer().await;
        let last = quick(consumer).max_attempts(10).shutdown(events.until("done", 1)).run(async |d| -> Handled {
            attempts.borrow_mut().push(d.attempt());
            assert_eq!((d.headers().len(), d.headers().text("tenant")), (1, Some("acme")), "{:?}", d.headers());
            if attempts.borrow().len() < 4 {
                return Err(Error::Body(Failed::Refused));
            }
            events.note("done");
            Ok(Outcome::First(()))
        });
        last.await.unwrap();
        // The last one is a copy's first delivery: a queue of another kind would not say more.
        let seen = [Attempt::FlagOnly(false), Attempt::Exact(2), Attempt::Exact(3), Attempt::AtLeast(4)];
        assert_eq!(attempts.into_inner(), seen);
    }

    /// A message that kills its process ends among the dead letters without our doing, and can be brought back.
    async fn what_reaches_the_delivery_limit_is_a_dead_letter_and_can_be_redriven(rabbit: Rabbit) {
        let queue = format!("{}.limited", rabbit.queue);
        let dead = rabbit.dead_letter_queue();
        let limited = async || new_consumer(&rabbit, &queue).await.dead_letter(&*dead).declare().delivery_limit(1);
        let events = Events::default();
        assert!(limited().await.shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await.is_ok());
        let elsewhere = rabbit.beside(&queue);
        elsewhere.send(&credit_of("1")).await;
        for crash in 1..=2 {
            let running = limited().await.run(async |_| -> Handled {
                events.note("running");
                pending().await
            });
            tokio::select! {
                ended = running => panic!("{ended:?}"),
                () = events.until("running", crash) => {}
            }
        }
        for _ in 0..100 {
            if rabbit.ready(&dead).await == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The letters of another queue stay where they are.
        let other = new_consumer(&rabbit, &rabbit.queue).await.dead_letter(&*dead);
        assert_eq!(other.redrive(None).await.unwrap(), 0);
        assert_eq!(limited().await.redrive(None).await.unwrap(), 1);
        let seen = RefCell::new(None);
        limited().await.shutdown(events.until("done", 1)).run(async |d| -> Handled {
            *seen.borrow_mut() = Some(d.attempt());
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!(seen.into_inner(), Some(Attempt::FlagOnly(false)));
        let (_connection, channel) = rabbit.channel().await;
        for queue in [queue.clone(), format!("{queue}.idem-retry.200")] {
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        }
    }

    /// A confirm is no proof of routing: with the dead-letter queue gone no message may be acked.
    async fn a_dead_letter_that_fits_no_queue_comes_again(rabbit: Rabbit) {
        let dead = rabbit.dead_letter_queue();
        for no in 0..3 {
            rabbit.send(&fated(&no.to_string(), "fails")).await;
        }
        let (consumer, _line) = rabbit.consumer().await;
        let (_connection, channel) = rabbit.channel().await;
        let (events, stop) = (Events::default(), Events::default());
        let running = quick(consumer).max_attempts(1).shutdown(stop.until("stop", 1)).run(async |_| -> Handled {
            events.note("failed");
            events.until("gone", 1).await;
            Err(Error::Body(Failed::Refused))
        });
        let trouble = async {
            events.until("failed", 3).await;
            channel.queue_delete(dead.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
            events.note("gone");
            // Each comes again twice, and cannot be put aside.
            events.until("failed", 9).await;
            let mut quorum = FieldTable::default();
            quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(dead.as_str().into(), durable, quorum).await.unwrap();
            while rabbit.ready(&dead).await < 3 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            stop.note("stop");
        };
        let (summary, ()) = tokio::join!(async { running.await.unwrap() }, trouble);
        assert_eq!((summary.acked, summary.dead_lettered), (0, 3), "{summary:?}");
        assert_eq!((rabbit.dead_letters().await.len(), rabbit.left().await), (3, 0));
    }

    /// The client says no error, and RabbitMQ hears nothing.
    async fn an_ack_on_a_channel_that_is_gone_is_lost(rabbit: Rabbit) {
        rabbit.send(&credit_of("1")).await;
        let (consumer, line) = rabbit.consumer().await;
        let events = Events::default();
        let running = quick(consumer).shutdown(events.until("both", 1)).run(async |_| -> Handled {
            if events.count("first") == 0 {
                events.note("first");
                line.cut().await;
                events.until("again", 1).await;
                events.note("both");
            } else {
                events.note("again");
            }
            Ok(Outcome::First(()))
        });
        let summary = running.await.unwrap();
        assert_eq!((summary.taken, summary.lost, summary.acked), (2, 1, 1), "{summary:?}");
        assert_eq!(rabbit.left().await, 0);
    }

    /// Each delay has a queue of its own: one that waits long holds up none that waits shortly.
    async fn a_long_pause_holds_up_no_short_one(rabbit: Rabbit) {
        rabbit.send(&credit_of("slow")).await;
        let (consumer, _line) = rabbit.consumer().await;
        let steps = [Duration::from_millis(200), Duration::from_secs(3)];
        let events = Events::default();
        let handled = RefCell::new(Vec::new());
        let running = quick(consumer).retry(Backoff::steps(steps)).shutdown(events.until("done", 2)).run(async |d| -> Handled {
            let no = &*d.message().no;
            handled.borrow_mut().push((no.to_owned(), d.attempt().least()));
            if d.attempt().least() < if no == "slow" { 3 } else { 2 } {
                events.note(format!("failed {}", d.attempt().least()));
                if no == "slow" && d.attempt().least() == 2 {
                    events.note("slow waits");
                }
                return Err(Error::Body(Failed::Refused));
            }
            events.note("done");
            Ok(Outcome::First(()))
        });
        let later = async {
            events.until("slow waits", 1).await;
            rabbit.send(&credit_of("quick")).await;
        };
        let (summary, ()) = tokio::join!(async { running.await.unwrap() }, later);
        assert_eq!((summary.retried, summary.acked), (3, 2));
        let handled: Vec<_> = handled.into_inner().into_iter().map(|(no, attempt)| format!("{no} {attempt}")).collect();
        assert_eq!(handled, ["slow 1", "slow 2", "quick 1", "quick 2", "slow 3"]);
        let (_connection, channel) = rabbit.channel().await;
        let queue = format!("{}.idem-retry.3000", rabbit.queue);
        channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// The client gives up after so many tries to come back; the consumer says so, and does not wait for ever.
    async fn a_broker_that_stays_away(rabbit: Rabbit) {
        let ended = broken(&rabbit, rabbit.consumer_that_tries(3).await, async |line| line.cut_for_good()).await;
        assert!(matches!(ended, Err(RunError::Broker { .. })), "{ended:?}");
    }

    /// The connection comes back, and the queue is not there any more: the client cannot take up its consumer again.
    async fn a_queue_that_is_gone_when_the_connection_is_back(rabbit: Rabbit) {
        let ended = broken(&rabbit, rabbit.consumer().await, async |line| {
            line.cut_until(async {
                let (_connection, channel) = rabbit.channel().await;
                let queue = rabbit.queue.as_str().into();
                channel.queue_delete(queue, QueueDeleteOptions::default()).await.unwrap();
                // What is declared again at the recovery would be made anew otherwise, and this must fail.
                let transient = QueueDeclareOptions { durable: false, ..QueueDeclareOptions::default() };
                channel.queue_declare(rabbit.queue.as_str().into(), transient, FieldTable::default()).await.unwrap();
            })
            .await;
        })
        .await;
        assert!(matches!(ended, Err(RunError::Broker { .. } | RunError::Ended { .. })), "{ended:?}");
    }

    /// A queue that exists already, of the old kind: it says no more than that a delivery is a repeat.
    async fn a_classic_queue_of_the_applications_own(rabbit: Rabbit) {
        let queue = format!("{}.classic", rabbit.queue);
        let dead = rabbit.dead_letter_queue();
        let (_connection, channel) = rabbit.channel().await;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), durable, FieldTable::default()).await.unwrap();
        rabbit.beside(&queue).send(&credit_of("1")).await;
        let events = Events::default();
        let attempts = RefCell::new(Vec::new());
        let running = new_consumer(&rabbit, &queue).await.dead_letter(&*dead).run(async |_| -> Handled {
            events.note("running");
            pending().await
        });
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            () = events.until("running", 1) => {}
        }
        new_consumer(&rabbit, &queue).await.dead_letter(&*dead).max_attempts(4).shutdown(events.until("done", 1)).run(async |d| -> Handled {
            attempts.borrow_mut().push(d.attempt());
            if attempts.borrow().len() < 2 {
                return Err(Error::Body(Failed::Refused));
            }
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!(attempts.into_inner(), [Attempt::FlagOnly(true), Attempt::AtLeast(3)]);
        for queue in [queue.clone(), format!("{queue}.idem-retry.200")] {
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        }
    }
}
