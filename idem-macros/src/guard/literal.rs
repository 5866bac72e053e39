//! Values in SQL, and what can be said about two of them on any column of any database.

use sqlparser::ast::{DataType, Expr, FunctionArguments, UnaryOperator, Value as Sql};

use super::Dialect;
use super::text::{Text, Value};

/// What an expression is known to be.
pub(super) enum Known<'a> {
    Text(String),
    Number(Number),
    Null,
    /// A value in braces: may be anything, also NULL.
    Bound(&'a Value),
    /// Something, but never NULL: a clock, `COALESCE(.., 'x')`.
    NotNull,
    Other,
}

/// A decimal, in units of its ninth place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(i128);

const ONE: i128 = 1_000_000_000;

impl Number {
    pub(super) fn read(written: &str) -> Option<Self> {
        let (negative, digits) = match written.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, written.strip_prefix('+').unwrap_or(written)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let sound = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || whole.len() > 20 || fraction.len() > 9 {
            return None;
        }
        if !sound(whole) || !sound(fraction) {
            return None;
        }
        let number: i128 = format!("{whole}{fraction:0<9}").parse().ok()?;
        Some(Self(if negative { -number } else { number }))
    }

    pub(super) const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn is_whole(self) -> bool {
        self.0 % ONE == 0
    }

    pub(super) const fn negative(self) -> Self {
        Self(-self.0)
    }

    pub(super) const fn sign(self) -> i128 {
        self.0.signum()
    }

    /// Surely greater or equal, also after the column rounded this number. `strictly`: surely greater.
    pub(super) const fn reaches(self, other: Self, strictly: bool) -> bool {
        self.0 >= other.0 + ONE || (!strictly && self.is_whole() && self.0 >= other.0)
    }
}

pub(super) fn known<'a>(expr: &Expr, text: &'a Text) -> Known<'a> {
    match expr {
        Expr::Nested(inner) => known(inner, text),
        Expr::Value(value) => match &value.value {
            Sql::Number(written, _) => Number::read(written).map_or(Known::NotNull, Known::Number),
            Sql::SingleQuotedString(written) | Sql::DoubleQuotedString(written) => Known::Text(written.clone()),
            Sql::Boolean(truth) => Known::Number(Number(if *truth { ONE } else { 0 })),
            Sql::Null => Known::Null,
            Sql::Placeholder(written) => {
                let number = written.trim_matches(['{', '}']).parse::<usize>().ok();
                number.and_then(|number| text.values.get(number)).map_or(Known::Other, Known::Bound)
            }
            _ => Known::Other,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match known(expr, text) {
            Known::Number(number) => Known::Number(number.negative()),
            _ => Known::Other,
        },
        // A cast that changes nothing: to a type of text, or to one of the database's own enums.
        Expr::Cast { expr, data_type, .. } => match (known(expr, text), data_type) {
            (Known::Text(written), DataType::Custom(..) | DataType::Text | DataType::Varchar(None)) => {
                Known::Text(written)
            }
            (
                Known::Number(number),
                DataType::Int(None) | DataType::Integer(None) | DataType::BigInt(None) | DataType::SmallInt(None),
            ) if number.is_whole() => Known::Number(number),
            (
                Known::Bound(value),
                DataType::Custom(..)
                | DataType::Text
                | DataType::Int(None)
                | DataType::Integer(None)
                | DataType::BigInt(None)
                | DataType::SmallInt(None),
            ) => Known::Bound(value),
            (Known::Null, _) => Known::Null,
            _ => Known::Other,
        },
        Expr::TypedString(_) => Known::NotNull,
        Expr::Function(function) => {
            let name = function.name.to_string().to_uppercase();
            let arguments = match &function.args {
                FunctionArguments::List(list) => list.args.iter().map(ToString::to_string).collect(),
                _ => Vec::new(),
            };
            if CLOCKS.contains(&name.as_str()) && is_clock(&name, &arguments) {
                return Known::NotNull;
            }
            let ends_in_literal = arguments.last().is_some_and(|last| {
                Number::read(last).is_some() || (last.starts_with('\'') && last.ends_with('\'') && last.len() > 1)
            });
            if ["COALESCE", "IFNULL"].contains(&name.as_str()) && ends_in_literal {
                return Known::NotNull;
            }
            Known::Other
        }
        _ => Known::Other,
    }
}

const CLOCKS: [&str; 17] = [
    "NOW",
    "CURRENT_TIMESTAMP",
    "LOCALTIMESTAMP",
    "LOCALTIME",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CLOCK_TIMESTAMP",
    "STATEMENT_TIMESTAMP",
    "TRANSACTION_TIMESTAMP",
    "UTC_TIMESTAMP",
    "UTC_DATE",
    "SYSDATE",
    "CURDATE",
    "UNIX_TIMESTAMP",
    "UNIXEPOCH",
    "DATETIME",
    "STRFTIME",
];

