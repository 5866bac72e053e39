//! Reads the SQL of `guard = ".."` at compile time, and refuses what would not tell a first delivery from a repeat.
//!
//! A guard is one statement that changes exactly one row the first time and none ever after. Values stand in braces,
//! `{msg.order_no}`, outside quotes; they are bound, never pasted.
//!
//! The text itself. Nothing excuses from these, because what is broken cannot be run as it was meant:
//!
//! | refused | why | way out |
//! | --- | --- | --- |
//! | `{}`, a brace without partner, no expression, a constant, `?`, `return`, `.await` in braces | nothing is bound, or the handler would be left | `{msg.order_no}` |
//! | `$1`, `?`, `:name`, `@name` | nothing is bound to them | `{msg.order_no}` |
//! | a backslash in quotes, dollar quotes, `/*! .. */`, nested comments, `--x` and `#` where databases differ | databases read them in different ways | bind the text; leave the comment out |
//! | a second statement; anything but UPDATE, INSERT, DELETE | a guard is one statement that changes one row | the other statements belong into the body |
//!
//! Judgements, which `allow(guard, reason = "..")` excuses:
//!
//! | refused | why | way out |
//! | --- | --- | --- |
//! | `'{msg.status}'` in quotes | it is text | write it without quotes |
//! | what the parser cannot read | it cannot be judged | simpler SQL |
//! | RETURNING | its rows would be lost | read them in the body |
//! | several tables, LIMIT, ORDER BY, IGNORE, `OR IGNORE` | which row it is, or an error, is hidden | one row of one table, named by its key |
//! | no WHERE; no `column = {value}` in it | it names no row | `WHERE order_no = {msg.order_no}` |
//! | an UPDATE that matches again on a repeat: see [`repeat`] | the repeat would take effect again | pin a state or a version, or add `key = ..` |
//! | INSERT without a value in braces, with several rows, from SELECT | it cannot stand for one action | one row with the number of the action |
//! | INSERT whose index is not named, or is named twice | any conflict would count, or none | `unique = "uq_flow_biz_no"`, or `ON CONFLICT (biz_no) DO NOTHING` |
//! | an index without a value in braces, or with NULL or a generated value | it never conflicts on a repeat | the number of the action |
//! | ON CONFLICT DO UPDATE, ON DUPLICATE KEY UPDATE, REPLACE, INSERT IGNORE, ON CONFLICT DO NOTHING without columns | a repeat, or another error, looks like the first time | name the index |
//!
//! With `key = ..` beside it an UPDATE or DELETE may match again, since the key keeps repeats away; then the guard only
//! says whether the action is allowed now: `SET count = count - {msg.qty} WHERE sku = {msg.sku} AND count >= {msg.qty}`.
//!
//! What no text shows: triggers, generated columns, and columns that do not keep a value exactly. A DATETIME of MySQL
//! without fraction rounds `{msg.sent_at}`, so `sent_at < {msg.sent_at}` can match a second time: write DATETIME(6). Numbers
//! in columns of text compare as text, so `v < {v}` can hold again after `v = {v} + 1`. An old TIMESTAMP of MariaDB takes
//! NULL for now, so it is never NULL. And whether what names the row is unique: where another row has the same
//! `{msg.shop}`, a repeat can take that one.

use std::ops::Range;

use syn::{Expr, LitStr};

mod plain;
mod rust;
mod text;

#[cfg(feature = "guard")]
mod change;
#[cfg(feature = "guard")]
mod insert;
#[cfg(feature = "guard")]
mod literal;
#[cfg(feature = "guard")]
mod repeat;
#[cfg(feature = "guard")]
mod sql;
#[cfg(feature = "guard")]
mod verdict;

#[cfg(test)]
mod tests;

/// The database that will run the guard, from the connection's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    MySql,
    Sqlite,
    /// An alias or a generic: the verdict must hold on all three.
    Unknown,
}

/// What stands beside the guard in the attribute.
#[cfg_attr(not(feature = "guard"), expect(dead_code, reason = "only the parser's rules ask"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) dialect: Dialect,
    /// `allow(guard, reason = "..")`.
    pub(crate) allowed: bool,
    /// `key = ..`: repeats are kept away from the guard.
    pub(crate) keyed: bool,
    /// `unique = ".."`: a name, or columns with commas between.
    pub(crate) unique: Option<&'a str>,
}

/// A guard that passed.
pub(crate) struct Guard {
    /// With `{}` for each value, and without comments.
    pub(crate) sql: String,
    /// In the order of their `{}`; their tokens are located at the literal.
    pub(crate) values: Vec<Expr>,
    pub(crate) kind: Kind,
    /// For UPDATE and DELETE: a query that finds the row in any state.
    pub(crate) exists: Option<(String, Vec<Expr>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// UPDATE, DELETE.
    Change,
    Insert {
        /// `ON CONFLICT (..) DO NOTHING` or `ON CONFLICT ON CONSTRAINT .. DO NOTHING` stands in it.
        names_its_index: bool,
    },
}

/// Why a guard is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) help: Option<String>,
    /// The bytes of `literal.value()` that it is about.
    pub(crate) at: Range<usize>,
    /// `allow(guard, reason = "..")` lets it pass.
    pub(crate) excusable: bool,
}

impl Refusal {
    /// What nothing excuses.
    fn new(reason: impl Into<String>, at: Range<usize>) -> Self {
        Self { reason: reason.into(), help: None, at, excusable: false }
    }

    /// What can be right for reasons that the text does not show.
    fn judged(reason: impl Into<String>, at: Range<usize>) -> Self {
        Self { excusable: true, ..Self::new(reason, at) }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Reads a guard.
///
/// With `allowed`, all refusals that are judgements pass; what is then left unread is only what `exists` would need.
/// Without the feature `guard` there is no parser: only an allowed guard passes, and is told by its first words.
pub(crate) fn read(literal: &LitStr, beside: Beside<'_>) -> Result<Guard, Refusal> {
    let text = text::cut(literal, beside.dialect, beside.allowed)?;
    let value = literal.value();
    let sql = text.sql(&value);
    let kind = plain::kind(&sql, 0..value.len())?;
    let exists = judge(&text, &value, kind, beside)?;
    Ok(Guard { sql, values: text.exprs(), kind, exists })
}

type Exists = Option<(String, Vec<Expr>)>;

#[cfg(feature = "guard")]
fn judge(text: &text::Text, value: &str, kind: Kind, beside: Beside<'_>) -> Result<Exists, Refusal> {
    verdict::judge(text, value, kind, beside)
}

#[cfg(not(feature = "guard"))]
fn judge(_: &text::Text, value: &str, _: Kind, beside: Beside<'_>) -> Result<Exists, Refusal> {
    if beside.allowed {
        return Ok(None);
    }
    Err(Refusal::judged("guards are read by the compiler, and its reader is switched off", 0..value.len())
        .help("enable the feature `guard` of idem-runtime"))
}
