//! The gate in Redis, against servers of the tests' own.

use crate::{redis_server::RedisServer, until};
use idem_runtime::{
    ConfigurationError, Key,
    gate::{Begin, Finished, Gate as _, InFlight, Look, RedisGate},
};
use idem_tests::logs::{Heard, everywhere};
use std::time::Duration;
use tracing::Level;

fn key(fact: &str) -> Key {
    Key::scope("gate.redis").part(fact).finish().unwrap()
}

fn finished() -> Finished {
    Finished {
        first_at: Some(1_767_225_600_000),
        delivery_id: Some("topic 7/订单 by=x".to_owned()),
        fingerprint: Some(vec![1, 2, 3]),
        has_result: true,
    }
}

fn mark(owner: &str) -> InFlight {
    InFlight { owner: owner.to_owned(), fingerprint: Some(vec![9]) }
}

async fn knows(gate: &RedisGate, fact: &str) -> bool {
    gate.look(&key(fact)).await != Look::Unknown
}

/// A gate that waits long, for tests of what it says and not of how fast; connected.
pub(crate) async fn gate(redis: &RedisServer, namespace: &str) -> RedisGate {
    connected(RedisGate::connect(&redis.url(), namespace).await.unwrap()).await
}

async fn connected(gate: RedisGate) -> RedisGate {
    let gate = patient(gate);
    until("the gate is connected", async || {
        gate.remember(&key("connected"), &Finished::default(), HOUR).await;
        knows(&gate, "connected").await
    })
    .await;
    gate.forget(&key("connected")).await;
    gate
}

fn patient(gate: RedisGate) -> RedisGate {
    gate.timeout(Duration::from_secs(5)).rest(Duration::from_millis(50))
}

/// What the gate of a namespace has said, and how often at each level.
fn said(namespace: &str) -> (usize, usize, Vec<Heard>) {
    let said = everywhere("idem.gate", namespace);
    let lines = |level| said.iter().filter(|event| event.level == level).count();
    (lines(Level::WARN), lines(Level::INFO), said)
}

const HOUR: Duration = Duration::from_hours(1);