/// SQLite's functions are clocks only for `'now'`.
fn is_clock(name: &str, arguments: &[String]) -> bool {
    match (name, arguments) {
        ("DATETIME", [now]) | ("STRFTIME", [_, now]) => now == "'now'",
        ("UNIXEPOCH", []) => true,
        ("DATETIME" | "STRFTIME" | "UNIXEPOCH", _) => false,
        ("UNIX_TIMESTAMP", arguments) => arguments.is_empty(),
        // A number of fraction digits.
        (_, arguments) => arguments.iter().all(|digits| Number::read(digits).is_some()),
    }
}

impl Known<'_> {
    pub(super) const fn is_literal(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Number(_))
    }

    /// The column surely keeps this as it is, and the comparison with itself holds.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) => {
                left == right && (!looks_numeric(left) || Number::read(left).is_some_and(Number::is_whole))
            }
            (Self::Number(left), Self::Number(right)) => left == right && left.is_whole(),
            (Self::Bound(left), Self::Bound(right)) => left.is_same(right),
            _ => false,
        }
    }

    /// Surely different, whatever the column's type and collation are.
    pub(super) fn differs(&self, other: &Self, dialect: Dialect) -> bool {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) => texts_differ(left, right, dialect),
            (Self::Number(left), Self::Number(right)) => left.reaches(*right, true) || right.reaches(*left, true),
            _ => false,
        }
    }
}

/// `'12'`, `'1e3'`, `'2024-01-01 10:00'`: a column of numbers or times reads it in a way of its own.
fn looks_numeric(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.chars().all(|c| c.is_ascii_digit() || "+-.,:/ TtZzEe".contains(c))
}

/// No collation of the databases takes them for equal. Case, blanks at the end, accents, and signs that some collations
/// leave out or cannot tell apart, are no difference.
fn texts_differ(left: &str, right: &str, dialect: Dialect) -> bool {
    if looks_numeric(left) && looks_numeric(right) {
        return match (Number::read(left.trim()), Number::read(right.trim())) {
            (Some(left), Some(right)) => left.reaches(right, true) || right.reaches(left, true),
            _ => false,
        };
    }
    let (left, right) = (folded(left, dialect), folded(right, dialect));
    if matches!(dialect, Dialect::Postgres | Dialect::Unknown) && are_one_truth(&left, &right) {
        return false;
    }
    let apart = |left: &mut dyn Iterator<Item = Sign>, right: &mut dyn Iterator<Item = Sign>| loop {
        match (left.next(), right.next()) {
            (Some(Sign::Plain(left)), Some(Sign::Plain(right))) if left == right => {}
            (Some(Sign::Plain(_)), Some(Sign::Plain(_)) | None) | (None, Some(Sign::Plain(_))) => return true,
            _ => return false,
        }
    };
    apart(&mut left.iter().copied(), &mut right.iter().copied())
        || apart(&mut left.iter().rev().copied(), &mut right.iter().rev().copied())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Equal to itself alone, but for its case.
    Plain(char),
    /// Some collation may take it for another one, for several or for none.
    Unclear,
}

fn folded(text: &str, dialect: Dialect) -> Vec<Sign> {
    let exact = matches!(dialect, Dialect::Postgres | Dialect::Sqlite);
    let kept = text.trim_end_matches(' ').chars().filter(|c| !c.is_ascii_control());
    kept.flat_map(char::to_lowercase)
        .map(|c| match c {
            _ if c.is_ascii() => Sign::Plain(c),
            // Han and Hangul: no accents, no case.
            '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => Sign::Plain(c),
            _ if exact && c.is_alphanumeric() => Sign::Plain(c),
            _ => Sign::Unclear,
        })
        .collect()
}

/// PostgreSQL reads `'f'`, `'no'` and `'off'` as the same boolean.
fn are_one_truth(left: &[Sign], right: &[Sign]) -> bool {
    let begins = |signs: &[Sign], word: &str| {
        !signs.is_empty()
            && signs.len() <= word.len()
            && signs.iter().zip(word.chars()).all(|(sign, c)| *sign == Sign::Plain(c))
            && signs != [Sign::Plain('o')]
    };
    [["true", "yes", "on", "1"], ["false", "no", "off", "0"]]
        .iter()
        .any(|words| [left, right].iter().all(|signs| words.iter().any(|word| begins(signs, word))))
}
