//! NATS JetStream, on its real server: the suite, and what is its own: its starts, its acks, its counters.

use crate::conformance::{conformance, on_broker};
use async_nats::{
    HeaderMap,
    jetstream::{
        consumer::{AckPolicy, Config, push},
        stream::{self, StorageType},
    },
};
use idem_runtime::{
    Error, Outcome, Retention, SqliteStore,
    consume::{
        AckOutcome, Adapter, Attempt, Backoff, BrokerError, Capabilities, Consumer, Plan, RunError, Settle as _,
        StartError, Subscription as _, Taken,
    },
    nats,
};
use idem_tests::{
    brokers::{
        Credit, Events, Failed, Harness, Line, Server, credit_of, fated,
        nats::{DURABLE, Nats},
        quick, refusal,
    },
    logs::Listener,
};
use std::{
    cell::RefCell,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

conformance!(Nats);

type Handled = Result<Outcome<()>, Error<Failed>>;

/// A consumer by another name, that is not declared.
async fn named(nats: &Nats, durable: &str) -> Consumer<nats::Source, Credit> {
    quick(nats::Consumer::new(nats.context().await, &*nats.stream, durable)).dead_letter(nats.dead_letter_subject())
}

/// Makes a consumer as somebody else would.
async fn made(nats: &Nats, durable: &str, change: impl FnOnce(&mut Config)) {
    let mut config =
        Config { durable_name: Some(durable.to_owned()), ack_policy: AckPolicy::Explicit, ..Config::default() };
    change(&mut config);
    nats.context().await.create_consumer_on_stream(config, &nats.stream).await.unwrap();
}

/// The next message of a subscription of the adapter, without the engine.
async fn take<S: idem_runtime::consume::Subscription>(subscription: &mut S) -> Taken<S::Settle> {
    subscription.next().await.unwrap().expect("a message")
}

/// Starts the adapter, and gives the subscription away.
struct Lent(nats::Source, Arc<Mutex<Option<nats::Reading>>>);

impl Adapter for Lent {
    type Subscription = nats::Reading;
    const BROKER: &'static str = nats::Source::BROKER;
    const CAPABILITIES: Capabilities = nats::Source::CAPABILITIES;

    fn source(&self) -> String {
        self.0.source()
    }

    async fn start(self, plan: &Plan) -> Result<nats::Reading, StartError> {
        *self.1.lock().unwrap() = Some(self.0.start(plan).await?);
        Err(BrokerError::new("subscribing", "lent to the test").into())
    }
}

/// A subscription of the adapter's, without the engine.
async fn subscribe(nats: &Nats, ack_wait: Duration) -> nats::Reading {
    made(nats, DURABLE, |config| config.ack_wait = ack_wait).await;
    let lent = Arc::default();
    let consumer =
        Consumer::of(Lent(nats::Source::new(nats.context().await, &*nats.stream, DURABLE), Arc::clone(&lent)));
    let _ = quick(consumer).unlimited_attempts().run(async |_| -> Handled { unreachable!() }).await;
    let subscription = lent.lock().unwrap().take();
    subscription.expect("a subscription")
}

/// Waits for something that the server does by itself.
async fn until(mut true_now: impl AsyncFnMut() -> bool) {
    while !true_now().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

on_broker! {
    "needs NATS: ./scripts/test runs it";

    async fn starts_that_are_not_safe_are_refused_with_their_reason(nats: Nats) {
        let refused = refusal(quick(nats::Consumer::new(nats.context().await, &*nats.stream, DURABLE))).await;
        assert!(refused.contains("nowhere to go") && refused.contains(".dead_letter(..)"), "{refused}");
        let refused = refusal(quick(nats::Consumer::new(nats.context().await, "idem-none", DURABLE)).dead_letter("a")).await;
        assert!(refused.contains("the stream `idem-none` cannot be used"), "{refused}");
        let refused = refusal(named(&nats, "none").await).await;
        assert!(refused.contains("no consumer `none`") && refused.contains(".declare()"), "{refused}");
        let refused = refusal(named(&nats, "limit").await.delivery_limit(2).declare()).await;
        assert!(refused.contains("a delivery limit of 2"), "{refused}");

        for (durable, policy) in [("acks-none", AckPolicy::None), ("acks-all", AckPolicy::All)] {
            made(&nats, durable, |config| config.ack_policy = policy).await;
            let refused = refusal(named(&nats, durable).await).await;
            assert!(refused.contains("ack policy"), "{refused}");
            // It cannot be changed either.
            let refused = refusal(named(&nats, durable).await.declare()).await;
            assert!(refused.contains("cannot be declared"), "{refused}");
        }
        let pushing = push::Config { durable_name: Some("pushes".into()), deliver_subject: "idem.pushes".into(), ..push::Config::default() };
        nats.context().await.create_consumer_on_stream(pushing, &nats.stream).await.unwrap();
        for consumer in [named(&nats, "pushes").await, named(&nats, "pushes").await.declare()] {
            let refused = refusal(consumer).await;
            assert!(refused.contains("push consumer"), "{refused}");
        }
        made(&nats, "limited", |config| config.max_deliver = 5).await;
        let refused = refusal(named(&nats, "limited").await).await;
        assert!(refused.contains("after 5 deliveries") && refused.contains("max_deliver to -1"), "{refused}");
        made(&nats, "narrow", |config| config.max_ack_pending = 3).await;
        let refused = refusal(named(&nats, "narrow").await).await;
        assert!(refused.contains("a max_ack_pending of 3 does not feed 4 handlers"), "{refused}");
        let refused = refusal(named(&nats, "narrow").await.declare().max_ack_pending(2)).await;
        assert!(refused.contains("a max_ack_pending of 2"), "{refused}");
        made(&nats, "headers", |config| config.headers_only = true).await;
        let refused = refusal(named(&nats, "headers").await).await;
        assert!(refused.contains("headers only"), "{refused}");
        made(&nats, "everything", |_| {}).await;
        let refused = refusal(named(&nats, "everything").await.filter_subject("a.b")).await;
        assert!(refused.contains("asked for `a.b`") && refused.contains("delivers `>`"), "{refused}");

        // Dead letters that nobody keeps, or that come back.
        let refused = refusal(named(&nats, "everything").await.dead_letter("idem-nobody.listens")).await;
        assert!(refused.contains("no stream captures"), "{refused}");
        let refused = refusal(named(&nats, "everything").await.dead_letter(format!("{}.>", nats.stream))).await;
        assert!(refused.contains("is no subject"), "{refused}");
        let own = format!("{}.dead.credit", nats.stream);
        let refused = refusal(named(&nats, "everything").await.dead_letter(&*own)).await;
        assert!(refused.contains("go to the consumer itself"), "{refused}");
        let filtered = named(&nats, "filtered").await.declare().filter_subject(format!("{}.*", nats.stream));
        assert!(filtered.dead_letter(&*own).shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await.is_ok());
        let refused = refusal(named(&nats, "filtered-2").await.declare().filter_subject(format!("{}.dead.*", nats.stream)).dead_letter(&*own)).await;
        assert!(refused.contains("go to the consumer itself"), "{refused}");

        // Three deliveries of five minutes and 30 seconds each.
        let store = SqliteStore::builder().retention(Retention::of(Duration::from_mins(15))).connect("sqlite::memory:").await.unwrap();
        let refused = refusal(named(&nats, "everything").await.covered_by(&store)).await;
        assert!(refused.contains("3 deliveries") && refused.contains("900s"), "{refused}");
        // What is not in the stream any more cannot come again.
        let context = nats.context().await;
        let stream = context.get_stream(&nats.stream).await.unwrap();
        context.update_stream(stream::Config { max_age: Duration::from_mins(15), ..stream.cached_info().config.clone() }).await.unwrap();
        let covered = named(&nats, "everything").await.covered_by(&store);
        assert!(covered.shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await.is_ok());
    }

    async fn what_is_declared(nats: Nats) {
        let declared = async |consumer: Consumer<nats::Source, Credit>| {
            consumer.declare().shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() }).await.unwrap();
            nats.durable().await.unwrap().config
        };
        let filter = nats.subject();
        let config = declared(named(&nats, DURABLE).await.filter_subject(&*filter)).await;
        assert_eq!((config.ack_policy, config.max_deliver), (AckPolicy::Explicit, -1));
        assert_eq!((config.ack_wait, config.max_ack_pending), (Duration::from_secs(30), 1000));
        assert_eq!(config.filter_subject, filter);
        // Again, with other settings: what is not said stays.
        let config = declared(named(&nats, DURABLE).await.ack_wait(Duration::from_secs(7)).max_ack_pending(9)).await;
        assert_eq!((config.ack_wait, config.max_ack_pending, config.filter_subject), (Duration::from_secs(7), 9, filter));
    }

    /// Of a memory stream nothing is left after a restart: that is said, and not refused.
    async fn a_stream_in_memory_is_consumed(nats: Nats) {
        let context = nats.context().await;
        let name = format!("{}-memory", nats.stream);
        let subjects = vec![format!("{name}.>")];
        context.create_stream(stream::Config { name: name.clone(), subjects, storage: StorageType::Memory, ..stream::Config::default() }).await.unwrap();
        let consumer = quick(nats::Consumer::new(nats.context().await, &*name, DURABLE)).declare().dead_letter(nats.dead_letter_subject());
        let ran = consumer.shutdown(std::future::ready(())).run(async |_| -> Handled { unreachable!() });
        let listener = Listener::start();
        ran.await.unwrap();
        let heard = listener.events();
        let warned = heard.iter().any(|event| event.field("message").is_some_and(|text| text.contains("kept in memory only")));
        assert!(warned, "{heard:?}");
        context.delete_stream(name).await.unwrap();
    }

    /// The client's own `double_ack` says that all is well.
    async fn an_ack_for_a_consumer_that_is_gone_is_lost(nats: Nats) {
        nats.send(&credit_of("1")).await;
        let mut subscription = subscribe(&nats, Duration::from_secs(5)).await;
        let mut taken = take(&mut subscription).await;
        assert_eq!(taken.settle.extend().await, AckOutcome::Confirmed);
        nats.context().await.delete_consumer_from_stream(DURABLE, &nats.stream).await.unwrap();
        assert_eq!(taken.settle.ack().await, AckOutcome::Lost);
        assert_eq!(taken.settle.extend().await, AckOutcome::Lost);
        assert_eq!(taken.settle.give_back().await, AckOutcome::Lost);
        // And the subscription has an end.
        let error = subscription.next().await.unwrap_err().to_string();
        assert!(error.starts_with("consuming `"), "{error}");
    }

    async fn an_ack_that_is_confirmed_is_one_on_the_server(nats: Nats) {
        nats.send(&credit_of("1")).await;
        let mut subscription = subscribe(&nats, Duration::from_secs(30)).await;
        let mut taken = take(&mut subscription).await;
        assert_eq!(nats.left().await, 1);
        assert_eq!(taken.settle.ack().await, AckOutcome::Confirmed);
        assert_eq!(nats.left().await, 0);
    }

    /// Not fenced: JetStream takes an ack of whoever had the message once.
    async fn a_stale_ack_wins(nats: Nats) {
        const { assert!(!nats::Source::CAPABILITIES.fenced_ack) };
        nats.send(&credit_of("1")).await;
        let mut subscription = subscribe(&nats, Duration::from_millis(500)).await;
        let mut stale = take(&mut subscription).await;
        let taken_over = take(&mut subscription).await;
        assert!(taken_over.envelope.attempt.least() > 1);
        assert_eq!(stale.settle.ack().await, AckOutcome::Confirmed);
        // The one who has it now still works on it, and it is gone.
        assert_eq!(nats.left().await, 0);
    }

    async fn a_consumer_that_is_deleted_ends_the_run(nats: Nats) {
        let (consumer, _line) = nats.consumer().await;
        let events = Events::default();
        nats.send(&credit_of("1")).await;
        let running = quick(consumer).run(async |_| -> Handled {
            events.note("handled");
            Ok(Outcome::First(()))
        });
        let deleting = async {
            events.until("handled", 1).await;
            until(async || nats.left().await == 0).await;
            nats.context().await.delete_consumer_from_stream(DURABLE, &nats.stream).await.unwrap();
        };
        let (ran, ()) = tokio::join!(running, deleting);
        let Err(RunError::Broker { error, summary, .. }) = ran else { panic!("{ran:?}") };
        assert!(error.to_string().contains("consuming"), "{error}");
        assert_eq!(summary.acked, 1);
    }

    /// The server's own backoff is for those that do not answer. A plain negative ack comes back at once.
    async fn retries_wait_for_the_backoff_of_the_engine(nats: Nats) {
        made(&nats, DURABLE, |config| {
            config.max_deliver = 5;
            config.backoff = vec![Duration::from_secs(3), Duration::from_mins(10)];
        }).await;
        nats.send(&credit_of("1")).await;
        let (seen, events) = (RefCell::new(Vec::new()), Events::default());
        let started = tokio::time::Instant::now();
        let consumer = named(&nats, DURABLE).await.declare().retry(Backoff::steps([Duration::from_millis(800)]));
        let summary = consumer.shutdown(events.until("done", 1)).run(async |d| -> Handled {
            seen.borrow_mut().push((d.attempt(), started.elapsed()));
            if seen.borrow().len() < 3 {
                return Err(Error::Body(Failed::Refused));
            }
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!((summary.retried, summary.acked), (2, 1));
        let config = nats.durable().await.unwrap().config;
        assert_eq!((config.max_deliver, config.backoff), (-1, Vec::new()));
        let seen = seen.into_inner();
        let attempts: Vec<_> = seen.iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(attempts, [Attempt::Exact(1), Attempt::Exact(2), Attempt::Exact(3)]);
        // At least; how much later is the machine's affair.
        assert!(seen.windows(2).all(|pair| pair[1].1 >= pair[0].1 + Duration::from_millis(600)), "{seen:?}");
    }

    /// What waits for its retry holds up nothing else, as long as there are places.
    async fn a_long_pause_holds_up_no_other(nats: Nats) {
        for no in 0..8 {
            nats.send(&fated(&no.to_string(), "fails")).await;
        }
        nats.send(&credit_of("quick")).await;
        let (consumer, _line) = nats.consumer().await;
        let events = Events::default();
        let consumer = quick(consumer).retry(Backoff::steps([Duration::from_hours(1)]));
        let summary = consumer.shutdown(events.until("done", 1)).run(async |d| -> Handled {
            if d.message().fate == "fails" {
                return Err(Error::Body(Failed::Refused));
            }
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!((summary.retried, summary.acked), (8, 1));
        assert_eq!(nats.left().await, 8);
    }

    /// It takes three leases. JetStream hears of the work, so nobody else gets it.
    async fn a_slow_handler_keeps_its_message(nats: Nats) {
        nats.send(&credit_of("1")).await;
        let events = Events::default();
        let consumer = named(&nats, DURABLE).await.declare().ack_wait(Duration::from_millis(1500));
        let summary = consumer.shutdown(events.until("done", 1)).run(async |d| -> Handled {
            assert_eq!(d.attempt(), Attempt::Exact(1));
            tokio::time::sleep(Duration::from_secs(5)).await;
            events.note("done");
            Ok(Outcome::First(()))
        }).await.unwrap();
        assert_eq!((summary.taken, summary.acked), (1, 1));
        assert_eq!(nats.left().await, 0);
    }

    /// None of them waits in the client, where nobody says that it is still wanted.
    async fn no_more_is_asked_for_than_there_is_room(nats: Nats) {
        for no in 0..20 {
            nats.send(&credit_of(&no.to_string())).await;
        }
        let (consumer, _line) = nats.consumer().await;
        let (events, go) = (Events::default(), Events::default());
        let running = quick(consumer).shutdown(events.until("done", 20)).run(async |_| -> Handled {
            events.note("running");
            go.until("go", 1).await;
            events.note("done");
            Ok(Outcome::First(()))
        });
        let looking = async {
            events.until("running", 4).await;
            // What was asked for too much would have come by now.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(nats.durable().await.unwrap().num_ack_pending, 4);
            go.note("go");
        };
        let (summary, ()) = tokio::join!(async { running.await.unwrap() }, looking);
        assert_eq!((summary.taken, summary.acked), (20, 20));
    }

    /// A message that ends the process each time: deliveries that nobody answered count, and have an end.
    async fn what_never_comes_to_an_answer_is_put_aside(nats: Nats) {
        nats.send(&credit_of("1")).await;
        let events = Events::default();
        let consumer = async || named(&nats, DURABLE).await.declare().ack_wait(Duration::from_millis(700)).delivery_limit(3);
        for crash in 1..=3 {
            let running = consumer().await.run(async |d| -> Handled {
                assert_eq!(d.attempt().least(), u32::try_from(crash).unwrap());
                events.note("running");
                pending().await
            });
            tokio::select! {
                ended = running => panic!("{ended:?}"),
                () = events.until("running", crash) => {}
            }
        }
        let stop = Events::default();
        let running = consumer().await.shutdown(stop.until("stop", 1)).run(async |_| -> Handled {
            events.note("handled again");
            Ok(Outcome::First(()))
        });
        let waiting = async {
            until(async || nats.left().await == 0).await;
            stop.note("stop");
        };
        let (summary, ()) = tokio::join!(async { running.await.unwrap() }, waiting);
        assert_eq!((summary.taken, summary.dead_lettered, events.count("handled again")), (1, 1, 0));
        let letters = nats.dead_letters().await;
        let [(payload, headers)] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!(*payload, credit_of("1"));
        let has = |name: &str, value: &str| headers.iter().any(|(found, text)| found == name && text == value);
        assert!(has("idem-reason", "exhausted") && has("idem-attempts", "4") && has("tenant", "acme"), "{headers:?}");
    }

    /// The letter is written, and the ack of the message lost: the repeat of the letter is dropped by JetStream.
    async fn a_dead_letter_is_there_once_and_of_each_message(nats: Nats) {
        for _ in 0..2 {
            nats.send(&fated("same", "fails")).await;
        }
        let (consumer, line) = nats.consumer().await;
        line.lose_next_ack().await;
        let (events, stop) = (Events::default(), Events::default());
        let running = quick(consumer).max_attempts(1).shutdown(stop.until("stop", 1)).run(async |_| -> Handled {
            events.note("failed");
            Err(Error::Body(Failed::Refused))
        });
        let waiting = async {
            events.until("failed", 3).await;
            until(async || nats.left().await == 0).await;
            stop.note("stop");
        };
        let (_, ()) = tokio::join!(running, waiting);
        let letters = nats.dead_letters().await;
        assert_eq!(letters.len(), 2, "{letters:?}");
    }

    /// Redriven within the window, with the sender's own id: it must not be taken for itself.
    async fn a_senders_id_is_kept_and_never_sent_again(nats: Nats) {
        let context = nats.context().await;
        let publish = async || {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", "order-1");
            context.publish_with_headers(nats.subject(), headers, credit_of("1").into()).await.unwrap().await.unwrap()
        };
        assert!(!publish().await.duplicate);
        assert!(publish().await.duplicate);
        let (consumer, _line) = nats.consumer().await;
        let events = Events::default();
        let failing = quick(consumer).max_attempts(1).shutdown(events.until("failed", 1)).run(async |_| -> Handled {
            events.note("failed");
            // The client ends with a panic where a header has a second line.
            Err(Error::Body(Failed::Database(sqlx::Error::Protocol("two\nlines".into()))))
        });
        assert_eq!(failing.await.unwrap().dead_lettered, 1);
        // Letters of another consumer stay.
        assert_eq!(named(&nats, "other").await.redrive(None).await.unwrap(), 0);
        let (consumer, _line) = nats.consumer().await;
        assert_eq!(consumer.redrive(None).await.unwrap(), 1);
        let (consumer, _line) = nats.consumer().await;
        let handled = quick(consumer).shutdown(events.until("done", 1)).run(async |d| -> Handled {
            assert_eq!((d.attempt(), d.headers().len()), (Attempt::Exact(1), 1));
            assert_eq!(d.headers().text("Nats-Msg-Id"), Some("order-1"));
            events.note("done");
            Ok(Outcome::First(()))
        });
        assert_eq!(handled.await.unwrap().acked, 1);
    }

    /// The window of the stream is 200 ms: the same message later is another one for JetStream.
    async fn an_id_is_a_window_and_no_identity(nats: Nats) {
        let context = nats.context().await;
        let stream = context.get_stream(&nats.stream).await.unwrap();
        let window = Duration::from_millis(200);
        context.update_stream(stream::Config { duplicate_window: window, ..stream.cached_info().config.clone() }).await.unwrap();
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let send = async || {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", "order-1");
            context.publish_with_headers(nats.subject(), headers, credit_of("1").into()).await.unwrap().await.unwrap()
        };
        let first = send().await;
        until(async || !send().await.duplicate).await;
        let (consumer, _line) = nats.consumer().await;
        let (events, sequences) = (Events::default(), RefCell::new(Vec::new()));
        let handled = quick(consumer).shutdown(events.until("duplicate", 1)).run(async |d| {
            sequences.borrow_mut().push(d.broker_id().to_string());
            let key = idem_runtime::Key::scope("window").part(&d.message().no).finish().map_err(Error::Key)?;
            events.outcome(store.once(key, async |_| Ok::<_, Failed>(())).await)
        });
        assert_eq!(handled.await.unwrap().acked, 2);
        assert_eq!(events.count("first"), 1);
        let sequences = sequences.into_inner();
        assert!(sequences.len() == 2 && sequences[0] != sequences[1], "{sequences:?} after {first:?}");
    }

    /// With one message pending the next comes only when the one before is settled, also by a retry.
    async fn one_pending_keeps_the_order(nats: Nats) {
        for no in ["1", "2", "3"] {
            nats.send(&credit_of(no)).await;
        }
        let consumer = async || named(&nats, DURABLE).await.declare().max_ack_pending(1).concurrency(1);
        let (handled, events) = (RefCell::new(Vec::new()), Events::default());
        let run = async || {
            consumer().await.shutdown(events.until("done", 3)).run(async |d| -> Handled {
                let no = d.message().no.clone();
                handled.borrow_mut().push(format!("{no} {}", d.attempt()));
                if no == "1" && d.attempt().least() == 1 {
                    return Err(Error::Body(Failed::Refused));
                }
                events.note("done");
                Ok(Outcome::First(()))
            }).await.unwrap()
        };
        let (one, other) = tokio::join!(run(), run());
        assert_eq!((one.acked + other.acked, one.retried + other.retried), (3, 1));
        assert_eq!(handled.into_inner(), ["1 1", "1 2", "2 1", "3 1"]);
    }

    /// A stream that is gone captures no dead letter: none may be acked.
    async fn a_dead_letter_that_no_stream_takes_comes_again(nats: Nats) {
        nats.send(&credit_of("1")).await;
        let context = nats.context().await;
        let (consumer, _line) = nats.consumer().await;
        let (events, stop) = (Events::default(), Events::default());
        let running = quick(consumer).max_attempts(1).shutdown(stop.until("stop", 1)).run(async |_| -> Handled {
            if events.count("failed") == 0 {
                context.delete_stream(nats.dead_letter_stream()).await.unwrap();
            }
            events.note("failed");
            Err(Error::Body(Failed::Refused))
        });
        let trouble = async {
            events.until("failed", 3).await;
            let (name, subjects) = (nats.dead_letter_stream(), vec![format!("{}.>", nats.dead_letter_stream())]);
            context.create_stream(stream::Config { name, subjects, ..stream::Config::default() }).await.unwrap();
            until(async || nats.left().await == 0).await;
            stop.note("stop");
        };
        let (summary, ()) = tokio::join!(async { running.await.unwrap() }, trouble);
        assert_eq!((summary.acked, summary.dead_lettered), (0, 1), "{summary:?}");
        assert_eq!(nats.dead_letters().await.len(), 1);
    }
}
