//! Turns both key forms, bare tokens and a string literal, into one list of lexemes, so that there is one grammar.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use syn::{Lit, LitStr};

use crate::errors::{Complaint, Place};
use crate::rules::Rule;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// An identifier or keyword.
    Name,
    /// Text in quotes, unescaped.
    Text(String),
    /// A number as written.
    Number,
    /// One punctuation character.
    Symbol(char),
    /// An opening delimiter and the index of its closing lexeme.
    Open(char, usize),
    Close(char),
    /// A token that no key can contain, such as `b"bytes"`.
    Other,
}

pub(crate) struct Lexeme {
    pub(crate) kind: Kind,
    pub(crate) written: String,
    /// The user's token; for an opening delimiter the whole group. In string form a token built for the place.
    token: TokenTree,
    at: Range<usize>,
}

pub(crate) struct Lexemes {
    list: Vec<Lexeme>,
    /// The literal, in string form.
    literal: Option<LitStr>,
}

impl Lexemes {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Lexeme> {
        self.list.get(index)
    }

    pub(crate) fn kind(&self, index: usize) -> Option<&Kind> {
        self.get(index).map(|lexeme| &lexeme.kind)
    }

    pub(crate) fn is(&self, index: usize, symbol: char) -> bool {
        self.kind(index) == Some(&Kind::Symbol(symbol))
    }

    pub(crate) fn is_string(&self) -> bool {
        self.literal.is_some()
    }

    /// The place of a range of lexemes, for messages.
    pub(crate) fn place(&self, range: Range<usize>) -> Place {
        if let Some(literal) = &self.literal {
            let length = literal.value().len();
            let start = self.get(range.start).map_or(length, |lexeme| lexeme.at.start);
            let end = range.end.checked_sub(1).and_then(|last| self.get(last)).map_or(length, |lexeme| lexeme.at.end);
            return Place::Literal { literal: literal.clone(), at: start..end.max(start) };
        }
        let mut tokens = TokenStream::new();
        let mut index = range.start;
        while let Some(lexeme) = self.get(index).filter(|_| index < range.end) {
            match lexeme.kind {
                Kind::Open(_, close) => index = close,
                Kind::Close(_) => {}
                _ => tokens.extend([lexeme.token.clone()]),
            }
            if matches!(lexeme.kind, Kind::Open(..)) {
                tokens.extend([lexeme.token.clone()]);
            }
            index += 1;
        }
        Place::Tokens(tokens)
    }

    /// The span for a name that must resolve in the user's scope: the root of a path.
    pub(crate) fn root_span(&self, index: usize) -> Span {
        match (&self.literal, self.get(index)) {
            (Some(literal), _) => literal.span(),
            (None, Some(lexeme)) => lexeme.token.span(),
            (None, None) => Span::call_site(),
        }
    }

    /// The span for everything after the root. In a literal it must not look like the user's own token: rustc would
    /// otherwise suggest to overwrite the whole literal with a field of a similar name.
    pub(crate) fn inner_span(&self, index: usize) -> Span {
        match &self.literal {
            Some(literal) => Span::mixed_site().located_at(literal.span()),
            None => self.root_span(index),
        }
    }

    /// An identifier of the lexeme, raw when it was written raw.
    pub(crate) fn ident(&self, index: usize, span: Span) -> Option<Ident> {
        let lexeme = self.get(index)?;
        let mut ident = match &lexeme.token {
            TokenTree::Ident(ident) => ident.clone(),
            _ => return None,
        };
        ident.set_span(span);
        Some(ident)
    }

    /// The lexeme's own token with the span it has in the expansion.
    pub(crate) fn token(&self, index: usize) -> Option<TokenTree> {
        let mut token = self.get(index)?.token.clone();
        if self.is_string() {
            token.set_span(self.inner_span(index));
        }
        Some(token)
    }
}

/// Bare tokens: `msg.order_no + ":" + msg.status`.
pub(crate) fn bare(tokens: TokenStream) -> Lexemes {
    let mut list = Vec::new();
    flatten(tokens, &mut list);
    Lexemes { list, literal: None }
}

fn flatten(tokens: TokenStream, list: &mut Vec<Lexeme>) {
    for token in tokens {
        match &token {
            // An invisible group comes from a `macro_rules!` variable; the user sees only what is inside.
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => flatten(group.stream(), list),
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group);
                let opening = list.len();
                list.push(Lexeme { kind: Kind::Other, written: open.into(), token: token.clone(), at: 0..0 });
                flatten(group.stream(), list);
                list[opening].kind = Kind::Open(open, list.len());
                list.push(Lexeme { kind: Kind::Close(close), written: close.into(), token, at: 0..0 });
            }
            TokenTree::Ident(ident) => {
                list.push(Lexeme { kind: Kind::Name, written: ident.to_string(), token, at: 0..0 });
            }
            TokenTree::Punct(punct) => {
                let kind = Kind::Symbol(punct.as_char());
                list.push(Lexeme { kind, written: punct.as_char().into(), token, at: 0..0 });
            }
            TokenTree::Literal(literal) => flatten_literal(literal.clone(), list),
        }
    }
}

