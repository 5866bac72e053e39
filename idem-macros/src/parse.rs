//! The attribute's grammar: which arguments there are and what each may hold. Rules between arguments live in `check`.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::parse::Parser as _;
use syn::{Expr, ExprLit, ItemFn, Lit, LitInt, LitStr, Path, TraitItemFn};

use crate::errors::{Complaint, Errors, Place, did_you_mean};
use crate::key::{self, Key};
use crate::lex::{self, Lexemes};
use crate::names::Rule;

/// The arguments as written; each at most once.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) key: Option<Key>,
    pub(crate) store: Option<Written>,
    pub(crate) tx: Option<Written>,
    pub(crate) scope: Option<LitStr>,
    pub(crate) krate: Option<Path>,
    pub(crate) retry: Option<LitInt>,
    pub(crate) delivery: Option<Expr>,
    pub(crate) record: Option<Expr>,
    pub(crate) allows: Vec<Allow>,
    /// Names of all arguments that were present, also broken ones: a broken `key` is not a missing one.
    seen: Vec<String>,
    /// Arguments that misspelt ones stand for: `stor = db` is no missing `store`.
    meant: Vec<String>,
}

impl Arguments {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.seen.iter().chain(&self.meant).any(|seen| seen == name)
    }
}

/// An expression and where it was written.
pub(crate) struct Written {
    pub(crate) expr: Expr,
    pub(crate) place: Place,
}

/// `allow(random(msg.request_id), reason = "the client makes it once per submission")`.
pub(crate) struct Allow {
    pub(crate) rule: Rule,
    pub(crate) part: String,
    pub(crate) place: Place,
}

const ARGUMENTS: [&str; 9] = ["key", "store", "tx", "scope", "crate", "retry", "delivery", "record", "allow"];

/// A reason shorter than this cannot be checked by a reviewer.
const SHORTEST_REASON: usize = 10;

pub(crate) fn arguments(tokens: TokenStream, errors: &mut Errors) -> Arguments {
    let mut arguments = Arguments::default();
    for argument in split(tokens) {
        one(argument, &mut arguments, errors);
    }
    arguments
}

/// Cuts at the commas between arguments, so that one broken argument does not hide the mistakes in the next.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut all = vec![Vec::new()];
    for token in tokens {
        match (&token, all.last_mut()) {
            (TokenTree::Punct(punct), _) if punct.as_char() == ',' => all.push(Vec::new()),
            (_, Some(last)) => last.push(token),
            (_, None) => {}
        }
    }
    all.retain(|argument| !argument.is_empty());
    all
}

fn one(argument: Vec<TokenTree>, arguments: &mut Arguments, errors: &mut Errors) {
    let mut tokens = argument.into_iter();
    let Some(TokenTree::Ident(name)) = tokens.next() else {
        let complaint = Complaint::new("expected an argument such as `key = msg.order_no` or `store = db`");
        errors.push(complaint.span(Span::call_site()));
        return;
    };
    let word = name.to_string();
    if !ARGUMENTS.contains(&word.as_str()) {
        let mut complaint =
            Complaint::new(format!("unknown argument `{word}`; the arguments are {}", listed(ARGUMENTS)));
        if let Some(meant) = did_you_mean(&word, ARGUMENTS) {
            complaint = complaint.help(format!("did you mean `{meant}`?"));
            arguments.meant.push(meant.to_owned());
        }
        errors.push(complaint.span(name.span()));
        return;
    }
    if word != "allow" && arguments.seen.contains(&word) {
        errors.push(Complaint::new(format!("`{word}` stands here twice")).help("leave one out").span(name.span()));
        return;
    }
    arguments.seen.push(word.clone());
    if word == "allow" {
        match tokens.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                allow(group.stream(), name.span(), arguments, errors);
            }
            _ => errors.push(Complaint::new("expected `allow(rule(part), reason = \"..\")`").span(name.span())),
        }
        return;
    }
    match tokens.next() {
        Some(TokenTree::Punct(punct)) if punct.as_char() == '=' => {}
        _ => {
            errors.push(Complaint::new(format!("expected `{word} = ..`")).span(name.span()));
            return;
        }
    }
    let value: TokenStream = tokens.collect();
    if value.is_empty() {
        errors.push(
            Complaint::new(format!("`{word}` has no value")).help(format!("write `{word} = ..`")).span(name.span()),
        );
        return;
    }
    match word.as_str() {
        "key" => {
            arguments.key = lexemes(value, errors).map(|lexemes| key::parse(&lexemes, errors));
        }
        "store" => arguments.store = errors.take(written(value)),
        "tx" => arguments.tx = errors.take(written(value)),
        "scope" => arguments.scope = errors.take(scope(value)),
        "crate" => arguments.krate = errors.take(path(value)),
        "retry" => arguments.retry = errors.take(retry(&value)),
        "delivery" => arguments.delivery = errors.take(written(value)).map(|written| written.expr),
        _ => arguments.record = errors.take(written(value)).map(|written| written.expr),
    }
}

