//! The attribute's grammar: which arguments there are and what each may hold. Rules between arguments live in `check`.

use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use syn::parse::Parser as _;
use syn::{Expr, ExprLit, ItemFn, Lit, LitInt, LitStr, Path, TraitItemFn};

use crate::errors::{Complaint, Errors, Place, did_you_mean};
use crate::key::{self, Key};
use crate::lex::{self, Lexemes};
use crate::rules::{Names, Rule};

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
    pub(crate) payload: Option<Key>,
    pub(crate) token: Option<Written>,
    pub(crate) guard: Option<LitStr>,
    pub(crate) unique: Option<LitStr>,
    pub(crate) replay: Option<Replay>,
    /// The word, where it stands.
    pub(crate) declines: Option<Span>,
    /// In milliseconds.
    pub(crate) lease: Option<u64>,
    pub(crate) allows: Allows,
    /// All arguments that were present, also broken ones: a broken `key` is not a missing one.
    seen: Vec<(String, Span)>,
    /// Arguments that misspelt ones stand for: `stor = db` is no missing `store`.
    meant: Vec<String>,
}

impl Arguments {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.seen.iter().map(|(seen, _)| seen).chain(&self.meant).any(|seen| seen == name)
    }

    /// Where an argument's name stands.
    pub(crate) fn span(&self, name: &str) -> Span {
        self.seen.iter().find(|(seen, _)| seen == name).map_or_else(Span::call_site, |(_, span)| *span)
    }
}

/// An expression and where it was written.
pub(crate) struct Written {
    pub(crate) expr: Expr,
    pub(crate) place: Place,
}

/// `replay`, or `replay(version = 2, limit = 4096, redact = hide_card)`.
#[derive(Default)]
pub(crate) struct Replay {
    pub(crate) version: Option<LitInt>,
    pub(crate) limit: Option<LitInt>,
    pub(crate) redact: Option<Path>,
}

#[derive(Default)]
pub(crate) struct Allows {
    pub(crate) list: Vec<Allow>,
    /// One that was refused, so that it is not known what it was meant for.
    pub(crate) broken: bool,
}

/// `allow(random(msg.request_id), reason = "the client makes it once per submission")`.
pub(crate) struct Allow {
    pub(crate) rule: Rule,
    pub(crate) names: Names,
    /// The part or parameter as written.
    pub(crate) name: String,
    pub(crate) place: Place,
}

const ARGUMENTS: [&str; 16] = [
    "key", "store", "tx", "scope", "payload", "token", "guard", "unique", "replay", "declines", "lease", "retry",
    "delivery", "record", "allow", "crate",
];

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
    let name = match tokens.next() {
        Some(TokenTree::Ident(name)) => name,
        other => {
            let complaint = Complaint::new(Rule::Argument, "expected an argument");
            let span = other.map_or_else(Span::call_site, |token| token.span());
            errors.push(complaint.help("write it as in `key = msg.order_no` or `store = db`").span(span));
            return;
        }
    };
    let word = name.to_string();
    if !ARGUMENTS.contains(&word.as_str()) {
        let mut complaint = Complaint::new(
            Rule::Argument,
            format!("unknown argument `{word}`; the arguments are {}", listed(ARGUMENTS)),
        );
        if let Some(meant) = did_you_mean(&word, ARGUMENTS) {
            complaint = complaint.help(format!("did you mean `{meant}`?"));
            arguments.meant.push(meant.to_owned());
        }
        errors.push(complaint.span(name.span()));
        return;
    }
    if word != "allow" && arguments.seen.iter().any(|(seen, _)| *seen == word) {
        errors.push(
            Complaint::new(Rule::Argument, format!("`{word}` stands here twice"))
                .help("leave one out")
                .span(name.span()),
        );
        return;
    }
    arguments.seen.push((word.clone(), name.span()));
    if word == "allow" {
        match tokens.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                allow(group.stream(), name.span(), arguments, errors);
            }
            _ => errors
                .push(Complaint::new(Rule::Allow, "expected `allow(rule(part), reason = \"..\")`").span(name.span())),
        }
        return;
    }
    if word == "declines" || word == "replay" {
        flag(&name, &tokens.collect::<Vec<_>>(), arguments, errors);
        return;
    }
    match tokens.next() {
        Some(TokenTree::Punct(punct)) if punct.as_char() == '=' => {}
        _ => {
            let complaint = Complaint::new(Rule::Argument, format!("`{word}` has no value"));
            errors.push(complaint.help(format!("write `{word} = ..`")).span(name.span()));
            return;
        }
    }
    let value: TokenStream = tokens.collect();
    if value.is_empty() {
        errors.push(
            Complaint::new(Rule::Argument, format!("`{word}` has no value"))
                .help(format!("write `{word} = ..`"))
                .span(name.span()),
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
        "payload" => {
            arguments.payload = lexemes(value, errors).map(|lexemes| key::parse(&lexemes, errors));
        }
        "token" => arguments.token = errors.take(written(value)),
        "guard" => arguments.guard = errors.take(statement(value)),
        "unique" => arguments.unique = errors.take(index(value)),
        "lease" => arguments.lease = errors.take(lease(&value)),
        "delivery" => arguments.delivery = errors.take(written(value)).map(|written| written.expr),
        _ => arguments.record = errors.take(written(value)).map(|written| written.expr),
    }
}

