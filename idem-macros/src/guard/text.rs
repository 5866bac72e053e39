//! Cuts a guard's text into SQL, values in braces and comments. Needs no SQL parser.

use std::ops::Range;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, LitStr};

use super::rust;
use super::{Dialect, Refusal};

/// A guard's text, cut. The pieces are in order and cover everything but comments and a last `;`.
pub(super) struct Text {
    pub(super) pieces: Vec<Piece>,
    pub(super) values: Vec<Value>,
    #[cfg_attr(not(feature = "guard"), expect(dead_code, reason = "only the parser's rules ask"))]
    pub(super) dialect: Dialect,
}

#[cfg_attr(not(feature = "guard"), expect(dead_code, reason = "only the parser's rules ask"))]
pub(super) enum Piece {
    /// SQL, whole quotes included.
    Sql(Range<usize>),
    /// The value with this number.
    Value(usize),
    /// Where a comment stood.
    Blank,
}

/// What stands in braces.
#[cfg_attr(not(feature = "guard"), expect(dead_code, reason = "only the parser's rules ask"))]
pub(super) struct Value {
    pub(super) expr: Expr,
    /// The expression in one spelling, so that `{msg.no}` and `{ &msg.no }` are one value.
    written: String,
    /// With its braces.
    pub(super) at: Range<usize>,
}

#[cfg(feature = "guard")]
impl Value {
    /// Whether both are bound to the same value: the same path, without calls that could answer differently.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.written == other.written && rust::is_stable(&self.expr)
    }

    /// Whether it can differ between messages: it starts at a variable, not at a constant.
    pub(super) fn varies(&self) -> bool {
        rust::starts_at_a_variable(self.expr.to_token_stream())
    }
}

impl Text {
    /// The text for the runtime: `{}` for each value.
    pub(super) fn sql(&self, text: &str) -> String {
        let mut sql = String::with_capacity(text.len());
        for piece in &self.pieces {
            match piece {
                Piece::Sql(range) => sql.push_str(text.get(range.clone()).unwrap_or_default()),
                Piece::Value(_) => sql.push_str("{}"),
                Piece::Blank => sql.push(' '),
            }
        }
        sql.trim().to_owned()
    }

    pub(super) fn exprs(&self) -> Vec<Expr> {
        self.values.iter().map(|value| value.expr.clone()).collect()
    }
}

/// The longest expression in braces, in bytes: longer ones are no values, and could exhaust the compiler's stack.
const LONGEST_VALUE: usize = 300;

/// Cuts the text. `allowed`: what can be meant as it stands is let through.
pub(super) fn cut(literal: &LitStr, dialect: Dialect, allowed: bool) -> Result<Text, Refusal> {
    let text = literal.value();
    Cutter { text: &text, span: literal.span(), dialect, allowed, at: 0, pieces: Vec::new(), values: Vec::new() }.run()
}

struct Cutter<'a> {
    text: &'a str,
    span: Span,
    dialect: Dialect,
    allowed: bool,
    at: usize,
    pieces: Vec<Piece>,
    values: Vec<Value>,
}

