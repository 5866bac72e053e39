//! The bridge to the SQL parser: tokens with byte positions, values as placeholders, expressions back to text.

use std::ops::Range;

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Spanned as _, Statement};
use sqlparser::dialect::{Dialect as Rules, GenericDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use super::text::{Piece, Text, is_word};
use super::{Dialect, Refusal};

/// Longer texts, in bytes, are not read.
const LONGEST: usize = 16_384;

/// More tokens than this are not read: deep trees could exhaust the compiler's stack.
const MOST_TOKENS: usize = 1000;

/// Deeper nesting is not read, for the same reason.
const DEEPEST: usize = 20;

fn rules(dialect: Dialect) -> &'static dyn Rules {
    match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::MySql => &MySqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Unknown => &GenericDialect {},
    }
}

/// The statement, with a placeholder `{0}` for the first value, and so on.
pub(super) fn parse(text: &Text, value: &str, dialect: Dialect) -> Result<Statement, Refusal> {
    let too_long = || unread("it is too long", 0..value.len());
    if value.len() > LONGEST {
        return Err(too_long());
    }
    let tokens = tokens(text, value, dialect)?;
    if tokens.len() > MOST_TOKENS {
        return Err(too_long());
    }
    let mut parser = Parser::new(rules(dialect)).with_recursion_limit(DEEPEST).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().and_then(|statement| {
        let next = parser.peek_token();
        if next.token == Token::EOF { Ok(statement) } else { parser.expected("the end of the statement", next) }
    });
    parsed.map_err(|error| {
        let message = error.to_string();
        let message = message.strip_prefix("sql parser error: ").unwrap_or(&message);
        let (message, column) = message.rsplit_once(" at Line: ").unwrap_or((message, ""));
        let at = column.rsplit_once("Column: ").and_then(|(_, column)| column.parse::<usize>().ok());
        let at = at.and_then(|at| place(value, at.checked_sub(1)?)).unwrap_or(0..value.len());
        let message = named(message, text, value);
        let mut message = message.chars();
        let message = message.next().map(|first| first.to_lowercase().chain(message).collect::<String>());
        unread(&message.unwrap_or_default(), at)
    })
}

/// The word, text, value or sign at this byte.
fn place(value: &str, at: usize) -> Option<Range<usize>> {
    let rest = value.get(at..)?;
    let first = rest.chars().next()?;
    let length = match first {
        _ if is_word(first) => rest.find(|c| !is_word(c)),
        '\'' | '"' | '`' => rest[1..].find(first).map(|end| end + 2),
        '{' => rest.find('}').map(|end| end + 1),
        _ => Some(first.len_utf8()),
    };
    Some(at..at + length.unwrap_or(rest.len()))
}

fn unread(reason: &str, at: Range<usize>) -> Refusal {
    Refusal::judged(format!("this guard cannot be read, so it cannot be judged: {reason}"), at)
        .help("write it in plainer SQL")
}

fn tokens(text: &Text, value: &str, dialect: Dialect) -> Result<Vec<TokenWithSpan>, Refusal> {
    let mut tokens = Vec::new();
    for piece in &text.pieces {
        match piece {
            Piece::Value(number) => {
                let span = span(text.values.get(*number).map(|value| value.at.clone()).unwrap_or_default());
                tokens.push(TokenWithSpan::new(Token::Placeholder(format!("{{{number}}}")), span));
            }
            Piece::Blank => {}
            Piece::Sql(range) => {
                let sql = value.get(range.clone()).unwrap_or_default();
                let places = Places::new(sql, range.start);
                let found = Tokenizer::new(rules(dialect), sql).tokenize_with_location();
                let found = found.map_err(|error| {
                    let at = places.byte(error.location);
                    unread(&error.message, place(value, at).unwrap_or(range.clone()))
                })?;
                for token in found {
                    let at = places.byte(token.span.start)..places.byte(token.span.end);
                    // A comment here is one that this parser sees and the databases do not.
                    match &token.token {
                        Token::Whitespace(blank) if blank.to_string().trim().is_empty() => {}
                        Token::Whitespace(_) => return Err(unread("an unclear comment", at)),
                        _ => tokens.push(TokenWithSpan::new(token.token, span(at))),
                    }
                }
            }
        }
    }
    Ok(tokens)
}

/// Byte positions travel through the parser as columns of the first line.
fn span(at: Range<usize>) -> Span {
    let location = |at: usize| Location { line: 1, column: at as u64 + 1 };
    Span::new(location(at.start), location(at.end))
}

/// From lines and columns of a piece to bytes of the whole text.
struct Places {
    /// Where each character begins, and the end.
    chars: Vec<usize>,
    /// The first character of each line.
    lines: Vec<usize>,
}

impl Places {
    fn new(sql: &str, start: usize) -> Self {
        let chars = sql.char_indices().map(|(at, _)| start + at).chain([start + sql.len()]).collect();
        let breaks = sql.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(index, _)| index + 1);
        Self { chars, lines: std::iter::once(0).chain(breaks).collect() }
    }

    fn byte(&self, location: Location) -> usize {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let line = self.lines.get(number(location.line)).copied().unwrap_or_default();
        let char = line.saturating_add(number(location.column));
        self.chars.get(char).or(self.chars.last()).copied().unwrap_or_default()
    }
}

/// The bytes of an expression; `whole` where the parser does not know.
pub(super) fn range(expr: &Expr, whole: &Range<usize>) -> Range<usize> {
    of_span(expr.span(), whole)
}