/// `declines`, `replay` and `replay(..)`: words without a value.
fn flag(name: &Ident, rest: &[TokenTree], arguments: &mut Arguments, errors: &mut Errors) {
    match (name.to_string().as_str(), rest) {
        ("declines", []) => arguments.declines = Some(name.span()),
        ("declines", _) => {
            let complaint = Complaint::new(Rule::Argument, "`declines` is a word without a value");
            errors.push(
                complaint.help("write `declines`; the body then returns `Result<Decision<T>, E>`").span(name.span()),
            );
        }
        (_, []) => {
            arguments.replay = Some(Replay::default());
        }
        (_, [TokenTree::Group(group)]) if group.delimiter() == Delimiter::Parenthesis => {
            arguments.replay = Some(replay(group.stream(), errors));
        }
        _ => {
            let complaint = Complaint::new(Rule::Argument, "`replay` stands alone or with options in parentheses");
            errors.push(
                complaint
                    .help("write `replay` or `replay(version = 2, limit = 4096, redact = hide_card)`")
                    .span(name.span()),
            );
        }
    }
}

fn replay(tokens: TokenStream, errors: &mut Errors) -> Replay {
    let mut replay = Replay::default();
    for option in split(tokens) {
        let all: TokenStream = option.iter().cloned().collect();
        let wrong = || {
            Complaint::new(
                Rule::Argument,
                "`replay` knows `version` and `limit`, numbers from 1, and `redact`, a function",
            )
            .help("write `replay(version = 2, limit = 4096, redact = hide_card)`, each at most once")
            .on(&all)
        };
        let [TokenTree::Ident(word), TokenTree::Punct(equals), value @ ..] = option.as_slice() else {
            errors.push(wrong());
            continue;
        };
        let value: TokenStream = value.iter().cloned().collect();
        let number = |value: TokenStream| {
            let number: Option<LitInt> = syn::parse2(value).ok();
            number.filter(|number| {
                number.suffix().is_empty() && number.base10_parse::<u32>().is_ok_and(|number| number > 0)
            })
        };
        let taken = match word.to_string().as_str() {
            _ if equals.as_char() != '=' => None,
            "version" if replay.version.is_none() => number(value).map(|number| replay.version = Some(number)),
            "limit" if replay.limit.is_none() => number(value).map(|number| replay.limit = Some(number)),
            "redact" if replay.redact.is_none() => {
                Path::parse_mod_style.parse2(value).ok().map(|path| replay.redact = Some(path))
            }
            _ => None,
        };
        if taken.is_none() {
            errors.push(wrong());
        }
    }
    replay
}

fn statement(value: TokenStream) -> syn::Result<LitStr> {
    string(&value).ok_or_else(|| {
        Complaint::new(Rule::Argument, "`guard` is SQL in one string, so that the compiler can read it")
            .help("write `guard = \"UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'NEW'\"`")
            .on(value)
    })
}

fn index(value: TokenStream) -> syn::Result<LitStr> {
    match string(&value) {
        Some(literal) if !literal.value().trim().is_empty() => Ok(literal),
        _ => {
            Err(Complaint::new(Rule::Argument, "`unique` names the index whose conflict means that the action is done")
                .help("write `unique = \"uq_flow_biz_no\"`, or its columns: `unique = \"account, biz_no\"`")
                .on(value))
        }
    }
}

/// From one second, below which nothing could be renewed in time, to one day.
fn lease(value: &TokenStream) -> syn::Result<u64> {
    let wrong = |tokens: &dyn quote::ToTokens| {
        Complaint::new(Rule::Argument, "`lease` is how long the work may go on without a sign of life, from 1s to 24h")
            .help("write `lease = \"30s\"`, with `s`, `m` or `h`")
            .on(tokens)
    };
    let Some(literal) = string(value) else { return Err(wrong(value)) };
    let text = literal.value();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong(&literal)),
    };
    let millis = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match millis.filter(|millis| (1_000..=86_400_000).contains(millis)) {
        Some(millis) => Ok(millis),
        None => Err(wrong(&literal)),
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
            let expr = literal.parse().map_err(|error| {
                Complaint::new(Rule::Argument, format!("this is no expression: {error}")).on(&literal)
            })?;
            let at = 0..literal.value().len();
            Ok(Written { expr, place: Place::Literal { literal, at } })
        }
        None => Ok(Written { expr: syn::parse2(value.clone())?, place: Place::Tokens(value) }),
    }
}

