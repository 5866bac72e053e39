//! The key grammar: parts joined by `+`, each a path into a parameter or text in quotes.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};

use crate::errors::{Complaint, Errors, Place};
use crate::lex::{Kind, Lexemes};
use crate::names;
use crate::rules::Rule;

/// A key as the user wrote it.
pub(crate) struct Key {
    pub(crate) parts: Vec<Part>,
    /// The whole key, for errors about all of it.
    pub(crate) place: Place,
    pub(crate) is_string: bool,
}

pub(crate) struct Part {
    pub(crate) place: Place,
    /// The part as written, without blanks, outer parentheses and `?`: how messages and `allow` name it.
    pub(crate) written: String,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Text(String),
    Value(Value),
    /// Already refused; kept so that its neighbours are judged rightly.
    Broken,
}

pub(crate) struct Value {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
    /// Ends in `?`: may be missing by type, must be present at run time.
    pub(crate) required: bool,
    pub(crate) expression: TokenStream,
}

pub(crate) enum Root {
    /// One name: a parameter, `self`, or a constant.
    Name(Ident),
    /// `Self::CURRENCY`, `crate::KIND`.
    Path,
}

#[derive(Clone)]
pub(crate) enum Step {
    Field(String),
    Index(String),
    Call(String),
}

impl Step {
    fn write(&self, written: &mut String) {
        let (Self::Field(name) | Self::Index(name) | Self::Call(name)) = self;
        written.extend([".", name]);
        if matches!(self, Self::Call(_)) {
            written.push_str("()");
        }
    }
}

impl Value {
    /// A `let` keeps only the last temporary alive: `msg.order_no().as_str()` cannot be bound by one.
    pub(crate) fn can_be_bound(&self) -> bool {
        let starred = matches!(self.expression.clone().into_iter().next(), Some(TokenTree::Punct(_)));
        let calls = self.steps.iter().filter(|step| matches!(step, Step::Call(_))).count();
        !starred && calls <= 1
    }

    /// The name that says what the value is: `created_at` in `msg.head.created_at.to_string()`. Indexes and conversions
    /// are looked through.
    pub(crate) fn last_name(&self) -> Option<String> {
        let telling = |step: &&Step| match step {
            Step::Field(_) => true,
            Step::Index(_) => false,
            Step::Call(name) => !names::is_conversion(name),
        };
        match (self.steps.iter().rev().find(telling), &self.root) {
            (Some(Step::Field(name) | Step::Call(name) | Step::Index(name)), _) => Some(name.clone()),
            (None, Root::Name(name)) => Some(name.to_string()),
            (None, Root::Path) => None,
        }
    }
}

pub(crate) fn parse(lexemes: &Lexemes, errors: &mut Errors) -> Key {
    let mut grammar = Grammar { lexemes, errors };
    let parts = grammar.sum(0..lexemes.len());
    Key { parts, place: lexemes.place(0..lexemes.len()), is_string: lexemes.is_string() }
}

/// One part alone, as in `allow(random(msg.id), ..)`: its written form.
pub(crate) fn parse_one(lexemes: &Lexemes, errors: &mut Errors) -> Option<String> {
    let key = parse(lexemes, errors);
    match key.parts.as_slice() {
        [Part { written, content: Content::Value(_), .. }] => Some(written.clone()),
        [Part { content: Content::Broken, .. }] => None,
        _ => {
            errors.push(
                Complaint::new(Rule::Allow, "name one part of the key here, as it stands in the key").at(&key.place),
            );
            None
        }
    }
}

struct Grammar<'a> {
    lexemes: &'a Lexemes,
    errors: &'a mut Errors,
}

/// A part whose refusal is already recorded.
struct Refused;

/// The start of a path: its root, the steps inside parentheses, the expression so far, and where to go on.
type Rooted = (Root, Vec<Step>, TokenStream, usize);

