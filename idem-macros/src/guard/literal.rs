//! Values in SQL, and what can be said about two of them on any column of any database.

use sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value as Sql};

use super::Dialect;
use super::text::{Text, Value};

/// What an expression is known to be.
pub(super) enum Known<'a> {
    Text(String),
    Number(Number),
    Null,
    /// A value in braces: may be anything, also NULL.
    Bound(Bound<'a>),
    /// Something, but never NULL: a clock, `COALESCE(.., 'x')`.
    NotNull,
    Other,
}

/// A value in braces, and the type that it is cast to.
pub(super) struct Bound<'a> {
    value: &'a Value,
    cast: Option<String>,
}

impl Bound<'_> {
    /// The same value after the same cast: a cast to integers takes the fraction away, and then the two differ.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.value.is_same(other.value) && self.cast == other.cast
    }
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
            Sql::SingleQuotedString(written) | Sql::DoubleQuotedString(written) => {
                if is_postgres(text.dialect) && is_clock_text(written) {
                    Known::NotNull
                } else {
                    Known::Text(written.clone())
                }
            }
            Sql::Boolean(truth) => Known::Number(Number(if *truth { ONE } else { 0 })),
            Sql::Null => Known::Null,
            Sql::Placeholder(written) => {
                let number = written.trim_matches(['{', '}']).parse::<usize>().ok();
                let value = number.and_then(|number| text.values.get(number));
                value.map_or(Known::Other, |value| Known::Bound(Bound { value, cast: None }))
            }
            _ => Known::Other,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match known(expr, text) {
            Known::Number(number) => Known::Number(number.negative()),
            _ => Known::Other,
        },
        // A cast that changes nothing: to a type of text, or to one of the database's own enums.
        Expr::Cast { expr, data_type, .. } => match (known(expr, text), data_type) {
            (Known::Text(written), DataType::Text | DataType::Varchar(None)) => Known::Text(written),
            (Known::Text(written), data_type) if is_own_type(data_type, text.dialect) => Known::Text(written),
            (
                Known::Number(number),
                DataType::Int(None) | DataType::Integer(None) | DataType::BigInt(None) | DataType::SmallInt(None),
            ) if number.is_whole() => Known::Number(number),
            (
                Known::Bound(Bound { value, cast: None }),
                DataType::Custom(..)
                | DataType::Text
                | DataType::Int(None)
                | DataType::Integer(None)
                | DataType::BigInt(None)
                | DataType::SmallInt(None),
            ) => Known::Bound(Bound { value, cast: Some(data_type.to_string().to_lowercase()) }),
            (Known::Null, _) => Known::Null,
            _ => Known::Other,
        },
        Expr::TypedString(_) => Known::NotNull,
        Expr::Function(function) => {
            let name = function.name.to_string().to_uppercase();
            let given: &[FunctionArg] = match &function.args {
                FunctionArguments::List(list) => &list.args,
                _ => &[],
            };
            let arguments: Vec<String> = given.iter().map(ToString::to_string).collect();
            if CLOCKS.contains(&name.as_str()) && is_clock(&name, &arguments) {
                return Known::NotNull;
            }
            let ends_in_literal = given.last().is_some_and(|last| match last {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(last)) => {
                    matches!(known(last, text), Known::Text(_) | Known::Number(_) | Known::NotNull)
                }
                _ => false,
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

/// Whether a function of this name answers differently on a repeat.
pub(super) fn differs_each_time(name: &str) -> bool {
    const MORE: [&str; 19] = [
        "RANDOM",
        "RAND",
        "RANDOMBLOB",
        "UUID",
        "UUID_SHORT",
        "UUIDV4",
        "UUIDV7",
        "UUID_GENERATE_V1",
        "UUID_GENERATE_V4",
        "GEN_RANDOM_UUID",
        "GEN_RANDOM_BYTES",
        "SYS_GUID",
        "NEXTVAL",
        "LASTVAL",
        "LAST_INSERT_ID",
        "LAST_INSERT_ROWID",
        "TIMEOFDAY",
        "CONNECTION_ID",
        "PG_BACKEND_PID",
    ];
    // With a time given SQLite's and MySQL's functions are no clocks.
    let is_clock = CLOCKS.contains(&name) && !["DATETIME", "STRFTIME", "UNIXEPOCH", "UNIX_TIMESTAMP"].contains(&name);
    is_clock || MORE.contains(&name)
}

/// SQLite's functions are clocks only for `'now'`.
fn is_clock(name: &str, arguments: &[String]) -> bool {
    match (name, arguments) {
        ("DATETIME", [now]) => now == "'now'",
        ("STRFTIME", [format, now]) => now == "'now'" && is_format(format),
        ("UNIXEPOCH", []) => true,
        ("DATETIME" | "STRFTIME" | "UNIXEPOCH", _) => false,
        ("UNIX_TIMESTAMP", arguments) => arguments.is_empty(),
        // A number of fraction digits.
        (_, arguments) => arguments.iter().all(|digits| Number::read(digits).is_some()),
    }
}

/// Of SQLite's, in every version of it; for another sign the answer is NULL.
fn is_format(format: &str) -> bool {
    let inner = format.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.is_some_and(|inner| {
        let mut signs = inner.split('%').skip(1);
        signs.all(|rest| rest.starts_with(|sign| "dfHjJmMsSwWY".contains(sign))) && !inner.contains("%%")
    })
}

/// A type of the database's own, such as an enum, whose values are texts as they stand. SQLite takes the name of a type that
/// it does not know for numbers; a length cuts the text off, and so do `name` and `"char"`.
fn is_own_type(data_type: &DataType, dialect: Dialect) -> bool {
    let DataType::Custom(name, modifiers) = data_type else { return false };
    let idents: Option<Vec<_>> = name.0.iter().map(|part| part.as_ident()).collect();
    matches!(dialect, Dialect::Postgres)
        && modifiers.is_empty()
        && idents.is_some_and(|idents| {
            idents.iter().all(|ident| !ident.value.eq_ignore_ascii_case("name") && ident.value != "char")
        })
}

const fn is_postgres(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Postgres | Dialect::Unknown)
}

/// PostgreSQL reads these as times, and another one on each delivery.
fn is_clock_text(text: &str) -> bool {
    let words = ["now", "today", "tomorrow", "yesterday"];
    text.split_whitespace().any(|word| words.iter().any(|clock| word.eq_ignore_ascii_case(clock)))
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
    let is_mysql = matches!(dialect, Dialect::MySql | Dialect::Unknown);
    if is_mysql && looks_numeric(left) != looks_numeric(right) && leading(left) == leading(right) {
        return false;
    }
    if has_brackets(left) && has_brackets(right) {
        return false;
    }
    if is_postgres(dialect) && is_time(left) && is_time(right) {
        return false;
    }
    let (left, right) = (folded(left, dialect), folded(right, dialect));
    if is_postgres(dialect) && are_one_truth(&left, &right) {
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

/// What MySQL takes a text for that is compared with a column of numbers: `'NEW'` is 0, and so is `'0'`.
fn leading(text: &str) -> Number {
    let text = text.trim_start();
    let digits = text.trim_start_matches(['+', '-']);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    Number::read(&text[..text.len() - rest.len()]).unwrap_or(Number(0))
}

/// JSON, arrays and ranges have several spellings for one value: `[1,3)` is `[1,2]`. So has money.
fn has_brackets(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '(', '"', '$'])
}

/// PostgreSQL knows many spellings of a time: `1 day` is `24:00:00`, `Jan 1 2024` is `2024-01-01`.
fn is_time(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let mut words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    looks_numeric(&text)
        || text == "epoch"
        || is_interval(&text)
        || (text.contains(|c: char| c.is_ascii_digit())
            && words.any(|word| word.len() > 2 && MONTHS.iter().any(|month| month.starts_with(word))))
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// `1 day`, `-24h`, `@ 1 mon`, `P1DT12H`.
fn is_interval(text: &str) -> bool {
    if let Some(iso) = text.strip_prefix('p') {
        return iso.starts_with(|c: char| c.is_ascii_digit() || c == 't' || c == '-')
            && iso.ends_with(['y', 'm', 'w', 'd', 'h', 's'])
            && iso.chars().all(|c| c.is_ascii_digit() || "tymwdhs.-".contains(c));
    }
    let number = text.trim_start_matches(|c: char| "@+- ".contains(c));
    let unit = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let unit =
        unit.trim_start_matches(' ').split(|c: char| !(c.is_alphabetic() || c == '_')).next().unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit() || c == '.') && UNITS.iter().any(|known| is_unit(unit, known))
}

const UNITS: [&str; 27] = [
    "microsecond",
    "us",
    "usec",
    "millisecond",
    "ms",
    "msec",
    "second",
    "s",
    "sec",
    "minute",
    "m",
    "min",
    "hour",
    "h",
    "hr",
    "day",
    "d",
    "week",
    "w",
    "month",
    "mon",
    "year",
    "y",
    "yr",
    "decade",
    "century",
    "millennium",
];

fn is_unit(word: &str, unit: &str) -> bool {
    word == unit || word.strip_suffix('s') == Some(unit)
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
