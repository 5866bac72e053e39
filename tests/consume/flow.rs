//! Order, pressure, shutdown, and starts that are refused.

use crate::script::{Broker, Fault, Op};
use idem_runtime::{
    Error, Outcome,
    consume::{Backoff, Consumer, Holding, Horizon, RunError, StartError},
    idempotent,
};
use idem_tests::brokers::{Credit, Failed, credit_of};
use std::{cell::RefCell, future::pending, time::Duration};
use tokio::sync::Notify;

const STEP: Duration = Duration::from_millis(2);

fn consumer(broker: &Broker) -> Consumer<Broker, Credit> {
    Consumer::of(broker.clone()).concurrency(4).retry(Backoff::steps([STEP])).max_attempts(1000)
}

type Handled = Result<Outcome<()>, Error<Failed>>;

/// The key of the lane: what stands before the number.
fn lane(message: &Credit) -> String {
    message.no.chars().take_while(|letter| letter.is_alphabetic()).collect()
}

#[tokio::test]
async fn a_failing_key_keeps_its_order_and_holds_up_no_other() {
    let broker = Broker::new();
    for no in ["a1", "a2", "b1", "a3", "b2", "c1"] {
        broker.send(credit_of(no));
    }
    let handled = RefCell::new(Vec::new());
    let summary = consumer(&broker)
        .ordered_by(lane)
        .shutdown(broker.when_acked(6))
        .run(async |d| -> Handled {
            let no = d.message().no.clone();
            // a1 fails until all the others that may pass have passed.
            if no == "a1" && broker.count("ack ") < 3 {
                return Err(Error::Body(Failed::Refused));
            }
            handled.borrow_mut().push(no);
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
    let handled = handled.into_inner();
    let of = |key: &str| handled.iter().filter(|no| no.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b"), of("c")),
        (vec!["a1".into(), "a2".into(), "a3".into()], vec!["b1".into(), "b2".into()], vec!["c1".to_owned()])
    );
    assert_eq!(handled.iter().position(|no| no == "a1"), Some(3), "{handled:?}");
    // In place, and not by way of the broker.
    assert_eq!((summary.taken, summary.retried, summary.acked), (6, 0, 6));
}

#[tokio::test]
async fn a_lane_runs_one_at_a_time() {
    let broker = Broker::new();
    for number in 0..20 {
        broker.send(credit_of(&format!("{}{number}", if number % 2 == 0 { "a" } else { "b" })));
    }
    let running = RefCell::new(Vec::<String>::new());
    consumer(&broker)
        .ordered_by(lane)
        .shutdown(broker.when_acked(20))
        .run(async |d| -> Handled {
            let key = lane(d.message());
            assert!(!running.borrow().contains(&key));
            running.borrow_mut().push(key.clone());
            tokio::time::sleep(Duration::from_millis(1)).await;
            running.borrow_mut().retain(|other| *other != key);
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
    assert_eq!(broker.dead().len(), 0);
}

/// In an exhausted lane the next one has its turn.
#[tokio::test]
async fn a_lane_goes_on_after_a_dead_letter() {
    let broker = Broker::new();
    broker.send(credit_of("a1"));
    broker.send(credit_of("a2"));
    let summary = consumer(&broker)
        .max_attempts(3)
        .ordered_by(lane)
        .shutdown(broker.when_acked(1))
        .run(async |d| -> Handled {
            if d.message().no == "a1" { Err(Error::Body(Failed::Refused)) } else { Ok(Outcome::First(())) }
        })
        .await
        .unwrap();
    assert_eq!((summary.dead_lettered, summary.acked, summary.retried), (1, 1, 0));
    assert_eq!(broker.dead()[0].1.attempts, 3);
}

/// A broker that lets nobody hold a delivery for ever: the head of the lane goes back, and what waits behind it too.
#[tokio::test]
async fn a_lane_goes_back_as_a_whole() {
    let mut broker = Broker::new();
    broker.holding = Holding { lease: None, longest: Some(Duration::from_millis(60)) };
    broker.send(credit_of("a1"));
    broker.send(credit_of("a2"));
    let released = std::cell::Cell::new(false);
    let handled = RefCell::new(Vec::new());
    let summary = consumer(&broker)
        .ordered_by(lane)
        .shutdown(broker.when_acked(2))
        .run(async |d| -> Handled {
            released.set(released.get() || broker.count("retry ") > 0);
            if !released.get() {
                return Err(Error::Body(Failed::Refused));
            }
            handled.borrow_mut().push(d.message().no.clone());
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
    assert_eq!((summary.retried, summary.given_back, summary.acked), (1, 1, 2));
}

#[tokio::test]
async fn no_more_is_taken_than_there_is_room_for() {
    let broker = Broker::new();
    for number in 0..10 {
        broker.send(credit_of(&number.to_string()));
    }
    let go = Notify::new();
    let running = consumer(&broker).concurrency(3).shutdown(broker.when_acked(10)).run(async |_| -> Handled {
        broker.note("running");
        go.notified().await;
        Ok(Outcome::First(()))
    });
    let watch = async {
        broker.until(|broker| broker.count("running") == 3).await;
        // It has every opportunity to take more.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((broker.queued(), broker.most_held()), (7, 3));
        for _ in 0..10 {
            go.notify_one();
            let acked = broker.count("ack ");
            broker.until(|broker| broker.count("ack ") > acked).await;
        }
    };
    let (summary, ()) = tokio::join!(running, watch);
    assert_eq!(summary.unwrap().acked, 10);
    assert_eq!((broker.most_held(), broker.plan().in_flight, broker.plan().concurrency), (3, 3, 3));
}

#[tokio::test]
async fn a_message_that_is_worked_on_is_held() {
    let mut broker = Broker::new();
    broker.holding = Holding { lease: Some(Duration::from_millis(15)), longest: None };
    broker.send(credit_of("a1"));
    broker.send(credit_of("a2"));
    consumer(&broker)
        .ordered_by(lane)
        .shutdown(broker.when_acked(2))
        .run(async |_| -> Handled {
            // The one that waits behind it is held as well: two for each tick.
            let before = broker.extended();
            broker.until(|broker| broker.extended() >= before + 3).await;
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_shutdown_lets_running_handlers_end_and_gives_back_what_waits() {
    let broker = Broker::new();
    for no in ["a1", "a2", "b1", "c1"] {
        broker.send(credit_of(no));
    }
    let go = Notify::new();
    let summary = consumer(&broker)
        .concurrency(2)
        .backlog(1)
        .ordered_by(lane)
        .shutdown(broker.when(|broker| broker.count("running") == 2))
        .run(async |_| -> Handled {
            broker.note("running");
            let stopped = broker.when(|broker| broker.count("give-back") == 1);
            tokio::select! { () = stopped => {}, () = go.notified() => {} }
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
    // a1 and b1 ran and were acked; a2 waited for a1; c1 was never taken.
    assert_eq!((summary.taken, summary.acked, summary.given_back, summary.abandoned), (3, 2, 1, 0));
    assert_eq!((broker.queued(), broker.is_finished()), (2, true));
    assert_eq!(broker.count("give-back {\"no\":\"a2\"}"), 1);
}

#[tokio::test]
async fn a_message_that_waits_for_its_next_try_goes_back_at_the_shutdown() {
    let broker = Broker::new();
    broker.send(credit_of("a1"));
    let summary = consumer(&broker)
        .retry(Backoff::steps([Duration::from_mins(10)]))
        .ordered_by(lane)
        .shutdown(broker.when(|broker| broker.count("failed") == 1))
        .run(async |_| -> Handled {
            broker.note("failed");
            Err(Error::Body(Failed::Refused))
        })
        .await
        .unwrap();
    assert_eq!((summary.retried, summary.taken), (1, 1));
    assert_eq!(broker.redeliveries()[0].attempts, 1);
}

/// What hangs at the end of the grace goes back; what cannot even be given back is let go.
#[tokio::test]
async fn the_deadline_is_kept() {
    let broker = Broker::new();
    broker.fault(Op::Ack, Fault::Hangs);
    broker.send(credit_of("hangs in its ack"));
    broker.send(credit_of("hangs"));
    let summary = consumer(&broker)
        .grace(Duration::from_millis(20))
        .settle_timeout(Duration::from_secs(1))
        .shutdown(broker.when(|broker| broker.count("Ack hangs") == 1 && broker.count("hanging") == 1))
        .run(async |d| -> Handled {
            if d.message().no == "hangs" {
                broker.note("hanging");
                pending::<()>().await;
            }
            Ok(Outcome::First(()))
        })
        .await
        .unwrap();
    assert_eq!((summary.given_back, summary.acked), (1, 0));
    assert_eq!(summary.lost + summary.abandoned, 1);
    assert_eq!(broker.queued(), 2);
}

#[tokio::test]
async fn a_broker_that_is_lost_ends_the_run_after_what_is_held() {
    let broker = Broker::new();
    broker.send(credit_of("1"));
    let error = consumer(&broker)
        .run(async |_| -> Handled {
            broker.break_down();
            Ok(Outcome::First(()))
        })
        .await
        .unwrap_err();
    let RunError::Broker { summary, error, .. } = error else { panic!("{error}") };
    assert_eq!((summary.acked, error.to_string()), (1, "reading: the broker is gone".to_owned()));
}

#[tokio::test]
async fn a_start_that_is_not_safe_is_refused_with_its_reason() {
    let mut broker = Broker::new();
    broker.refuses = Some("no dead letters");
    let error = consumer(&broker).run(async |_| -> Handled { unreachable!() }).await.unwrap_err();
    assert_eq!(error.to_string(), "this consumer of script is not safe, so it does not start: no dead letters");
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = msg.no, store = db, scope = "consume.flow")]
        async fn on_credit(db: &mut Conn, msg: &Credit, then: &Notify) -> Result<(), Failed> {
            credit(db, "a", msg.amount).await?;
            then.notified().await;
            Ok(())
        }
    }

    /// A handler that does not end before the deadline is rolled back, and its message goes back.
    async fn a_unit_that_the_deadline_ends_leaves_nothing_behind(lab: Lab) {
        let broker = Broker::new();
        broker.send(credit_of("1"));
        let never = Notify::new();
        let summary = consumer(&broker)
            .grace(Duration::from_millis(50))
            .shutdown(broker.when(|broker| broker.count("running") == 1))
            .run(async |d| {
                broker.note("running");
                on_credit(&lab.store, d.message(), &never).await
            })
            .await
            .unwrap();
        assert_eq!((summary.given_back, summary.acked), (1, 0));
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await, broker.queued()), (0, 0, 1));
    }

    /// The crash: the whole consumer is dropped in the middle of a body. The next one does the work.
    async fn a_consumer_that_is_dropped_leaves_nothing_behind(lab: Lab) {
        let broker = Broker::new();
        broker.send(credit_of("1"));
        let never = Notify::new();
        let running = consumer(&broker).run(async |d| {
            broker.note("running");
            on_credit(&lab.store, d.message(), &never).await
        });
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            () = broker.until(|broker| broker.count("running") == 1) => {}
        }
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await, broker.queued()), (0, 0, 1));
        let go = Notify::new();
        go.notify_one();
        consumer(&broker)
            .shutdown(broker.when_acked(1))
            .run(async |d| on_credit(&lab.store, d.message(), &go).await)
            .await
            .unwrap();
        assert_eq!(lab.balance("a").await, 1);
    }

    /// C35: records that are forgotten before the broker forgets the message.
    async fn a_retention_shorter_than_the_horizon_is_refused(lab: Lab) {
        let mut broker = Broker::new();
        for (days, fits) in [(30, true), (31, false)] {
            let longest = Duration::from_hours(24 * days);
            broker.horizon = Some(Horizon { longest, because: "a broker with a long memory".to_owned() });
            let ran = consumer(&broker)
                .covered_by(&lab.store)
                .shutdown(std::future::ready(()))
                .run(async |_| -> Handled { unreachable!() })
                .await;
            match ran {
                Ok(_) => assert!(fits),
                Err(RunError::Start(StartError::Unsafe { reason, .. })) => {
                    assert!(!fits && reason.contains("a broker with a long memory"), "{reason}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