fn flatten_literal(literal: Literal, list: &mut Vec<Lexeme>) {
    let written = literal.to_string();
    let kind = match Lit::new(literal.clone()) {
        Lit::Str(text) => Kind::Text(text.value()),
        Lit::Char(text) => Kind::Text(text.value().into()),
        Lit::Int(_) => Kind::Number,
        Lit::Float(_) => {
            // `pair.0.1` reaches a macro as `pair`, `.`, `0.1`: two indexes that the lexer took for a float.
            let after_dot = list.last().is_some_and(|last| last.kind == Kind::Symbol('.'));
            if let (true, Some((first, second))) = (after_dot, written.split_once('.')) {
                for (index, piece) in [first, ".", second].into_iter().enumerate() {
                    let kind = if index == 1 { Kind::Symbol('.') } else { Kind::Number };
                    let token = TokenTree::Literal(literal.clone());
                    list.push(Lexeme { kind, written: piece.into(), token, at: 0..0 });
                }
                return;
            }
            Kind::Number
        }
        _ => Kind::Other,
    };
    list.push(Lexeme { kind, written, token: TokenTree::Literal(literal), at: 0..0 });
}

fn delimiters(group: &Group) -> (char, char) {
    match group.delimiter() {
        Delimiter::Bracket => ('[', ']'),
        Delimiter::Brace => ('{', '}'),
        Delimiter::Parenthesis | Delimiter::None => ('(', ')'),
    }
}

/// A string literal: `"msg.order_no + ':' + msg.status"`. Text stands in single or double quotes; a doubled quote is
/// the quote itself.
pub(crate) fn string(literal: &LitStr) -> syn::Result<Lexemes> {
    let value = literal.value();
    let fail = |at: Range<usize>, reason: &str, help: &str| {
        Err(Complaint::new(Rule::Grammar, reason).help(help).at(&Place::Literal { literal: literal.clone(), at }))
    };
    let mut list: Vec<Lexeme> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut start = 0;
    while let Some(first) = value[start..].chars().next() {
        let rest = &value[start..];
        let mut end = start + first.len_utf8();
        let kind = match first {
            _ if first.is_whitespace() => {
                start = end;
                continue;
            }
            '\'' | '"' => match quoted(rest, first) {
                Some((text, length)) => {
                    end = start + length;
                    Kind::Text(text)
                }
                None => {
                    return fail(
                        start..value.len(),
                        "this text has no closing quote",
                        "close it with the same quote; two quotes inside stand for one",
                    );
                }
            },
            _ if first.is_alphabetic() || first == '_' => {
                let raw = if rest.starts_with("r#") { 2 } else { 0 };
                end = start + raw + name_length(&rest[raw..]);
                Kind::Name
            }
            _ if first.is_ascii_digit() => {
                end = start + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                Kind::Number
            }
            '(' | '[' | '{' => {
                open.push(list.len());
                Kind::Other
            }
            ')' | ']' | '}' => {
                let opening = open.pop();
                let matching = |index: &usize| {
                    matches!((list[*index].written.as_str(), first), ("(", ')') | ("[", ']') | ("{", '}'))
                };
                let Some(opening) = opening.filter(matching) else {
                    return fail(start..end, "this closes nothing", "each bracket needs its partner");
                };
                let close = list.len();
                let delimiter = list[opening].written.chars().next().unwrap_or('(');
                list[opening].kind = Kind::Open(delimiter, close);
                Kind::Close(first)
            }
            _ => Kind::Symbol(first),
        };
        let written = value[start..end].to_owned();
        let token = built(&kind, &written, literal.span());
        list.push(Lexeme { kind, written, token, at: start..end });
        start = end;
    }
    if let Some(opening) = open.pop() {
        return fail(list[opening].at.clone(), "this bracket is never closed", "each bracket needs its partner");
    }
    Ok(Lexemes { list, literal: Some(literal.clone()) })
}

/// A token for a lexeme of the string form; only names and empty parentheses ever reach the expansion.
fn built(kind: &Kind, written: &str, span: Span) -> TokenTree {
    match kind {
        Kind::Name => syn::parse_str::<TokenTree>(written).map_or_else(
            |_| Ident::new("_", span).into(),
            |mut token| {
                token.set_span(span);
                token
            },
        ),
        _ => Group::new(Delimiter::Parenthesis, TokenStream::new()).into(),
    }
}

fn name_length(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
}

/// The text after an opening quote, and the length with both quotes.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((index, next)) = chars.next() {
        if next != quote {
            text.push(next);
        } else if chars.peek().is_some_and(|(_, after)| *after == quote) {
            text.push(quote);
            chars.next();
        } else {
            return Some((text, index + quote.len_utf8()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn kinds(lexemes: &Lexemes) -> Vec<Kind> {
        lexemes.list.iter().map(|lexeme| lexeme.kind.clone()).collect()
    }

    fn text(text: &str) -> Kind {
        Kind::Text(text.into())
    }

    #[test]
    fn both_forms_give_the_same_lexemes() {
        let bare = bare(quote!(msg.no() + ":" + (msg.pair.0.1)?));
        let literal = LitStr::new("msg.no() + ':' + (msg.pair.0.1)?", Span::call_site());
        assert_eq!(kinds(&bare), kinds(&string(&literal).unwrap()));
    }

    #[test]
    fn a_string_holds_text_of_any_length_and_two_quotes_stand_for_one() {
        let literal = LitStr::new("'REFUND' + 'it''s' + \"a\"", Span::call_site());
        let kinds = kinds(&string(&literal).unwrap());
        assert_eq!(kinds, [text("REFUND"), Kind::Symbol('+'), text("it's"), Kind::Symbol('+'), text("a")]);
    }

    #[test]
    fn broken_strings_are_refused() {
        for broken in ["msg.a + 'x", "msg.a(", "msg.a)", "(msg.a]"] {
            assert!(string(&LitStr::new(broken, Span::call_site())).is_err(), "{broken}");
        }
    }
}
