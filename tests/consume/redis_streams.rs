//! Redis Streams, on its real server: the suite, and what is its own: its starts, its acks, its counters.

use crate::conformance::conformance;
use idem_runtime::{
    Error, Outcome,
    consume::{
        AckOutcome, Adapter, Attempt, Backoff, BrokerError, Capabilities, Consumer, Plan, RunError, Settle as _,
        StartError, Subscription as _, Taken,
    },
    redis_streams::{self, Reading, Source, Ticket},
};
use idem_tests::{
    brokers::{
        Credit, Events, Failed, Harness, Server, credit_of, quick,
        redis_streams::{Entry, GROUP, Streams},
    },
    logs::everywhere,
};
use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

conformance!(Streams);

type Handled = Result<Outcome<()>, Error<Failed>>;

/// Runs the test on a runtime of its own, on the shared server or on one of its own.
macro_rules! on_redis {
    ($($(#[$meta:meta])* async fn $name:ident($redis:ident: $server:ident) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        #[ignore = "needs Redis: ./scripts/test runs it"]
        fn $name() {
            idem_tests::run(async {
                #[allow(unused_mut, reason = "some stop it")]
                let mut $redis = Streams::new(Server::$server).await;
                $body
                $redis.close().await;
            });
        }
    )*};
}

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_secs(1);

fn consumer(redis: &Streams, lease: Duration) -> Consumer<Source, Credit> {
    let consumer = redis_streams::Consumer::new(redis.client(), &*redis.stream, GROUP);
    quick(consumer.dead_letter(redis.dead_letter()).lease(lease).declare())
}

/// Why it does not start.
async fn refusal(consumer: Consumer<Source, Credit>) -> String {
    match consumer.shutdown(ready(())).run(async |_| -> Handled { unreachable!() }).await {
        Err(RunError::Start(error @ StartError::Unsafe { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Starts the adapter, and gives the subscription away.
struct Lent(Source, Arc<Mutex<Option<Reading>>>);

impl Adapter for Lent {
    type Subscription = Reading;
    const BROKER: &'static str = Source::BROKER;
    const CAPABILITIES: Capabilities = Source::CAPABILITIES;

    fn source(&self) -> String {
        self.0.source()
    }

    async fn start(self, plan: &Plan) -> Result<Reading, StartError> {
        *self.1.lock().unwrap() = Some(self.0.start(plan).await?);
        Err(BrokerError::new("subscribing", "lent to the test").into())
    }
}

/// A subscription of the adapter's, without the engine: for so many messages.
async fn subscribe(mut consumer: Consumer<Source, Credit>, places: usize) -> Reading {
    let lent = Arc::default();
    let lender = Consumer::<_, Credit>::of(Lent(consumer.adapter_mut().clone(), Arc::clone(&lent)));
    let _ =
        lender.concurrency(places).backlog(0).unlimited_attempts().run(async |_| -> Handled { unreachable!() }).await;
    let subscription = lent.lock().unwrap().take();
    subscription.expect("a subscription")
}

async fn take(subscription: &mut Reading) -> Taken<Ticket> {
    subscription.next().await.unwrap().expect("a message")
}

/// Reads as a process would that then dies.
async fn read_and_die(redis: &Streams, times: usize) {
    let most = times.to_string();
    let _: redis::Value =
        redis.ask(&["XREADGROUP", "GROUP", GROUP, "dead", "COUNT", &most, "STREAMS", &redis.stream, ">"]).await;
    assert_eq!(redis.pending().await.iter().filter(|(_, owner, ..)| owner == "dead").count(), times);
}

async fn declared(redis: &Streams) {
    let () = redis.ask(&["XGROUP", "CREATE", &redis.stream, GROUP, "0", "MKSTREAM"]).await;
}

/// Waits for something that happens by itself.
async fn until(mut true_now: impl AsyncFnMut() -> bool) {
    while !true_now().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

on_redis! {
    async fn starts_that_are_not_safe_are_refused_with_their_reason(redis: Own) {
        let plain = || quick(redis_streams::Consumer::new(redis.client(), &*redis.stream, GROUP));
        let safe = || plain().dead_letter(redis.dead_letter());
        let refused = refusal(plain().declare()).await;
        assert!(refused.contains("nowhere to go") && refused.contains(".dead_letter(..)"), "{refused}");
        let refused = refusal(plain().dead_letter(&*redis.stream)).await;
        assert!(refused.contains("come back"), "{refused}");
        let refused = refusal(safe().lease(Duration::from_millis(999)).declare()).await;
        assert!(refused.contains("a lease of 999ms"), "{refused}");
        let refused = refusal(safe().name("idem-waiting").declare()).await;
        assert!(refused.contains("cannot have the name"), "{refused}");
        let refused = refusal(safe().delivery_limit(2).declare()).await;
        assert!(refused.contains("a delivery limit of 2"), "{refused}");
        let refused = refusal(safe()).await;
        assert!(refused.contains("no group") && refused.contains(".declare()"), "{refused}");
        for key in [redis.stream.clone(), redis.dead_letter(), redis.retries()] {
            let () = redis.ask(&["SET", &key, "text"]).await;
            let refused = refusal(safe().declare()).await;
            assert!(refused.contains(&format!("`{key}` is a string")), "{refused}");
            let _: u64 = redis.ask(&["DEL", &key]).await;
        }
        let () = redis.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
        let refused = refusal(safe().declare()).await;
        assert!(refused.contains("allkeys-lru") && refused.contains("noeviction"), "{refused}");
        let () = redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
        safe().declare().shutdown(ready(())).run(async |_| -> Handled { unreachable!() }).await.unwrap();
        // The group is there, and need not be declared again.
        safe().shutdown(ready(())).run(async |_| -> Handled { unreachable!() }).await.unwrap();
    }

    async fn a_server_without_persistence_is_warned_of(redis: Own) {
        let source = format!("{}/{GROUP}", redis.stream);
        let _ = everywhere("idem.source", &source);
        let warned = || everywhere("idem.source", &source).iter().any(|event| {
            event.field("message").is_some_and(|text| text.contains("kept in memory only"))
        });
        drop(subscribe(consumer(&redis, LONG), 1).await);
        assert!(!warned());
        let () = redis.ask(&["CONFIG", "SET", "appendonly", "no"]).await;
        drop(subscribe(consumer(&redis, LONG), 1).await);
        assert!(warned());
    }

    async fn an_ack_of_an_old_owner_is_refused(redis: Shared) {
        redis.send(&credit_of("1")).await;
        let mut first = subscribe(consumer(&redis, SHORT), 1).await;
        let mut old = take(&mut first).await;
        assert_eq!(old.envelope.attempt, Attempt::Exact(1));
        let mut second = subscribe(consumer(&redis, SHORT), 1).await;
        let mut new = take(&mut second).await;
        assert_eq!(new.envelope.attempt, Attempt::Exact(2));
        assert_ne!(new.envelope.broker_id, old.envelope.broker_id);
        assert_eq!(new.envelope.stable_id, old.envelope.stable_id);
        assert_eq!(old.settle.extend().await, AckOutcome::NotOwner);
        assert_eq!(old.settle.ack().await, AckOutcome::NotOwner);
        assert_eq!(old.settle.give_back().await, AckOutcome::NotOwner);
        assert_eq!(redis.left().await, 1);
        assert_eq!(new.settle.ack().await, AckOutcome::Confirmed);
        assert_eq!(redis.left().await, 0);
        // An acked entry is nobody's.
        assert_eq!(new.settle.ack().await, AckOutcome::NotOwner);
    }

    /// The consumer's name is the same in both deliveries.
    async fn an_ack_of_an_old_delivery_to_the_same_consumer_is_refused(redis: Shared) {
        redis.send(&credit_of("1")).await;
        let mut only = subscribe(consumer(&redis, SHORT), 2).await;
        let mut old = take(&mut only).await;
        let mut new = take(&mut only).await;
        assert_eq!(old.envelope.stable_id, new.envelope.stable_id);
        assert_eq!(old.settle.ack().await, AckOutcome::NotOwner);
        assert_eq!(new.settle.extend().await, AckOutcome::Confirmed);
        assert_eq!(new.settle.ack().await, AckOutcome::Confirmed);
    }

    /// What was given back does not count, so the next delivery has the same count, and another owner.
    async fn an_ack_after_a_giving_back_is_refused(redis: Shared) {
        redis.send(&credit_of("1")).await;
        let mut first = subscribe(consumer(&redis, LONG), 1).await;
        let mut old = take(&mut first).await;
        assert_eq!(old.settle.give_back().await, AckOutcome::Confirmed);
        // The first one has no room, as long as it holds that delivery.
        let mut second = subscribe(consumer(&redis, LONG), 1).await;
        let mut new = take(&mut second).await;
        assert_eq!(new.envelope.attempt, old.envelope.attempt);
        assert_eq!(old.settle.ack().await, AckOutcome::NotOwner);
        assert_eq!(new.settle.ack().await, AckOutcome::Confirmed);
    }

    async fn what_a_dead_consumer_held_is_taken_over_once(redis: Shared) {
        declared(&redis).await;
        let payloads: Vec<_> = (0..250).map(|no| credit_of(&no.to_string())).collect();
        redis.send_all(&payloads).await;
        read_and_die(&redis, 250).await;
        let handled = Arc::new(Mutex::new(Vec::new()));
        let events = Events::default();
        let run = || {
            let (handled, events) = (Arc::clone(&handled), events.clone());
            let consumer = consumer(&redis, Duration::from_secs(5)).shutdown(events.until("handled", 250));
            async move {
                consumer.run(async |d| -> Handled {
                    handled.lock().unwrap().push(d.message().no.clone());
                    assert_eq!(d.attempt(), Attempt::Exact(2));
                    events.note("handled");
                    Ok(Outcome::First(()))
                }).await
            }
        };
        let (one, two, three) = tokio::join!(run(), run(), run());
        let acked: u64 = [one, two, three].into_iter().map(|summary| summary.unwrap().acked).sum();
        let handled = handled.lock().unwrap().clone();
        assert_eq!((acked, handled.len(), handled.iter().collect::<BTreeSet<_>>().len()), (250, 250, 250));
        assert_eq!(redis.left().await, 0);
    }

    async fn an_entry_that_was_deleted_while_it_was_pending_is_warned_of(redis: Shared) {
        declared(&redis).await;
        let source = format!("{}/{GROUP}", redis.stream);
        let _ = everywhere("idem.source", &source);
        redis.send_all(&[credit_of("1"), credit_of("2")]).await;
        read_and_die(&redis, 2).await;
        let deleted = redis.pending().await[0].0.clone();
        let _: u64 = redis.ask(&["XDEL", &redis.stream, &deleted]).await;
        let mut subscription = subscribe(consumer(&redis, SHORT), 4).await;
        let mut neighbour = take(&mut subscription).await;
        assert_eq!(neighbour.envelope.payload, credit_of("2").into_bytes());
        assert_eq!(neighbour.settle.ack().await, AckOutcome::Confirmed);
        let heard = everywhere("idem.source", &source);
        let of_it = |event: &&idem_tests::logs::Heard| event.field("delivery.id") == Some(&deleted);
        let warned = heard.iter().filter(of_it).filter_map(|event| event.field("message")).collect::<Vec<_>>();
        assert!(matches!(&warned[..], [text] if text.contains("deleted from the stream")), "{heard:?}");
        assert!(redis.pending().await.is_empty());
    }

    async fn deliveries_that_a_crash_ended_count_and_those_given_back_do_not(redis: Own) {
        redis.send(&credit_of("1")).await;
        let named = || consumer(&redis, LONG).name("worker-1");
        // A process that is gone has no connection, and no reader either that goes on for a moment.
        let gone = async || until(async || redis.ask::<String>(&["CLIENT", "LIST"]).await.lines().count() == 1).await;
        for delivery in 1..=3 {
            let mut subscription = subscribe(named(), 1).await;
            // The next process by that name need not wait for the lease.
            assert_eq!(take(&mut subscription).await.envelope.attempt, Attempt::Exact(delivery));
            drop(subscription);
            gone().await;
        }
        for _ in 0..2 {
            let mut subscription = subscribe(named(), 1).await;
            let mut taken = take(&mut subscription).await;
            assert_eq!(taken.envelope.attempt, Attempt::Exact(4));
            subscription.stop().await;
            assert_eq!(taken.settle.give_back().await, AckOutcome::Confirmed);
            drop((taken, subscription));
            gone().await;
        }
        let pending = redis.pending().await;
        assert!(matches!(&pending[..], [(_, owner, _, 3)] if owner == "idem-waiting"), "{pending:?}");
    }

    async fn what_ends_the_process_each_time_is_put_aside(redis: Shared) {
        declared(&redis).await;
        redis.send(&credit_of("1")).await;
        read_and_die(&redis, 1).await;
        let id = redis.pending().await[0].0.clone();
        let _: redis::Value = redis.ask(&["XCLAIM", &redis.stream, GROUP, "dead", "0", &id, "RETRYCOUNT", "7", "JUSTID"]).await;
        let aside = Events::default();
        let limited = consumer(&redis, SHORT).delivery_limit(7).shutdown(aside.until("aside", 1));
        let running = limited.run(async |_| -> Handled { unreachable!() });
        let (summary, ()) = tokio::join!(running, async {
            until(async || redis.ask::<u64>(&["XLEN", &redis.dead_letter()]).await == 1).await;
            aside.note("aside");
        });
        let summary = summary.unwrap();
        assert_eq!(summary.dead_lettered, 1);
        let letters = redis.dead_letters().await;
        let says = |name: &str, text: &str| letters[0].1.iter().any(|(at, value)| at == name && value.contains(text));
        assert!(says("idem-attempts", "8") && says("idem-error", "delivered 8 times"), "{letters:?}");
        assert_eq!(redis.left().await, 0);
    }

    /// An entry that waits is no copy: other groups see nothing of it, and it outlives the server.
    async fn a_retry_waits_in_the_set_also_through_a_crash_of_the_server(redis: Own) {
        redis.send(&credit_of("1")).await;
        let events = Events::default();
        let retried = consumer(&redis, LONG).retry(Backoff::steps([Duration::from_secs(2)]));
        let summary = retried.shutdown(events.until("handled", 1)).run(async |_| -> Handled {
            events.note("handled");
            Err(Error::Body(Failed::Refused))
        }).await.unwrap();
        assert_eq!(summary.retried, 1);
        let waiting = redis.pending().await;
        assert!(matches!(&waiting[..], [(_, owner, _, 1)] if owner == "idem-waiting"), "{waiting:?}");
        redis.kill().await;
        redis.start().await;
        assert_eq!(redis.ask::<u64>(&["XLEN", &redis.stream]).await, 1);
        assert_eq!(redis.ask::<Vec<String>>(&["ZRANGE", &redis.retries(), "0", "-1"]).await, [waiting[0].0.clone()]);
        let mut next = subscribe(consumer(&redis, SHORT), 1).await;
        let mut taken = take(&mut next).await;
        assert_eq!(taken.envelope.attempt, Attempt::Exact(2));
        assert_eq!(taken.settle.ack().await, AckOutcome::Confirmed);
        assert_eq!(redis.ask::<u64>(&["EXISTS", &redis.retries()]).await, 0);
    }

    /// It would be taken at once if it were looked at by its idle time alone.
    async fn what_waits_is_not_taken_over_and_what_is_forgotten_is(redis: Shared) {
        declared(&redis).await;
        redis.send_all(&[credit_of("1"), credit_of("2")]).await;
        read_and_die(&redis, 2).await;
        let ids: Vec<_> = redis.pending().await.into_iter().map(|(id, ..)| id).collect();
        for id in &ids {
            let _: redis::Value =
                redis.ask(&["XCLAIM", &redis.stream, GROUP, "idem-waiting", "0", id, "IDLE", "3600000", "JUSTID"]).await;
        }
        let _: u64 = redis.ask(&["ZADD", &redis.retries(), "9e15", &ids[0]]).await;
        let mut subscription = subscribe(consumer(&redis, SHORT), 2).await;
        let mut forgotten = take(&mut subscription).await;
        assert_eq!(forgotten.envelope.payload, credit_of("2").into_bytes());
        assert_eq!(forgotten.settle.ack().await, AckOutcome::Confirmed);
        // What comes later overtakes the one that waits.
        redis.send(&credit_of("3")).await;
        assert_eq!(take(&mut subscription).await.envelope.payload, credit_of("3").into_bytes());
    }

    async fn a_dead_letter_that_has_no_place_leaves_the_message_where_it_is(redis: Shared) {
        redis.send(&credit_of("1")).await;
        let events = Events::default();
        let running = consumer(&redis, LONG).max_attempts(1).shutdown(events.until("handled", 2));
        let summary = running.run(async |d| -> Handled {
            assert_eq!(d.attempt(), Attempt::Exact(1));
            if events.count("handled") == 0 {
                let () = redis.ask(&["SET", &redis.dead_letter(), "text"]).await;
            } else {
                let _: u64 = redis.ask(&["DEL", &redis.dead_letter()]).await;
            }
            events.note("handled");
            Err(Error::Body(Failed::Refused))
        }).await.unwrap();
        assert_eq!((summary.retried, summary.dead_lettered), (1, 1));
        assert_eq!(redis.dead_letters().await.len(), 1);
        assert_eq!(redis.left().await, 0);
    }

    /// Redis carries out a read whose caller is gone. Here its entry must not wait for a lease.
    async fn a_read_that_was_given_up_while_it_waited_loses_nothing(redis: Own) {
        let mut first = subscribe(consumer(&redis, LONG), 4).await;
        assert!(tokio::time::timeout(Duration::from_millis(50), first.next()).await.is_err());
        until(async || redis.ask::<String>(&["CLIENT", "LIST"]).await.contains("cmd=xreadgroup")).await;
        drop(first);
        redis.send(&credit_of("1")).await;
        let mut second = subscribe(consumer(&redis, LONG), 4).await;
        let mut taken = take(&mut second).await;
        assert_eq!(taken.envelope.attempt, Attempt::Exact(1));
        assert_eq!(taken.settle.ack().await, AckOutcome::Confirmed);
    }

    async fn what_was_read_and_not_handed_out_goes_back_at_the_end(redis: Shared) {
        let payloads: Vec<_> = (0..8).map(|no| credit_of(&no.to_string())).collect();
        redis.send_all(&payloads).await;
        let mut first = subscribe(consumer(&redis, LONG), 5).await;
        let mut held = take(&mut first).await;
        // No more than there is room.
        until(async || redis.pending().await.len() == 5).await;
        first.stop().await;
        assert_eq!(held.settle.ack().await, AckOutcome::Confirmed);
        let mut second = subscribe(consumer(&redis, LONG), 10).await;
        for payload in &payloads[1..] {
            let mut taken = take(&mut second).await;
            assert_eq!((&taken.envelope.payload[..], taken.envelope.attempt), (payload.as_bytes(), Attempt::Exact(1)));
            assert_eq!(taken.settle.ack().await, AckOutcome::Confirmed);
        }
        assert_eq!(redis.left().await, 0);
    }

    /// What is sent after a blocking read on the same connection waits for its end.
    async fn commands_do_not_stand_behind_a_read_that_waits(redis: Own) {
        redis.send(&credit_of("1")).await;
        let mut subscription = subscribe(consumer(&redis, LONG), 4).await;
        let mut taken = take(&mut subscription).await;
        assert_eq!(taken.settle.ack().await, AckOutcome::Confirmed);
        until(async || {
            let clients: String = redis.ask(&["CLIENT", "LIST"]).await;
            let one = |of: &[&str]| clients.lines().any(|client| of.iter().all(|what| client.contains(what)));
            one(&["flags=b", "cmd=xreadgroup "]) && one(&["flags=N", "cmd=evalsha "])
        }).await;
    }

    async fn a_stream_that_is_gone_is_declared_again_or_ends_the_consumer(redis: Shared) {
        let mut declares = subscribe(consumer(&redis, LONG), 1).await;
        let undeclared = redis_streams::Consumer::new(redis.client(), &*redis.stream, GROUP).unlimited_attempts();
        let mut other = subscribe(undeclared, 1).await;
        let _: u64 = redis.ask(&["DEL", &redis.stream]).await;
        // It may have been declared again before the other one looked.
        tokio::select! {
            ended = other.next() => assert!(ended.is_err_and(|error| error.to_string().contains(&redis.stream))),
            () = until(async || redis.ask::<u64>(&["EXISTS", &redis.stream]).await == 1) => {}
        }
        redis.send(&credit_of("1")).await;
        drop(other);
        assert_eq!(take(&mut declares).await.envelope.payload, credit_of("1").into_bytes());
    }

    async fn a_group_that_is_gone_ends_a_consumer_that_does_not_declare(redis: Shared) {
        declared(&redis).await;
        let undeclared = redis_streams::Consumer::new(redis.client(), &*redis.stream, GROUP).unlimited_attempts();
        let mut subscription = subscribe(undeclared, 1).await;
        let _: u64 = redis.ask(&["XGROUP", "DESTROY", &redis.stream, GROUP]).await;
        let ended = subscription.next().await;
        assert!(ended.is_err_and(|error| error.to_string().contains(&format!("{}/{GROUP}", redis.stream))));
    }

    async fn a_name_of_one_start_is_taken_out_and_a_chosen_one_stays(redis: Shared) {
        for named in [consumer(&redis, LONG), consumer(&redis, LONG).name("worker-1")] {
            let events = Events::default();
            redis.send(&credit_of("1")).await;
            named.shutdown(events.until("handled", 1)).run(async |_| -> Handled {
                events.note("handled");
                Ok(Outcome::First(()))
            }).await.unwrap();
        }
        let consumers: Vec<HashMap<String, redis::Value>> =
            redis.ask(&["XINFO", "CONSUMERS", &redis.stream, GROUP]).await;
        let names: Vec<String> = consumers.iter().map(|of| redis::from_redis_value_ref(&of["name"]).unwrap()).collect();
        assert_eq!(names, ["worker-1"]);
    }

    async fn acked_entries_are_deleted_where_that_was_asked_for(redis: Shared) {
        for (deletes, stay) in [(false, 1), (true, 1)] {
            redis.send(&credit_of("1")).await;
            let consumer = consumer(&redis, LONG);
            let mut subscription = subscribe(if deletes { consumer.delete_acked() } else { consumer }, 1).await;
            assert_eq!(take(&mut subscription).await.settle.ack().await, AckOutcome::Confirmed);
            subscription.stop().await;
            assert_eq!(redis.ask::<u64>(&["XLEN", &redis.stream]).await, stay);
        }
    }

    async fn only_letters_of_the_source_are_brought_back_and_no_more_than_asked_for(redis: Shared) {
        declared(&redis).await;
        let (dead, source) = (redis.dead_letter(), format!("{}/{GROUP}", redis.stream));
        for no in 0..250 {
            let from = if no % 2 == 0 { &*source } else { "other/group" };
            let _: String =
                redis.ask(&["XADD", &dead, "*", "payload", &credit_of(&no.to_string()), "idem-source", from]).await;
        }
        assert_eq!(consumer(&redis, LONG).redrive(Some(3)).await.unwrap(), 3);
        assert_eq!(consumer(&redis, LONG).redrive(None).await.unwrap(), 122);
        assert_eq!(consumer(&redis, LONG).redrive(None).await.unwrap(), 0);
        let back: Vec<Entry> = redis.ask(&["XRANGE", &redis.stream, "-", "+"]).await;
        let expected: Vec<_> = (0..125).map(|no| vec!["payload".to_owned(), credit_of(&(no * 2).to_string())]).collect();
        assert_eq!(back.into_iter().map(|(_, fields)| fields).collect::<Vec<_>>(), expected);
        assert_eq!(redis.dead_letters().await.len(), 125);
    }
}