macro_rules! redis_tests {
    ($($(#[$meta:meta])* async fn $name:ident() $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        #[ignore = "needs redis-server: ./scripts/test runs it"]
        fn $name() {
            idem_tests::run(async { $body });
        }
    )*};
}

redis_tests! {
    async fn what_is_remembered_is_found_whole() {
        let redis = RedisServer::start();
        let gate = gate(&redis, "shop").await;
        for finished in [finished(), Finished::default()] {
            gate.remember(&key("one"), &finished, HOUR).await;
            match gate.look(&key("one")).await {
                Look::Finished { finished: found, left } => {
                    assert_eq!(found, finished);
                    assert!(left <= HOUR && left > HOUR / 2, "{left:?}");
                }
                Look::Unknown => panic!("not remembered"),
            }
        }
        assert!(!knows(&gate, "two").await);
        gate.forget(&key("one")).await;
        assert!(!knows(&gate, "one").await);
    }

    async fn namespaces_do_not_see_each_other() {
        let redis = RedisServer::start();
        let (one, two) = (gate(&redis, "shop").await, gate(&redis, "shop.eu").await);
        one.remember(&key("one"), &finished(), HOUR).await;
        assert!(knows(&one, "one").await);
        assert!(!knows(&two, "one").await);
        two.forget(&key("one")).await;
        assert!(knows(&one, "one").await);
        assert!(one.redis_key(&key("one")).starts_with("idem:shop:"));
    }

    /// Whatever a key's text holds, its name in Redis is short, and its own.
    async fn no_two_actions_have_one_name() {
        let redis = RedisServer::start();
        let gate = gate(&redis, "shop").await;
        let action = |scope: &'static str, text: &str| Key::scope(scope).part(text).finish().unwrap();
        let long = "x".repeat(5000);
        let actions = [
            action("ab", "c"), action("a", "bc"), action("a/b", "c"), action("a", "b/c"), action("a", "B/c"), action("a {x}", "1"), action("a {x}", "2"),
            action("a", &long), action("a", &format!("{long}y")), action("订单", "一"),
        ];
        for (place, action) in actions.iter().enumerate() {
            assert_eq!(gate.look(action).await, Look::Unknown, "{place}");
            gate.remember(action, &finished(), HOUR).await;
            assert!(gate.redis_key(action).len() < 100);
        }
        let names: i64 = redis.ask(&["DBSIZE"]);
        assert_eq!(usize::try_from(names).unwrap(), actions.len());
    }

    async fn nothing_is_kept_for_longer_than_told_or_set() {
        let redis = RedisServer::start();
        let gate = gate(&redis, "shop").await;
        let left = |fact: &str| redis.ask::<i64>(&["PTTL", &gate.redis_key(&key(fact))]);
        gate.remember(&key("told"), &finished(), Duration::from_secs(100)).await;
        assert!((50_000..=100_000).contains(&left("told")), "{}", left("told"));
        gate.remember(&key("day"), &finished(), HOUR * 1000).await;
        assert!((86_000_000..=86_400_000).contains(&left("day")), "{}", left("day"));
        let short = gate.clone().keep(Duration::from_secs(10));
        short.remember(&key("set"), &finished(), HOUR).await;
        assert!((5_000..=10_000).contains(&left("set")), "{}", left("set"));
        let endless = gate.clone().keep(Duration::MAX);
        endless.remember(&key("endless"), &finished(), Duration::MAX).await;
        assert!(left("endless") > 86_400_000);
        gate.remember(&key("zero"), &finished(), Duration::ZERO).await;
        gate.remember(&key("zero"), &finished(), Duration::from_nanos(1)).await;
        assert!(!knows(&gate, "zero").await);
        gate.remember(&key("short"), &finished(), Duration::from_millis(30)).await;
        until("expired", async || !knows(&gate, "short").await).await;
    }

    /// Another program's list, another version's text, half a value, a value without an end.
    async fn what_the_gate_did_not_write_is_unknown_and_is_said_once() {
        let redis = RedisServer::start();
        let namespace = format!("garbage-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = gate(&redis, &namespace).await;
        let name = |fact: &str| gate.redis_key(&key(fact));
        redis.ask::<()>(&["LPUSH", &name("list"), "1"]);
        redis.ask::<()>(&["SET", &name("text"), "1", "PX", "60000"]);
        redis.ask::<()>(&["SET", &name("version"), "idem2 done first=- payload=- result=no", "PX", "60000"]);
        redis.ask::<()>(&["SET", &name("half"), "idem1 done first=- payl", "PX", "60000"]);
        redis.ask::<()>(&["SET", &name("endless"), "idem1 done first=- payload=- result=no"]);
        gate.remember(&key("fine"), &finished(), HOUR).await;
        for _ in 0..5 {
            for fact in ["list", "text", "version", "half", "endless"] {
                assert!(!knows(&gate, fact).await, "{fact}");
                assert!(knows(&gate, "fine").await, "others are none the worse for {fact}");
            }
        }
        let (warnings, _, all) = said(&namespace);
        assert_eq!((warnings, all.len()), (1, 1), "{all:#?}");
        // The gate takes its keys back.
        for fact in ["list", "text", "version", "half", "endless"] {
            gate.remember(&key(fact), &finished(), HOUR).await;
            assert!(knows(&gate, fact).await, "{fact}");
        }
    }

    async fn a_mark_is_owned_expires_and_is_no_memory() {
        let redis = RedisServer::start();
        let gate = gate(&redis, "shop").await.in_flight(Duration::from_mins(1));
        assert_eq!(gate.begin(&key("one"), &mark("a")).await, Begin::Go);
        let left: i64 = redis.ask(&["PTTL", &gate.redis_key(&key("one"))]);
        assert!((30_000..=60_000).contains(&left), "a mark without an end: {left}");
        assert!(!knows(&gate, "one").await, "a mark is taken for a finished action");
        match gate.begin(&key("one"), &mark("b")).await {
            Begin::Taken { by, retry_after } => {
                assert_eq!(by, mark("a"));
                assert!(retry_after <= Duration::from_mins(1) && !retry_after.is_zero());
            }
            Begin::Go => panic!("two owners"),
        }
        gate.release(&key("one"), &mark("b")).await;
        assert!(matches!(gate.begin(&key("one"), &mark("b")).await, Begin::Taken { .. }), "another's mark was taken away");
        gate.release(&key("one"), &mark("a")).await;
        assert_eq!(gate.begin(&key("one"), &mark("b")).await, Begin::Go);
        // What is finished is not released, and not marked.
        gate.remember(&key("one"), &finished(), HOUR).await;
        gate.release(&key("one"), &mark("b")).await;
        assert!(knows(&gate, "one").await);
        assert_eq!(gate.begin(&key("one"), &mark("c")).await, Begin::Go);
        assert!(knows(&gate, "one").await);
        let brief = gate.clone().in_flight(Duration::from_millis(30));
        assert_eq!(brief.begin(&key("two"), &mark("a")).await, Begin::Go);
        until("the mark expired", async || brief.begin(&key("two"), &mark("b")).await == Begin::Go).await;
        let off = self::gate(&redis, "off").await;
        assert_eq!(off.begin(&key("one"), &mark("a")).await, Begin::Go);
        assert_eq!(off.begin(&key("one"), &mark("b")).await, Begin::Go);
        assert_eq!(redis.ask::<i64>(&["EXISTS", &off.redis_key(&key("one"))]), 0);
    }

    async fn a_server_that_comes_later_is_found_and_trouble_is_two_lines() {
        let mut redis = RedisServer::start();
        redis.stop();
        let namespace = format!("later-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = patient(RedisGate::connect(&redis.url(), &namespace).await.unwrap());
        for _ in 0..100 {
            assert!(!knows(&gate, "one").await);
            gate.remember(&key("one"), &finished(), HOUR).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 0), "{all:#?}");
        redis.run();
        until("found", async || {
            gate.remember(&key("one"), &finished(), HOUR).await;
            knows(&gate, "one").await
        }).await;
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 1), "{all:#?}");
    }

    /// A held process keeps its connections and answers nothing: only the first few wait, and once in a rest another.
    async fn a_server_that_is_held_costs_little_and_comes_back() {
        let redis = RedisServer::start();
        let namespace = format!("held-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = gate(&redis, &namespace).await;
        gate.remember(&key("one"), &finished(), HOUR).await;
        assert!(knows(&gate, "one").await);
        let hasty = gate.clone().timeout(Duration::from_millis(50)).rest(Duration::from_secs(5));
        redis.hold();
        let began = std::time::Instant::now();
        for _ in 0..10_000 {
            assert!(!knows(&hasty, "one").await);
        }
        // 10,000 waits of 50 ms would be over eight minutes.
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 0), "{all:#?}");
        redis.go_on();
        until("well again", async || knows(&gate, "one").await).await;
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 1), "{all:#?}");
    }

    async fn a_full_server_is_read_and_not_written() {
        let redis = RedisServer::start();
        let namespace = format!("full-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = gate(&redis, &namespace).await;
        gate.remember(&key("before"), &finished(), HOUR).await;
        redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        for _ in 0..100 {
            gate.remember(&key("after"), &finished(), HOUR).await;
            assert!(knows(&gate, "before").await, "a full Redis still answers");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(!knows(&gate, "after").await);
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 0), "{all:#?}");
        redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        until("written again", async || {
            gate.remember(&key("after"), &finished(), HOUR).await;
            knows(&gate, "after").await
        }).await;
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 1), "{all:#?}");
    }

    async fn a_read_only_replica_is_read_and_becomes_master_again() {
        let redis = RedisServer::start();
        let namespace = format!("replica-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = gate(&redis, &namespace).await;
        gate.remember(&key("before"), &finished(), HOUR).await;
        redis.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        until("a new connection is made after the refusal", async || {
            gate.remember(&key("after"), &finished(), HOUR).await;
            knows(&gate, "before").await
        }).await;
        assert!(!knows(&gate, "after").await);
        assert_eq!(said(&namespace).0, 1, "{:#?}", said(&namespace).2);
        redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        until("written again", async || {
            gate.remember(&key("after"), &finished(), HOUR).await;
            knows(&gate, "after").await
        }).await;
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 1), "{all:#?}");
    }

    /// As while it loads its data: every command is answered with an error.
    async fn a_server_that_refuses_everything_is_left_alone() {
        let redis = RedisServer::start();
        let namespace = format!("masterdown-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let gate = gate(&redis, &namespace).await;
        gate.remember(&key("one"), &finished(), HOUR).await;
        redis.ask::<()>(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
        redis.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        for _ in 0..50 {
            assert!(!knows(&gate, "one").await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 0), "{all:#?}");
        redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        until("well again", async || knows(&gate, "one").await).await;
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 1), "{all:#?}");
    }

    async fn a_wrong_password_is_trouble_and_is_not_shown() {
        let redis = RedisServer::with(&["--requirepass", "right"]);
        let namespace = format!("password-{}", redis.port);
        assert!(said(&namespace).2.is_empty());
        let wrong = format!("redis://:s3cret-wrong@127.0.0.1:{}", redis.port);
        let gate = patient(RedisGate::connect(&wrong, &namespace).await.unwrap());
        for _ in 0..20 {
            assert!(!knows(&gate, "one").await);
        }
        let (warnings, infos, all) = said(&namespace);
        assert_eq!((warnings, infos), (1, 0), "{all:#?}");
        assert!(!format!("{all:?} {gate:?}").contains("s3cret"), "{all:?} {gate:?}");
        let right = format!("redis://:right@127.0.0.1:{}", redis.port);
        let gate = connected(RedisGate::connect(&right, &namespace).await.unwrap()).await;
        gate.remember(&key("one"), &finished(), HOUR).await;
        assert!(knows(&gate, "one").await);
    }

    async fn a_cluster_is_a_gate_too() {
        let redis = RedisServer::with(&["--cluster-enabled", "yes"]);
        redis.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        until("the cluster is up", async || redis.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
        let gate = connected(RedisGate::cluster([redis.url()], "shop").await.unwrap()).await.in_flight(HOUR);
        for number in 0..20_i64 {
            let fact = number.to_string();
            assert_eq!(gate.begin(&key(&fact), &mark("a")).await, Begin::Go);
            assert!(matches!(gate.begin(&key(&fact), &mark("b")).await, Begin::Taken { .. }));
            gate.release(&key(&fact), &mark("a")).await;
            assert_eq!(redis.ask::<i64>(&["DBSIZE"]), number);
            gate.remember(&key(&fact), &finished(), HOUR).await;
            assert!(knows(&gate, &fact).await);
        }
    }

    async fn a_sentinel_names_the_master_and_the_next_one() {
        let mut master = RedisServer::start();
        let replica = RedisServer::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sentinel.conf");
        std::fs::write(&file, "").unwrap();
        let sentinel = RedisServer::sentinel(&file);
        sentinel.ask::<()>(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &master.port.to_string(), "1"]);
        sentinel.ask::<()>(&["SENTINEL", "SET", "mymaster", "down-after-milliseconds", "500"]);
        let gate = connected(RedisGate::sentinel([sentinel.url()], "redis://mymaster/0", "shop").await.unwrap()).await;
        gate.remember(&key("one"), &finished(), HOUR).await;
        assert!(knows(&gate, "one").await);
        assert_eq!(master.ask::<i64>(&["DBSIZE"]), 1);
        // The sentinel must know the replica before it can promote it.
        until("the replica is known", async || {
            let replicas: redis::Value = sentinel.ask(&["SENTINEL", "REPLICAS", "mymaster"]);
            format!("{replicas:?}").contains(&replica.port.to_string())
        }).await;
        until("the replica has caught up", async || replica.ask::<i64>(&["DBSIZE"]) == 1).await;
        master.stop();
        until("the next master is used", async || {
            gate.remember(&key("two"), &finished(), HOUR).await;
            knows(&gate, "two").await
        }).await;
        assert_eq!(replica.ask::<i64>(&["DBSIZE"]), 2);
    }
}

