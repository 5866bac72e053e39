//! Collects every mistake of one run, so that a user fixes them in one go.

use std::fmt::Write as _;
use std::ops::Range;

use proc_macro2::{Span, TokenStream};
use syn::LitStr;

use crate::rules::Rule;

/// Where the user wrote something: bare tokens, or a range of bytes inside a string literal.
#[derive(Clone)]
pub(crate) enum Place {
    Tokens(TokenStream),
    Literal { literal: LitStr, at: Range<usize> },
}

impl Place {
    /// The place's first token. Stable Rust cannot join spans, so generated tokens are located there.
    pub(crate) fn start(&self) -> Span {
        match self {
            Self::Tokens(tokens) => {
                tokens.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span())
            }
            Self::Literal { literal, .. } => literal.span(),
        }
    }
}

/// One refusal: the reason in one sentence, then what to do about it.
pub(crate) struct Complaint {
    rule: Rule,
    reason: String,
    helps: Vec<String>,
    escape: Option<String>,
}

impl Complaint {
    pub(crate) fn new(rule: Rule, reason: impl Into<String>) -> Self {
        Self { rule, reason: reason.into(), helps: Vec::new(), escape: None }
    }

    /// Ends with the rule's escape, for what is named here.
    pub(crate) fn escape(mut self, name: &str) -> Self {
        self.escape = self.rule.escape(name);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.helps.push(help.into());
        self
    }

    pub(crate) fn at(self, place: &Place) -> syn::Error {
        match place {
            Place::Tokens(tokens) => syn::Error::new_spanned(tokens, self.text(None)),
            Place::Literal { literal, at } => {
                syn::Error::new(literal.span(), self.text(caret(&literal.value(), at).as_deref()))
            }
        }
    }

    pub(crate) fn on(self, tokens: impl quote::ToTokens) -> syn::Error {
        syn::Error::new_spanned(tokens, self.text(None))
    }

    pub(crate) fn span(self, span: Span) -> syn::Error {
        syn::Error::new(span, self.text(None))
    }

    /// Without a help of its own, a refusal shows the way out that its rule knows.
    fn text(mut self, quote: Option<&str>) -> String {
        #[cfg(test)]
        refused::note(self.rule);
        if self.helps.is_empty() {
            self.helps.push(self.rule.entry().way_out.to_owned());
        }
        self.helps.extend(self.escape);
        let mut text = self.reason;
        if let Some(quote) = quote {
            text.push_str("\n\n");
            text.push_str(quote);
        }
        for (index, help) in self.helps.iter().enumerate() {
            let gap = if index == 0 { "\n\n" } else { "\n" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{gap}help: {help}");
        }
        text
    }
}

/// The rules of all refusals on this thread, for tests: a message does not say its rule.
#[cfg(test)]
pub(crate) mod refused {
    use super::Rule;
    use std::cell::RefCell;

    thread_local!(static RULES: RefCell<Vec<Rule>> = const { RefCell::new(Vec::new()) });

    pub(super) fn note(rule: Rule) {
        RULES.with_borrow_mut(|rules| rules.push(rule));
    }

    pub(crate) fn take() -> Vec<Rule> {
        RULES.take()
    }
}

/// The line of the literal that holds the place, with carets under it. On stable a literal is one span, so the message
/// has to show it.
fn caret(value: &str, at: &Range<usize>) -> Option<String> {
    let from = value.get(..at.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let line = value.get(from..)?.lines().next()?;
    let place = value.get(at.clone())?.lines().next().unwrap_or_default();
    let before = value.get(from..at.start)?.chars().count();
    let width = place.chars().count().max(1);
    Some(format!("    {line}\n    {}{}", " ".repeat(before), "^".repeat(width)))
}

/// The collector. It must be asked for its result: a check whose errors are dropped is a bug that tests see.
#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
    finished: bool,
}

impl Errors {
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.found.push(error);
    }

    /// The one error that makes all others pointless.
    pub(crate) fn replace(&mut self, error: syn::Error) {
        self.found = vec![error];
    }

    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All errors as `compile_error!` calls; `None` when there are none.
    pub(crate) fn finish(mut self) -> Option<TokenStream> {
        self.finished = true;
        let found = std::mem::take(&mut self.found);
        let all = found.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        })?;
        Some(all.into_compile_error())
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        debug_assert!(self.finished || std::thread::panicking(), "errors were collected and never asked for");
    }
}

/// The candidate the user most likely meant.
pub(crate) fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (written.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&written.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance that counts two swapped letters as one edit, the commonest slip.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<_>>()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let differs = usize::from(left[i - 1] != right[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place_also_in_the_second_line() {
        assert_eq!(caret("a + msg.b", &(4..9)).unwrap(), "    a + msg.b\n        ^^^^^");
        assert_eq!(caret("a +\n msg.b", &(5..10)).unwrap(), "     msg.b\n     ^^^^^");
    }

    #[test]
    fn the_caret_counts_characters_not_bytes() {
        assert_eq!(caret("'é' + b", &(7..8)).unwrap(), "    'é' + b\n          ^");
    }

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        assert_eq!(did_you_mean("stroe", ["key", "store"]), Some("store"));
        assert_eq!(did_you_mean("Scope", ["key", "scope"]), Some("scope"));
        assert_eq!(did_you_mean("banana", ["key", "store"]), None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "never asked for")]
    fn dropping_the_collector_unread_is_noticed() {
        drop(Errors::default());
    }
}
