//! Just enough of Rust to find where a value in braces ends, and what it is.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Expr, UnOp};

#[cfg(feature = "guard")]
use crate::names;

/// The length up to and with the brace that closes the first one. Braces in Rust's own quotes do not count.
pub(super) fn braces(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(next) = rest.get(at..)?.chars().next() {
        match next {
            '{' => depth += 1,
            '}' => depth -= 1,
            '"' => {
                at += quoted(&rest[at..])?;
                continue;
            }
            '\'' => {
                at += character(&rest[at..]);
                continue;
            }
            _ => {}
        }
        at += next.len_utf8();
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The length of a string literal.
fn quoted(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, next)) = chars.next() {
        match next {
            '\\' => drop(chars.next()),
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of a character literal, or of the quote that begins a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => chars.find(|(_, next)| *next == '\'').map_or(1, |(at, _)| at + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The compiler's own lexer stops the build at what it cannot read, so it is found before.
pub(super) fn readable(inner: &str) -> Result<(), &'static str> {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(next) = inner[at..].chars().next() {
        at += match next {
            '"' => quoted(&inner[at..]).ok_or("its text has no closing quote")?,
            '\'' => match character(&inner[at..]) {
                1 => return Err("a `'` stands alone"),
                length => length,
            },
            '(' | '[' | '{' => {
                open.push(next);
                1
            }
            ')' | ']' | '}' => {
                let opening = open.pop();
                if !matches!((opening, next), (Some('('), ')') | (Some('['), ']') | (Some('{'), '}')) {
                    return Err("its brackets have no partners");
                }
                1
            }
            _ if inner[at..].starts_with("//") || inner[at..].starts_with("/*") => return Err("it has a comment"),
            _ if next.is_alphanumeric() || next.is_whitespace() || "_.,:;&*!+-/%<>=|^?".contains(next) => {
                next.len_utf8()
            }
            _ => return Err("it has an unknown character"),
        };
    }
    if open.is_empty() { Ok(()) } else { Err("its brackets have no partners") }
}

/// `msg.no:?` as in a format string: a `:` alone, outside brackets.
pub(super) fn has_format(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    (0..tokens.len()).any(|at| colon(at) && !colon(at + 1) && !at.checked_sub(1).is_some_and(colon))
}

/// What would leave the handler: `return`, `.await`, `?` and the like.
pub(super) fn leaves(tokens: TokenStream) -> Option<String> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Group(group) => leaves(group.stream()),
        TokenTree::Ident(word) => {
            let word = word.to_string();
            ["return", "await", "break", "continue", "yield"].contains(&word.as_str()).then_some(word)
        }
        TokenTree::Punct(punct) => (punct.as_char() == '?').then(|| "?".to_owned()),
        TokenTree::Literal(_) => None,
    })
}

/// Without parentheses and references, which do not change what is bound.
pub(super) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => plain(&inner.expr),
        Expr::Group(inner) => plain(&inner.expr),
        Expr::Reference(inner) => plain(&inner.expr),
        Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => plain(&inner.expr),
        _ => expr,
    }
}

/// A path with fields and accessors without arguments: evaluated twice it gives the same value.
#[cfg(feature = "guard")]
pub(super) fn is_stable(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Path(_) => true,
        Expr::Field(field) => is_stable(&field.base),
        Expr::MethodCall(call) => {
            // A clock answers differently each time.
            call.args.is_empty() && names::method(&call.method.to_string()).is_none() && is_stable(&call.receiver)
        }
        _ => false,
    }
}

/// Whether a variable stands in it: a name in small letters that is no part of a path, no call and no field.
#[cfg(feature = "guard")]
pub(super) fn starts_at_a_variable(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let punct = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    };
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Group(group) => starts_at_a_variable(group.stream()),
        TokenTree::Ident(word) => {
            let word = word.to_string();
            let small = word.trim_start_matches("r#").starts_with(|c: char| c == '_' || !c.is_uppercase());
            let keyword = ["as", "mut", "move", "ref", "if", "else", "match", "true", "false", "crate", "super"];
            let before = punct(at.checked_sub(1));
            let inside = matches!(before, Some('.' | ':'));
            let called = matches!(tokens.get(at + 1), Some(TokenTree::Group(_))) || punct(Some(at + 1)) == Some('!');
            let path = punct(Some(at + 1)) == Some(':') && punct(Some(at + 2)) == Some(':');
            small && !keyword.contains(&word.as_str()) && !inside && !called && !path
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
