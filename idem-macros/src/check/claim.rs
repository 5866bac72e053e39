//! What tells the first time from a repeat: a key, a token, a guard, and what goes with them.

use proc_macro2::Span;
use syn::{GenericArgument, ItemFn, PathArguments, Type};

use super::key::{Role, key_parts};
use crate::errors::{Complaint, Errors, Place};
use crate::guard;
use crate::model::{Connection, Guard, Identity, KeyPart};
use crate::parse::Arguments;
use crate::rules::Rule;
use crate::syntax::{is_path, last_name};

pub(super) fn identity(
    arguments: &Arguments,
    item: &ItemFn,
    connection: Option<&Connection>,
    errors: &mut Errors,
) -> Option<Identity> {
    if let (Some(_), Some(token)) = (&arguments.key, &arguments.token) {
        let complaint = Complaint::new(Rule::Argument, "`key` and `token` both say which action this is");
        errors.push(complaint.help("a token is used once by itself: leave `key` out").at(&token.place));
        return None;
    }
    if let Some(key) = &arguments.key {
        return Some(Identity::Key(key_parts(key, arguments, item, connection, Role::Key, errors)));
    }
    if let Some(token) = &arguments.token {
        if !arguments.has("scope") {
            let complaint = Complaint::new(Rule::Scope, "a token is issued for a scope, and this handler names none");
            errors.push(
                complaint
                    .help("write the scope that `store.tokens(\"order.submit\")` issues it for: `scope = \"order.submit\"`")
                    .at(&token.place),
            );
        }
        return Some(Identity::Token(token.expr.clone()));
    }
    if arguments.has("guard") {
        return Some(Identity::Guard);
    }
    if !arguments.has("key") && !arguments.has("token") {
        let complaint =
            Complaint::new(Rule::Argument, "`key` is missing: what makes this action the same when it arrives again?");
        errors.push(
            complaint
                .help("write `key = msg.order_no`, with the number that the business already has")
                .span(Span::call_site()),
        );
    }
    None
}

pub(super) fn payload(
    arguments: &Arguments,
    item: &ItemFn,
    connection: Option<&Connection>,
    errors: &mut Errors,
) -> Vec<KeyPart> {
    match &arguments.payload {
        Some(payload) => key_parts(payload, arguments, item, connection, Role::Payload, errors),
        None => Vec::new(),
    }
}

/// Reads the guard's SQL.
pub(super) fn guard(arguments: &Arguments, connection: Option<&Connection>, errors: &mut Errors) -> Option<Guard> {
    let literal = arguments.guard.as_ref()?;
    let dialect = match connection.map(|connection| &connection.target) {
        Some(target) if is_path(target, &["PgConnection"]) => guard::Dialect::Postgres,
        Some(target) if is_path(target, &["MySqlConnection"]) => guard::Dialect::MySql,
        Some(target) if is_path(target, &["SqliteConnection"]) => guard::Dialect::Sqlite,
        _ => guard::Dialect::Unknown,
    };
    // A broken `allow` was meant for something: to complain about that too would be a second error for one cause.
    let allowed = arguments.allows.broken || arguments.allows.list.iter().any(|allow| allow.rule == Rule::Guard);
    let unique = arguments.unique.as_ref().map(syn::LitStr::value);
    // A broken `unique` is not a missing one.
    let unique = unique.or_else(|| arguments.has("unique").then(|| "?".to_owned()));
    let beside = guard::Beside {
        dialect,
        allowed,
        keyed: arguments.has("key") || arguments.has("token"),
        unique: unique.as_deref(),
    };
    match guard::read(literal, beside) {
        Ok(read) => Some(Guard {
            sql: read.sql,
            values: read.values,
            inserts: matches!(read.kind, guard::Kind::Insert { .. }),
            unique: arguments.unique.clone(),
            exists: read.exists,
            span: literal.span(),
        }),
        Err(refusal) => {
            let mut complaint = Complaint::new(Rule::Guard, refusal.reason);
            if let Some(help) = refusal.help {
                complaint = complaint.help(help);
            }
            if refusal.excusable {
                complaint = complaint.escape("");
            }
            errors.push(complaint.at(&Place::Literal { literal: literal.clone(), at: refusal.at }));
            None
        }
    }
}

/// What does not go together.
pub(super) fn combinations(arguments: &Arguments, errors: &mut Errors) {
    let recorded = arguments.has("key") || arguments.has("token");
    let mut refuse = |argument: &str, span: Span, reason: String, help: &str| {
        if arguments.has(argument) {
            errors.push(Complaint::new(Rule::Argument, reason).help(help).span(span));
        }
    };
    if arguments.has("guard") && !recorded {
        for argument in ["payload", "replay", "record"] {
            let reason = format!("`{argument}` is kept in the record, and a guard alone writes none");
            refuse(argument, arguments.span(argument), reason, "add `key = ..`: the key then says \"seen before?\"");
        }
    }
    if !arguments.has("guard") {
        let reason = "`unique` names the index of an INSERT guard, and there is no guard".to_owned();
        refuse("unique", arguments.span("unique"), reason, "add `guard = \"INSERT INTO ..\"`, or leave `unique` out");
    }
    if arguments.has("lease") {
        for (argument, why) in [
            ("guard", "a guard is part of a transaction, and work under a lease has none"),
            ("token", "a token is burnt in a transaction, and work under a lease has none"),
            ("retry", "work under a lease may have taken effect when it fails: the broker delivers it again"),
        ] {
            let help = format!("leave `{argument}` out, or `lease` for work that is a database write");
            refuse(
                argument,
                arguments.span(argument),
                format!("`{argument}` and `lease` do not go together: {why}"),
                &help,
            );
        }
    }
    for allow in arguments.allows.list.iter().filter(|allow| allow.rule == Rule::Guard) {
        if !arguments.has("guard") {
            let complaint = Complaint::new(Rule::Allow, "`allow` excuses a guard, and there is none");
            errors.push(complaint.help("leave it out").at(&allow.place));
        }
    }
}

/// A body that may decline says so twice, in the attribute and in its type: with one of them alone a "not now" would be
/// committed as a value, or nothing could be declined.
///
/// Answers whether callers are to see the type that is behind the decision.
pub(super) fn decision(arguments: &Arguments, output: &Type, errors: &mut Errors) -> bool {
    let declines = arguments.declines.is_some();
    let Type::Path(path) = output else { return declines };
    let Some(PathArguments::AngleBracketed(generics)) = path.path.segments.last().map(|last| &last.arguments) else {
        return declines;
    };
    let Some(GenericArgument::Type(value)) = generics.args.first() else { return declines };
    // An alias of `Decision` is likely to be called so.
    let decides = last_name(value).is_some_and(|name| name.to_string().contains("Decision"));
    let exactly = last_name(value).is_some_and(|name| name == "Decision");
    if exactly && !arguments.has("declines") {
        let complaint = Complaint::new(
            Rule::Argument,
            "this body may decline, and without `declines` a \"not now\" would be committed as a value",
        );
        errors.push(complaint.help("add `declines` to the attribute").on(value));
    } else if !decides && declines {
        let complaint = Complaint::new(
            Rule::Argument,
            "with `declines` the body returns `Result<Decision<T>, E>`, and this one cannot say \"not now\"",
        );
        errors.push(
            complaint
                .help("return `Decision::Done(value)` or `Decision::retry(reason)`, or leave `declines` out")
                .on(value),
        );
    }
    declines && decides
}