impl Cutter<'_> {
    fn run(mut self) -> Result<Text, Refusal> {
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            match next {
                '{' => self.value()?,
                '}' => {
                    return Err(Refusal::new("this brace closes nothing", self.at..self.at + 1)
                        .help("write values as `{msg.order_no}`"));
                }
                '\'' | '"' | '`' => self.quote(next)?,
                ';' => {
                    self.end()?;
                    break;
                }
                '-' if rest.starts_with("--") => self.line_comment(2)?,
                '#' if matches!(self.dialect, Dialect::MySql | Dialect::Unknown) => self.line_comment(1)?,
                '/' if rest.starts_with("/*") => self.block_comment()?,
                '$' | '?' | ':' | '@' => self.own_placeholder(next)?,
                _ if is_word(next) => {
                    let length = rest.find(|c| !(is_word(c) || c == '$')).unwrap_or(rest.len());
                    self.sql(length);
                }
                _ => self.sql(next.len_utf8()),
            }
        }
        Ok(Text { pieces: self.pieces, values: self.values, dialect: self.dialect })
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the next bytes as SQL.
    fn sql(&mut self, length: usize) {
        let end = self.at + length;
        match self.pieces.last_mut() {
            Some(Piece::Sql(range)) if range.end == self.at => range.end = end,
            _ => self.pieces.push(Piece::Sql(self.at..end)),
        }
        self.at = end;
    }

    fn value(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        let Some(length) = rust::braces(self.rest()) else {
            return Err(Refusal::new("this brace is never closed", start..self.text.len())
                .help("write values as `{msg.order_no}`"));
        };
        let at = start..start + length;
        let inner = self.text.get(start + 1..at.end - 1).unwrap_or_default();
        let expr = value(inner, self.span).map_err(|(reason, help)| Refusal::new(reason, at.clone()).help(help))?;
        let written = rust::plain(&expr).to_token_stream().to_string();
        self.pieces.push(Piece::Value(self.values.len()));
        self.at = at.end;
        self.values.push(Value { expr, written, at });
        Ok(())
    }

    fn quote(&mut self, quote: char) -> Result<(), Refusal> {
        let rest = self.rest();
        // A doubled quote ends one piece and begins the next.
        let Some(inside) = rest[1..].find(quote) else {
            return Err(Refusal::new("this quote is never closed", self.at..self.text.len())
                .help("close it; two quotes inside stand for one"));
        };
        let content = &rest[1..=inside];
        if let Some(backslash) = content.find('\\') {
            let at = self.at + 1 + backslash;
            return Err(Refusal::new("databases read a backslash in quotes in different ways", at..at + 1)
                .help("bind the text: write the value as `{msg.note}`, or a constant of yours as `{NOTE}`"));
        }
        if let (false, Some(found)) = (self.allowed, quoted_value(content)) {
            let written = &content[found.clone()];
            let at = self.at + 1 + found.start..self.at + 1 + found.end;
            let help = if quote == '\'' {
                format!("bound values stand without quotes: write `{written}`")
            } else {
                "only values can be bound, and no names of tables or columns".to_owned()
            };
            return Err(Refusal::judged(format!("`{written}` in quotes is text, and no value is bound"), at).help(help));
        }
        self.sql(inside + 2);
        Ok(())
    }

    fn line_comment(&mut self, opening: usize) -> Result<(), Refusal> {
        let rest = self.rest();
        let after = rest[opening..].chars().next();
        let differs = match (self.dialect, opening) {
            (Dialect::MySql | Dialect::Unknown, 2) => after.is_some_and(|after| !after.is_whitespace()),
            (Dialect::Unknown, _) => true,
            _ => false,
        };
        if differs {
            return Err(Refusal::new("not every database takes this for a comment", self.at..self.at + opening)
                .help("write `-- ` with a blank, or leave the comment out"));
        }
        self.at += rest.find('\n').unwrap_or(rest.len());
        self.pieces.push(Piece::Blank);
        Ok(())
    }

    fn block_comment(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        let here = self.at..self.at + 2;
        let Some(inside) = rest[2..].find("*/") else {
            return Err(Refusal::new("this comment is never closed", here).help("close it with `*/`"));
        };
        let content = &rest[2..inside + 2];
        if content.contains("/*") {
            return Err(Refusal::new("not every database nests comments", here).help("leave the inner one out"));
        }
        if content.starts_with(['!', '+']) || content.starts_with("M!") {
            return Err(Refusal::new("this comment is one that the database obeys, so a reader cannot judge it", here)
                .help("leave it out"));
        }
        self.at += inside + 4;
        self.pieces.push(Piece::Blank);
        Ok(())
    }

    /// `$1`, `?`, `:name` and `@name`; operators of the same letters pass.
    fn own_placeholder(&mut self, first: char) -> Result<(), Refusal> {
        let rest = self.rest();
        let after = rest[1..].chars().next().unwrap_or(' ');
        let name = rest[1..].find(|c: char| !is_word(c)).unwrap_or(rest.len() - 1);
        let before = self.text.get(..self.at).unwrap_or_default().trim_end().chars().next_back().unwrap_or(' ');
        let postgres = matches!(self.dialect, Dialect::Postgres);
        let own = match first {
            '$' => {
                if !after.is_ascii_digit() && rest[1..].find('$').is_some_and(|dollar| dollar == name) {
                    return Err(Refusal::new("text in dollar quotes is not read here", self.at..self.at + name + 2)
                        .help("write it in single quotes"));
                }
                true
            }
            // PostgreSQL has operators `?`, `?|` and `?&`; a value stands behind a comma, a bracket or another operator.
            '?' => !postgres || "=<>(,+-*/%".contains(before),
            ':' if after == ':' || after == '=' => {
                self.sql(2);
                return Ok(());
            }
            // `tags[1:2]` is a slice.
            ':' => is_word(after) && !is_word(before),
            _ => !postgres && (is_word(after) || after == '@'),
        };
        if own {
            let at = self.at..self.at + 1 + name;
            let written = self.text.get(at.clone()).unwrap_or_default().to_owned();
            return Err(Refusal::new(format!("`{written}` is bound to nothing here"), at)
                .help("write the value itself in braces: `{msg.order_no}`"));
        }
        self.sql(1);
        Ok(())
    }

    /// Behind a `;`: only blanks and comments.
    fn end(&mut self) -> Result<(), Refusal> {
        let pieces = self.pieces.len();
        let semicolon = self.at;
        self.at += 1;
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            match next {
                _ if next.is_whitespace() => self.at += next.len_utf8(),
                '-' if rest.starts_with("--") => self.line_comment(2)?,
                '/' if rest.starts_with("/*") => self.block_comment()?,
                _ => {
                    let end = self.at + rest.trim_end().len();
                    return Err(Refusal::new("a guard is one statement, and here another one begins", semicolon..end)
                        .help("keep the statement that decides; the others belong into the body"));
                }
            }
        }
        self.pieces.truncate(pieces);
        Ok(())
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The expression in a pair of braces.
fn value(inner: &str, span: Span) -> Result<Expr, (String, &'static str)> {
    let bind = "write the value itself: `{msg.order_no}`";
    if inner.trim().is_empty() {
        return Err(("these braces hold no value".into(), bind));
    }
    if inner.starts_with('{') {
        return Err((
            "braces are not doubled here: what stands in them is bound, and nothing is formatted".into(),
            "write `{msg.order_no}`; braces of SQL stand in single quotes",
        ));
    }
    if inner.len() > LONGEST_VALUE {
        return Err(("this is too long for a value".into(), "add an accessor method, or make it a parameter"));
    }
    let broken = |reason: &str| (format!("this is no Rust expression: {reason}"), bind);
    rust::readable(inner).map_err(broken)?;
    let tokens: TokenStream = inner.parse().map_err(|_| broken("it has an unknown token"))?;
    if rust::has_format(tokens.clone()) {
        return Err(("values are bound as they are, and nothing is formatted".into(), bind));
    }
    if let Some(word) = rust::leaves(tokens.clone()) {
        return Err((
            format!("`{word}` would leave the handler before anything is claimed"),
            "bind a plain value, such as a field or an accessor method",
        ));
    }
    let expr: Expr = syn::parse2(located(tokens, span)).map_err(|error| broken(&error.to_string()))?;
    match rust::plain(&expr) {
        Expr::Lit(_) => Err(("this value is a constant".into(), "write it into the SQL, without braces")),
        Expr::Range(_) => Err(("a range is no value".into(), bind)),
        _ => Ok(expr),
    }
}

