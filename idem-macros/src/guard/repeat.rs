//! Whether an UPDATE can match its row again after it has changed it.
//!
//! It must be certain, from the text alone, that the WHERE is false or NULL for the row after the SET. AND: for one
//! side. OR: for both sides. For a condition on a column `c`:
//!
//! | condition | false after |
//! | --- | --- |
//! | `c = 'A'`, `c IS NOT DISTINCT FROM 'A'`, `c <=> 'A'` | `c = 'B'`: literals that differ in every collation |
//! | `c IN ('A', 'B')` | `c = 'C'`: differs from each |
//! | `c <> 'B'`, `c <> {v}`, `c NOT IN ('B', ..)`, `c IS DISTINCT FROM {v}` | `c = 'B'`, `c = {v}`: the same |
//! | `c = {v}`, `c = 7` | `c = c + 1`, `c = c - 1`, `c = {v} + 1`: an optimistic lock |
//! | `c < {v}`, `c > {v}` | `c = {v}`, and `{v} + 1` or `{v} - 1` beyond it: order by version |
//! | `c <= {v}`, `c >= {v}` | `c = {v} + 1` or `{v} - 1` alone |
//! | `c < 7`, `c BETWEEN 1 AND 7` and so on | `c = 8`: numbers, beyond any rounding |
//! | `c IS NULL` | `c =` a literal, a clock, `COALESCE({v}, 'x')`; a value in braces may be NULL |
//! | `c IS NOT NULL`, any comparison | `c = NULL` |
//! | `c`, `NOT c`, `c = false`, `c IS TRUE` and so on | `c =` the other truth |
//!
//! `c = c + 1` proves something only where the condition is known to have held before, so not under OR:
//! `a = {a} OR b = {b}` with both raised matches again when `b` was one below.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator as Op, Expr, Ident, InTarget, ObjectName, UnaryOperator, Update,
};

use super::literal::{Bound, Known, Number, known};
use super::sql;
use super::verdict::Reader;
use super::{Dialect, Refusal};

pub(super) fn cannot_match_again(reader: &Reader<'_>, update: &Update, condition: &Expr) -> Result<(), Refusal> {
    let row = After::new(reader, update)?;
    row.is_false(condition, true).map_err(|again| again.refusal)
}

/// Why a condition can hold again; of several reasons the most telling one is reported.
struct Again {
    rank: u8,
    refusal: Refusal,
}

/// A condition on a column that the SET leaves alone.
const UNTOUCHED: u8 = 0;
/// Nothing is known about it.
const UNCLEAR: u8 = 1;
/// What is wrong is known.
const WRONG: u8 = 2;

type Verdict = Result<(), Again>;

/// The row after the SET.
struct After<'a> {
    reader: &'a Reader<'a>,
    columns: BTreeMap<String, New<'a>>,
    /// What the message about an UPDATE that pins nothing shows.
    first: String,
    at: Range<usize>,
}

/// A column's new value.
struct New<'a> {
    expr: &'a Expr,
    is: Is<'a>,
}

