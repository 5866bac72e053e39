//! One suite for every adapter, against its real server. Effects are counted from the database.
//!
//! `conformance!(Harness)` in a module of the adapter's makes the tests.

/// The tests. On PostgreSQL and on MySQL or MariaDB: a database that goes away takes a network.
macro_rules! conformance {
    ($harness:ty) => {
        idem_tests::on_every_server! {
            given {
                use idem_runtime::{consume::{Delivery, RunError}, idempotent};
                use idem_tests::{
                    brokers::{Credit, Events, Failed, Harness, Line, Server, credit_of, fated, quick, run_until},
                    proxy::Proxy,
                };
                use std::{future::pending, net::SocketAddr, time::Duration};
                use tokio::sync::Notify;

                #[idempotent(key = msg.no, store = db, scope = "conformance")]
                async fn on_credit(db: &mut Conn, msg: &Credit) -> Result<(), Failed> {
                    credit(db, "a", msg.amount).await?;
                    if msg.fate == "fails" { Err(Failed::Refused) } else { Ok(()) }
                }

                #[idempotent(key = msg.no, store = db, scope = "conformance")]
                async fn on_slow_credit(db: &mut Conn, msg: &Credit, events: &Events, go: &Notify) -> Result<(), Failed> {
                    credit(db, "a", msg.amount).await?;
                    events.note("written");
                    go.notified().await;
                    Ok(())
                }

                /// Half of the work before the break, the rest after it.
                async fn through_a_break(lab: &Lab, harness: &mut $harness, events: &Events, kill: bool) {
                    for no in 0..20 {
                        harness.send(&credit_of(&no.to_string())).await;
                    }
                    let (consumer, _line) = harness.consumer().await;
                    let handler = async |d: &Delivery<Credit>| {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        events.outcome(on_credit(&lab.store, d.message()).await)
                    };
                    let running = quick(consumer).shutdown(events.until("first", 20)).run(async |d| handler(d).await);
                    let broken = async {
                        events.until("first", 5).await;
                        if kill {
                            harness.kill().await;
                        } else {
                            harness.stop().await;
                        }
                        harness.start().await;
                    };
                    let (ran, ()) = tokio::join!(running, broken);
                    match ran {
                        Ok(_) => {}
                        // An adapter that does not come back by itself.
                        Err(RunError::Broker { .. } | RunError::Ended { .. }) if events.count("first") < 20 => {
                            run_until(harness, events, "first", 20, handler).await;
                        }
                        Err(RunError::Broker { .. } | RunError::Ended { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    // What was delivered and not acked comes again, to nobody's harm.
                    let (consumer, _line) = harness.consumer().await;
                    let settled = tokio::time::sleep(Duration::from_secs(2));
                    let _ = quick(consumer).shutdown(settled).run(async |d| on_credit(&lab.store, d.message()).await).await;
                    assert_done(lab, harness, 20).await;
                }

                async fn assert_done(lab: &Lab, harness: &$harness, effects: i64) {
                    lab.wait_until_calm().await;
                    assert_eq!((lab.balance("a").await, lab.claims().await), (effects, effects));
                    assert_eq!(harness.left().await, 0);
                }
            }

            async fn crash_before_the_commit(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&credit_of("1")).await;
                let (consumer, line) = harness.consumer().await;
                let never = Notify::new();
                tokio::select! {
                    ended = quick(consumer).run(async |d| on_slow_credit(&lab.store, d.message(), &events, &never).await) => {
                        panic!("{ended:?}")
                    }
                    () = events.until("written", 1) => line.cut().await,
                }
                lab.wait_until_calm().await;
                assert_eq!(lab.balance("a").await, 0);
                run_until(&harness, &events, "first", 1, async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn crash_after_the_commit_before_the_ack(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&credit_of("1")).await;
                let (consumer, line) = harness.consumer().await;
                let crash = quick(consumer).run(async |d| {
                    let outcome = events.outcome(on_credit(&lab.store, d.message()).await);
                    pending::<()>().await;
                    outcome
                });
                tokio::select! {
                    ended = crash => panic!("{ended:?}"),
                    () = events.until("first", 1) => line.cut().await,
                }
                assert_eq!(lab.balance("a").await, 1);
                let summary = run_until(&harness, &events, "duplicate", 1, async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                assert_eq!((summary.acked, summary.retried), (1, 0));
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn an_ack_that_never_arrived(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&credit_of("1")).await;
                let (consumer, line) = harness.consumer().await;
                line.lose_next_ack().await;
                let ran = quick(consumer).shutdown(events.until("duplicate", 1)).run(async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                // An adapter that comes back by itself has dealt with it; for others it is the next consumer's.
                if ran.is_err() {
                    run_until(&harness, &events, "duplicate", 1, async |d| {
                        events.outcome(on_credit(&lab.store, d.message()).await)
                    }).await;
                }
                assert_eq!(events.count("first"), 1);
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            /// The first consumer is cut off after its commit; another one has the message, and acks it; then the first acks.
            async fn a_stale_ack_after_a_takeover(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&credit_of("1")).await;
                let (consumer, line) = harness.consumer().await;
                let (go, stop) = (Notify::new(), Events::default());
                let first = quick(consumer).shutdown(stop.until("stop", 1)).run(async |d| {
                    let outcome = events.outcome(on_credit(&lab.store, d.message()).await);
                    if events.count("first") == 1 && events.count("duplicate") == 0 {
                        go.notified().await;
                    }
                    outcome
                });
                let takeover = async {
                    events.until("first", 1).await;
                    line.cut().await;
                    run_until(&harness, &events, "duplicate", 1, async |d| {
                        events.outcome(on_credit(&lab.store, d.message()).await)
                    }).await;
                    // One for each delivery that waits.
                    go.notify_one();
                    go.notify_waiters();
                    stop.note("stop");
                };
                // What the broker says of the stale ack differs; the effect may not.
                let _ = tokio::join!(first, takeover);
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn a_handler_that_is_slower_than_the_broker_waits(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::OwnWithLease).await, Events::default());
                harness.send(&credit_of("1")).await;
                let summary = run_until(&harness, &events, "done", 1, async |d| {
                    let outcome = on_credit(&lab.store, d.message()).await;
                    if outcome.as_ref().is_ok_and(|outcome| outcome.is_first()) {
                        tokio::time::sleep(<$harness>::LEASE * 3).await;
                    }
                    if outcome.is_ok() {
                        events.note("done");
                    }
                    outcome
                }).await;
                assert_eq!(summary.dead_lettered, 0);
                // It was acked, or its repeat will be.
                let (consumer, _line) = harness.consumer().await;
                let settled = async { tokio::time::sleep(Duration::from_secs(2)).await };
                let _ = quick(consumer).shutdown(settled).run(async |d| on_credit(&lab.store, d.message()).await).await;
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn poison_is_one_dead_letter_and_its_neighbours_move_on(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&credit_of("1")).await;
                harness.send(&fated("poison", "fails")).await;
                harness.send("no JSON").await;
                harness.send(&credit_of("2")).await;
                let summary = run_until(&harness, &events, "failed", 3, async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                assert_eq!((summary.acked, summary.dead_lettered), (2, 2), "{summary:?}");
                let mut letters = harness.dead_letters().await;
                letters.sort();
                let [(undecodable, why), (poison, story)] = &letters[..] else { panic!("{letters:?}") };
                assert_eq!((&**undecodable, &**poison), ("no JSON", &*fated("poison", "fails")));
                let header = |of: &[(String, String)], name: &str| {
                    of.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone()).unwrap_or_default()
                };
                assert_eq!(header(why, "idem-reason"), "undecodable");
                assert_eq!(header(story, "idem-reason"), "exhausted");
                assert_eq!(header(story, "idem-attempts"), "3");
                assert_eq!(header(story, "idem-error"), "refused");
                assert_eq!(header(story, "idem-key"), "conformance/poison");
                for name in ["idem-source", "idem-broker-id", "idem-first-at", "idem-last-at"] {
                    assert!(!header(story, name).is_empty(), "no {name}");
                }
                assert_done(&lab, &harness, 2).await;
                harness.close().await;
            }

            async fn dead_letters_that_are_brought_back_run_as_first(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                harness.send(&fated("poison", "fails")).await;
                run_until(&harness, &events, "failed", 3, async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                let (consumer, _line) = harness.consumer().await;
                assert_eq!(consumer.redrive(None).await.unwrap(), 1);
                // The fault is repaired.
                let summary = run_until(&harness, &events, "first", 1, async |d| {
                    assert_eq!(d.attempt().least(), 1);
                    let message = Credit { fate: String::new(), ..d.message().clone() };
                    events.outcome(on_credit(&lab.store, &message).await)
                }).await;
                assert_eq!((summary.taken, summary.acked), (1, 1));
                assert!(harness.dead_letters().await.is_empty());
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn a_broker_that_stops_and_starts(lab: Lab) {
                let (mut harness, events) = (<$harness>::new(Server::Own).await, Events::default());
                through_a_break(&lab, &mut harness, &events, false).await;
                harness.close().await;
            }

            async fn a_broker_that_is_killed(lab: Lab) {
                let (mut harness, events) = (<$harness>::new(Server::Own).await, Events::default());
                through_a_break(&lab, &mut harness, &events, true).await;
                harness.close().await;
            }

            async fn a_database_that_goes_away_and_comes_back(lab: Lab) {
                let (_, rest) = lab.url.split_once('@').unwrap();
                let address: SocketAddr = rest.split(['/', '?']).next().unwrap().parse().unwrap();
                let proxy = Proxy::start(address, Duration::ZERO).await.unwrap();
                let builder = Lab::builder().acquire_timeout(Duration::from_secs(1)).answer_timeout(Duration::from_secs(2));
                let store = builder.connect(&proxy.in_url(&lab.url)).await.unwrap();
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                for no in 0..20 {
                    harness.send(&credit_of(&no.to_string())).await;
                }
                let (consumer, _line) = harness.consumer().await;
                // With one attempt allowed, none of the failures may count.
                let running = quick(consumer).max_attempts(1).shutdown(events.until("first", 20)).run(async |d| {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    events.outcome(on_credit(&store, d.message()).await)
                });
                let trouble = async {
                    events.until("first", 5).await;
                    proxy.refuse(true);
                    proxy.break_all();
                    events.until("failed", 3).await;
                    proxy.refuse(false);
                };
                let (summary, ()) = tokio::join!(async { running.await.unwrap() }, trouble);
                // A commit whose answer was lost is first all the same, and its message may come again.
                assert_eq!(summary.dead_lettered, 0);
                assert!(harness.dead_letters().await.is_empty());
                assert_done(&lab, &harness, 20).await;
                store.pool().close().await;
                harness.close().await;
            }

            async fn two_consumers_on_one_key(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                for _ in 0..30 {
                    harness.send(&credit_of("1")).await;
                }
                let (one, _line) = harness.consumer().await;
                let (other, _other_line) = harness.consumer().await;
                let run = |consumer| {
                    let both = events.until("duplicate", 29);
                    quick(consumer).shutdown(both).run(async |d| events.outcome(on_credit(&lab.store, d.message()).await))
                };
                let (one, other) = tokio::join!(run(one), run(other));
                let (one, other) = (one.unwrap(), other.unwrap());
                assert_eq!(one.acked + other.acked, 30);
                assert_eq!((events.count("first"), events.count("failed")), (1, 0));
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }

            async fn a_shutdown_under_load(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                for no in 0..60 {
                    harness.send(&credit_of(&no.to_string())).await;
                }
                let (consumer, _line) = harness.consumer().await;
                let summary = quick(consumer).shutdown(events.until("first", 15)).run(async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await.unwrap();
                assert_eq!((summary.lost, summary.abandoned, summary.retried), (0, 0, 0), "{summary:?}");
                assert_eq!(lab.balance("a").await, i64::try_from(summary.acked).unwrap());
                run_until(&harness, &events, "first", 60, async |d| {
                    events.outcome(on_credit(&lab.store, d.message()).await)
                }).await;
                assert_done(&lab, &harness, 60).await;
                assert_eq!(events.count("duplicate"), 0);
                harness.close().await;
            }

            /// Each gets an id of its own from the broker; the action is one.
            async fn a_producer_that_sends_the_same_action_again(lab: Lab) {
                let (harness, events) = (<$harness>::new(Server::Shared).await, Events::default());
                for _ in 0..3 {
                    harness.send(&credit_of("1")).await;
                }
                let ids = std::cell::RefCell::new(std::collections::HashSet::new());
                run_until(&harness, &events, "handled", 3, async |d| {
                    ids.borrow_mut().insert(d.broker_id().to_string());
                    let outcome = events.outcome(on_credit(&lab.store, d.message()).await);
                    events.note("handled");
                    outcome
                }).await;
                assert_eq!((events.count("first"), events.count("duplicate"), ids.borrow().len()), (1, 2, 3));
                assert_done(&lab, &harness, 1).await;
                harness.close().await;
            }
        }
    };
}

/// The tests of one broker alone, each with a queue of its own.
macro_rules! on_broker {
    ($needs:literal; $($(#[$meta:meta])* async fn $name:ident($broker:ident: $harness:ident) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        #[ignore = $needs]
        fn $name() {
            idem_tests::run(async {
                let $broker = $harness::new(Server::Shared).await;
                $body
                $broker.close().await;
            });
        }
    )*};
}

pub(crate) use {conformance, on_broker};