/// The key, in whichever form it is written.
fn lexemes(value: TokenStream, errors: &mut Errors) -> Option<Lexemes> {
    match string(&value) {
        Some(literal) => errors.take(lex::string(&literal)),
        None => Some(lex::bare(value)),
    }
}

/// The literal, when the value is one string literal and nothing else.
fn string(value: &TokenStream) -> Option<LitStr> {
    syn::parse2(value.clone()).ok()
}

/// An expression, bare or in a string.
fn written(value: TokenStream) -> syn::Result<Written> {
    match string(&value) {
        Some(literal) => {
            let expr = literal
                .parse()
                .map_err(|error| Complaint::new(format!("this is no expression: {error}")).on(&literal))?;
            let at = 0..literal.value().len();
            Ok(Written { expr, place: Place::Literal { literal, at } })
        }
        None => Ok(Written { expr: syn::parse2(value.clone())?, place: Place::Tokens(value) }),
    }
}

fn scope(value: TokenStream) -> syn::Result<LitStr> {
    let complaint = Complaint::new("the scope is text that names this handler for ever")
        .help("write `scope = \"payment.callback\"`");
    match string(&value) {
        Some(literal) if !literal.value().trim().is_empty() => Ok(literal),
        _ => Err(complaint.on(value)),
    }
}

fn path(value: TokenStream) -> syn::Result<Path> {
    let parsed = match string(&value) {
        Some(literal) => literal.parse_with(Path::parse_mod_style),
        None => Path::parse_mod_style.parse2(value.clone()),
    };
    parsed.map_err(|_| {
        Complaint::new("`crate` is the path under which this crate reaches idem-runtime")
            .help("write `crate = ::my_facade::idem`")
            .on(value)
    })
}

fn retry(value: &TokenStream) -> syn::Result<LitInt> {
    let wrong = || {
        Complaint::new("`retry` is how often the unit may run again, a whole number from 1")
            .help("write `retry = 3`")
            .on(value)
    };
    match syn::parse2(value.clone()) {
        Ok(Expr::Lit(ExprLit { lit: Lit::Int(number), .. }))
            if number.suffix().is_empty() && number.base10_parse::<u32>().is_ok_and(|times| times >= 1) =>
        {
            Ok(number)
        }
        _ => Err(wrong()),
    }
}

