//! The story of Redis in front of the database.

use crate::run::{Run, fails_without_idem};

const ACCOUNTS: &str = "SELECT account, coupons, cents FROM accounts ORDER BY account";
/// Worked out by hand, as in the data folder's README.
const RIGHT: [&str; 5] = ["A-1 15 7500", "A-2 15 9000", "A-3 15 10500", "A-8 1 900", "A-9 1 2500"];
/// Nobody listens there.
const NO_REDIS: [(&str, &str); 1] = [("IDEM_REDIS", "redis://127.0.0.1:1")];

fn answers(run: &Run) -> Vec<String> {
    (1..=7).map(|nth| run.with_idem(&format!("reading {nth}")).remove(0)).collect()
}

async fn is_right(run: &Run) {
    assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    assert_eq!(run.rows("with-idem.db", ACCOUNTS).await, RIGHT);
    assert_eq!(run.rows("with-idem.db", "SELECT COUNT(*) FROM idem_records").await, ["47"]);
    let without = run.rows("without-idem.db", ACCOUNTS).await;
    assert!(without.contains(&"A-8 0 0".into()), "the mark was set and the body failed: lost: {without:?}");
    assert!(without.contains(&"A-1 28 14000".into()), "the marks were flushed: twice: {without:?}");
}

#[tokio::test]
async fn it_runs_without_redis() {
    let run = Run::with_env(&["two-layers", "--keep"], &NO_REDIS);
    assert!(run.stdout().contains("No Redis answers"), "{}", run.stdout());
    is_right(&run).await;
    let expected = [
        "39 first, 1 failed",
        "1 first, 39 duplicate (39 by a gate)",
        "40 duplicate (40 by a gate)",
        "40 duplicate",
        "40 duplicate",
        "6 first, 40 duplicate, 1 failed",
        "1 first, 46 duplicate",
    ];
    assert_eq!(answers(&run), expected);
    assert_eq!(Run::with_env(&["two-layers"], &NO_REDIS).left_behind(), Vec::<std::path::PathBuf>::new());
}

/// How much a gate in Redis answers depends on how fast Redis is; what comes out does not.
#[tokio::test]
#[ignore = "needs Redis: ./scripts/test runs it"]
async fn redis_saves_the_database_work() {
    let redis = std::env::var("IDEM_TEST_REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let run = Run::with_env(&["two-layers", "--keep"], &[("IDEM_REDIS", &redis)]);
    assert!(run.stdout().contains("Redis answers: the gate"), "{}", run.stdout());
    is_right(&run).await;
    let answers = answers(&run);
    assert!(answers[3].starts_with("40 duplicate (") && answers[3].ends_with(" by a gate)"), "{}", answers[3]);
    assert_eq!(answers[4], "40 duplicate", "Redis has forgotten");
}

#[test]
fn the_check_can_fail() {
    fails_without_idem("two-layers");
}
