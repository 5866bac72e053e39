//! One-time tokens: the server issues one with the form, the claim burns it, and a failed body gives it back.

use idem_runtime::{
    Advice, Busy, ClaimError, ConfigurationError, Error, IssueError, Key, KeyError, Outcome, Retention, TokenError,
    idempotent,
};
use idem_tests::{
    cancel::{
        Moment::{Answered, Asked},
        drop_at,
    },
    logs::Listener,
};
use sqlx::AssertSqlSafe;
use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tracing::Level;

const MINUTE: Duration = Duration::from_mins(1);

struct Form {
    token: String,
    fail: bool,
}

impl Form {
    fn of(token: impl Into<String>) -> Self {
        Self { token: token.into(), fail: false }
    }
}

fn refused<T: std::fmt::Debug>(result: Result<Outcome<T>, Error<sqlx::Error>>) -> TokenError {
    match result {
        Err(error @ Error::Token(_)) => {
            assert!(!error.is_retryable());
            assert_eq!((error.advice(), error.label()), (Advice::DeadLetter, "failed"));
            let Error::Token(refused) = error else { unreachable!() };
            refused
        }
        other => panic!("not refused: {other:?}"),
    }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(token = form.token, store = db, scope = "claims.form")]
        async fn submit(db: &mut Conn, form: &Form) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            if form.fail { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        #[idempotent(token = form.token, store = db, scope = "claims.other")]
        async fn other(db: &mut Conn, form: &Form) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        #[idempotent(token = form.token, store = db, scope = "claims.form", retry = 2)]
        async fn retried(db: &mut Conn, form: &Form, tries: &AtomicUsize) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await?;
            if tries.fetch_add(1, Ordering::SeqCst) < 2 { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
        }

        async fn issue(store: &Db) -> Form {
            Form::of(store.tokens("claims.form").issue(MINUTE).await.unwrap())
        }

        async fn run_sql(lab: &Lab, sql: &str) {
            raw(&mut lab.pool.acquire().await.unwrap(), sql).await.unwrap();
        }

        /// Moves the expiry of all tokens into the past, or to a known instant.
        async fn expire(lab: &Lab) {
            run_sql(lab, match DIALECT {
                Dialect::Sqlite => "UPDATE idem_records_tokens SET expires_at = '2026-01-31T08:15:00.000Z'",
                Dialect::Postgres => "UPDATE idem_records_tokens SET expires_at = '2026-01-31 08:15:00+00'",
                Dialect::MySql => "UPDATE idem_records_tokens SET expires_at = '2026-01-31 08:15:00'",
            }).await;
        }

        /// All that is in a table, as text.
        async fn dump(lab: &Lab, table: &str) -> String {
            use sqlx::{Column as _, Executor as _, Row as _};
            use std::fmt::Write as _;
            let rows = lab.pool.fetch_all(sqlx::raw_sql(AssertSqlSafe(format!("SELECT * FROM {table}")))).await.unwrap();
            let mut text = String::new();
            for row in &rows {
                for column in row.columns() {
                    let value: Option<String> = row.try_get_unchecked(column.ordinal()).unwrap_or_default();
                    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column.ordinal()).unwrap_or_default();
                    let bytes = bytes.unwrap_or_default();
                    writeln!(text, "{} {value:?} {}", column.name(), String::from_utf8_lossy(&bytes)).unwrap();
                }
            }
            assert_eq!(rows.is_empty(), text.is_empty());
            text
        }
    }

    async fn a_token_works_once(lab: Lab) {
        let form = issue(&lab.store).await;
        assert!(submit(&lab.store, &form).await.unwrap().is_first());
        for _ in 0..3 {
            let Outcome::Duplicate(seen) = submit(&lab.store, &form).await.unwrap() else { panic!("no repeat") };
            assert!(seen.first_at.is_some() && !seen.late);
        }
        let second = issue(&lab.store).await;
        assert!(submit(&lab.store, &second).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    /// The service that shows the form may keep its records for longer than the one that takes it.
    async fn a_token_that_outlives_the_record_of_its_burning_works_once_all_the_same(lab: Lab) {
        let brief = lab.other_store(Lab::builder().retention(Retention::of(Duration::from_secs(30)))).await;
        let form = issue(&lab.store).await;
        assert!(submit(&brief, &form).await.unwrap().is_first());
        assert!(submit(&brief, &form).await.unwrap().is_duplicate());
        // The record's time is over, and the token's is not.
        run_sql(&lab, "DELETE FROM idem_records").await;
        assert_eq!(refused(submit(&brief, &form).await), TokenError::Unknown);
        assert_eq!(lab.balance("a").await, 1);
        // A body that fails gives such a token back, too.
        let form = Form { fail: true, ..issue(&lab.store).await };
        assert!(matches!(submit(&brief, &form).await, Err(Error::Body(_))));
        assert!(submit(&brief, &Form { fail: false, ..form }).await.unwrap().is_first());
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 1));
        brief.pool().close().await;
    }

    async fn what_was_not_issued_here_is_refused_and_leaves_nothing(lab: Lab) {
        let forged = "0123456789abcdef".repeat(4);
        let listener = Listener::start();
        assert_eq!(refused(submit(&lab.store, &Form::of(forged.clone())).await), TokenError::Unknown);
        let heard = listener.outcomes();
        let [event] = &heard[..] else { panic!("{heard:#?}") };
        assert_eq!((event.level, event.field("idem.outcome")), (Level::WARN, Some("failed")));
        assert!(!format!("{event:?}").contains(&forged));
        // Issued since? Then it is one of ours: what was refused left no claim that would be a repeat's.
        assert_eq!(lab.claims().await, 0);
        lab.wait_until_calm().await;

        let form = issue(&lab.store).await;
        let foreign = refused(other(&lab.store, &form).await);
        assert_eq!(foreign, TokenError::Foreign { scope: "claims.other".to_owned() });
        assert_eq!((lab.claims().await, lab.balance("a").await), (0, 0));
        // It was not burnt by being tried at the wrong door, nor does a burnt one open another.
        assert!(submit(&lab.store, &form).await.unwrap().is_first());
        assert_eq!(refused(other(&lab.store, &form).await), foreign);
        assert_eq!((lab.claims().await, lab.balance("a").await), (1, 1));
    }

    async fn text_that_is_no_token_is_refused_without_the_database(lab: Lab) {
        let good = issue(&lab.store).await.token;
        let store = lab.other_store(Lab::builder()).await;
        store.pool().close().await;
        let upper = good.to_uppercase();
        let odd = [
            "", " ", "null", "undefined", &good[1..], &upper, &format!("{good}0"), &format!(" {good}"), &format!("{good}\n"),
            &format!("{}g", &good[1..]), &"é".repeat(32), &"0".repeat(100_000), "' OR '1'='1", &format!("0x{}", &good[2..]),
            &format!("{}\0", &good[1..]),
        ];
        for text in odd {
            let listener = Listener::start();
            let result = submit(&store, &Form::of(text)).await;
            // 32 random bytes without a letter are as good as impossible.
            assert_eq!(refused(result), TokenError::Malformed, "{text:?}");
            assert_eq!(listener.outcomes().len(), 1, "{text:?}");
        }
        // A closed pool answers what is well formed otherwise.
        assert!(!matches!(submit(&store, &Form::of(good.clone())).await, Err(Error::Token(_)) | Ok(_)));
        assert!(matches!(store.claim(Key::token("claims.form", "x").finish()).await, Err(ClaimError::Token(TokenError::Malformed))));
        assert!(submit(&lab.store, &Form::of(good)).await.unwrap().is_first());
    }

    async fn an_expired_token_is_refused_and_a_used_one_stays_used(lab: Lab) {
        let (used, unused) = (issue(&lab.store).await, issue(&lab.store).await);
        assert!(submit(&lab.store, &used).await.unwrap().is_first());
        expire(&lab).await;
        let expired = refused(submit(&lab.store, &unused).await);
        assert_eq!(expired.to_string(), "this token expired at 2026-01-31T08:15:00Z");
        assert!(matches!(expired, TokenError::Expired { .. }));
        assert!(submit(&lab.store, &used).await.unwrap().is_duplicate(), "used and expired since");
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1));
    }

    /// By the database's clock, and to its milliseconds.
    async fn a_token_is_valid_for_as_long_as_was_said(lab: Lab) {
        let valid = |of: &'static str| match DIALECT {
            Dialect::Sqlite => format!("SELECT CAST(round((julianday({of}) - julianday(issued_at)) * 86400000) AS INTEGER) FROM idem_records_tokens"),
            Dialect::Postgres => format!("SELECT (extract(epoch FROM {of} - issued_at) * 1000)::bigint FROM idem_records_tokens"),
            Dialect::MySql => format!("SELECT TIMESTAMPDIFF(MICROSECOND, issued_at, {of}) DIV 1000 FROM idem_records_tokens"),
        };
        lab.store.tokens("claims.form").issue(Duration::from_millis(90_500)).await.unwrap();
        assert!((lab.number(&valid("expires_at")).await - 90_500).abs() <= 1);
        assert!((lab.number(&valid("keep_until")).await - 30 * 86_400_000).abs() <= 1);
        let brief = lab.store.tokens("claims.form").issue(Duration::from_millis(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let late = refused(submit(&lab.store, &Form::of(brief)).await);
        assert!(matches!(late, TokenError::Expired { .. }), "{late:?}");
    }

    async fn a_failed_body_gives_it_back(lab: Lab) {
        let mut form = issue(&lab.store).await;
        form.fail = true;
        for _ in 0..2 {
            assert!(matches!(submit(&lab.store, &form).await, Err(Error::Body(_))));
            assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        }
        form.fail = false;
        assert!(submit(&lab.store, &form).await.unwrap().is_first());
        form.fail = true;
        assert!(submit(&lab.store, &form).await.unwrap().is_duplicate());
        assert_eq!(lab.balance("a").await, 1);
    }

    async fn a_panic_and_a_dropped_future_give_it_back(lab: Lab) {
        let form = issue(&lab.store).await;
        let key = || Key::token("claims.form", &form.token).finish();
        let store = lab.store.clone();
        let panicking = tokio::spawn({
            let key = key();
            async move {
                let result = store.once(key, async |db| {
                    credit(db, "a", 1).await?;
                    assert!(DIALECT == Dialect::MySql && DIALECT == Dialect::Sqlite, "a panic on purpose");
                    Ok::<_, sqlx::Error>(())
                });
                AssertUnwindSafe(result).0.await
            }
        });
        assert!(panicking.await.unwrap_err().is_panic());
        lab.wait_until_calm().await;
        assert_eq!((lab.balance("a").await, lab.claims().await), (0, 0));
        let mut paid = 0;
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < 500, "the sweep does not end");
                let form = issue(&lab.store).await;
                let done = drop_at(submit(&lab.store, &form), wait, moment).await;
                let _: Outcome<()> = submit(&lab.store, &form).await.unwrap();
                paid += 1;
                assert_eq!(lab.balance("a").await, paid, "{moment:?} {wait}");
                if done.is_some() {
                    break;
                }
            }
        }
        assert!(submit(&lab.store, &form).await.unwrap().is_first());
    }

    async fn with_retry_the_same_token_serves_each_attempt(lab: Lab) {
        let form = issue(&lab.store).await;
        let tries = AtomicUsize::new(0);
        assert!(retried(&lab.store, &form, &tries).await.unwrap().is_first());
        assert!(retried(&lab.store, &form, &tries).await.unwrap().is_duplicate());
        assert_eq!((tries.load(Ordering::SeqCst), lab.balance("a").await), (3, 1));
        let forged = Form::of("f".repeat(64));
        assert_eq!(refused(retried(&lab.store, &forged, &tries).await), TokenError::Unknown);
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    }

    async fn of_many_submissions_at_once_one_is_first(lab: Lab) {
        for round in 1..=5 {
            let form = issue(&lab.store).await;
            let mut all = Vec::new();
            for _ in 0..8 {
                let (store, form) = (lab.store.clone(), Form::of(form.token.clone()));
                all.push(tokio::spawn(async move { submit(&store, &form).await.unwrap() }));
            }
            let (mut firsts, mut duplicates) = (0, 0);
            for one in all {
                match one.await.unwrap() {
                    Outcome::First(()) => firsts += 1,
                    Outcome::Duplicate(_) => duplicates += 1,
                    Outcome::Ignored(ignored) => panic!("{ignored:?}"),
                }
            }
            assert_eq!((firsts, duplicates, lab.balance("a").await), (1, 7, round));
        }
    }

    async fn while_it_is_being_used_it_is_busy_and_not_a_repeat(lab: Lab) {
        let form = issue(&lab.store).await;
        let store = lab.other_store(Lab::builder().lock_wait(Duration::from_millis(300))).await;
        let holder = lab.store.claim(Key::token("claims.form", &form.token).finish()).await.unwrap();
        let busy = submit(&store, &form).await;
        assert!(matches!(busy, Err(Error::Busy(Busy::Claimed(_)))), "{busy:?}");
        drop(holder);
        assert!(submit(&store, &form).await.unwrap().is_first());
        store.pool().close().await;
    }

    async fn the_token_itself_is_nowhere(lab: Lab) {
        let listener = Listener::start();
        let token = lab.store.tokens("claims.form").issue(MINUTE).await.unwrap();
        let unused = lab.store.tokens("claims.form").issue(MINUTE).await.unwrap();
        let form = Form::of(token.as_str());
        assert!(submit(&lab.store, &form).await.unwrap().is_first());
        assert!(submit(&lab.store, &form).await.unwrap().is_duplicate());
        let foreign = refused(other(&lab.store, &Form::of(unused.as_str())).await);
        let key = Key::token("claims.form", token.as_str()).finish().unwrap();
        let shown = format!("{token:?} {foreign:?} {foreign} {key:?} {key} {:?}", listener.events());
        let mut written = String::new();
        for table in ["idem_records", "idem_records_tokens", "idem_records_leases"] {
            written.push_str(&dump(&lab, table).await);
        }
        // What stands there is the digest, so the dump is not blind.
        assert!(written.contains(key.text()) && shown.contains(key.text()), "{written}");
        for secret in [token.as_str(), unused.as_str()] {
            assert_eq!(secret.len(), 64);
            assert!(!written.contains(secret), "{written}");
            assert!(!shown.contains(secret), "{shown}");
        }
        assert_eq!(token.to_string(), String::from(token.clone()));
    }

    async fn how_long_a_token_may_be_valid(lab: Lab) {
        let store = lab.other_store(Lab::builder().retention(Retention::of(MINUTE))).await;
        for ttl in [Duration::ZERO, Duration::from_nanos(1), MINUTE + Duration::from_millis(1), Duration::MAX] {
            let refused = store.tokens("claims.form").issue(ttl).await.unwrap_err();
            assert!(matches!(refused, IssueError::Validity { ttl: asked, retention: MINUTE } if asked == ttl), "{refused:?}");
        }
        assert_eq!(lab.rows("idem_records_tokens").await, 0);
        let form = Form::of(store.tokens("claims.form").issue(MINUTE).await.unwrap());
        assert!(submit(&store, &form).await.unwrap().is_first());
        for scope in ["", " ", "a\nb", &"x".repeat(256)] {
            let refused = store.tokens(scope.to_owned()).issue(MINUTE).await.unwrap_err();
            assert!(matches!(refused, IssueError::Scope(KeyError::Scope { .. })), "{refused:?}");
        }
        store.pool().close().await;
    }

    async fn without_the_tables_of_tokens_the_error_says_what_to_run(lab: Lab) {
        run_sql(&lab, "DROP TABLE idem_records_tokens").await;
        let store = lab.other_store(Lab::builder()).await;
        let missing = store.tokens("claims.form").issue(MINUTE).await.unwrap_err();
        let IssueError::Configuration(ConfigurationError::NoTable { table, sql }) = &missing else { panic!("{missing:?}") };
        assert_eq!(table, "idem_records_tokens");
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS idem_records_tokens"), "{sql}");
        let missing = submit(&store, &Form::of("0".repeat(64))).await.unwrap_err();
        let Error::Configuration(ConfigurationError::NoTable { table, sql }) = &missing else { panic!("{missing:?}") };
        assert_eq!(table, "idem_records_tokens");
        assert_eq!(missing.advice(), Advice::RetryLater, "no form is thrown away while an operator repairs it");
        // What it says is all that is needed; and a handler without tokens never needed it.
        let done = store.once(Key::scope("claims.plain").part("1").finish(), async |db| credit(db, "a", 1).await).await;
        assert!(done.unwrap().is_first());
        run_sql(&lab, sql).await;
        let form = issue(&store).await;
        assert!(submit(&store, &form).await.unwrap().is_first());
        // One that goes away under a store that has seen it.
        run_sql(&lab, "DROP TABLE idem_records_tokens").await;
        let gone = submit(&store, &Form::of("0".repeat(64))).await.unwrap_err();
        let Error::Configuration(ConfigurationError::NoTable { table, .. }) = &gone else { panic!("{gone:?}") };
        assert_eq!(table, "idem_records_tokens");
        let gone = store.tokens("claims.form").issue(MINUTE).await.unwrap_err();
        let IssueError::Configuration(ConfigurationError::NoTable { table, .. }) = &gone else { panic!("{gone:?}") };
        assert_eq!(table, "idem_records_tokens");
        assert_eq!((lab.claims().await, lab.balance("a").await), (2, 2));
        store.pool().close().await;
    }

    async fn a_dropped_issue_harms_nobody(lab: Lab) {
        let store = lab.other_store(Lab::builder().max_connections(1)).await;
        store.migrate().await.unwrap();
        for moment in [Asked, Answered] {
            for wait in 1.. {
                assert!(wait < 500, "the sweep does not end");
                let done = drop_at(store.tokens("claims.form").issue(MINUTE), wait, moment).await;
                let form = issue(&store).await;
                assert!(submit(&store, &form).await.unwrap().is_first(), "{moment:?} {wait}");
                if done.is_some() {
                    break;
                }
            }
        }
        assert_eq!(lab.balance("a").await, lab.claims().await);
        store.pool().close().await;
    }
}

#[test]
fn no_two_tokens_are_equal() {
    use idem_runtime::SqliteStore;
    idem_tests::run(async {
        let store = SqliteStore::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let mut seen = HashSet::new();
        for _ in 0..10_000 {
            let token = store.tokens("claims.form").issue(MINUTE).await.unwrap();
            assert!(token.as_str().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
            assert!(seen.insert(String::from(token)));
        }
        // Each of the 256 bits is drawn: none stands still, and none follows another's place in all of them.
        for place in 0..64 {
            let digits: HashSet<u8> = seen.iter().map(|token| token.as_bytes()[place]).collect();
            assert_eq!(digits.len(), 16, "digit {place}");
        }
    });
}
