//! From the parsed statement to the verdict.

use std::ops::Range;

use sqlparser::ast::{Expr, Statement};

use super::sql;
use super::text::{Text, Value, words};
use super::{Beside, Dialect, Exists, Kind, Refusal, change, insert};

/// What all rules look at.
pub(super) struct Reader<'a> {
    pub(super) text: &'a Text,
    /// The literal's value.
    pub(super) value: &'a str,
    pub(super) beside: Beside<'a>,
}

impl Reader<'_> {
    pub(super) const fn whole(&self) -> Range<usize> {
        0..self.value.len()
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.beside.dialect
    }

    /// An expression as the user wrote its values.
    pub(super) fn shown(&self, sql: &impl ToString) -> String {
        sql::shown(sql, self.text, self.value)
    }

    pub(super) fn range(&self, expr: &Expr) -> Range<usize> {
        let Range { start, end } = sql::range(expr, &self.whole());
        // The parser counts the column alone.
        let tail = if matches!(expr, Expr::IsNull(_) | Expr::IsNotNull(_)) { self.value.get(end..) } else { None };
        let null = tail.and_then(|tail| tail.to_ascii_uppercase().find("NULL")).map_or(0, |at| at + 4);
        start..end + null
    }

    pub(super) fn values(&self, sql: &impl ToString) -> Vec<&Value> {
        sql::numbers(sql).into_iter().filter_map(|number| self.text.values.get(number)).collect()
    }

    /// Whether a value of the message stands in it.
    pub(super) fn names_something(&self, sql: &impl ToString) -> bool {
        self.values(sql).iter().any(|value| value.varies())
    }

    /// Where a word stands, outside quotes.
    pub(super) fn word(&self, word: &str) -> Range<usize> {
        let capitals = self.value.to_ascii_uppercase();
        let found = capitals.match_indices(word).map(|(at, _)| at..at + word.len()).find(|at| {
            let before = capitals.get(..at.start).and_then(|before| before.chars().next_back());
            let after = capitals.get(at.end..).and_then(|after| after.chars().next());
            let in_sql = self.text.pieces.iter().any(|piece| {
                matches!(piece, super::text::Piece::Sql(range) if range.start <= at.start && at.end <= range.end)
            });
            let quotes = capitals.get(..at.start).map_or(0, |before| before.matches(['\'', '"', '`']).count());
            let apart = |c: Option<char>| !c.is_some_and(super::text::is_word);
            in_sql && quotes.is_multiple_of(2) && apart(before) && apart(after)
        });
        found.unwrap_or_else(|| self.whole())
    }

    fn returning(&self) -> Refusal {
        Refusal::judged("the rows that RETURNING gives would be lost", self.word("RETURNING"))
            .help("leave it out, and read what you need in the body")
    }
}

pub(super) fn judge(text: &Text, value: &str, kind: Kind, beside: Beside<'_>) -> Result<Exists, Refusal> {
    let reader = Reader { text, value, beside };
    if beside.allowed {
        return Ok(match sql::parse(text, value, beside.dialect) {
            Ok(Statement::Update(update)) => change::exists_of_update(&reader, &update),
            Ok(Statement::Delete(delete)) => change::exists_of_delete(&reader, &delete),
            _ => None,
        });
    }
    modifiers(&reader)?;
    match sql::parse(text, value, beside.dialect)? {
        Statement::Update(update) => {
            if update.returning.is_some() {
                return Err(reader.returning());
            }
            change::update(&reader, &update)?;
            Ok(change::exists_of_update(&reader, &update))
        }
        Statement::Delete(delete) => {
            if delete.returning.is_some() {
                return Err(reader.returning());
            }
            change::delete(&reader, &delete)?;
            Ok(change::exists_of_delete(&reader, &delete))
        }
        Statement::Insert(insert) => {
            if insert.returning.is_some() {
                return Err(reader.returning());
            }
            insert::insert(&reader, &insert, kind)?;
            Ok(None)
        }
        _ => Err(Refusal::judged("this guard cannot be read, so it cannot be judged", reader.whole())
            .help("write it as a plain UPDATE, INSERT or DELETE")),
    }
}

/// Words behind the first one that the parser takes for a table's name, or does not know for every database.
fn modifiers(reader: &Reader<'_>) -> Result<(), Refusal> {
    let words = words(&reader.text.sql(reader.value));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["REPLACE", ..] | ["INSERT", "OR", "REPLACE", ..] => {
            let word = reader.word("REPLACE");
            Err(Refusal::judged("REPLACE deletes the row of the first delivery, so a repeat looks like the first time", word)
                .help("write a plain INSERT, and name the index whose conflict means done before: `unique = \"uq_flow_biz_no\"`"))
        }
        ["UPDATE" | "DELETE" | "INSERT", "OR", _, ..] => Err(Refusal::judged(
            "an OR clause hides conflicts of every index, and an error would look like a repeat",
            reader.word("OR"),
        )
        .help(if words.first() == Some(&"INSERT") {
            "leave it out, and name the index whose conflict means done before: `unique = \"uq_flow_biz_no\"`"
        } else {
            "leave it out: a conflict is then an error"
        })),
        [first @ ("UPDATE" | "DELETE" | "INSERT"), more @ ..]
            if more.iter().take(3).take_while(|word| MODIFIERS.contains(word)).any(|word| *word == "IGNORE") =>
        {
            let help = if *first == "INSERT" {
                "leave it out, and name the index whose conflict means done before: `unique = \"uq_flow_biz_no\"`"
            } else {
                "leave it out: a conflict is then an error"
            };
            Err(Refusal::judged(
                "IGNORE hides every error, so a row that could not be written would look like a repeat",
                reader.word("IGNORE"),
            )
            .help(help))
        }
        [_, word @ ("ONLY" | "LOW_PRIORITY" | "HIGH_PRIORITY" | "DELAYED" | "QUICK"), ..] => {
            Err(Refusal::judged(format!("{word} is not read here"), reader.word(word)).help("leave it out"))
        }
        _ => Ok(()),
    }
}

const MODIFIERS: [&str; 5] = ["LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE"];
