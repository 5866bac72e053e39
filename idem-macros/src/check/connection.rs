//! The store, and the parameter that the body uses as its connection.

use proc_macro2::{Ident, Span};
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, ItemFn, Pat, Token, Type};

use super::function::Shape;
use crate::errors::{Complaint, Errors, did_you_mean};
use crate::model::Connection;
use crate::parse::{Arguments, Written, listed};
use crate::rules::Rule;
use crate::syntax::{is_no_connection, is_path, last_name, parameters, written_type};

/// Finds the parameter that the body uses as its connection, and where the store comes from.
pub(super) fn connection(
    arguments: &Arguments,
    item: &ItemFn,
    shape: Shape,
    errors: &mut Errors,
) -> Option<Connection> {
    let Some(store) = &arguments.store else {
        if !arguments.has("store") {
            let complaint =
                Complaint::new(Rule::Store, "`store` is missing: which parameter is the body's database connection?");
            errors.push(
                complaint.help("write `store = db` for a parameter `db: &mut PgConnection`").span(Span::call_site()),
            );
        }
        return None;
    };
    if arguments.has("tx") {
        let tx = arguments.tx.as_ref()?;
        let Some(name) = single_name(&tx.expr) else {
            let complaint = Complaint::new(Rule::Store, "`tx` names the parameter that is the body's connection")
                .help("write `tx = db`");
            errors.push(complaint.at(&tx.place));
            return None;
        };
        if single_name(&store.expr).is_some_and(|store| store == name) {
            let complaint = Complaint::new(Rule::Store, format!("`store` and `tx` both name `{name}`"));
            errors.push(complaint.help("leave `tx` out: with `store` alone the parameter is both").at(&tx.place));
            return None;
        }
        let mut connection = parameter(&name, "tx", tx, arguments, item, shape, errors)?;
        connection.store = Some(store.expr.clone());
        return Some(connection);
    }
    if let Some(name) = single_name(&store.expr) {
        return parameter(&name, "store", store, arguments, item, shape, errors);
    }
    let complaint = Complaint::new(Rule::Store, "this store is no parameter, so the body has no connection yet");
    errors.push(
        complaint
            .help("add a parameter `db: &mut PgConnection` and name it with `tx = db`; callers do not pass it")
            .at(&store.place),
    );
    None
}

/// For a refused handler: the parameter that was most likely meant, so that callers and body report nothing more.
pub(crate) fn likely_connection(arguments: &Arguments, inputs: &Punctuated<FnArg, Token![,]>) -> Option<Connection> {
    let mut likely = inputs.iter().enumerate().filter_map(|(index, input)| {
        let FnArg::Typed(typed) = input else { return None };
        let (Pat::Ident(pattern), Type::Reference(reference)) = (&*typed.pat, &*typed.ty) else { return None };
        let store = arguments.store.as_ref().filter(|store| arguments.has("tx") || single_name(&store.expr).is_none());
        let connection = Connection {
            index,
            name: pattern.ident.clone(),
            mutable: pattern.mutability,
            written: (*typed.ty).clone(),
            target: (*reference.elem).clone(),
            store: store.map(|store| store.expr.clone()),
        };
        last_name(&reference.elem).is_some_and(|name| name.to_string().ends_with("Connection")).then_some(connection)
    });
    likely.next().filter(|_| likely.next().is_none())
}

fn single_name(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().filter(|ident| *ident != "self").cloned(),
        Expr::Group(group) => single_name(&group.expr),
        Expr::Paren(paren) => single_name(&paren.expr),
        _ => None,
    }
}