fn scope(value: TokenStream) -> syn::Result<LitStr> {
    let complaint = Complaint::new(Rule::Argument, "the scope is text that names this handler for ever")
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
        Complaint::new(Rule::Argument, "`crate` is the path under which this crate reaches idem-runtime")
            .help("write `crate = ::my_facade::idem`")
            .on(value)
    })
}

fn retry(value: &TokenStream) -> syn::Result<LitInt> {
    let wrong = || {
        Complaint::new(Rule::Argument, "`retry` is how often the unit may run again, a whole number from 1")
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
    let mut grants = Vec::new();
    let mut reason = None;
    let before = errors.count();
    for argument in split(tokens) {
        let all: TokenStream = argument.iter().cloned().collect();
        match argument.as_slice() {
            [TokenTree::Ident(word), TokenTree::Group(name)] if name.delimiter() == Delimiter::Parenthesis => {
                grants.push((word.clone(), name.stream(), Place::Tokens(all)));
            }
            // What the rule is about needs no name: there is one of it.
            [TokenTree::Ident(word)] => grants.push((word.clone(), TokenStream::new(), Place::Tokens(all))),
            [TokenTree::Ident(word), TokenTree::Punct(equals), TokenTree::Literal(text)]
                if word == "reason" && equals.as_char() == '=' =>
            {
                reason = Some(text.clone());
            }
            _ => errors.push(Complaint::new(Rule::Allow, "expected a rule and a part, or the reason").on(all)),
        }
    }
    if grants.is_empty() {
        errors.push(Complaint::new(Rule::Allow, "`allow` names no rule and no part").span(span));
    }
    check_reason(reason, span, errors);
    for (word, name, place) in grants {
        let written = word.to_string();
        let Some((rule, names)) = Rule::excusable().find(|(rule, _)| rule.id() == written) else {
            errors.push(unknown_rule(&written).span(word.span()));
            continue;
        };
        if names == Names::Nothing {
            if !name.is_empty() {
                let complaint = Complaint::new(Rule::Allow, format!("`{written}` takes no name: there is one of it"));
                errors.push(complaint.help(format!("write `allow({written}, reason = \"..\")`")).at(&place));
                continue;
            }
            arguments.allows.list.push(Allow { rule, names, name: String::new(), place });
            continue;
        }
        if name.is_empty() {
            let complaint = Complaint::new(Rule::Allow, format!("`{written}(..)` names nothing"));
            errors.push(complaint.span(word.span()));
            continue;
        }
        let Some(name) = lexemes(name, errors).and_then(|lexemes| key::parse_one(&lexemes, errors)) else { continue };
        if arguments.allows.list.iter().any(|other| other.rule == rule && other.name == name) {
            let complaint = Complaint::new(Rule::Allow, format!("`{written}` is already allowed for `{name}`"));
            errors.push(complaint.help("leave one out").at(&place));
        }
        arguments.allows.list.push(Allow { rule, names, name, place });
    }
    arguments.allows.broken |= errors.count() > before;
}

fn check_reason(reason: Option<Literal>, span: Span, errors: &mut Errors) {
    let Some(text) = reason else {
        let complaint = Complaint::new(Rule::Allow, "`allow` needs a written reason");
        errors.push(complaint.help("add `reason = \"why this is the same on every delivery\"`").span(span));
        return;
    };
    let long_enough = |text: &LitStr| text.value().trim().chars().count() >= SHORTEST_REASON;
    if !string(&TokenTree::Literal(text.clone()).into()).is_some_and(|text| long_enough(&text)) {
        let complaint = Complaint::new(Rule::Allow, "the reason must be a sentence that a reviewer can check");
        errors.push(complaint.help("say why this is the same on every delivery, and who makes it so").on(text));
    }
}

/// Many know the rule's folder or heading, and not every rule has an escape.
fn unknown_rule(written: &str) -> Complaint {
    if let Some(rule) = Rule::all().find(|rule| rule.id() == written) {
        let complaint = Complaint::new(Rule::Allow, format!("nothing excuses from `{written}`"));
        return complaint.help(rule.entry().way_out);
    }
    let known: Vec<&str> = Rule::excusable().map(|(rule, _)| rule.id()).collect();
    let complaint = Complaint::new(
        Rule::Allow,
        format!("unknown rule `{written}`; the rules with an escape are {}", listed(known.iter().copied())),
    );
    match did_you_mean(written, known) {
        Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
        None => complaint,
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
    let reason = Complaint::new(Rule::Function, format!("`#[idempotent]` cannot stand on {kind}")).on(&tokens);
    Item::Other { item: tokens, reason }
}
