//! What is written in Redis, as text.
//!
//! ```text
//! idem1 done first=1767225600000 payload=01ab.. result=no by=delivery-7
//! idem1 busy owner=5f3c.. payload=-
//! ```
//!
//! What is read is checked to the last byte: another version's, another program's, half a value: nothing is known then.

use crate::{
    gate::{Finished, InFlight},
    key::hex,
};

/// Longer than any value that is written here.
const MAX_BYTES: usize = 2048;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Done(Finished),
    Busy(InFlight),
}

pub(super) fn done(finished: &Finished) -> String {
    let first = finished.first_at.map_or_else(|| "-".to_owned(), |first| first.to_string());
    let payload = payload(finished.fingerprint.as_deref());
    let result = if finished.has_result { "yes" } else { "no" };
    let mut text = format!("idem1 done first={first} payload={payload} result={result}");
    if let Some(by) = &finished.delivery_id {
        text.push_str(" by=");
        text.push_str(by);
    }
    text
}

pub(super) fn busy(mine: &InFlight) -> String {
    format!("idem1 busy owner={} payload={}", mine.owner, payload(mine.fingerprint.as_deref()))
}

/// `None` for what was not written here.
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix("idem1 ")?;
    if let Some(rest) = text.strip_prefix("done ") {
        let (first, rest) = field(rest, "first=")?;
        let (payload, rest) = field(rest?, "payload=")?;
        let (result, rest) = field(rest?, "result=")?;
        return Some(Value::Done(Finished {
            first_at: if first == "-" { None } else { Some(canonical(first)?) },
            // The last field, and of any text.
            delivery_id: match rest {
                None => None,
                Some(rest) => Some(rest.strip_prefix("by=")?.to_owned()),
            },
            fingerprint: if payload == "-" { None } else { Some(unhex(payload)?) },
            has_result: match result {
                "yes" => true,
                "no" => false,
                _ => return None,
            },
        }));
    }
    let (owner, rest) = field(text.strip_prefix("busy ")?, "owner=")?;
    let (payload, None) = field(rest?, "payload=")? else { return None };
    if owner.is_empty() {
        return None;
    }
    let fingerprint = if payload == "-" { None } else { Some(unhex(payload)?) };
    Some(Value::Busy(InFlight { owner: owner.to_owned(), fingerprint }))
}

/// A field's text, and what follows the blank behind it.
fn field<'a>(text: &'a str, name: &str) -> Option<(&'a str, Option<&'a str>)> {
    let text = text.strip_prefix(name)?;
    Some(match text.split_once(' ') {
        Some((value, rest)) => (value, Some(rest)),
        None => (text, None),
    })
}

/// A number in the one form in which it is written.
fn canonical(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn payload(fingerprint: Option<&[u8]>) -> String {
    fingerprint.map_or_else(|| "-".to_owned(), hex)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Value, busy, done, read};
    use crate::gate::{Finished, InFlight};

    fn finished() -> [Finished; 4] {
        let all = Finished {
            first_at: Some(1_767_225_600_000),
            delivery_id: Some("topic 7/by= result=yes\n订单".to_owned()),
            fingerprint: Some(vec![1, 0xab, 0xff]),
            has_result: true,
        };
        [
            Finished::default(),
            Finished { delivery_id: Some(String::new()), ..Finished::default() },
            Finished { first_at: Some(-1), ..all.clone() },
            all,
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for finished in finished() {
            assert_eq!(read(done(&finished).as_bytes()), Some(Value::Done(finished)));
        }
        for fingerprint in [None, Some(vec![7; 41])] {
            let mine = InFlight { owner: "5f3c".to_owned(), fingerprint };
            assert_eq!(read(busy(&mine).as_bytes()), Some(Value::Busy(mine)));
        }
    }

    /// Processes of different versions share a Redis.
    #[test]
    fn the_text_never_changes() {
        let finished = Finished {
            first_at: Some(1_767_225_600_000),
            delivery_id: Some("d 1".to_owned()),
            fingerprint: Some(vec![1, 0xab]),
            has_result: false,
        };
        assert_eq!(done(&finished), "idem1 done first=1767225600000 payload=01ab result=no by=d 1");
        assert_eq!(done(&Finished::default()), "idem1 done first=- payload=- result=no");
        let mine = InFlight { owner: "5f3c".to_owned(), fingerprint: None };
        assert_eq!(busy(&mine), "idem1 busy owner=5f3c payload=-");
    }

    #[test]
    fn what_was_not_written_here_is_nothing() {
        for text in [
            "",
            "1",
            "done",
            "idem1",
            "idem1 ",
            "idem1 done",
            "idem2 done first=- payload=- result=no",
            "idem1 done first=- payload=- result=",
            "idem1 done first=- payload=- result=maybe",
            "idem1 done first=- payload=- result=no by",
            "idem1 done first=- payload=- result=no ",
            "idem1 done first= payload=- result=no",
            "idem1 done first=+1 payload=- result=no",
            "idem1 done first=01 payload=- result=no",
            "idem1 done first=- payload= result=no",
            "idem1 done first=- payload=0 result=no",
            "idem1 done first=- payload=0G result=no",
            "idem1 done first=- payload=AB result=no",
            " idem1 done first=- payload=- result=no",
            "idem1  done first=- payload=- result=no",
            "idem1 busy owner= payload=-",
            "idem1 busy owner=1 payload=- ",
            "idem1 busy owner=1",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(read(&[b"idem1 done first=- payload=- result=no by=".as_slice(), &[0xff]].concat()), None);
        assert_eq!(read(format!("idem1 done first=- payload=- result=no by={}", "x".repeat(4000)).as_bytes()), None);
    }

    /// Every beginning of a value but the whole is refused, as long as the cut falls before the free text.
    #[test]
    fn half_a_value_is_nothing() {
        let whole = done(&Finished { fingerprint: Some(vec![7; 41]), has_result: true, ..Finished::default() });
        for end in 0..whole.len() {
            assert_eq!(read(&whole.as_bytes()[..end]), None, "{}", &whole[..end]);
        }
    }
}