pub(super) fn of_span(span: Span, whole: &Range<usize>) -> Range<usize> {
    let byte = |location: Location| usize::try_from(location.column).ok()?.checked_sub(1);
    match (byte(span.start), byte(span.end)) {
        (Some(start), Some(end)) if start < end && end <= whole.end => start..end,
        _ => whole.clone(),
    }
}

/// An expression as the user wrote its values: `{0}` becomes `{msg.order_no}`.
pub(super) fn shown(sql: &impl ToString, text: &Text, value: &str) -> String {
    named(&sql.to_string(), text, value)
}

fn named(sql: &str, text: &Text, value: &str) -> String {
    with_values(sql, |number| {
        let at = text.values.get(number).map(|found| found.at.clone()).unwrap_or_default();
        value.get(at).unwrap_or_default().to_owned()
    })
}

/// The text for the runtime, and the numbers of its values.
pub(super) fn bound(sql: &str) -> (String, Vec<usize>) {
    let mut numbers = Vec::new();
    let sql = with_values(sql, |number| {
        numbers.push(number);
        "{}".to_owned()
    });
    (sql, numbers)
}

/// The values that stand in an expression.
pub(super) fn numbers(sql: &impl ToString) -> Vec<usize> {
    bound(&sql.to_string()).1
}

/// Replaces each `{0}` outside quotes.
fn with_values(sql: &str, mut replace: impl FnMut(usize) -> String) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(start) = rest.find(['{', '\'', '"', '`']) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = if rest.starts_with('{') {
            let end = rest.find('}');
            if let Some((end, number)) = end.and_then(|end| Some((end, rest[1..end].parse().ok()?))) {
                out.push_str(&replace(number));
                rest = &rest[end + 1..];
                continue;
            }
            1
        } else {
            rest[1..].find(&rest[..1]).map_or(rest.len(), |end| end + 2)
        };
        let (kept, left) = rest.split_at(length);
        out.push_str(kept);
        rest = left;
    }
    out.push_str(rest);
    out
}

/// Whether the parser reads its own rendering of an expression in the same way, so that it may stand in a statement.
pub(super) fn survives(expr: &Expr, dialect: Dialect) -> bool {
    let rendered = expr.to_string();
    let (sql, numbers) = bound(&rendered);
    let mut all = Vec::new();
    for (index, part) in split(&sql).into_iter().enumerate() {
        if let Some(number) = index.checked_sub(1).and_then(|before| numbers.get(before)) {
            all.push(TokenWithSpan::new(Token::Placeholder(format!("{{{number}}}")), Span::empty()));
        }
        let Ok(found) = Tokenizer::new(rules(dialect), part).tokenize_with_location() else { return false };
        all.extend(found.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))));
    }
    let mut parser = Parser::new(rules(dialect)).with_recursion_limit(DEEPEST).with_tokens_with_locations(all);
    parser.parse_expr().is_ok_and(|again| again == *expr && again.to_string() == rendered)
        && parser.peek_token().token == Token::EOF
}

/// Cuts at each `{}` outside quotes.
fn split(sql: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let bytes = sql.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'{') if bytes.get(at + 1) == Some(&b'}') => {
                parts.push(&sql[start..at]);
                start = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&sql[start..]);
    parts
}

/// The names in a text, in capitals, also those in double quotes; a table's name before a dot is none.
pub(super) fn names(sql: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '\'' => rest[1..].find(next).map_or(rest.len(), |end| end + 2),
            _ if is_word(next) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => next.len_utf8(),
        };
        let (name, left) = rest.split_at(length);
        if is_word(next) && !left.trim_start_matches(['"', '`', ']']).starts_with('.') {
            names.push(name.to_uppercase());
        }
        rest = left;
    }
    names
}

/// A column as the database tells it from others.
pub(super) fn column(ident: &Ident, dialect: Dialect) -> String {
    let exact = ident.quote_style.is_some() && matches!(dialect, Dialect::Postgres | Dialect::Unknown);
    if exact { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The column that an expression is, and nothing else.
pub(super) fn as_column(expr: &Expr, dialect: Dialect) -> Option<String> {
    match expr {
        Expr::Nested(inner) => as_column(inner, dialect),
        Expr::Identifier(ident) => Some(column(ident, dialect)),
        Expr::CompoundIdentifier(path) => path.last().map(|ident| column(ident, dialect)),
        _ => None,
    }
}

/// Whether a column stands in an expression. One that is not known here is taken by its words.
pub(super) fn has_column(expr: &Expr) -> bool {
    let some = |expr: &Option<Box<Expr>>| expr.as_ref().is_some_and(|expr| has_column(expr));
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => false,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::Cast { expr: inner, .. }
        | Expr::Collate { expr: inner, .. } => has_column(inner),
        Expr::BinaryOp { left, right, .. } => has_column(left) || has_column(right),
        Expr::Tuple(all) => all.iter().any(has_column),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            has_column(expr) || some(substring_from) || some(substring_for)
        }
        Expr::Trim { expr, trim_what, trim_characters, .. } => {
            has_column(expr)
                || some(trim_what)
                || trim_characters.as_ref().is_some_and(|all| all.iter().any(has_column))
        }
        Expr::Function(function) => match &function.args {
            FunctionArguments::None => false,
            FunctionArguments::Subquery(_) => true,
            FunctionArguments::List(list) => list.args.iter().any(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
                | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
                | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(expr), .. } => has_column(expr),
                _ => true,
            }),
        },
        _ => names(&expr.to_string()).iter().any(|name| !name.starts_with(char::is_numeric)),
    }
}