fn allow(tokens: TokenStream, span: Span, arguments: &mut Arguments, errors: &mut Errors) {
    let example = "allow(random(msg.request_id), reason = \"the client makes it once per submission\")";
    let mut grants = Vec::new();
    let mut reason = None;
    for argument in split(tokens) {
        let all: TokenStream = argument.iter().cloned().collect();
        match argument.as_slice() {
            [TokenTree::Ident(word), TokenTree::Group(part)] if part.delimiter() == Delimiter::Parenthesis => {
                grants.push((word.clone(), part.stream(), Place::Tokens(all)));
            }
            [TokenTree::Ident(word), TokenTree::Punct(equals), TokenTree::Literal(text)]
                if word == "reason" && equals.as_char() == '=' =>
            {
                reason = Some(text.clone());
            }
            _ => errors.push(
                Complaint::new("expected a rule and a part, or the reason").help(format!("write `{example}`")).on(all),
            ),
        }
    }
    if grants.is_empty() {
        errors.push(Complaint::new("`allow` names no part").help(format!("write `{example}`")).span(span));
    }
    match reason {
        None => {
            let complaint = Complaint::new("`allow` needs a written reason")
                .help("add `reason = \"why this part is the same on every delivery\"`");
            errors.push(complaint.span(span));
        }
        Some(text) => {
            let long_enough = |text: &LitStr| text.value().trim().chars().count() >= SHORTEST_REASON;
            if !string(&TokenTree::Literal(text.clone()).into()).is_some_and(|text| long_enough(&text)) {
                errors.push(Complaint::new("the reason must be a sentence that a reviewer can check").on(text));
            }
        }
    }
    for (word, part, place) in grants {
        let written = word.to_string();
        let Some(rule) = Rule::ALL.into_iter().find(|rule| rule.word() == written) else {
            let rules = Rule::ALL.map(Rule::word);
            let mut complaint = Complaint::new(format!("unknown rule `{written}`; the rules are {}", listed(rules)));
            if let Some(meant) = did_you_mean(&written, rules) {
                complaint = complaint.help(format!("did you mean `{meant}`?"));
            }
            errors.push(complaint.span(word.span()));
            continue;
        };
        if part.is_empty() {
            errors.push(
                Complaint::new(format!("`{written}(..)` names no part"))
                    .help(format!("write `{example}`"))
                    .span(word.span()),
            );
            continue;
        }
        if let Some(part) = lexemes(part, errors).and_then(|lexemes| key::parse_one(&lexemes, errors)) {
            arguments.allows.push(Allow { rule, part, place });
        }
    }
}

/// `a`, `b` and `c` for a sentence.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// What the attribute stands on.
pub(crate) enum Item {
    Function(Box<ItemFn>),
    /// A trait's method without a body.
    Declaration(Box<TraitItemFn>),
    Other {
        item: TokenStream,
        reason: syn::Error,
    },
}

/// Where the attribute belongs.
pub(crate) const PLACE: &str =
    "put `#[idempotent]` on an `async fn` with a body: a free function, or a method in an `impl` block";

pub(crate) fn item(tokens: TokenStream) -> Item {
    let error = match syn::parse2(tokens.clone()) {
        Ok(function) => return Item::Function(Box::new(function)),
        Err(error) => error,
    };
    match syn::parse2::<TraitItemFn>(tokens.clone()) {
        Ok(declaration) if declaration.default.is_none() => return Item::Declaration(Box::new(declaration)),
        _ => {}
    }
    let kind = match syn::parse2(tokens.clone()) {
        Ok(syn::Item::Struct(_)) => "a struct",
        Ok(syn::Item::Enum(_)) => "an enum",
        Ok(syn::Item::Union(_)) => "a union",
        Ok(syn::Item::Impl(_)) => "a whole `impl` block",
        Ok(syn::Item::Trait(_)) => "a whole trait",
        Ok(syn::Item::Mod(_)) => "a whole module",
        Ok(syn::Item::Const(_) | syn::Item::Static(_)) => "a constant",
        Ok(_) => "this item",
        // Half-typed code: the parser's own words are the most precise.
        Err(_) => return Item::Other { item: tokens, reason: error },
    };
    let reason = Complaint::new(format!("`#[idempotent]` cannot stand on {kind}")).help(PLACE).on(&tokens);
    Item::Other { item: tokens, reason }
}