impl Grammar<'_> {
    fn sum(&mut self, range: Range<usize>) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = self.next_plus(at, range.end);
            if at == end {
                let complaint = Complaint::new(Rule::Grammar, "a key part is missing before this `+`")
                    .help("parts are joined by single `+` signs");
                self.refuse(at..end + 1, complaint);
                parts.push(Part {
                    place: self.lexemes.place(at..end + 1),
                    written: String::new(),
                    content: Content::Broken,
                });
            } else {
                self.item(at..end, &mut parts);
            }
            if end + 1 == range.end {
                self.refuse(
                    end..end + 1,
                    Complaint::new(Rule::Grammar, "a key part is missing after this `+`")
                        .help("parts are joined by single `+` signs"),
                );
            }
            at = end + 1;
        }
        parts
    }

    fn next_plus(&self, from: usize, end: usize) -> usize {
        let mut at = from;
        while at < end && !self.lexemes.is(at, '+') {
            at = match self.lexemes.kind(at) {
                Some(Kind::Open(_, close)) => close + 1,
                _ => at + 1,
            };
        }
        at.min(end)
    }

    fn refuse(&mut self, range: Range<usize>, complaint: Complaint) {
        let place = self.lexemes.place(range);
        self.errors.push(complaint.at(&place));
    }

    fn item(&mut self, range: Range<usize>, parts: &mut Vec<Part>) {
        let place = self.lexemes.place(range.clone());
        // `(msg.a + ":")` alone in its parentheses only groups; its parts join the list.
        if let Some(Kind::Open('(', close)) = self.lexemes.kind(range.start)
            && close + 1 == range.end
        {
            if range.start + 1 == *close {
                self.refuse(range, Complaint::new(Rule::Grammar, "there is no key part in these parentheses"));
                parts.push(Part { place, written: String::new(), content: Content::Broken });
                return;
            }
            let inner = self.sum(range.start + 1..*close);
            parts.extend(inner);
            return;
        }
        if let Some(Kind::Text(text)) = self.lexemes.kind(range.start) {
            let text = text.clone();
            let written = self.lexemes.get(range.start).map(|lexeme| lexeme.written.clone()).unwrap_or_default();
            if range.len() > 1 {
                self.refuse(
                    range.start + 1..range.end,
                    Complaint::new(Rule::Grammar, "expected `+` between key parts"),
                );
            }
            let place = self.lexemes.place(range.start..range.start + 1);
            parts.push(Part { place, written, content: Content::Text(text) });
            return;
        }
        let mut written = String::new();
        let content = match self.value(range, &mut written) {
            Ok(value) => Content::Value(value),
            Err(Refused) => Content::Broken,
        };
        parts.push(Part { place, written, content });
    }

    fn value(&mut self, range: Range<usize>, written: &mut String) -> Result<Value, Refused> {
        let mut at = range.start;
        // A reference changes nothing about the identity.
        while self.lexemes.is(at, '&') {
            at += 1;
        }
        let mut stars = TokenStream::new();
        while at < range.end && self.lexemes.is(at, '*') {
            stars.extend(self.lexemes.token(at));
            at += 1;
        }
        let (root, mut steps, mut expression, mut at) = self.root(at, &range, written)?;
        let mut required = false;
        while at < range.end {
            if self.lexemes.is(at, '?') {
                if at + 1 < range.end {
                    let complaint = Complaint::new(
                        Rule::Required,
                        "`?` stands at the end of a part: it means that the part is required at run time",
                    )
                    .help("for a value inside an optional one, add an accessor method that returns the `Option`");
                    self.refuse(at..at + 1, complaint);
                    return Err(Refused);
                }
                required = true;
                at += 1;
            } else {
                let (step, next) = self.step(at, &range, &mut expression)?;
                step.write(written);
                steps.push(step);
                at = next;
            }
        }
        stars.extend(expression);
        Ok(Value { root, steps, required, expression: stars })
    }

    fn root(&mut self, at: usize, range: &Range<usize>, written: &mut String) -> Result<Rooted, Refused> {
        match self.lexemes.kind(at).filter(|_| at < range.end) {
            Some(Kind::Name) => self.path(at, range, written),
            Some(Kind::Open('(', close)) => {
                let close = *close;
                let inner = self.value(at + 1..close, written)?;
                if inner.required || self.next_plus(at + 1, close) != close {
                    self.refuse(
                        at..close + 1,
                        Complaint::new(
                            Rule::Grammar,
                            "only one plain part can stand in parentheses that go on with `.`",
                        ),
                    );
                    return Err(Refused);
                }
                let mut group = Group::new(Delimiter::Parenthesis, inner.expression);
                group.set_span(self.lexemes.inner_span(at));
                Ok((inner.root, inner.steps, TokenTree::Group(group).into(), close + 1))
            }
            Some(Kind::Number) => {
                let number = self.lexemes.get(at).map(|lexeme| lexeme.written.clone()).unwrap_or_default();
                let quoted = if self.lexemes.is_string() { format!("'{number}'") } else { format!("\"{number}\"") };
                let complaint = Complaint::new(
                    Rule::Grammar,
                    format!("`{number}` is a number, and the constant parts of a key are text"),
                )
                .help(format!("write {quoted}"));
                self.refuse(range.clone(), complaint);
                Err(Refused)
            }
            Some(Kind::Symbol('#')) => {
                self.refuse(
                    at..at + 1,
                    Complaint::new(Rule::Grammar, "parameters are named without `#` here")
                        .help("write `msg.order_no`, not `#msg.order_no`"),
                );
                Err(Refused)
            }
            _ => {
                self.refuse(
                    range.clone(),
                    Complaint::new(Rule::Grammar, "a key part is a path such as `msg.order_no`, or text in quotes"),
                );
                Err(Refused)
            }
        }
    }

    /// `msg`, `self`, `crate::KIND`, `Self::CURRENCY`; refuses calls and macros by what they are.
    fn path(&mut self, start: usize, range: &Range<usize>, written: &mut String) -> Result<Rooted, Refused> {
        let mut at = start;
        let mut expression = TokenStream::new();
        let mut names = 0;
        loop {
            let span = if names == 0 { self.lexemes.root_span(at) } else { self.lexemes.inner_span(at) };
            let Some(name) = self.lexemes.ident(at, span).filter(|_| at < range.end) else {
                self.refuse(
                    at.min(range.end - 1)..range.end,
                    Complaint::new(Rule::Grammar, "a name is missing after `::`"),
                );
                return Err(Refused);
            };
            *written += &name.to_string();
            expression.extend([TokenTree::from(name.clone())]);
            names += 1;
            at += 1;
            if self.lexemes.is(at, ':') && self.lexemes.is(at + 1, ':') && at + 1 < range.end {
                expression.extend(self.colons(at));
                *written += "::";
                at += 2;
                continue;
            }
            if at < range.end && matches!(self.lexemes.kind(at), Some(Kind::Open('(', _))) {
                self.refuse(range.clone(), names::called(written, &name.to_string()));
                return Err(Refused);
            }
            if at < range.end && self.lexemes.is(at, '!') {
                let complaint = Complaint::new(
                    Rule::Computed,
                    format!(
                        "`{written}!` hides its parts from the checks, and Debug text is not stable between versions"
                    ),
                )
                .help("join the parts themselves: `msg.order_no + \":\" + msg.status`");
                self.refuse(range.clone(), complaint);
                return Err(Refused);
            }
            let root = if names == 1 { Root::Name(name) } else { Root::Path };
            return Ok((root, Vec::new(), expression, at));
        }
    }

    fn colons(&self, at: usize) -> TokenStream {
        if self.lexemes.is_string() {
            let span = self.lexemes.inner_span(at);
            return quote_spanned!(span=> ::);
        }
        [self.lexemes.token(at), self.lexemes.token(at + 1)].into_iter().flatten().collect()
    }

    /// `.field`, `.0` or `.accessor()`.
    fn step(
        &mut self,
        at: usize,
        range: &Range<usize>,
        expression: &mut TokenStream,
    ) -> Result<(Step, usize), Refused> {
        if !self.lexemes.is(at, '.') {
            let complaint = match self.lexemes.kind(at) {
                Some(Kind::Open('[', _)) => {
                    Complaint::new(Rule::Computed, "an index can be out of bounds and panic before the claim")
                        .help("add an accessor method that returns the value, or an `Option` with `?` at its end")
                }
                Some(Kind::Name) if self.lexemes.get(at).is_some_and(|lexeme| lexeme.written == "as") => {
                    Complaint::new(Rule::Computed, "a cast can make different values equal")
                        .help("use the value itself, or an accessor method")
                }
                Some(Kind::Symbol(',')) => {
                    Complaint::new(Rule::Grammar, "a key is no tuple: its parts are joined by `+`")
                }
                _ => Complaint::new(Rule::Grammar, "expected `+` between key parts"),
            };
            self.refuse(at..range.end, complaint);
            return Err(Refused);
        }
        let dot = self.inner_dot(at);
        let next = at + 1;
        let name = self
            .lexemes
            .get(next)
            .filter(|_| next < range.end)
            .map(|lexeme| (lexeme.kind.clone(), lexeme.written.clone()));
        match name {
            Some((Kind::Name, name)) => {
                let ident = self.lexemes.ident(next, self.lexemes.inner_span(next));
                expression.extend(dot);
                ident.to_tokens(expression);
                let Some(Kind::Open('(', close)) = self.lexemes.kind(next + 1).filter(|_| next + 1 < range.end) else {
                    return Ok((Step::Field(name), next + 1));
                };
                let close = *close;
                if let Some(complaint) = names::method(&name) {
                    self.refuse(range.clone(), complaint);
                    return Err(Refused);
                }
                if close != next + 2 {
                    let complaint = Complaint::new(
                        Rule::Computed,
                        format!("`{name}` is called with arguments, and only plain accessors can be checked"),
                    )
                    .help("add an accessor method without arguments, or pass the value as a parameter");
                    self.refuse(range.clone(), complaint);
                    return Err(Refused);
                }
                expression.extend(self.lexemes.token(next + 1));
                Ok((Step::Call(name), close + 1))
            }
            Some((Kind::Number, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => {
                let mut index = number.parse().map_or_else(|_| Literal::usize_unsuffixed(0), Literal::usize_unsuffixed);
                index.set_span(self.lexemes.inner_span(next));
                expression.extend(dot);
                index.to_tokens(expression);
                Ok((Step::Index(number), next + 1))
            }
            _ => {
                self.refuse(
                    at..range.end,
                    Complaint::new(Rule::Grammar, "a field or accessor is missing after this `.`")
                        .help("write `msg.order_no` or `msg.order_no()`"),
                );
                Err(Refused)
            }
        }
    }

    fn inner_dot(&self, at: usize) -> TokenStream {
        if self.lexemes.is_string() {
            let span: Span = self.lexemes.inner_span(at);
            return quote_spanned!(span=> .);
        }
        // The dot inside `pair.0.1` came from a float literal and has no token of its own.
        if let Some(TokenTree::Punct(dot)) = self.lexemes.token(at) {
            return TokenTree::Punct(dot).into();
        }
        quote_spanned!(self.lexemes.inner_span(at)=> .)
    }
}
