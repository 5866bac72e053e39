//! What kind of statement a guard is, by its words alone.

use std::ops::Range;

use super::text::words;
use super::{Kind, Refusal};

/// By the first word. The parser finds the same, where it can read the statement.
pub(super) fn kind(sql: &str, at: Range<usize>) -> Result<Kind, Refusal> {
    let words = words(sql);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let starts_with_word = sql.starts_with(|c: char| c.is_ascii_alphabetic());
    let (reason, help) = match words.as_slice() {
        [] => ("this guard is empty", "write `UPDATE .. SET .. WHERE ..` or `INSERT INTO .. VALUES (..)`"),
        _ if !starts_with_word => ("a guard begins with UPDATE, INSERT or DELETE", ONE_STATEMENT),
        ["UPDATE" | "DELETE", ..] => return Ok(Kind::Change),
        ["INSERT" | "REPLACE", ..] => return Ok(Kind::Insert { names_its_index: names_its_index(&words) }),
        ["SELECT", ..] => (
            "a query changes nothing, so two deliveries at once would both pass",
            "write the change itself: `UPDATE .. SET .. WHERE ..`; the database decides who is first",
        ),
        ["WITH", ..] => ("a guard begins with UPDATE, INSERT or DELETE, and not with WITH", ONE_STATEMENT),
        ["BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "ABORT" | "XA", ..]
        | ["SET", "AUTOCOMMIT" | "TRANSACTION", ..] => {
            ("the unit begins and ends the transaction itself", "write the statement that decides, and nothing else")
        }
        ["MERGE" | "UPSERT", ..] => (
            "this changes a row the first time and every time after",
            "write an INSERT with `unique = \"..\"`, or an UPDATE that pins a state",
        ),
        _ => ("a guard is an UPDATE, an INSERT or a DELETE", ONE_STATEMENT),
    };
    Err(Refusal::new(reason, at).help(help))
}

const ONE_STATEMENT: &str = "write one statement that changes one row the first time, and none ever after";

fn names_its_index(words: &[&str]) -> bool {
    let nothing = words.windows(2).any(|pair| pair == ["DO", "NOTHING"]);
    let target = words.windows(3).any(|three| three[..2] == ["ON", "CONFLICT"] && three[2] != "DO");
    nothing && target
}