enum Is<'a> {
    Known(Known<'a>),
    /// Its old value and a number.
    Moved(Number),
    /// Its old value and something else; `true`: more, or less where it is negative.
    MovedBy(bool),
    /// A value in braces and a number.
    Beside(Bound<'a>, Number),
}

/// What a condition compares a column with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    /// NULL equals NULL.
    Same,
    Different,
    /// NULL does not differ from NULL.
    Distinct,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Test {
    const fn of(op: &Op) -> Option<Self> {
        Some(match op {
            Op::Eq => Self::Equal,
            Op::Spaceship => Self::Same,
            Op::NotEq => Self::Different,
            Op::Lt => Self::Less,
            Op::LtEq => Self::LessOrEqual,
            Op::Gt => Self::Greater,
            Op::GtEq => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// With its sides exchanged.
    const fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    const fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::Different,
            Self::Same => Self::Distinct,
            Self::Different => Self::Equal,
            Self::Distinct => Self::Same,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Equal | Self::Same => "=",
            Self::Different | Self::Distinct => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl<'a> After<'a> {
    fn new(reader: &'a Reader<'a>, update: &'a Update) -> Result<Self, Refusal> {
        let mut columns = BTreeMap::new();
        // Without their case: some databases take `"Status"` and `status` for one column.
        let mut seen = BTreeSet::new();
        for Assignment { target, value } in &update.assignments {
            let (targets, single) = match target {
                AssignmentTarget::ColumnName(name) => (std::slice::from_ref(name), true),
                // Nothing is known about the columns of a tuple.
                AssignmentTarget::Tuple(names) => (names.as_slice(), false),
            };
            for target in targets {
                let ident = alone(reader, target)?;
                if !seen.insert(ident.value.to_lowercase()) {
                    let at = sql::of_span(ident.span, &reader.whole());
                    let reason = format!("`{}` is set twice, and databases differ in what counts", ident.value);
                    return Err(Refusal::judged(reason, at).help("set it once"));
                }
                let column = sql::column(ident, reader.dialect());
                if single {
                    let is = is(reader, value, &column);
                    columns.insert(column, New { expr: value, is });
                }
            }
        }
        let first = update.assignments.first().map(|first| reader.shown(first)).unwrap_or_default();
        let at = update.selection.as_ref().map_or(0..reader.value.len(), |condition| reader.range(condition));
        Ok(Self { reader, columns, first, at })
    }

    /// Certainly false or NULL after the SET. `held`: certainly true before it.
    fn is_false(&self, expr: &Expr, held: bool) -> Verdict {
        match expr {
            Expr::Nested(inner) => self.is_false(inner, held),
            Expr::BinaryOp { left, op: Op::And, right } => match self.is_false(left, held) {
                Ok(()) => Ok(()),
                Err(first) => {
                    self.is_false(right, held).map_err(|second| if second.rank > first.rank { second } else { first })
                }
            },
            Expr::BinaryOp { left, op: Op::Or, right } => {
                self.is_false(left, false).and_then(|()| self.is_false(right, false))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.is_true(expr, held),
            Expr::BinaryOp { left, op, right } => match Test::of(op) {
                Some(test) => self.compare(expr, left, test, right, held),
                None => Err(self.unclear(expr)),
            },
            Expr::IsNotDistinctFrom(left, right) => self.compare(expr, left, Test::Same, right, held),
            Expr::IsDistinctFrom(left, right) => self.compare(expr, left, Test::Distinct, right, held),
            Expr::Between { expr: column, negated: false, low, high } => {
                self.compare(expr, column, Test::GreaterOrEqual, low, held).or_else(|first| {
                    self.compare(expr, column, Test::LessOrEqual, high, held)
                        .map_err(|second| if second.rank > first.rank { second } else { first })
                })
            }
            Expr::In { expr: column, target: InTarget::List(list), negated, .. } => {
                self.list(expr, column, list, *negated, held)
            }
            Expr::IsNull(column) => self.is_null(expr, column),
            Expr::IsNotNull(column) => match self.new_value(column) {
                Some(New { is: Is::Known(Known::Null), .. }) => Ok(()),
                _ => Err(self.unclear_at(expr, column)),
            },
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.truth(expr, expr, true, true),
            Expr::IsTrue(column) => self.truth(expr, column, true, true),
            Expr::IsFalse(column) => self.truth(expr, column, false, true),
            Expr::IsNotTrue(column) => self.truth(expr, column, false, false),
            Expr::IsNotFalse(column) => self.truth(expr, column, true, false),
            _ => Err(self.unclear(expr)),
        }
    }

    /// Certainly true or NULL after the SET, so that its NOT is no match.
    fn is_true(&self, expr: &Expr, held: bool) -> Verdict {
        match expr {
            Expr::Nested(inner) => self.is_true(inner, held),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.is_false(expr, held),
            Expr::BinaryOp { left, op, right } => match Test::of(op) {
                Some(test) => self.compare(expr, left, test.opposite(), right, held),
                None => Err(self.unclear(expr)),
            },
            Expr::In { expr: column, target: InTarget::List(list), negated, .. } => {
                self.list(expr, column, list, !negated, held)
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.truth(expr, expr, false, true),
            _ => Err(self.unclear(expr)),
        }
    }

    fn new_value(&self, column: &Expr) -> Option<&New<'a>> {
        self.columns.get(&sql::as_column(column, self.reader.dialect())?)
    }

    fn compare(&self, whole: &Expr, left: &Expr, test: Test, right: &Expr, held: bool) -> Verdict {
        let (column, test, with) = match (self.new_value(left), self.new_value(right)) {
            (Some(_), None) => (left, test, right),
            (None, Some(_)) => (right, test.flipped(), left),
            _ => return Err(self.unclear(whole)),
        };
        let Some(new) = self.new_value(column) else { return Err(self.unclear(whole)) };
        // SQLite takes `IS NOT DISTINCT FROM TRUE` for `IS TRUE`, and 7 is true.
        let is_sqlite = matches!(self.reader.dialect(), Dialect::Sqlite | Dialect::Unknown);
        if is_sqlite && matches!(test, Test::Same | Test::Distinct) && is_truth(with) {
            return Err(self.unclear_at(whole, column));
        }
        if let Some(name) = [with, new.expr].into_iter().find_map(in_double_quotes) {
            return Err(self.wrong(
                whole,
                format!("`\"{name}\"` in double quotes is a column"),
                format!("write text in single quotes: `'{name}'`"),
            ));
        }
        let comparison =
            Comparison { row: self, whole, column, test, with, new, pinned: known(with, self.reader.text) };
        comparison.is_false(held)
    }

    fn list(&self, whole: &Expr, column: &Expr, list: &[Expr], negated: bool, held: bool) -> Verdict {
        let Some(new) = self.new_value(column) else { return Err(self.unclear(whole)) };
        // SQLite: NULL is not in the empty list.
        if list.is_empty() {
            return Err(self.unclear_at(whole, column));
        }
        if let ([only], false) = (list, negated) {
            return self.compare(whole, column, Test::Equal, only, held);
        }
        let Is::Known(value) = &new.is else { return Err(self.unclear_at(whole, column)) };
        if matches!(value, Known::Null) {
            return Ok(());
        }
        let text = self.reader.text;
        if negated {
            let holds_it = list.iter().any(|one| known(one, text).is_same(value));
            return if holds_it { Ok(()) } else { Err(self.unclear_at(whole, column)) };
        }
        let stays = list.iter().find(|one| {
            let one = known(one, text);
            !matches!(one, Known::Null) && !one.differs(value, self.reader.dialect())
        });
        let Some(stays) = stays else { return Ok(()) };
        let shown = self.reader.shown(new.expr);
        let (stay, column) = (self.reader.shown(stays), self.reader.shown(column));
        if known(stays, text).is_literal() && value.is_literal() {
            return Err(self.wrong(
                stays,
                format!("the list holds the new value, so the row matches again after `{column} = {shown}`"),
                format!("leave `{stay}` out of the list"),
            ));
        }
        Err(self.wrong(
            whole,
            format!("`{stay}` and `{shown}` may be the same, so the row may match again"),
            format!("write literals, or add `AND {column} <> {shown}`"),
        ))
    }

    fn is_null(&self, whole: &Expr, column: &Expr) -> Verdict {
        let Some(New { expr, is }) = self.new_value(column) else { return Err(self.unclear(whole)) };
        let shown = self.reader.shown(expr);
        let name = self.reader.shown(column);
        match is {
            // MySQL takes the date of zeros for NULL.
            Is::Known(Known::Text(text)) if text.starts_with("0000") => Err(self.unclear_at(whole, column)),
            Is::Known(Known::Text(_) | Known::Number(_) | Known::NotNull) => Ok(()),
            Is::Known(Known::Null) => Err(self.wrong(
                whole,
                format!("`{name}` is still NULL after the SET"),
                "set it to a literal, or to CURRENT_TIMESTAMP".into(),
            )),
            Is::Moved(_) | Is::MovedBy(_) => Err(self.wrong(
                whole,
                format!("NULL stays NULL in `{shown}`, so the row matches again"),
                "set it to a literal, or to CURRENT_TIMESTAMP".into(),
            )),
            Is::Known(Known::Bound(_) | Known::Other) | Is::Beside(..) => Err(self.wrong(
                whole,
                format!("`{shown}` may be NULL, and then the row matches again"),
                format!("write `{name} = COALESCE({shown}, '')` with a literal that fits, or pin a state as well"),
            )),
        }
    }

    /// A condition that wants the column to be true, or false. `or_null`: NULL is no match either.
    fn truth(&self, whole: &Expr, column: &Expr, wanted: bool, or_null: bool) -> Verdict {
        match self.new_value(column) {
            None => Err(self.unclear(whole)),
            Some(New { is: Is::Known(Known::Null), .. }) if or_null => Ok(()),
            Some(New { is: Is::Known(Known::Number(number)), .. }) if number.is_zero() || number.is_whole() => {
                if number.is_zero() == wanted {
                    Ok(())
                } else {
                    Err(self.wrong(
                        whole,
                        "the condition still holds after the SET, so a repeat would match again".into(),
                        "pin the truth that the SET changes".into(),
                    ))
                }
            }
            Some(_) => Err(self.unclear_at(whole, column)),
        }
    }

    fn wrong(&self, at: &Expr, reason: String, help: String) -> Again {
        let at = self.reader.range(at);
        Again { rank: WRONG, refusal: Refusal::judged(reason, at).help(help) }
    }

    /// A condition about which nothing can be said.
    fn unclear(&self, expr: &Expr) -> Again {
        // A leaf that names one of the columns is the better reason.
        let touches = self.touches(expr);
        if let Some(column) = touches {
            return self.unclear_on(expr, &column);
        }
        let reason = format!("nothing in the WHERE is changed by the SET, so a repeat would do `{}` again", self.first);
        let refusal = Refusal::judged(reason, self.at.clone()).help(PIN);
        Again { rank: UNTOUCHED, refusal }
    }

    fn unclear_at(&self, whole: &Expr, column: &Expr) -> Again {
        self.unclear_on(whole, &self.reader.shown(column))
    }

    fn unclear_on(&self, whole: &Expr, column: &str) -> Again {
        let reason =
            format!("it is not certain that this is false after `{column}` is set, so a repeat may match again");
        Again { rank: UNCLEAR, refusal: Refusal::judged(reason, self.reader.range(whole)).help(PIN) }
    }

    fn touches(&self, expr: &Expr) -> Option<String> {
        let words = super::text::words(&expr.to_string());
        self.columns.keys().find(|column| words.contains(&column.to_uppercase())).cloned()
    }
}

const PIN: &str = "pin the state that it leaves, `AND status = 'WAIT_PAY'`, or a version, `AND version = {msg.version}` \
                   with `version = version + 1`; or add `key = ..`, which keeps repeats away";

/// The column that is set. Before a dot MySQL has the table; elsewhere it is a column, and what follows one of its fields.
fn alone<'e>(reader: &Reader<'_>, target: &'e ObjectName) -> Result<&'e Ident, Refusal> {
    let named = matches!(reader.dialect(), Dialect::MySql) || target.0.len() == 1;
    if let (true, Some(ident)) = (named, target.0.last().and_then(|part| part.as_ident())) {
        return Ok(ident);
    }
    let at = target
        .0
        .first()
        .and_then(|part| part.as_ident())
        .map_or(reader.whole(), |ident| sql::of_span(ident.span, &reader.whole()));
    Err(Refusal::judged(format!("not every database takes `{target}` for a column of the table"), at)
        .help("write the column alone"))
}

/// Where text was meant: `"WAIT_PAY"`.
fn in_double_quotes(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => in_double_quotes(inner),
        Expr::Identifier(ident) if ident.quote_style == Some('"') => Some(&ident.value),
        _ => None,
    }
}

/// `TRUE` or `FALSE`.
fn is_truth(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_truth(inner),
        Expr::Value(value) => matches!(value.value, sqlparser::ast::Value::Boolean(_)),
        _ => false,
    }
}

/// One condition on one column that the SET changes.
struct Comparison<'c> {
    row: &'c After<'c>,
    whole: &'c Expr,
    column: &'c Expr,
    test: Test,
    with: &'c Expr,
    new: &'c New<'c>,
    pinned: Known<'c>,
}

impl Comparison<'_> {
    fn is_false(&self, held: bool) -> Verdict {
        if matches!(self.new.is, Is::Known(Known::Null)) && !matches!(self.test, Test::Same | Test::Distinct) {
            return Ok(());
        }
        match self.test {
            Test::Equal | Test::Same => self.equal(held),
            Test::Different | Test::Distinct => self.different(),
            Test::Less | Test::LessOrEqual | Test::Greater | Test::GreaterOrEqual => self.ordered(),
        }
    }

    fn equal(&self, held: bool) -> Verdict {
        let reader = self.row.reader;
        let (column, old, new) = (reader.shown(self.column), reader.shown(self.with), reader.shown(self.new.expr));
        // NULL + 1 is NULL, and two NULLs are the same.
        let null_too = self.test == Test::Same;
        match (&self.new.is, &self.pinned) {
            (Is::Known(Known::Text(_) | Known::Number(_)), Known::Null) if null_too => Ok(()),
            (Is::Known(value), pinned) if pinned.is_same(value) => self.wrong(
                format!("the state stays `{new}`, so the row matches again"),
                format!("pin the state that it leaves: `{column} = 'WAIT_PAY'`"),
            ),
            (Is::Known(value), pinned) if pinned.differs(value, reader.dialect()) => Ok(()),
            (Is::Known(Known::Text(_)), Known::Text(_)) | (Is::Known(Known::Number(_)), Known::Number(_)) => self
                .wrong(
                    format!("a column can take `{old}` and `{new}` for equal, so the row may match again"),
                    "use states that differ in more than case, accents, blanks or rounding".into(),
                ),
            (Is::Known(Known::Text(_)), Known::Number(_)) | (Is::Known(Known::Number(_)), Known::Text(_)) => self
                .wrong(
                    format!(
                        "`{old}` and `{new}` are a number and a text, and databases compare them in different ways"
                    ),
                    "write both as numbers, or both as text".into(),
                ),
            (Is::Known(Known::Bound(_)), _) | (Is::Known(Known::Text(_) | Known::Number(_)), Known::Bound(_)) => self
                .wrong(
                    format!("`{old}` and `{new}` may be the same, so the row may match again"),
                    format!("write literals, or add `AND {column} <> {new}`"),
                ),
            (Is::Moved(step), Known::Bound(_) | Known::Number(_)) if !null_too => {
                if step.is_zero() {
                    self.wrong(
                        format!("`{new}` leaves `{column}` as it is, so the row matches again"),
                        format!("raise it: `{column} = {column} + 1`"),
                    )
                } else if !held {
                    self.wrong(
                        format!("under OR `{column}` need not have been `{old}` before, so it can be `{old}` after"),
                        "pin it with AND".into(),
                    )
                } else {
                    Ok(())
                }
            }
            (Is::Beside(value, step), Known::Bound(pinned))
                if !null_too && pinned.is_same(value) && !step.is_zero() =>
            {
                Ok(())
            }
            (Is::MovedBy(_), Known::Bound(_) | Known::Number(_)) => self.wrong(
                format!("what `{new}` adds may be zero, and then the row matches again"),
                format!("raise it by a literal: `{column} = {column} + 1`"),
            ),
            _ => Err(self.row.unclear_at(self.whole, self.column)),
        }
    }

    fn different(&self) -> Verdict {
        let reader = self.row.reader;
        let (column, old, new) = (reader.shown(self.column), reader.shown(self.with), reader.shown(self.new.expr));
        match (&self.new.is, &self.pinned) {
            (Is::Known(value), pinned) if pinned.is_same(value) => Ok(()),
            (Is::Known(value), pinned) if pinned.differs(value, reader.dialect()) => self.wrong(
                format!("`{new}` differs from `{old}` too, so the row matches again"),
                format!("write `{column} <> {new}`"),
            ),
            _ => Err(self.row.unclear_at(self.whole, self.column)),
        }
    }

    /// Comparisons are turned so that the column was below, and must not be below after.
    fn ordered(&self) -> Verdict {
        let reader = self.row.reader;
        let below = matches!(self.test, Test::Less | Test::LessOrEqual);
        let strictly = matches!(self.test, Test::LessOrEqual | Test::GreaterOrEqual);
        let turned = |number: &Number| if below { *number } else { number.negative() };
        let (column, old, new) = (reader.shown(self.column), reader.shown(self.with), reader.shown(self.new.expr));
        let offset = match (&self.new.is, &self.pinned) {
            (Is::Known(Known::Number(value)), Known::Number(pinned)) => {
                let ends = turned(value).reaches(turned(pinned), strictly);
                return if ends { Ok(()) } else { Err(self.row.unclear_at(self.whole, self.column)) };
            }
            (Is::Known(Known::Bound(value)), Known::Bound(pinned)) if pinned.is_same(value) => 0,
            (Is::Beside(value, step), Known::Bound(pinned)) if pinned.is_same(value) => turned(step).sign(),
            (Is::Moved(step), _) if !step.is_zero() => return self.moves_on(step.sign() > 0),
            (Is::MovedBy(up), _) => return self.moves_on(*up),
            _ => return Err(self.row.unclear_at(self.whole, self.column)),
        };
        let narrow = if below { "<" } else { ">" };
        match offset {
            0 if strictly => self.wrong(
                format!("`{}` matches the same version again", self.test.sign()),
                format!("write `{column} {narrow} {old}`"),
            ),
            0 | 1 => Ok(()),
            _ => self.wrong(
                format!("`{new}` is still on the side of `{old}` that matches, so the row matches again"),
                format!("set `{column} = {old}`"),
            ),
        }
    }

    /// The deduction without a key: `count >= {n}` with `count = count - {n}`.
    fn moves_on(&self, up: bool) -> Verdict {
        let new = self.row.reader.shown(self.new.expr);
        let column = self.row.reader.shown(self.column);
        self.wrong(
            format!("a repeat would {} again: `{column} = {new}`", if up { "add" } else { "deduct" }),
            "add `key = ..`, which keeps repeats away, or pin a version or a state".into(),
        )
    }

    fn wrong(&self, reason: String, help: String) -> Verdict {
        Err(self.row.wrong(self.whole, reason, help))
    }
}

/// What an expression makes of the column.
fn is<'a>(reader: &'a Reader<'a>, expr: &'a Expr, column: &str) -> Is<'a> {
    let text = reader.text;
    let own = |expr: &Expr| sql::as_column(expr, reader.dialect()).is_some_and(|name| name == column);
    match expr {
        Expr::Nested(inner) => is(reader, inner, column),
        Expr::BinaryOp { left, op: op @ (Op::Plus | Op::Minus), right } => {
            let minus = matches!(op, Op::Minus);
            let signed = |number: Number| if minus { number.negative() } else { number };
            let (base, step) = if !minus && own(right) { (right, left) } else { (left, right) };
            match (own(base), known(base, text), known(step, text)) {
                (true, _, Known::Number(step)) if step.is_whole() => Is::Moved(signed(step)),
                (true, ..) => Is::MovedBy(!minus),
                (_, Known::Bound(value), Known::Number(step)) if step.is_whole() => Is::Beside(value, signed(step)),
                (_, Known::Number(step), Known::Bound(value)) if step.is_whole() && !minus => Is::Beside(value, step),
                _ => Is::Known(Known::Other),
            }
        }
        _ => Is::Known(known(expr, text)),
    }
}