#[test]
fn what_cannot_be_a_gate_is_refused_at_once() {
    idem_tests::run(async {
        for namespace in ["", " ", "a b", "a:b", "a/b", "订单", "a\n", &"x".repeat(65)] {
            let refused = RedisGate::connect("redis://127.0.0.1:1", namespace).await;
            assert!(matches!(refused, Err(ConfigurationError::Gate(_))), "{namespace:?}: {refused:?}");
        }
        for url in ["", "127.0.0.1", "http://127.0.0.1", "redis://:s3cret@127.0.0.1:notaport", "redis://127.0.0.1/text"]
        {
            match RedisGate::connect(url, "shop").await {
                Err(ConfigurationError::Gate(text)) => assert!(!text.contains("s3cret"), "{text}"),
                other => panic!("{url:?}: {other:?}"),
            }
        }
        let refused = RedisGate::sentinel(["redis://127.0.0.1:1"], "unix:///tmp/socket", "shop").await;
        assert!(matches!(refused, Err(ConfigurationError::Gate(_))), "{refused:?}");
        let refused = RedisGate::cluster(Vec::<String>::new(), "shop").await;
        assert!(matches!(refused, Err(ConfigurationError::Gate(_))), "{refused:?}");
        // A server that is down is no mistake.
        for namespace in ["shop", "Shop_2.eu-1", &"x".repeat(64)] {
            let gate = RedisGate::connect("redis://127.0.0.1:1", namespace).await.unwrap();
            assert_eq!(gate.look(&key("one")).await, Look::Unknown);
        }
    });
}

on_every_database_with_redis! {
    given {}

    async fn repeats_are_answered_without_the_database_in_other_processes_too(lab: Lab) {
        let redis = RedisServer::start();
        let one = lab.other_store(Lab::builder().gate(gate(&redis, "shop").await)).await;
        for fact in 0..20 {
            assert!(one.once(key(&fact.to_string()), async |db| credit(db, "a", 1).await).await.unwrap().is_first());
        }
        let two = lab.other_store(Lab::builder().gate(gate(&redis, "shop").await)).await;
        two.pool().close().await;
        for fact in 0..20 {
            assert!(two.once(key(&fact.to_string()), async |db| credit(db, "a", 1).await).await.unwrap().is_duplicate());
        }
        assert_eq!((lab.balance("a").await, lab.claims().await), (20, 20));
        one.pool().close().await;
    }
}
