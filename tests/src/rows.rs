//! Rows of the store's tables, written by hand: what a test needs to be old.

use crate::dialect::Dialect;
use std::ops::Range;

/// The database's time, and so many milliseconds on, as SQL.
#[must_use]
pub fn instant(dialect: Dialect, millis: i64) -> String {
    match dialect {
        Dialect::Sqlite => {
            let (sign, millis) = (if millis < 0 { '-' } else { '+' }, millis.unsigned_abs());
            format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '{sign}{}.{:03} seconds')", millis / 1000, millis % 1000)
        }
        Dialect::Postgres => format!("clock_timestamp() + {millis} * interval '1 millisecond'"),
        Dialect::MySql => format!("UTC_TIMESTAMP(6) + INTERVAL {millis} * 1000 MICROSECOND"),
    }
}

fn bytes(dialect: Dialect, hex: &str) -> String {
    if dialect == Dialect::Postgres { format!("'\\x{hex}'") } else { format!("x'{hex}'") }
}

/// Records `<scope>:<number>`, to be kept for so many milliseconds from now. They have a delivery id, a message and a
/// result.
#[must_use]
pub fn records(dialect: Dialect, scope: &str, numbers: Range<u64>, kept_for: i64) -> String {
    let (claimed_at, keep_until) = (instant(dialect, -1_000_000), instant(dialect, kept_for));
    let (attempt, result) = (bytes(dialect, "00112233445566778899aabbccddeeff"), bytes(dialect, "6f6b"));
    let rows = numbers.map(|number| {
        format!(
            "('{scope}', '{number:08}', 'd-{number}', {attempt}, 'message {number}', {result}, {claimed_at}, {keep_until})"
        )
    });
    let rows: Vec<String> = rows.collect();
    format!(
        "INSERT INTO idem_records (scope, action_key, delivery_id, attempt, message, result, claimed_at, keep_until) \
         VALUES {}",
        rows.join(", ")
    )
}

/// A one-time token, to be kept for so many milliseconds from now.
#[must_use]
pub fn token(dialect: Dialect, key: &str, kept_for: i64) -> String {
    let (issued_at, keep_until) = (instant(dialect, -1_000_000), instant(dialect, kept_for));
    format!(
        "INSERT INTO idem_records_tokens (scope, action_key, issued_at, expires_at, keep_until) \
         VALUES ('form', '{key}', {issued_at}, {issued_at}, {keep_until})"
    )
}

/// Work under a lease, finished or not, to be kept for so many milliseconds from now.
#[must_use]
pub fn lease(dialect: Dialect, key: &str, finished: bool, kept_for: i64) -> String {
    let (begun_at, keep_until) = (instant(dialect, -1_000_000), instant(dialect, kept_for));
    let attempt = bytes(dialect, "00112233445566778899aabbccddeeff");
    let done_at = if finished { &*begun_at } else { "NULL" };
    format!(
        "INSERT INTO idem_records_leases (scope, action_key, fence, attempt, attempts, begun_at, lease_until, done_at, \
         keep_until) VALUES ('sms', '{key}', 1, {attempt}, 1, {begun_at}, {begun_at}, {done_at}, {keep_until})"
    )
}