/// The tokens where the literal stands: rustc reports what is wrong with a value there.
fn located(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => {
                let mut group = Group::new(group.delimiter(), located(group.stream(), span));
                group.set_span(span);
                TokenTree::Group(group)
            }
            mut token => {
                token.set_span(span);
                token
            }
        })
        .collect()
}

/// `{msg.order_no}` or `{order_no}` in quoted text: braces that hold a path and nothing else. JSON has quotes and colons.
fn quoted_value(content: &str) -> Option<Range<usize>> {
    let mut from = 0;
    while let Some(open) = content.get(from..)?.find('{') {
        let start = from + open;
        let close = start + content.get(start..)?.find('}')?;
        let inner = content.get(start + 1..close)?.trim();
        let path = inner.strip_suffix("()").unwrap_or(inner);
        let is_path = path.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && path.split('.').flat_map(|step| step.split("::")).all(|step| {
                let step = step.strip_suffix("()").unwrap_or(step);
                !step.is_empty() && step.chars().all(is_word)
            });
        if is_path {
            return Some(start..close + 1);
        }
        from = start + 1;
    }
    None
}

/// The SQL words of a text outside quotes, in capitals.
pub(super) fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '\'' | '"' | '`' => rest[1..].find(next).map_or(rest.len(), |end| end + 2),
            _ if is_word(next) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                words.push(rest[..length].to_uppercase());
                length
            }
            _ => next.len_utf8(),
        };
        rest = &rest[length..];
    }
    words
}
