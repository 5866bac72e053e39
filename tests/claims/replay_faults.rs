//! A result that cannot be given back is a typed answer: the action is done all the same, and its body does not run again.
//! Case C39.

use idem_runtime::{Advice, Claim, Keep, Key, KeyError, Outcome, Replay, Replayable, Unavailable, idempotent};
use idem_tests::logs::Listener;
use serde::{Deserialize, Serialize, Serializer};
use sqlx::AssertSqlSafe;
use std::{collections::HashMap, fmt::Debug};
use tracing::Level;

const SECRET: &str = "4111-1111-1111-1111";

/// The result as the first version of a handler had it.
#[derive(Debug, Serialize, Deserialize)]
struct Charged {
    id: u64,
    state: State,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Done,
    Pending,
}

/// A later one: a field was added.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WithFee {
    id: u64,
    #[serde(default)]
    fee: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct WithFeeThatIsAsked {
    id: u64,
    fee: u32,
}

/// A later one: a field was renamed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Renamed {
    charge_id: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct RenamedWithAlias {
    #[serde(alias = "id")]
    charge_id: u64,
}

/// A later one: a state is gone.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct OtherStates {
    id: u64,
    state: FewerStates,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum FewerStates {
    Pending,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Point {
    x: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Card {
    number: String,
    holder: String,
}

fn hide_number(card: &mut Card) {
    card.number = format!("****{}", &card.number[card.number.len() - 4..]);
}

/// Written as text and read as a number: what serde says of it quotes the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lopsided {
    #[serde(serialize_with = "as_text")]
    number: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn as_text<S: Serializer>(_: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(SECRET)
}

fn blank(lopsided: &mut Lopsided) {
    lopsided.number = 0;
}

fn key(no: &str) -> Result<Key, KeyError> {
    Key::scope("claims.replay.faults").part(no).finish()
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = no, store = db, scope = "claims.replay.number", replay)]
        async fn number(db: &mut Conn, no: &str) -> Result<i64, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(5)
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.limit", replay(limit = 10))]
        async fn long(db: &mut Conn, no: &str, length: usize) -> Result<String, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok("x".repeat(length))
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.redact", replay(redact = hide_number), record = no)]
        async fn card(db: &mut Conn, no: &str) -> Result<Card, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(Card { number: SECRET.to_owned(), holder: "Ada".to_owned() })
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.lopsided", replay(redact = blank))]
        async fn lopsided(db: &mut Conn, no: &str) -> Result<Lopsided, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(Lopsided { number: 4111 })
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.keys", replay)]
        async fn odd_keys(db: &mut Conn, no: &str) -> Result<HashMap<Point, u8>, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok([(Point { x: 1 }, 2)].into())
        }

        #[idempotent(key = no, store = db, scope = "claims.replay.nan", replay)]
        async fn not_a_number(db: &mut Conn, no: &str) -> Result<f64, sqlx::Error> {
            credit(db, "a", 1).await?;
            Ok(f64::NAN)
        }

        async fn keep<T: Replayable>(lab: &Lab, no: &str, value: T, keep: Keep<T>) {
            let Claim::First(mut unit) = lab.store.claim(key(no)).await.unwrap() else { panic!("not first") };
            credit(unit.connection(), "a", 1).await.unwrap();
            assert!(unit.commit_and_keep::<_, sqlx::Error>(value, &keep).await.unwrap().is_first());
        }

        async fn read<T: Replayable>(lab: &Lab, no: &str, keep: Keep<T>) -> Replay<T> {
            let Claim::Duplicate(seen) = lab.store.claim(key(no)).await.unwrap() else { panic!("no repeat") };
            seen.replay(&keep).result
        }

        /// All that is recorded, as bytes.
        async fn column(lab: &Lab) -> Vec<u8> {
            let results: Vec<Option<Vec<u8>>> =
                sqlx::query_scalar("SELECT result FROM idem_records").fetch_all(&lab.pool).await.unwrap();
            results.into_iter().flatten().flatten().collect()
        }

        async fn write_column(lab: &Lab, bytes: Option<&[u8]>) {
            let sql = AssertSqlSafe(DIALECT.sql("UPDATE idem_records SET result = ?"));
            sqlx::query(sql).bind(bytes.map(<[u8]>::to_vec)).execute(&lab.pool).await.unwrap();
        }

        fn unavailable<T: Debug>(outcome: Outcome<T, Replay<T>>) -> Unavailable {
            assert_eq!(outcome.advice(), Advice::Ack);
            match outcome {
                Outcome::Duplicate(seen) => match seen.result {
                    Replay::Unavailable(unavailable) => unavailable,
                    other => panic!("{other:?}"),
                },
                other => panic!("no repeat: {other:?}"),
            }
        }
    }

    async fn old_results_are_read_by_new_types_where_serde_can(lab: Lab) {
        keep(&lab, "1", Charged { id: 7, state: State::Done }, Keep::new()).await;
        assert_eq!(read(&lab, "1", Keep::new()).await, Replay::Value(WithFee { id: 7, fee: 0 }));
        assert_eq!(read(&lab, "1", Keep::new()).await, Replay::Value(RenamedWithAlias { charge_id: 7 }));
        let missing = read::<WithFeeThatIsAsked>(&lab, "1", Keep::new()).await;
        let Replay::Unavailable(Unavailable::Unreadable { error }) = missing else { panic!("{missing:?}") };
        assert!(error.contains("fee"), "{error}");
        for (what, is_unreadable) in [
            ("renamed", matches!(read::<Renamed>(&lab, "1", Keep::new()).await, Replay::Unavailable(Unavailable::Unreadable { .. }))),
            ("states", matches!(read::<OtherStates>(&lab, "1", Keep::new()).await, Replay::Unavailable(Unavailable::Unreadable { .. }))),
            ("number", matches!(read::<u8>(&lab, "1", Keep::new()).await, Replay::Unavailable(Unavailable::Unreadable { .. }))),
        ] {
            assert!(is_unreadable, "{what}");
        }
        // Another version is not read, though it could be.
        let other = read::<WithFee>(&lab, "1", Keep::new().version(2)).await;
        assert_eq!(other, Replay::Unavailable(Unavailable::OtherVersion { stored: 1, wanted: 2 }));
        keep(&lab, "2", WithFee { id: 7, fee: 3 }, Keep::new().version(u32::MAX)).await;
        let older = read::<WithFee>(&lab, "2", Keep::new()).await;
        assert_eq!(older, Replay::Unavailable(Unavailable::OtherVersion { stored: u32::MAX, wanted: 1 }));
        assert_eq!(lab.balance("a").await, 2);
    }

    async fn damaged_bytes_are_a_repeat_without_a_result(lab: Lab) {
        assert_eq!(number(&lab.store, "1").await.unwrap(), Outcome::First(5));
        let damaged: [&[u8]; 16] = [
            b"", b"\n", b"5", b"json1 1 ok", b"json1 1 ok\n", b"json1 1 ok\n{", b"json1 1 ok\n5 5", b"json1 1 ok\n\"5\"",
            b"json1 1 ok\n\xff\xfe", b"json1 1 odd\n5", b"json1 one ok\n5", b"json1 -1 ok\n5", b"json1 99999999999 ok\n5",
            b"json1 1 ok more\n5", b"cbor1 1 ok\n5", b"\xff\xff 1 ok\n5",
        ];
        for bytes in damaged {
            write_column(&lab, Some(bytes)).await;
            let listener = Listener::start();
            let answer = unavailable(number(&lab.store, "1").await.unwrap());
            let shown = String::from_utf8_lossy(bytes);
            assert!(matches!(answer, Unavailable::Unreadable { .. }), "{shown}: {answer:?}");
            assert!(answer.to_string().starts_with("the action is done"), "{answer}");
            let heard = listener.outcomes();
            assert_eq!((heard.len(), heard[0].field("idem.outcome")), (1, Some("duplicate")), "{shown}");
        }
        let deep = [b"json1 1 ok\n".as_slice(), &b"[".repeat(100_000)].concat();
        write_column(&lab, Some(&deep)).await;
        assert!(matches!(unavailable(number(&lab.store, "1").await.unwrap()), Unavailable::Unreadable { .. }));
        write_column(&lab, None).await;
        assert_eq!(unavailable(number(&lab.store, "1").await.unwrap()), Unavailable::NotKept);
        assert_eq!((lab.balance("a").await, lab.claims().await), (1, 1), "a body ran again");
        write_column(&lab, Some(b"json1 1 ok\n6")).await;
        let Outcome::Duplicate(seen) = number(&lab.store, "1").await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result, Replay::Value(6));
    }

    async fn a_result_over_the_limit_is_not_kept_with_one_warning(lab: Lab) {
        let listener = Listener::start();
        // Eight letters and two quotes are the ten bytes.
        assert!(long(&lab.store, "fits", 8).await.unwrap().is_first());
        assert!(listener.events().iter().all(|event| event.level >= Level::INFO));
        let Outcome::Duplicate(seen) = long(&lab.store, "fits", 8).await.unwrap() else { panic!("no repeat") };
        assert_eq!(seen.result.value().as_deref(), Some("xxxxxxxx"));

        let _ = listener.events();
        assert_eq!(long(&lab.store, "over", 9).await.unwrap(), Outcome::First("x".repeat(9)));
        let heard = listener.events();
        let warnings: Vec<_> = heard.iter().filter(|event| event.level == Level::WARN).collect();
        assert_eq!(warnings.len(), 1, "{heard:#?}");
        assert!(warnings[0].field("error").is_some_and(|error| error.contains("11 bytes")), "{warnings:#?}");
        assert_eq!((warnings[0].field("idem.key"), warnings[0].field("idem.outcome")), (Some("over"), None));
        assert_eq!(heard.iter().filter(|event| event.field("idem.outcome") == Some("first")).count(), 1);
        for _ in 0..2 {
            let answer = unavailable(long(&lab.store, "over", 1).await.unwrap());
            assert_eq!(answer, Unavailable::TooLarge { bytes: 11 });
        }
        assert!(listener.events().iter().all(|event| event.level >= Level::INFO), "a repeat warns again");
        assert_eq!(lab.balance("a").await, 2);
    }

    /// As large as a record may be, on every database, through every limit of their protocols.
    async fn the_largest_result_is_kept(lab: Lab) {
        let largest = "x".repeat(4 * 1024 * 1024 - 2);
        keep(&lab, "1", largest.clone(), Keep::new().limit(usize::MAX)).await;
        assert_eq!(read::<String>(&lab, "1", Keep::new()).await, Replay::Value(largest.clone()));
        keep(&lab, "2", largest.clone() + "x", Keep::new().limit(usize::MAX)).await;
        let over = read::<String>(&lab, "2", Keep::new()).await;
        assert_eq!(over, Replay::Unavailable(Unavailable::TooLarge { bytes: 4 * 1024 * 1024 + 1 }));
        keep(&lab, "3", largest, Keep::new()).await;
        let over = read::<String>(&lab, "3", Keep::new()).await;
        assert_eq!(over, Replay::Unavailable(Unavailable::TooLarge { bytes: 4 * 1024 * 1024 }));
        assert_eq!(lab.balance("a").await, 3);
    }

    async fn what_json_cannot_say_does_not_fail_the_business(lab: Lab) {
        let listener = Listener::start();
        assert!(odd_keys(&lab.store, "1").await.unwrap().is_first());
        let heard = listener.events();
        assert_eq!(heard.iter().filter(|event| event.level == Level::WARN).count(), 1, "{heard:#?}");
        let answer = unavailable(odd_keys(&lab.store, "1").await.unwrap());
        assert!(matches!(&answer, Unavailable::NotWritten { error } if error.contains("key must be a string")), "{answer:?}");

        assert!(not_a_number(&lab.store, "1").await.unwrap().is_first());
        let answer = unavailable(not_a_number(&lab.store, "1").await.unwrap());
        assert!(matches!(answer, Unavailable::Unreadable { .. }), "{answer:?}");
        assert_eq!((lab.balance("a").await, lab.claims().await), (2, 2));
    }

    async fn what_is_redacted_is_nowhere_in_the_record(lab: Lab) {
        let listener = Listener::start();
        let Outcome::First(card_now) = card(&lab.store, "1").await.unwrap() else { panic!("not first") };
        assert_eq!(card_now.number, SECRET, "the first caller gets it all");
        let Outcome::Duplicate(seen) = card(&lab.store, "1").await.unwrap() else { panic!("no repeat") };
        let kept = Card { number: "****1111".to_owned(), holder: "Ada".to_owned() };
        assert_eq!(seen.result, Replay::Value(kept));
        // A result that cannot be redacted is not kept, and what is said of it does not quote it.
        assert!(lopsided(&lab.store, "1").await.unwrap().is_first());
        let answer = unavailable(lopsided(&lab.store, "1").await.unwrap());
        assert!(matches!(answer, Unavailable::NotWritten { .. }), "{answer:?}");
        let column = column(&lab).await;
        assert!(column.windows(3).any(|part| part == b"Ada"));
        assert!(!column.windows(9).any(|part| part == &SECRET.as_bytes()[..9]), "{}", String::from_utf8_lossy(&column));
        let heard = format!("{:?}{answer:?}", listener.events());
        assert!(!heard.contains(&SECRET[..9]), "{heard}");
        assert_eq!(lab.balance("a").await, 2);
    }
}