fn parameter(
    name: &Ident,
    argument: &str,
    place: &Written,
    arguments: &Arguments,
    item: &ItemFn,
    shape: Shape,
    errors: &mut Errors,
) -> Option<Connection> {
    let found = item.sig.inputs.iter().enumerate().find_map(|(index, input)| match input {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) if pattern.ident == *name => Some((index, pattern, typed)),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    let Some((index, pattern, typed)) = found else {
        let names = parameters(item);
        let mut complaint = Complaint::new(Rule::Store, format!("`{argument} = {name}` names no parameter"));
        complaint = match did_you_mean(&name.to_string(), names.iter().map(String::as_str)) {
            Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
            None if names.is_empty() => complaint.help(format!("add a parameter `{name}: &mut PgConnection`")),
            None => complaint.help(format!("the parameters are {}", listed(names.iter().map(String::as_str)))),
        };
        errors.push(complaint.at(&place.place));
        return None;
    };
    let (target, refusal) = if arguments.has("lease") { lease(&typed.ty, name) } else { target(&typed.ty, name) };
    if let (Shape::Sound, Some(refusal)) = (shape, refusal) {
        errors.push(refusal.on(&typed.ty));
    }
    Some(Connection {
        index,
        name: pattern.ident.clone(),
        mutable: pattern.mutability,
        written: (*typed.ty).clone(),
        target: target?,
        store: None,
    })
}

/// `AtLeastOnceLease` in `&AtLeastOnceLease`, and what is wrong with any other type.
fn lease(ty: &Type, name: &Ident) -> (Option<Type>, Option<Complaint>) {
    let write = format!("write `{name}: &AtLeastOnceLease`: callers pass a store or a `RedisLeases` there");
    let complaint = |reason: String| Some(Complaint::new(Rule::Store, reason).help(write.clone()));
    match ty {
        Type::Group(group) => lease(&group.elem, name),
        Type::Paren(paren) => lease(&paren.elem, name),
        Type::Reference(reference) if is_path(&reference.elem, &["AtLeastOnceLease"]) => {
            let refusal = reference.mutability.and_then(|_| complaint("a lease is lent as `&`, not `&mut`".to_owned()));
            (Some((*reference.elem).clone()), refusal)
        }
        _ => {
            let reason = format!(
                "with `lease` the body works outside the database, so `{name}` is a lease and no {}",
                if written_type(ty).contains("Connection") { "connection" } else { "other type" }
            );
            (Some(ty.clone()), complaint(reason))
        }
    }
}

/// `PgConnection` in `&mut PgConnection`, and what is wrong with any other type. A type that callers could pass no
/// store for gives no target.
fn target(ty: &Type, name: &Ident) -> (Option<Type>, Option<Complaint>) {
    let database = ["Sqlite", "MySql"].into_iter().find(|database| written_type(ty).contains(database)).unwrap_or("Pg");
    let write = format!("write `{name}: &mut {database}Connection`: callers pass a `&{database}Store` there");
    let reference = match ty {
        Type::Group(group) => return target(&group.elem, name),
        Type::Paren(paren) => return target(&paren.elem, name),
        Type::Reference(reference) => reference,
        _ => {
            let reason = Complaint::new(
                Rule::Store,
                "the connection is lent to the body, so the parameter must be `&mut` of a connection type",
            );
            return (Some(ty.clone()).filter(|ty| is_path(ty, CONNECTIONS)), Some(reason.help(write)));
        }
    };
    let inner = &*reference.elem;
    let reason = if is_path(inner, &["Store", "PgStore", "MySqlStore", "SqliteStore"]) {
        return (
            None,
            Some(
                Complaint::new(
                    Rule::Store,
                    "this is the type that callers pass; the parameter has the type that the body sees",
                )
                .help(write),
            ),
        );
    } else if is_path(inner, &["Pool", "PgPool", "MySqlPool", "SqlitePool", "AnyPool"]) {
        return (
            None,
            Some(
                Complaint::new(
                    Rule::Store,
                    "a pool hands out other connections: the body's writes would not be in the claim's transaction",
                )
                .help(write),
            ),
        );
    } else if is_path(inner, &["Transaction"]) {
        return (
            None,
            Some(
                Complaint::new(Rule::Store, "the unit owns the transaction: it commits or rolls back after the body")
                    .help(write),
            ),
        );
    } else if is_no_connection(inner) {
        return (
            None,
            Some(
                Complaint::new(Rule::Store, format!("`{}` is no database connection", written_type(inner))).help(write),
            ),
        );
    } else if let Some(lifetime) = &reference.lifetime {
        Complaint::new(
            Rule::Store,
            format!("the connection lives only as long as the transaction, not for `{lifetime}`"),
        )
        .help("leave the lifetime out")
    } else if reference.mutability.is_none() {
        Complaint::new(Rule::Store, "the body needs the connection for itself, so the parameter must be `&mut`")
            .help(write)
    } else {
        return (Some(inner.clone()), None);
    };
    (Some(inner.clone()), Some(reason))
}

const CONNECTIONS: &[&str] = &["PgConnection", "MySqlConnection", "SqliteConnection"];
